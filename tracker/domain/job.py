"""Jobs: what somebody wants to run, how long it takes on which GPU, and on what evidence.

Hours are given for a GPU family (``A100``) or for an exact GPU (``A100-SXM-80GB``). A family's
hours hold for its reference part; the other parts of the family get them divided by the known
speed ratio, marked ``scaled``. A GPU without an entry has no estimate: nothing is ever assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tracker.domain.job_fields import (
    MAX_HOURS,
    JobError,
    plain,
)

if TYPE_CHECKING:
    from tracker.domain.job_download import Downloads, SetUp
    from tracker.domain.job_limits import Limits
    from tracker.domain.job_spot import OnSpot
    from tracker.domain.job_workload import Task
    from tracker.domain.runtime.estimator import Estimator
    from tracker.domain.spot import Expected

__all__ = [
    "GIVEN_BASES", "MAX_HOURS", "Basis", "GpuCatalogue", "Job", "JobError", "NoEstimate",
    "RuntimeEstimate", "RuntimeHours", "is_slice", "runtime_for",
]  # fmt: skip


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
    (and billed) on every machine before the job starts, and what it takes to ``download``.
    ``min_vram_gb`` is per GPU. One run ``completes`` so many jobs of a batch, where it is one.

    With a ``task`` the hours that nobody gave are worked out with ``estimator``
    (tracker.domain.evidence), for several counts of GPUs unless ``count_given``. What was measured
    on a GPU of ``hours`` at other counts is ``also_measured``.
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
    download: Downloads | None = None
    completes: int | None = None
    estimator: Estimator | None = field(default=None, compare=False, repr=False)
    also_measured: tuple[tuple[str, RuntimeHours], ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeEstimate:
    """Hours of a job on one GPU, on what they rest, and (``note``) how they came about.

    ``gpus`` GPUs together need that long; ``lower_bound``: at least that long. Estimates have a
    range, ``low_hours`` <= ``hours`` <= ``high_hours``, and the ``version`` of the calibration. A
    service runs as long as it is kept up: what has a range is how many GPUs it takes, ``low_gpus``
    <= ``gpus`` <= ``high_gpus``.
    ``interrupted`` is what to expect of interruptions; None: there are none, or nobody knows.
    ``setup`` is the set-up on an offer where something is downloaded; None: it is the job's own.
    ``speeds`` are those of text that is read and written, where they were worked out.
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
    setup: SetUp | None = None
    speeds: Speeds | None = None
    low_gpus: int | None = None
    high_gpus: int | None = None

    def at_low(self) -> RuntimeEstimate | None:
        """As it is at the end of its range that costs least; None: it has no range."""
        return self._at(self.low_hours, self.low_gpus)

    def at_high(self) -> RuntimeEstimate | None:
        """As it is at the end of its range that costs most; None: it has no range."""
        return self._at(self.high_hours, self.high_gpus)

    def _at(self, hours: Decimal | None, gpus: int | None) -> RuntimeEstimate | None:
        if hours is None and gpus is None:
            return None
        return replace(
            self,
            hours=self.hours if hours is None else hours,
            gpus=self.gpus if gpus is None else gpus,
        )


class Speeds(NamedTuple):
    """Tokens per second of all GPUs together, of each phase while nothing else is done."""

    input_per_second: Decimal
    output_per_second: Decimal | None  # None: nothing is written


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
