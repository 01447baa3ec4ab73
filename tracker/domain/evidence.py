"""The hours of a job with a workload, on a GPU kind and count, in the order of evidence.

Hours given for that GPU and count (measured before published before stated) > the same for
another GPU or count, carried over by the ratio of the modelled speeds > modelled. Hours that are a
lower bound are taken where they were given and carried nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from tracker.domain.gpu import Catalogue
from tracker.domain.gpu_data import GpuSpec
from tracker.domain.job import (
    Basis,
    GpuCatalogue,
    Job,
    NoEstimate,
    RuntimeEstimate,
    RuntimeHours,
    is_slice,
)
from tracker.domain.job_estimate import NOT_FIT as NOT_FIT
from tracker.domain.job_estimate import NOT_POSSIBLE as NOT_POSSIBLE
from tracker.domain.job_estimate import estimate_of as estimate_of
from tracker.domain.job_fields import JobError, plain
from tracker.domain.job_service import as_given
from tracker.domain.job_workload import Task
from tracker.domain.runtime.estimator import Estimator
from tracker.domain.runtime.types import (
    Answer,
    DoesNotFit,
    Estimate,
    Hpc,
    Inference,
    Link,
    NotPossible,
    Sharding,
    Training,
    Workload,
)
from tracker.domain.texts import figure

SLICE = "sold as a slice of a GPU"
LATE = "over the job's deadline"
NO_NETWORK = "on machines too small for so many GPUs, with no known network between them"

USUAL_COUNTS = (1, 2, 4, 8)
# From so many GPUs on, a machine is taken to have a fast network to others of its kind.
_NETWORKED = 8
_MOST_MACHINES = 8
_MOST_COPIES = 1000  # machines among which requests are divided

_RANK = {Basis.MEASURED: 0, Basis.PUBLISHED: 1, Basis.STATED: 2}
# Hours given that are so far from the modelled ones are in another unit.
_TOO_LONG, _TOO_SHORT = 25, 0.1


class Found(NamedTuple):
    """Hours, or why there are none; and where they were worked out the way there."""

    hours: RuntimeEstimate | NoEstimate
    answer: Answer | None = None


def runtime(job: Job, gpu_key: str, catalogue: GpuCatalogue) -> RuntimeEstimate | NoEstimate:
    """The hours on *gpu_key* alone: on the count given or that hours are given for, else on the
    smallest usual one that it fits, or on whole machines of 8; of a service on as many as its rate
    takes."""
    return first_fit(job, gpu_key, catalogue).hours


def first_fit(job: Job, gpu_key: str, catalogue: GpuCatalogue) -> Found:
    """``runtime`` with the way there."""
    entry = _entry(job, gpu_key, catalogue)
    usual = (entry.gpus, *USUAL_COUNTS) if entry is not None else USUAL_COUNTS
    given = _count_given(job)
    counts = given or tuple(dict.fromkeys(usual))
    found, needed = Found(NoEstimate("no count was tried")), set[int]()
    for gpus in counts:
        found = find(job, gpu_key, gpus, catalogue)
        if isinstance(found.hours, RuntimeEstimate):
            break
        rate = found.answer.gpus_needed if isinstance(found.answer, NotPossible) else None
        if rate is not None and not given:
            needed |= {rate, rate + 1}  # one more where what was rounded would leave some behind
    if not given and isinstance(found.answer, DoesNotFit):
        needed |= set(_machines_full(job, (), found, _NETWORKED))
    most = gpus - 1 if isinstance(found.hours, RuntimeEstimate) else _MOST_COPIES
    for fewer in sorted(n for n in needed if n <= most):
        one = find(job, gpu_key, fewer, catalogue)
        if isinstance(one.hours, RuntimeEstimate):
            return one
    return found


def options(
    job: Job, gpu_key: str, gpu_count: int, catalogue: GpuCatalogue
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """The ways to run *job* on machines with *gpu_count* of *gpu_key*, within its deadline.

    Where no count is given: 1, 2, 4, 8 and all GPUs of one machine; several machines where the
    job needs them for its memory or its deadline, and they may be expected to work together.
    """
    given = _count_given(job)
    entry = _entry(job, gpu_key, catalogue)
    known = [one.gpus for key, one in job.also_measured if key == gpu_key]
    known.append(entry.gpus if entry is not None else 1)
    inside = given or _inside(gpu_count, known)
    ways, why = _ways(job, gpu_key, inside, gpu_count, catalogue)
    in_time = _in_time(job, ways)
    if not in_time and not given:
        more = list(_machines_full(job, ways, why, gpu_count))
        others, _ = _ways(job, gpu_key, more, gpu_count, catalogue)
        ways += others
        in_time = _in_time(job, others)
    if in_time:
        return tuple(in_time)
    if ways:
        least = min(way.hours for way in ways)
        return NoEstimate(f"takes {plain(round(least, 2))} h at best on {gpu_key}", LATE)
    return why.hours if isinstance(why.hours, NoEstimate) else NoEstimate("no count was tried")


def find(job: Job, gpu_key: str, gpus: int, catalogue: GpuCatalogue, per_machine: int = 8) -> Found:
    """The hours on *gpus* of *gpu_key*, *per_machine* of them to a machine.

    A key that leaves the form factor open gets the hours of the slowest part it may be.
    """
    whole = cast("Catalogue", catalogue)
    if job.task is None or job.estimator is None:
        raise ValueError(f"{job.name} has no workload")
    if is_slice(gpu_key):
        return Found(NoEstimate("a slice of a GPU: estimates are for whole GPUs", SLICE))
    entry = _entry(job, gpu_key, catalogue, gpus)
    apart = gpus > per_machine and per_machine < _NETWORKED
    if entry is not None and entry.gpus > per_machine and per_machine < _NETWORKED:
        entry = None  # they worked together in a machine, which these cannot
    if entry is not None and job.task.service_hours is not None and gpus >= entry.gpus:
        return Found(*as_given(job.task, entry, gpu_key, gpus, per_machine))
    if entry is not None and entry.gpus == gpus:
        return Found(_given(entry))
    if apart and not isinstance(job.task.workload, Inference):
        between = f"{gpus} GPUs on machines of {per_machine}: nothing is known of their network"
        return Found(NoEstimate(between, NO_NETWORK))
    link = Link(gpus_per_machine=max(1, min(per_machine, gpus)))
    parts = _parts(gpu_key, whole)
    answers = [_answer(job, job.task, job.estimator, key, gpus, link, whole) for key in parts]
    if not answers:
        return Found(NoEstimate(f"no source gives the figures of {gpu_key}", NOT_POSSIBLE))
    worst = max(answers, key=_slowness)
    note = "form factor not stated: the slowest part is assumed" if parts != [gpu_key] else ""
    return Found(estimate_of(job.task, worst, note), worst)


def check(job: Job, catalogue: GpuCatalogue | None) -> None:
    """Refuse a job whose hours contradict its workload. Raises JobError."""
    task, estimator = job.task, job.estimator
    if task is None or estimator is None:
        return
    certain = {name: entry for name, entry in job.hours.items() if not entry.lower_bound}
    if task.reference_open and not certain:
        raise JobError(
            "hours: a job of kind = family is known by a measurement; give hours (or "
            "samples_per_second) on the GPU that it was made on"
        )
    if task.reference_open or catalogue is None:
        return
    for name, entry in certain.items():
        key = _exact(name, cast("Catalogue", catalogue))
        speed = key and estimator.speed(task.workload, key, entry.gpus)
        if not speed:
            continue
        ratio = float(entry.hours) * speed
        too_long = ratio > _TOO_LONG and not isinstance(task.workload, Hpc)
        if (too_long or ratio < _TOO_SHORT) and task.service_hours is not None:
            told, about = (float(task.units["requests"]) / hours / 3600 for hours in
                           (float(entry.hours), 1 / speed))  # fmt: skip
            raise JobError(
                f"hours.{name}: {figure(told)} requests/s, where about {figure(about)} are to be "
                "expected; are these of another unit?"
            )
        if too_long or ratio < _TOO_SHORT:
            unit = "minutes" if too_long else "days, or is the workload too large"
            raise JobError(
                f"hours.{name}: {plain(entry.hours)} h, where the workload should take about "
                f"{figure(1 / speed)} h; are these {unit}?"
            )


# --- counts -----------------------------------------------------------------------------------


def _count_given(job: Job) -> tuple[int, ...]:
    return (job.gpus_needed,) if job.count_given or job.gpus_needed > 1 else ()


def _inside(gpu_count: int, known: Iterable[int]) -> tuple[int, ...]:
    """Counts of one machine: the usual ones, all of it, and those that hours are given for."""
    return tuple(sorted({n for n in (*USUAL_COUNTS, gpu_count, *known) if n <= gpu_count}))


def _machines_full(
    job: Job, ways: Sequence[RuntimeEstimate], why: Found, gpu_count: int
) -> Iterator[int]:
    """Counts of several whole machines that may do what one does not."""
    needs = why.answer.smallest_count if isinstance(why.answer, DoesNotFit) else None
    rate = why.answer.gpus_needed if isinstance(why.answer, NotPossible) else None
    if not ways and rate is not None:  # one serves less than is asked for
        machines = -(-rate // gpu_count)
        # A machine more where what was rounded would leave a request behind.
        yield from (n * gpu_count for n in (machines, machines + 1) if 1 < n <= _MOST_COPIES)
        return
    if not ways:  # it does not fit on one
        if needs is not None and gpu_count >= _NETWORKED:
            machines = -(-needs // gpu_count)
            if machines <= _MOST_MACHINES:
                yield machines * gpu_count
        return
    copies = job.task is not None and isinstance(job.task.workload, Inference)
    if copies or gpu_count >= _NETWORKED:
        yield from (n * gpu_count for n in (2, 4, _MOST_MACHINES))


def _ways(
    job: Job, gpu_key: str, counts: Iterable[int], gpu_count: int, catalogue: GpuCatalogue
) -> tuple[list[RuntimeEstimate], Found]:
    """The counts that have hours, and the last reason why one has none."""
    ways: list[RuntimeEstimate] = []
    why = Found(NoEstimate("no count was tried"))
    for gpus in counts:
        found = find(job, gpu_key, gpus, catalogue, gpu_count)
        if isinstance(found.hours, RuntimeEstimate):
            ways.append(found.hours)
        else:
            why = found
    return ways, why


def _in_time(job: Job, ways: Iterable[RuntimeEstimate]) -> list[RuntimeEstimate]:
    deadline = job.limits.deadline_hours if job.limits is not None else None
    if deadline is None:
        return list(ways)
    return [way for way in ways if job.setup_hours + way.hours <= deadline]


# --- one GPU and count ------------------------------------------------------------------------


def _entry(
    job: Job, gpu_key: str, catalogue: GpuCatalogue, gpus: int | None = None
) -> RuntimeHours | None:
    """The hours given for exactly this GPU: its own, or its family's if it is the reference. Of
    several counts those for *gpus*; of a service those for the most that are no more."""
    others = [one for key, one in job.also_measured if key == gpu_key and gpus is not None]
    if others and gpus is not None:
        service = job.task is not None and job.task.service_hours is not None
        others.append(job.hours[gpu_key])
        fit = [one for one in others if one.gpus == gpus or (service and one.gpus <= gpus)]
        if fit:
            return max(fit, key=lambda one: one.gpus)
    entry = job.hours.get(gpu_key)
    if entry is None:
        family = gpu_key.split("-", 1)[0]
        reference = catalogue.reference(family)
        if reference is not None and reference.gpu.key == gpu_key:
            entry = job.hours.get(family)
    return entry


def _given(entry: RuntimeHours) -> RuntimeEstimate:
    return RuntimeEstimate(
        entry.hours, entry.basis, entry.note, entry.lower_bound, entry.gpus, entry.source
    )


def _parts(gpu_key: str, catalogue: Catalogue) -> list[str]:
    if catalogue.spec(gpu_key) is not None:
        return [gpu_key]
    gpu = catalogue.gpu(gpu_key)
    if gpu is None:
        return []
    return [
        part.gpu.key
        for part in catalogue.specs()
        if part.gpu.family == gpu.family and part.gpu.vram_gb == gpu.vram_gb and not part.rare
    ]


def whole_parts(family: str, catalogue: Catalogue) -> list[GpuSpec]:
    """The parts that an offer of *family* may be, without those that are only meant outright."""
    return [p for p in catalogue.specs() if p.gpu.family == family and not p.rare]


def _slowness(answer: Answer) -> float:
    return answer.hours if isinstance(answer, Estimate) else float("inf")


def _answer(
    job: Job, task: Task, estimator: Estimator, gpu: str, gpus: int, link: Link,
    catalogue: Catalogue,
) -> Answer:  # fmt: skip
    known = anchor(job, gpu, gpus, catalogue)
    if task.reference_open and known is None:
        return NotPossible(gpu, "nobody says how long it takes on any GPU: give [hours] for one")

    def ask(workload: Workload) -> Answer:
        if known is None:
            return estimator.estimate(workload, gpu, gpus, link)
        where, entry = known
        hours = float(entry.hours)
        carried = estimator.scale(workload, where, entry.gpus, hours, gpu, gpus, link)
        untold = isinstance(carried, NotPossible) and carried.gpus_needed is None
        if untold and not task.reference_open:
            return estimator.estimate(workload, gpu, gpus, link)
        return carried

    workload = task.workload
    if task.sharding_open and isinstance(workload, Training) and gpus > 1:
        workload = _sharded(workload, estimator, gpu, gpus, link)
    return ask(workload)


def _sharded(
    job: Training, estimator: Estimator, gpu: str, gpus: int, link: Link
) -> Training:  # fmt: skip
    """*job* with its weights divided among the GPUs where it must be, or is faster for it: one
    that barely fits has no room for more than a sequence at a time."""
    divided = replace(job, sharding=Sharding.FSDP)
    whole = estimator.estimate(job, gpu, gpus, link)
    if isinstance(whole, NotPossible):
        return job
    if isinstance(whole, Estimate):
        other = estimator.estimate(divided, gpu, gpus, link)
        if not isinstance(other, Estimate) or other.hours >= whole.hours:
            return job
    return divided


def anchor(job: Job, gpu: str, gpus: int, catalogue: Catalogue) -> tuple[str, RuntimeHours] | None:
    """The hours given that say most of this GPU and count: the best basis, then the nearest."""
    family = gpu.split("-", 1)[0]

    def order(known: tuple[str, RuntimeHours]) -> tuple[int, bool, bool, int, str]:
        key, entry = known
        return (
            _RANK[entry.basis], key != gpu, key.split("-", 1)[0] != family,
            abs(entry.gpus - gpus), key,
        )  # fmt: skip

    known = [
        (key, entry)
        for name, entry in (*job.hours.items(), *job.also_measured)
        if not entry.lower_bound and (key := _exact(name, catalogue))
    ]
    if len(known) > 1:  # where such a job is not modelled, its hours tell nothing of other GPUs
        known = [one for one in known if _carries(job, *one)] or known
    return min(known, key=order, default=None)


def _carries(job: Job, key: str, entry: RuntimeHours) -> bool:
    task, estimator = job.task, job.estimator
    if task is None or estimator is None or task.reference_open:
        return True
    return estimator.speed(task.workload, key, entry.gpus) is not None


def _exact(name: str, catalogue: Catalogue) -> str | None:
    """The part that hours given under *name* hold for; None where that is not said."""
    if catalogue.spec(name) is not None:
        return name
    reference = catalogue.reference(name)
    return None if reference is None else reference.gpu.key
