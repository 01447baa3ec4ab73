"""What ``gpucost jobs`` knows of a user's own: the jobs that are kept, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tracker.app import App, job_names, kept
from tracker.app.jobs import to_keep
from tracker.cli import render
from tracker.cli.exits import EXIT_USAGE, Exit
from tracker.domain.job import Job, JobError, RuntimeEstimate

if TYPE_CHECKING:
    from tracker.report.estimates import OnGpu

MOST_GPUS = 64  # 8 machines of 8, the most that answers try


def add(app: App, references: Sequence[str], name: str | None, *, replace: bool) -> Iterable[str]:
    """Keep the jobs at *references*; none where one of them cannot be used. Raises Exit."""
    if name is not None and len(references) > 1:
        raise Exit(EXIT_USAGE, "--name: is of one job; add them one by one")
    try:
        found = [to_keep(reference, app, name) for reference in references]
        twice = [one.job.name for one in found if [o.path for o in found].count(one.path) > 1]
        if twice:
            raise JobError(f"{twice[0]}: two of the files have this name")
        taken = [one.job.name for one in found if one.path.exists()]
        if taken and not replace:
            raise JobError(kept.already(taken[0]))
        for one in found:
            kept.write(one.text, one.path, replace=replace)
            yield f"{one.job.name}: kept in {one.path}; gpucost cheapest {one.job.name} asks for it"
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def remove(app: App, names: Sequence[str]) -> Iterable[str]:
    """Forget the jobs kept under *names*. Raises Exit."""
    import difflib

    known = kept.names(app)
    for name in names:
        if name in known:
            continue
        if name in job_names():
            raise Exit(EXIT_USAGE, f"{name} is a built-in job and stays")
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        there = f"did you mean {near[0]}?" if near else f"kept: {', '.join(known) or 'none'}"
        raise Exit(EXIT_USAGE, f"no job is kept under the name {name!r}; {there}")
    for name in dict.fromkeys(names):
        try:
            yield f"{name}: removed ({kept.remove(name, app)}); what was measured of it stays"
        except JobError as error:
            raise Exit(EXIT_USAGE, str(error)) from None


def measured_lines(job: Job, values: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """GPU, and what was measured on it: hours, of a service what it does a second."""
    service = job.task is not None and job.task.service_hours is not None
    for one in values:
        date = f"{one['measured_at']:%Y-%m-%d}"
        took = f"{one['per_second']:,} {one['unit']}/s" if service else f"{one['hours']:,} h"
        text = f"{took} on {one['gpus']}, version {one['version']} of {date}"
        text += "" if one["in_force"] else ", no longer in force"
        yield one["gpu"], text + (f"; {one['note']}" if one["note"] else "")


def nowhere(app: App, job: Job) -> str | None:
    """Why *job* runs on no GPU that is known; None: it does on one."""
    from tracker.report.estimates import estimates

    keys = [part.gpu.key for part in app.catalogue.specs() if _large_enough(part.gpu.vram_gb, job)]
    if not keys:
        return f"no known GPU has {job.min_vram_gb} GB"
    found = estimates(job, keys, app.catalogue)
    pinned = job.count_given or job.gpus_needed > 1
    if any(
        isinstance(on.hours, RuntimeEstimate) or (not pinned and _on_several(on)) for on in found
    ):
        return None
    smallest = min(found, key=_most_memory)
    reason = "" if isinstance(smallest.hours, RuntimeEstimate) else smallest.hours.reason
    kinds = render.counted(len(found), "known kind")
    many = f"on {job.gpus_needed} of them" if pinned else "however many"
    return f"it runs on no GPU of {kinds}, {many}: {reason}"


def _on_several(on: OnGpu) -> bool:
    """Whether more GPUs than were tried would do, on machines of 8 of them."""
    from tracker.domain.runtime.types import DoesNotFit, NotPossible

    if isinstance(on.answer, DoesNotFit):
        return on.answer.smallest_count is not None and on.answer.smallest_count <= MOST_GPUS
    return isinstance(on.answer, NotPossible) and on.answer.gpus_needed is not None


def _large_enough(vram_gb: int | None, job: Job) -> bool:
    return job.min_vram_gb is None or (vram_gb is not None and vram_gb >= job.min_vram_gb)


def _most_memory(on: OnGpu) -> tuple[float, str]:
    """Those with the most memory first: what they lack is lacking most."""
    from tracker.domain.runtime.types import DoesNotFit

    return -(on.answer.have_gib if isinstance(on.answer, DoesNotFit) else 0.0), on.gpu
