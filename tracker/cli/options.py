"""Options that several commands share, with their meaning and their parsing."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from tracker.report.filters import Filters

F = TypeVar("F", bound=Callable[..., Any])

MARKETS = ("on_demand", "spot", "reserved", "monthly", "capacity_block", "any")
FORMATS = ("table", "wide", "json", "csv", "ndjson")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class CommaList(click.ParamType[tuple[str, ...]]):
    """``A100,H100`` or the option given several times."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        parts = tuple(part.strip() for part in str(value).split(",") if part.strip())
        if not parts:
            self.fail("is empty", param, ctx)
        return parts


class Duration(click.ParamType[timedelta]):
    """``90s``, ``30m``, ``2h``, ``7d``."""

    name = "DURATION"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = _DURATION.fullmatch(str(value).strip().lower())
        if not match:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 2h or 7d", param, ctx)
        try:
            duration = timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        except OverflowError:
            self.fail(f"{value!r} is too long", param, ctx)
        if duration <= timedelta(0):
            self.fail("must be longer than zero", param, ctx)
        return duration


class Moment(click.ParamType[datetime]):
    """``2026-03-01`` or ``2026-03-01T12:00Z``; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            self.fail(
                f"{value!r} is not a time such as 2026-03-01 or 2026-03-01T12:00Z", param, ctx
            )
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if moment > datetime.now(UTC):
            self.fail(f"{value!r} lies in the future", param, ctx)
        return moment


class Positive(click.ParamType[Decimal]):
    """A number above zero, or with *zero* not below it, exactly as typed."""

    name = "NUMBER"

    def __init__(self, *, zero: bool = False, most: Decimal = Decimal(10) ** 9) -> None:
        self._zero, self._most = zero, most

    def convert(self, value: Any, param: Any, ctx: Any) -> Decimal:
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            self.fail(f"{value!r} is not a number", param, ctx)
        if number.is_zero() and self._zero:
            return Decimal(0)
        if not number.is_finite() or number <= 0 or number > self._most:
            least = "0 or more" if self._zero else "above 0"
            most = "a billion" if self._most == 10**9 else f"{self._most:,f}"
            self.fail(f"{value!r} must be {least} and at most {most}", param, ctx)
        return number


def stack(options: list[Callable[[F], F]]) -> Callable[[F], F]:
    """All of *options* as one decorator, listed by --help in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _many(name: str, help_: str) -> Callable[[F], F]:
    return click.option(f"--{name}", type=CommaList(), multiple=True, help=help_)


# What history can tell of an offer. The GPUs are named by each command in its own way.
_past_options: Callable[[F], F] = stack(
    [
        _many("provider", "Only these providers."),
        _many("region", "Only these regions; * and ? match anything: us-*."),
        _many("country", "Only these countries (two-letter codes)."),
        _many("market", f"{', '.join(MARKETS)}. Default: all that is not interruptible."),
        _many(
            "tier",
            "Trust classes (secure, community, verified, unverified, dedicated, vps, standard) or "
            "any. Default: each provider's own.",
        ),
        click.option("--min-vram", type=Positive(), help="At least so many GB per GPU."),
        click.option("--gpus", type=click.IntRange(1, 10_000), metavar="N", help="GPUs needed."),
        click.option("--min-ram", type=Positive(), help="At least so many GiB per machine."),
        click.option("--min-vcpus", type=Positive(), help="At least so many per machine."),
        click.option("--min-disk", type=Positive(), help="At least so many GB per machine."),
        click.option("--interconnect", metavar="WORD", help="A word of it: nvlink, infiniband."),
        click.option("--dedicated", is_flag=True, help="Only machines of one's own."),
        click.option("--ecc", is_flag=True, help="Only GPUs with ECC memory."),
    ]
)

# What a command has that names its GPUs in another way.
filter_options_but_gpu: Callable[[F], F] = stack(
    [
        _past_options,
        click.option(
            "--min-network", type=Positive(), help="At least so many Mbit/s down, per machine."
        ),
        click.option("--available", is_flag=True, help="Only what the provider says is in stock."),
        click.option(
            "--max-age",
            type=Duration(),
            help="Only prices confirmed within this time: 30m, 2h, 7d.",
        ),
        click.option("--include-stale", is_flag=True, help="Stale prices too (marked)."),
        click.option(
            "--as-of", type=Moment(), help="As it was then (UTC): 2026-11-20, 2026-11-20T12:00Z."
        ),
    ]
)

_gpu_option: Callable[[F], F] = _many("gpu", "Families or exact GPUs: A100,H100-SXM-80GB,4090.")
filter_options: Callable[[F], F] = stack([_gpu_option, filter_options_but_gpu])

# Those of a question about the past: what is only known for now is not among them.
past_filter_options: Callable[[F], F] = stack([_gpu_option, _past_options])
NOW_ONLY: dict[str, Any] = {
    "min_network": None, "available": False, "max_age": None, "include_stale": False, "as_of": None,
}  # fmt: skip


def top_option(default: int) -> Callable[[F], F]:
    """``--top N`` and ``--all``."""
    top = click.option("--top", type=click.IntRange(1, 100_000), default=default, metavar="N",
                       show_default=True, help="Only the cheapest N.")  # fmt: skip
    every = click.option("--all", "show_all", is_flag=True, help="Every one that fits.")
    return stack([top, every])


output_option: Callable[[F], F] = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip


def filters_from(options: dict[str, Any]) -> Filters:
    """Take the shared filter options out of *options* and return them as Filters.

    ``gpus`` and ``as_of`` stay with the command: what they mean is its own business. Raises
    click.UsageError on constraints that no offer can fulfil.
    """
    from tracker.report.filters import Filters

    _refuse_contradictions(options)
    countries = _flat(options, "country")
    for code in countries:
        if not re.fullmatch("[A-Za-z]{2}", code):
            raise click.BadParameter(
                f"{code!r} is not a two-letter country code such as US", param_hint="--country"
            )
    return Filters(
        gpus=_flat(options, "gpu"),
        providers=tuple(name.lower() for name in _flat(options, "provider")),
        regions=_flat(options, "region"),
        countries=countries,
        markets=_markets(_flat(options, "market")),
        tiers=tuple(name.lower() for name in _flat(options, "tier")),
        min_vram_gb=options.pop("min_vram"),
        min_ram_gib=options.pop("min_ram"),
        min_vcpus=options.pop("min_vcpus"),
        min_disk_gb=options.pop("min_disk"),
        min_network_mbps=options.pop("min_network"),
        interconnect=options.pop("interconnect"),
        dedicated=options.pop("dedicated"),
        ecc=options.pop("ecc"),
        available=options.pop("available"),
        max_age=options.pop("max_age"),
        include_stale=options.pop("include_stale"),
    )


def _flat(options: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(item for group in options.pop(name) for item in group)


def _markets(names: tuple[str, ...]) -> tuple[str, ...]:
    markets = tuple(name.lower().replace("-", "_") for name in names)
    for name in markets:
        if name not in MARKETS:
            import difflib

            near = difflib.get_close_matches(name, MARKETS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(MARKETS)}"
            raise click.BadParameter(f"{name!r} is not a market; {hint}", param_hint="--market")
    return markets


def _refuse_contradictions(options: dict[str, Any]) -> None:
    """Refuse what cannot be answered, rather than answer that nothing matches."""
    for name in ("market", "tier"):
        named = {item.lower() for group in options[name] for item in group}
        if "any" in named and len(named) > 1:
            raise click.UsageError(f"--{name}: any means all of them; name no others beside it")
    if options["as_of"] is None:
        return
    # History keeps prices; stock and network speeds are only known for now.
    for name in ("available", "max_age", "min_network", "verify"):
        if options.get(name):
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(
                f"--as-of and {option} exclude each other: it is only known for now"
            )


def refuse_all_with_top(show_all: bool) -> None:
    """Refuse ``--all`` beside a ``--top`` that was typed."""
    source = click.get_current_context().get_parameter_source("top")
    if show_all and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all and --top exclude each other")
