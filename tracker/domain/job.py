"""Jobs: what somebody wants to run, how long it takes on which GPU, and on what evidence.

Hours are given for a GPU family (``A100``) or for an exact GPU (``A100-SXM-80GB``). A family's
hours hold for its reference part; the other parts of the family get them divided by the known
speed ratio, marked ``scaled``. A GPU without an entry has no estimate: nothing is ever assumed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tracker.domain.gpu import UnknownGpu
from tracker.domain.job_fields import (
    MAX_HOURS,
    JobError,
    known_keys,
    plain,
    read_amount,
    read_count,
    read_hours,
    read_number,
    read_table,
    read_text,
)

if TYPE_CHECKING:
    from tracker.domain.job_limits import Limits
    from tracker.domain.job_spot import OnSpot
    from tracker.domain.job_workload import Knowledge, Task
    from tracker.domain.runtime.estimator import Estimator
    from tracker.domain.spot import Expected

__all__ = [
    "GIVEN_BASES", "MAX_HOURS", "Basis", "GpuCatalogue", "Job", "JobError", "NoEstimate",
    "RuntimeEstimate", "RuntimeHours", "is_slice", "job_from_text", "job_from_toml", "parse_hours",
    "runtime_for",
]  # fmt: skip

MAX_GB = Decimal(10) ** 9  # an exabyte
MAX_SETUP_HOURS = Decimal(30 * 24)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_GPU = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)*")


class Basis(StrEnum):
    """What a number of hours rests on."""

    MEASURED = "measured"  # the user's own run
    PUBLISHED = "published"
    STATED = "stated"  # the user's word, no run behind it
    SCALED = "scaled"  # one of the above, carried over to another GPU or count
    MODELLED = "modelled"  # worked out from the workload


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
    it together, and the hours hold for that many: how such a job scales over more is not known.
    ``disk_gb`` is needed on every machine, ``egress_gb`` leaves once, ``setup_hours`` are spent
    (and billed) on every machine before the job starts. ``min_vram_gb`` is per GPU.

    With a ``task`` the hours that nobody gave are worked out with ``estimator``
    (tracker.domain.evidence), for several counts of GPUs unless ``count_given``.
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
    limits: Limits | None = None
    task: Task | None = None
    count_given: bool = False
    spot: OnSpot | None = None
    estimator: Estimator | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RuntimeEstimate:
    """Hours of a job on one GPU, on what they rest, and (``note``) how they came about.

    ``gpus`` GPUs together need that long; ``lower_bound``: at least that long. Estimates have a
    range, ``low_hours`` <= ``hours`` <= ``high_hours``, and the ``version`` of the calibration.
    ``interrupted`` is what to expect of interruptions; None: there are none, or nobody knows.
    """

    hours: Decimal
    basis: Basis
    note: str | None = None
    lower_bound: bool = False
    gpus: int = 1
    source: str | None = None
    low_hours: Decimal | None = None
    high_hours: Decimal | None = None
    version: str | None = None
    interrupted: Expected | None = None


class NoEstimate(NamedTuple):
    """Why there are no hours for a GPU. ``short`` reads behind a number of offers."""

    reason: str
    short: str = "with no hours given for the GPU"


def runtime_for(job: Job, gpu_key: str, catalogue: GpuCatalogue) -> RuntimeEstimate | NoEstimate:
    """The hours of *job* on the GPU *gpu_key*: an exact entry, else its family's, scaled.

    A key that leaves the form factor open (``H100-80GB``) gets the hours of the slowest part it
    may be, and says so. A slice of a GPU never gets an estimate. A job with a task that has no
    hours for the GPU gets an estimate, on the smallest usual count that it fits.
    """
    if job.task is not None:
        from tracker.domain import evidence

        return evidence.runtime(job, gpu_key, catalogue)
    return given_hours(job, gpu_key, catalogue)


def given_hours(job: Job, gpu_key: str, catalogue: GpuCatalogue) -> RuntimeEstimate | NoEstimate:
    """``runtime_for`` from the hours given alone."""
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
        f"{plain(entry.hours)} h on {reference_key} ({entry.basis}), "
        f"{gpu_key} at {plain(round(speed, 3))} times its speed"
    )
    if form_open:
        note += "; form factor not stated: the slowest part it may be is assumed"
    if entry.note:
        note += f"; {entry.note}"
    return RuntimeEstimate(hours, Basis.SCALED, note, entry.lower_bound, entry.gpus, entry.source)


# --- reading jobs ---------------------------------------------------------------------------

_JOB_KEYS = (
    "name", "title", "description", "hours", "workload", "limits", "spot", "gpus_needed",
    "min_vram_gb", "disk_gb", "egress_gb", "setup_hours",
)  # fmt: skip
_RATES = {f"{unit}_per_second": unit for unit in ("samples", "tokens", "requests")}
_HOURS_KEYS = ("hours", *_RATES, "gpus", "basis", "lower_bound", "note", "source")


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


def job_from_text(
    text: str, catalogue: GpuCatalogue | None = None, knowledge: Knowledge | None = None
) -> Job:
    """A job from the text of a TOML file. Raises JobError, also on text that is not TOML."""
    import tomllib

    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise JobError(f"not TOML: {error}") from None
    return job_from_toml(data, catalogue, knowledge)


def job_from_toml(
    data: Mapping[str, Any],
    catalogue: GpuCatalogue | None = None,
    knowledge: Knowledge | None = None,
) -> Job:
    """A job from parsed TOML (read with ``parse_float=Decimal``; job_from_text does).

    ``name`` and ``[hours]`` are required, or ``[workload]``, which needs *knowledge*. With a
    *catalogue*, a GPU that nobody knows is refused with the nearest names. An entry of ``[hours]``
    is a number of hours, or a table with ``hours`` (or a rate of what the workload counts),
    ``gpus``, ``basis``, ``lower_bound``, ``note`` and ``source``.
    Raises JobError naming the key, and for a mistyped key the nearest valid one.
    """
    known_keys(data, _JOB_KEYS, "")
    name = read_text(data, "name", "")
    if not _NAME.fullmatch(name):
        raise JobError(f"name: {name!r} must be lower-case letters, digits, '-', '_' or '.'")
    gpus_needed = read_count(data, "gpus_needed", "")
    task = _task(data, knowledge)
    hours = read_table(data.get("hours"), "hours")
    if not hours and task is None:
        raise JobError("hours: give at least one GPU, such as  [hours]  A100 = 12")
    table = _Hours(catalogue)
    for gpu, value in hours.items():
        table.add(gpu, _entry(gpu, value, gpus_needed, task))
    vram = read_amount(data, "min_vram_gb", MAX_GB) if "min_vram_gb" in data else None
    job = Job(
        name=name,
        hours=table.table(),
        title=read_text(data, "title", name),
        description=read_text(data, "description", ""),
        gpus_needed=gpus_needed,
        min_vram_gb=vram,
        disk_gb=read_amount(data, "disk_gb", MAX_GB),
        egress_gb=read_amount(data, "egress_gb", MAX_GB),
        setup_hours=read_amount(data, "setup_hours", MAX_SETUP_HOURS),
        limits=_limits(data),
        spot=_spot(data),
        task=task,
        count_given=task is not None and "gpus_needed" in data,
        estimator=knowledge.estimator if knowledge is not None and task is not None else None,
    )
    if task is not None:
        from tracker.domain import evidence

        evidence.check(job, catalogue)
    return job


def _task(data: Mapping[str, Any], knowledge: Knowledge | None) -> Task | None:
    """What ``[workload]`` says; None where there is none, and for ``kind = "hours"``."""
    if "workload" not in data:
        return None
    from tracker.domain.job_workload import task_from_toml

    return task_from_toml(read_table(data["workload"], "workload", "what is run"), knowledge)


def _limits(data: Mapping[str, Any]) -> Limits | None:
    if "limits" not in data:
        return None
    from tracker.domain.job_limits import limits_from_toml

    return limits_from_toml(read_table(data["limits"], "limits", "what an offer must be"))


def _spot(data: Mapping[str, Any]) -> OnSpot | None:
    if "spot" not in data:
        return None
    from tracker.domain.job_spot import spot_from_toml

    return spot_from_toml(read_table(data["spot"], "spot", "how it gets over interruptions"))


def parse_hours(text: str, catalogue: GpuCatalogue) -> Mapping[str, RuntimeHours]:
    """Hours typed on a command line: ``A100=12,H100=4,RTX4090=48``, basis ``stated``.

    Raises JobError on anything else, and on a GPU nobody knows with the nearest names.
    """
    table = _Hours(catalogue)
    for part in text.split(","):
        gpu, equals, hours = (piece.strip() for piece in part.partition("="))
        if not (gpu and equals and hours):
            raise JobError(f"hours: {part.strip()!r} is not GPU=HOURS, as in A100=12,H100=4")
        table.add(gpu, RuntimeHours(read_hours(hours, f"hours: {gpu}")))
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


def _entry(gpu: str, value: Any, gpus_needed: int, task: Task | None) -> RuntimeHours:
    where = f"hours.{gpu}"
    if not isinstance(value, Mapping):
        return RuntimeHours(read_hours(value, where), gpus=gpus_needed)
    known_keys(value, _HOURS_KEYS, f"{where}.")
    gpus = read_count(value, "gpus", f"{where}.", gpus_needed)
    if gpus < gpus_needed:
        raise JobError(
            f"{where}.gpus: {gpus}, but the job needs {gpus_needed} GPUs; "
            f"give the hours that {gpus_needed} take together"
        )
    basis = read_text(value, "basis", Basis.STATED, f"{where}.")
    if basis not in GIVEN_BASES:
        raise JobError(f"{where}.basis: {basis!r} is none of {', '.join(GIVEN_BASES)}")
    lower_bound = value.get("lower_bound", False)
    if not isinstance(lower_bound, bool):
        raise JobError(f"{where}.lower_bound: {lower_bound!r} is not true or false")
    return RuntimeHours(
        hours=_hours_of(value, where, task),
        gpus=gpus,
        basis=Basis(basis),
        lower_bound=lower_bound,
        note=read_text(value, "note", "", f"{where}.") or None,
        source=read_text(value, "source", "", f"{where}.") or None,
    )


def _hours_of(entry: Mapping[str, Any], where: str, task: Task | None) -> Decimal:
    """The hours of an entry, or those that its rate (of all its GPUs together) makes."""
    rates = [key for key in _RATES if key in entry]
    if len(rates) + ("hours" in entry) > 1:
        both = " and ".join((["hours"] if "hours" in entry else []) + rates)
        raise JobError(f"{where}: {both} say the same thing; keep one")
    if not rates:
        if "hours" not in entry:
            raise JobError(f"{where}: hours is missing")
        return read_hours(entry["hours"], f"{where}.hours")
    key = rates[0]
    amount = task.units.get(_RATES[key]) if task is not None else None
    if amount is None:
        raise JobError(f"{where}.{key}: the workload does not say how many {_RATES[key]} there are")
    rate = read_number(entry[key], f"{where}.{key}")
    if rate <= 0:
        raise JobError(f"{where}.{key}: {plain(rate)} is not above 0")
    with localcontext() as context:
        context.prec = 28
        return read_hours(round(amount / rate / 3600, 9), f"{where}.{key}")
