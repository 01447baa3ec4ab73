"""Jobs: what somebody wants to run, how long it takes on which GPU, and on what evidence.

Hours are given for a GPU family (``A100``) or for an exact GPU (``A100-SXM-80GB``). A family's
hours hold for its reference part; the other parts of the family get them divided by the known
speed ratio, marked ``scaled``. A GPU without an entry has no estimate: nothing is ever assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from tracker.domain.gpu import UnknownGpu
from tracker.domain.money import parse_decimal

MAX_HOURS = Decimal(10 * 365 * 24)  # ten years: beyond that it is a unit error
MAX_GPUS_NEEDED = 100_000
MAX_GB = Decimal(10) ** 9  # an exabyte
MAX_SETUP_HOURS = Decimal(30 * 24)
MAX_TEXT = 2000

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_GPU = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)*")


class JobError(Exception):
    """A job description that cannot be used. The message is one line that says what to change."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split())[:400])


class Basis(StrEnum):
    """What a number of hours rests on."""

    MEASURED = "measured"  # the user's own run
    PUBLISHED = "published"
    STATED = "stated"  # the user's word, no run behind it
    SCALED = "scaled"  # one of the above, carried over to another part of the family


GIVEN_BASES = (Basis.PUBLISHED, Basis.MEASURED, Basis.STATED)


class _HasKey(Protocol):
    @property
    def key(self) -> str: ...


class _HasGpu(Protocol):
    @property
    def gpu(self) -> _HasKey: ...


class GpuCatalogue(Protocol):
    """The part of the GPU catalogue that jobs need (tracker.domain.gpu.Catalogue has it all)."""

    def select(self, query: str) -> frozenset[str]:
        """The keys that *query* means. Raises UnknownGpu, with the nearest names."""
        ...

    def reference(self, family: str) -> _HasGpu | None:
        """The part that a family's figures hold for."""
        ...

    def spec(self, key: str) -> object | None:
        """The part's specification; None when the key leaves the form factor open."""
        ...

    def relative_speed(self, key: str) -> Decimal | None:
        """Speed relative to the family's reference part; of the slowest part where open."""
        ...


@dataclass(frozen=True, slots=True)
class RuntimeHours:
    """Hours of the whole job, as given for one GPU family or part.

    ``gpus`` is how many such GPUs together took that long. ``lower_bound``: it takes at least so
    long. ``hours`` is in (0, 87,600].
    """

    hours: Decimal
    gpus: int = 1
    basis: Basis = Basis.STATED
    lower_bound: bool = False
    note: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run, and what it needs.

    ``hours`` maps a GPU family or an exact GPU key to its RuntimeHours. ``gpus_needed`` GPUs run
    it together, and the hours hold for that many: how a job scales over more is not modelled.
    ``disk_gb`` is needed on every machine, ``egress_gb`` leaves once, ``setup_hours`` are spent
    (and billed) on every machine before the job starts. ``min_vram_gb`` is per GPU.
    """

    name: str
    hours: Mapping[str, RuntimeHours]
    title: str = ""
    description: str = ""
    gpus_needed: int = 1
    min_vram_gb: Decimal | None = None
    disk_gb: Decimal = Decimal(0)
    egress_gb: Decimal = Decimal(0)
    setup_hours: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class RuntimeEstimate:
    """Hours of a job on one GPU, on what they rest, and (``note``) how they came about.

    ``gpus`` GPUs together need that long; ``lower_bound``: at least that long.
    """

    hours: Decimal
    basis: Basis
    note: str | None = None
    lower_bound: bool = False
    gpus: int = 1
    source: str | None = None


class NoEstimate(NamedTuple):
    """Why there are no hours for a GPU."""

    reason: str


def runtime_for(job: Job, gpu_key: str, catalogue: GpuCatalogue) -> RuntimeEstimate | NoEstimate:
    """The hours of *job* on the GPU *gpu_key*: an exact entry, else its family's, scaled.

    A key that leaves the form factor open (``H100-80GB``) gets the hours of the slowest part it
    may be, and says so. A slice of a GPU never gets an estimate.
    """
    if is_slice(gpu_key):
        return NoEstimate("a slice of a GPU: the hours are for whole GPUs")
    family = gpu_key.split("-", 1)[0]
    exact = job.hours.get(gpu_key)
    if exact is not None:
        return _given(exact, exact.note)
    entry = job.hours.get(family)
    if entry is None:
        known = ", ".join(sorted(job.hours)) or "no GPU"
        return NoEstimate(f"no hours given for {gpu_key} (given: {known})")
    reference = catalogue.reference(family)
    if reference is None:
        return NoEstimate(f"{family} has no reference part that the hours could hold for")
    if reference.gpu.key == gpu_key:
        return _given(entry, entry.note)
    speed = catalogue.relative_speed(gpu_key)
    if speed is None or speed <= 0:
        return NoEstimate(f"the speed of {gpu_key} relative to {reference.gpu.key} is not known")
    return _scaled(entry, gpu_key, reference.gpu.key, speed, catalogue.spec(gpu_key) is None)


def is_slice(gpu_key: str) -> bool:
    """Whether *gpu_key* names a part of a card (``A100-SLICE``)."""
    return gpu_key.split("-")[-1].upper() == "SLICE"


def _given(entry: RuntimeHours, note: str | None) -> RuntimeEstimate:
    return RuntimeEstimate(
        entry.hours, entry.basis, note, entry.lower_bound, entry.gpus, entry.source
    )


def _scaled(
    entry: RuntimeHours, gpu_key: str, reference_key: str, speed: Decimal, form_open: bool
) -> RuntimeEstimate:
    with localcontext() as context:
        context.prec = 28  # the result's digits must not depend on the caller's context
        hours = entry.hours / speed
    note = (
        f"{_plain(entry.hours)} h on {reference_key} ({entry.basis}), "
        f"{gpu_key} at {_plain(round(speed, 3))} times its speed"
    )
    if form_open:
        note += "; form factor not stated: the slowest part it may be is assumed"
    if entry.note:
        note += f"; {entry.note}"
    return RuntimeEstimate(hours, Basis.SCALED, note, entry.lower_bound, entry.gpus, entry.source)


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- reading jobs ---------------------------------------------------------------------------

_JOB_KEYS = (
    "name", "title", "description", "hours", "gpus_needed", "min_vram_gb", "disk_gb", "egress_gb",
    "setup_hours",
)  # fmt: skip
_HOURS_KEYS = ("hours", "gpus", "basis", "lower_bound", "note", "source")


class _Hours:
    """The entries of an hours table, spread over the GPUs that their names mean."""

    def __init__(self, catalogue: GpuCatalogue | None) -> None:
        self.catalogue = catalogue
        self.entries: dict[str, tuple[int, str, RuntimeHours]] = {}

    def add(self, name: str, entry: RuntimeHours) -> None:
        """Enter *entry* for *name*; a narrower name beats a wider one for the same GPU."""
        keys = _gpu_keys(name, self.catalogue)
        for key in keys:
            before = self.entries.get(key)
            if before is not None and before[0] == len(keys):
                raise JobError(f"hours: {before[1]!r} and {name!r} both mean {key}; keep one")
            if before is None or len(keys) < before[0]:
                self.entries[key] = (len(keys), name, entry)

    def table(self) -> Mapping[str, RuntimeHours]:
        return MappingProxyType({key: entry for key, (_, _, entry) in self.entries.items()})


def job_from_text(text: str, catalogue: GpuCatalogue | None = None) -> Job:
    """A job from the text of a TOML file. Raises JobError, also on text that is not TOML."""
    import tomllib

    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise JobError(f"not TOML: {error}") from None
    return job_from_toml(data, catalogue)


def job_from_toml(data: Mapping[str, Any], catalogue: GpuCatalogue | None = None) -> Job:
    """A job from parsed TOML (read with ``parse_float=Decimal``; job_from_text does).

    ``name`` and ``[hours]`` are required. With a *catalogue*, a GPU that nobody knows is refused
    with the nearest names. An entry of ``[hours]`` is a number of hours, or a table with
    ``hours``, ``gpus``, ``basis``, ``lower_bound``, ``note`` and ``source``.
    Raises JobError naming the key, and for a mistyped key the nearest valid one.
    """
    _known_keys(data, _JOB_KEYS, "")
    name = _text(data, "name", "")
    if not _NAME.fullmatch(name):
        raise JobError(f"name: {name!r} must be lower-case letters, digits, '-', '_' or '.'")
    gpus_needed = _count(data, "gpus_needed", "")
    hours = _table(data.get("hours"), "hours")
    if not hours:
        raise JobError("hours: give at least one GPU, such as  [hours]  A100 = 12")
    table = _Hours(catalogue)
    for gpu, value in hours.items():
        table.add(gpu, _entry(gpu, value, gpus_needed))
    vram = _amount(data, "min_vram_gb", MAX_GB) if "min_vram_gb" in data else None
    return Job(
        name=name,
        hours=table.table(),
        title=_text(data, "title", name),
        description=_text(data, "description", ""),
        gpus_needed=gpus_needed,
        min_vram_gb=vram,
        disk_gb=_amount(data, "disk_gb", MAX_GB),
        egress_gb=_amount(data, "egress_gb", MAX_GB),
        setup_hours=_amount(data, "setup_hours", MAX_SETUP_HOURS),
    )


def parse_hours(text: str, catalogue: GpuCatalogue) -> Mapping[str, RuntimeHours]:
    """Hours typed on a command line: ``A100=12,H100=4,RTX4090=48``, basis ``stated``.

    Raises JobError on anything else, and on a GPU nobody knows with the nearest names.
    """
    table = _Hours(catalogue)
    for part in text.split(","):
        gpu, equals, hours = (piece.strip() for piece in part.partition("="))
        if not (gpu and equals and hours):
            raise JobError(f"hours: {part.strip()!r} is not GPU=HOURS, as in A100=12,H100=4")
        table.add(gpu, RuntimeHours(_hours(hours, f"hours: {gpu}")))
    return table.table()


def _gpu_keys(name: str, catalogue: GpuCatalogue | None) -> tuple[str, ...]:
    """The hours-table keys that *name* means: one family, or the exact parts it selects."""
    if catalogue is None:
        key = name.strip().upper()
        if not _GPU.fullmatch(key):
            raise JobError(f"hours: {name!r} is not a GPU name, such as A100 or A100-SXM-80GB")
        return (key,)
    try:
        keys = catalogue.select(name)
    except UnknownGpu as error:
        raise JobError(f"hours: {error}") from None
    if any(is_slice(key) for key in keys):
        raise JobError(f"hours: {name!r} is a slice of a GPU; hours are for whole GPUs")
    families = {key.split("-", 1)[0] for key in keys}
    if len(families) == 1 and keys == catalogue.select(family := next(iter(families))):
        return (family,)
    return tuple(sorted(keys))


def _entry(gpu: str, value: Any, gpus_needed: int) -> RuntimeHours:
    where = f"hours.{gpu}"
    if not isinstance(value, Mapping):
        return RuntimeHours(_hours(value, where), gpus=gpus_needed)
    _known_keys(value, _HOURS_KEYS, f"{where}.")
    if "hours" not in value:
        raise JobError(f"{where}: hours is missing")
    gpus = _count(value, "gpus", f"{where}.", gpus_needed)
    if gpus < gpus_needed:
        raise JobError(
            f"{where}.gpus: {gpus}, but the job needs {gpus_needed} GPUs; "
            f"give the hours that {gpus_needed} take together"
        )
    basis = _text(value, "basis", Basis.STATED, f"{where}.")
    if basis not in GIVEN_BASES:
        raise JobError(f"{where}.basis: {basis!r} is none of {', '.join(GIVEN_BASES)}")
    lower_bound = value.get("lower_bound", False)
    if not isinstance(lower_bound, bool):
        raise JobError(f"{where}.lower_bound: {lower_bound!r} is not true or false")
    return RuntimeHours(
        hours=_hours(value["hours"], f"{where}.hours"),
        gpus=gpus,
        basis=Basis(basis),
        lower_bound=lower_bound,
        note=_text(value, "note", "", f"{where}.") or None,
        source=_text(value, "source", "", f"{where}.") or None,
    )


def _known_keys(data: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise JobError(f"{where}{key}: unknown key; {hint}")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise JobError(f"{where}: must be a table of GPU = hours")
    return value


def _text(
    data: Mapping[str, Any], key: str, default: str, where: str = "", limit: int = MAX_TEXT
) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise JobError(f"{where}{key}: {value!r} is not text")
    if len(value) > limit:
        raise JobError(f"{where}{key}: longer than {limit} characters")
    return value.strip()


def _hours(value: Any, where: str) -> Decimal:
    hours = _number(value, where)
    if hours <= 0:
        raise JobError(f"{where}: {_plain(hours)} h; a job takes more than 0 hours")
    if hours > MAX_HOURS:
        raise JobError(f"{where}: {_plain(hours)} h is more than ten years; give hours")
    return hours


def _amount(data: Mapping[str, Any], key: str, limit: Decimal) -> Decimal:
    amount = _number(data.get(key, 0), key)
    if not 0 <= amount <= limit:
        raise JobError(f"{key}: {_plain(amount)} is not between 0 and {_plain(limit)}")
    return amount


def _number(value: Any, where: str) -> Decimal:
    try:
        number = parse_decimal(value)
    except ValueError as error:
        raise JobError(f"{where}: {error}") from None
    # Endless digits or a wild exponent would break exact sums, and the screen when shown.
    if len(number.as_tuple().digits) > 30 or (number and not -20 <= number.adjusted() <= 20):
        raise JobError(f"{where}: {str(value)[:40]} is out of range")
    return number


def _count(data: Mapping[str, Any], key: str, where: str, default: int = 1) -> int:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise JobError(f"{where}{key}: {value!r} is not a whole number")
    if not 1 <= value <= MAX_GPUS_NEEDED:
        raise JobError(f"{where}{key}: {value} is not between 1 and {MAX_GPUS_NEEDED}")
    return value
