"""Questions as they are asked: parameters as text, with the names of the command line's options.

Whoever asks (a command, an address with a query, a tool) has its parameters read here, so that a
name means the same everywhere and a mistake gets the same line. Lists are separated by commas or
given several times; money and sizes are exact; a time without a zone is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.domain.bounds import bounded, lasting, shown
from tracker.domain.exact import EXACT
from tracker.domain.job import MAX_HOURS
from tracker.domain.job_download import MAX_GB, MAX_MBPS
from tracker.domain.job_text import MAX_SETUP_HOURS
from tracker.domain.kind import KINDS, Kind
from tracker.domain.texts import unstorable

if TYPE_CHECKING:
    from tracker.report.filters import Filters

MARKETS = ("on_demand", "spot", "reserved", "monthly", "capacity_block", "any")
MAX_TEXT = 2000  # characters of one parameter
MAX_ITEMS, MAX_WORD = 100, 100  # of one list, and characters of each
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BILLION = Decimal(10) ** 9
# What may stand behind a number of a unit, and how many of that unit it is.
_UNITS = {
    "GB": {"GB": 1, "TB": 1000}, "GiB": {"GiB": 1, "TiB": 1024},
    "Mbit/s": {"Mbit": 1, "Mbps": 1, "Mbit/s": 1, "Gbit": 1000, "Gbps": 1000, "Gbit/s": 1000},
    "hours": {"h": 1, "d": 24, "w": 168},
}  # fmt: skip


class BadQuestion(ValueError):
    """What is asked makes no sense: ``parameter`` is at fault (None: none alone), ``problem`` says
    why and what to do. Names of parameters stand in it in braces: each asker has its own spelling.
    """

    def __init__(self, parameter: str | None, problem: str) -> None:
        super().__init__(problem)
        self.parameter = parameter
        self.problem = problem

    def said(self, spelt: Callable[[str], str]) -> str:
        """The problem with every parameter's name as *spelt*."""
        return re.sub(r"\{([a-z_]+)\}", lambda match: spelt(match[1]), self.problem)

    def __str__(self) -> str:
        text = self.said(str)
        return text if self.parameter is None else f"{self.parameter}: {text}"


# --- values -----------------------------------------------------------------------------------


def words(value: str) -> tuple[str, ...]:
    """``A100,H100``. Raises ValueError, as all of these do, with a line for people."""
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if not parts:
        raise ValueError("is empty")
    if any(len(part) > MAX_WORD for part in parts):
        raise ValueError(f"names something of more than {MAX_WORD} characters")
    return parts


def duration(value: str) -> timedelta:
    """``90s``, ``30m``, ``2h``, ``7d``; longer than nothing, at most 100 years."""
    match = _DURATION.fullmatch(value.strip().lower())
    if not match:
        raise ValueError(f"{shown(value)} is not a duration such as 90s, 30m, 2h or 7d")
    try:
        found = lasting(Decimal(match[1]), timedelta(seconds=_SECONDS[match[2]]))
    except ValueError:
        raise ValueError(f"{shown(value)} is too long: 100 years at most") from None
    if found <= timedelta(0):
        raise ValueError("must be longer than zero")
    return found


def moment(value: str, now: datetime) -> datetime:
    """``2026-03-01`` or ``2026-03-01T12:00Z``; without a zone it is UTC, and never after *now*."""
    try:
        found = datetime.fromisoformat(value.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{shown(value)} is not a time such as 2026-03-01 or 2026-03-01T12:00Z"
        ) from None
    if found > now:
        raise ValueError(f"{shown(value)} lies in the future")
    return found


def positive(
    value: str, *, zero: bool = False, most: Decimal = _BILLION, unit: str = ""
) -> Decimal:
    """A number above zero, or with *zero* not below it, exactly as typed, within ``bounds``.

    One of a *unit* may be typed with it: of GB ``80``, ``80GB`` or ``1TB``, of hours ``1.5d``.
    """
    known = {word.lower(): count for word, count in _UNITS.get(unit, {}).items()}
    typed = re.fullmatch(r"(.*[\d.])\s*([a-z/]+)", value.strip().lower(), re.ASCII)
    text, times = (typed[1], known[typed[2]]) if typed and typed[2] in known else (value, 1)
    try:
        number = Decimal(text)
        number = number if times == 1 else EXACT.multiply(number, Decimal(times))
    except ArithmeticError:
        such = f" of {unit}, such as 12 or 12{next(iter(_UNITS[unit]))}" if known else ""
        raise ValueError(f"{shown(value)} is not a number{such}") from None
    if number.is_zero() and zero:
        return Decimal(0)
    if not number.is_finite() or number <= 0 or number > most:
        least = "0 or more" if zero else "above 0"
        limit = "a billion" if most == _BILLION else f"{most:,f}"
        raise ValueError(f"{shown(value)} must be {least} and at most {limit}")
    try:
        return bounded(number)
    except ValueError as error:
        raise ValueError(f"{shown(value)} {error}") from None


def whole(value: str, least: int, most: int) -> int:
    """A whole number of a range."""
    if not re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII) or not least <= int(value) <= most:
        raise ValueError(f"{shown(value)} is not a whole number from {least:,} to {most:,}")
    return int(value)


def flag(value: str) -> bool:
    """``true`` or ``false``; an empty one, as in ``?ecc``, is true."""
    found = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False,
             "no": False}.get(value.strip().lower())  # fmt: skip
    if found is None:
        raise ValueError(f"{shown(value)} is neither true nor false")
    return found


def one_of(value: str, known: Collection[str], what: str) -> str:
    """One of *known* words, with the nearest named for one that is not."""
    name = value.strip().lower().replace("-", "_")
    if name in known:
        return name
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    raise ValueError(f"{shown(value)} is not a {what}; {hint}")


# --- filters ----------------------------------------------------------------------------------


def filters_of(values: Mapping[str, Any]) -> Filters:
    """The filters that parsed *values* of the command line's names describe; see ``FILTERS``.

    ``gpus`` and ``as_of`` are left to the question. Raises BadQuestion on constraints that no
    offer can fulfil.
    """
    from tracker.report.filters import Filters

    _refuse_contradictions(values)
    for code in values["country"]:
        if not re.fullmatch("[A-Za-z]{2}", code):
            raise BadQuestion(
                "country", f"{shown(code)} is not a two-letter country code such as US"
            )
    try:
        markets = tuple(one_of(name, MARKETS, "market") for name in values["market"])
    except ValueError as error:
        raise BadQuestion("market", str(error)) from None
    kinds = _kinds(values["kind"])
    return Filters(
        gpus=values["gpu"],
        providers=tuple(name.lower() for name in values["provider"]),
        regions=values["region"],
        countries=values["country"],
        markets=markets,
        tiers=tuple(name.lower() for name in values["tier"]),
        min_vram_gb=values["min_vram"],
        min_ram_gib=values["min_ram"],
        min_vcpus=values["min_vcpus"],
        min_disk_gb=values["min_disk"],
        min_network_mbps=values["min_network"],
        interconnect=values["interconnect"],
        kinds=kinds,
        dedicated=values["dedicated"],
        ecc=values["ecc"],
        available=values["available"],
        max_age=values["max_age"],
        include_stale=values["include_stale"],
        # Who asks for nothing but slices has named them; beside whole cards they are not ranked.
        include_slices=bool(kinds) and set(kinds) == {"slice"},
    )


def _kinds(names: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds of what is rented that are named. Raises BadQuestion."""
    try:
        return tuple(KINDS[KINDS.index(one_of(name, KINDS, "kind"))] for name in names)
    except ValueError as error:
        raise BadQuestion("kind", str(error)) from None


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    """Refuse what cannot be answered, rather than answer that nothing matches."""
    for name in ("market", "tier"):
        named = {item.lower() for item in values[name]}
        if "any" in named and len(named) > 1:
            raise BadQuestion(name, "any means all of them; name no others beside it")
    if values["as_of"] is None:
        return
    # History keeps prices; stock and network speeds are only known for now.
    for name in ("available", "max_age", "min_network", "verify"):
        if values.get(name):
            raise BadQuestion(
                None, f"{{as_of}} and {{{name}}} exclude each other: it is only known for now"
            )


# --- parameters -------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """How one parameter is read: ``read(text, now)``. A list is read item by item."""

    read: Callable[[str, datetime], Any]
    help: str
    kind: str = "string"  # as JSON Schema has it: string, integer, number, boolean
    many: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | None = None  # of a number
    most: int | None = None


def _text(value: str, _now: datetime) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value.strip()


def _list(help_: str, choices: tuple[str, ...] = ()) -> Parameter:
    return Parameter(lambda value, _: words(value), help_, many=True, default=(), choices=choices)


def _number(
    help_: str, *, zero: bool = False, most: Decimal = _BILLION, unit: str = ""
) -> Parameter:
    return Parameter(
        lambda value, _: positive(value, zero=zero, most=most, unit=unit), help_, "number",
        least=0, most=int(most),
    )  # fmt: skip


def _flag(help_: str) -> Parameter:
    return Parameter(lambda value, _: flag(value), help_, "boolean", default=False)


def _whole(help_: str, least: int, most: int, default: int | None = None) -> Parameter:
    return Parameter(
        lambda value, _: whole(value, least, most), help_, "integer", default=default,
        least=least, most=most,
    )  # fmt: skip


def text_parameter(help_: str) -> Parameter:
    """A word or a line."""
    return Parameter(_text, help_)


def number_parameter(help_: str) -> Parameter:
    """A number above zero."""
    return _number(help_)


def list_parameter(help_: str) -> Parameter:
    """Several words."""
    return _list(help_)


def flag_parameter(help_: str, *, default: bool) -> Parameter:
    """Yes or no."""
    return _flag(help_)._replace(default=default)


def duration_parameter(help_: str) -> Parameter:
    """A length of time."""
    return Parameter(lambda value, _: duration(value), help_)


def choice(help_: str, choices: Sequence[str], default: str, what: str) -> Parameter:
    """One of several words."""
    known = tuple(choices)
    return Parameter(
        lambda value, _: one_of(value, known, what), help_, default=default, choices=known
    )


def top_parameter(default: int) -> Parameter:
    """How many rows."""
    return _whole("Only the cheapest so many.", 1, 100_000, default)


FILTERS: Mapping[str, Parameter] = {
    "gpu": _list("Families or exact GPUs: A100,H100-SXM-80GB,4090."),
    "provider": _list("Only these providers."),
    "region": _list("Only these regions; * and ? match anything: us-*."),
    "country": _list("Only these countries (two-letter codes)."),
    "market": _list("Markets; without any, all that is not interruptible.", MARKETS),
    "tier": _list("Trust classes (secure, community, ...) or any; else each provider's own."),
    "min_vram": _number("At least so many GB per GPU.", unit="GB"),
    "gpus": _whole("GPUs needed.", 1, 10_000),
    "min_ram": _number("At least so many GiB per machine.", unit="GiB"),
    "min_vcpus": _number("At least so many per machine."),
    "min_disk": _number("At least so many GB per machine.", unit="GB"),
    "min_network": _number("At least so many Mbit/s down, per machine.", unit="Mbit/s"),
    "interconnect": text_parameter("A word of it: nvlink, infiniband."),
    "kind": _list("What is rented: a share of a GPU, one, several, a machine, a cluster.", KINDS),
    "dedicated": _flag("Only machines of one's own."),
    "ecc": _flag("Only GPUs with ECC memory."),
    "available": _flag("Only what the provider says is in stock."),
    "max_age": duration_parameter("Only prices confirmed within: 2h."),
    "include_stale": _flag("Stale prices too (marked)."),
    "as_of": Parameter(moment, "As it was then (UTC): 2026-11-20, 2026-11-20T12:00Z."),
}

LISTS = tuple(name for name, parameter in FILTERS.items() if parameter.many)

JOB: Mapping[str, Parameter] = {
    "job": text_parameter("A job's name: a built-in or a kept one."),
    "hours": _list("Hours per GPU, for all the job's GPUs together: A100=12,H100=4."),
    "disk": _number("GB of disk the job needs on each machine.", zero=True, unit="GB"),
    "egress": _number("GB that leave the provider.", zero=True, unit="GB"),
    "setup": _number(
        "Hours of set-up billed on each machine.", zero=True, most=MAX_SETUP_HOURS, unit="hours"
    ),
    "deadline": _number(
        "Hours in which set-up and runtime must be done.", most=MAX_HOURS, unit="hours"
    ),
    "download": _number(
        "GB that each machine downloads before the job starts.", zero=True, most=MAX_GB, unit="GB"
    ),
    "assume_network": _number(
        "Mbit/s to assume for the download where an offer states none.",
        most=MAX_MBPS,
        unit="Mbit/s",
    ),
}


def parse(
    parameters: Mapping[str, Parameter],
    given: Iterable[tuple[str, str]],
    now: datetime,
) -> dict[str, Any]:
    """The values of *given* pairs of name and text; defaults for those that are not given.

    A name may be spelt with ``-``. Raises BadQuestion for one that is unknown, given twice (but
    for lists), or holds what cannot be read.
    """
    values = {name: parameter.default for name, parameter in parameters.items()}
    seen: set[str] = set()
    for spelt, text in given:
        name = spelt.lower().replace("-", "_")
        parameter = parameters.get(name)
        if parameter is None:
            raise unknown(spelt, parameters)
        if unstorable(text):
            raise BadQuestion(name, "is not text")
        if len(text) > MAX_TEXT:
            raise BadQuestion(name, f"is longer than {MAX_TEXT:,} characters")
        if name in seen and not parameter.many:
            raise BadQuestion(name, "is given twice")
        try:
            value = parameter.read(text, now)
        except ValueError as error:
            raise BadQuestion(name, str(error)) from None
        values[name] = (*values[name], *value) if parameter.many else value
        if parameter.many and len(values[name]) > MAX_ITEMS:
            raise BadQuestion(name, f"names more than {MAX_ITEMS}")
        seen.add(name)
    return values


def unknown(spelt: str, parameters: Collection[str]) -> BadQuestion:
    """That there is no parameter *spelt* among *parameters*, with what may be meant."""
    import difflib

    if spelt.lower() == "gpu" and {"left", "right"} <= set(parameters):
        return BadQuestion(None, "there is no parameter 'gpu'; name the two GPUs as left and right")
    near = difflib.get_close_matches(spelt.lower().replace("-", "_"), parameters, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(parameters))}"
    return BadQuestion(None, f"there is no parameter {spelt[:40]!r}; {hint}")
