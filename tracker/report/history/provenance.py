"""What an estimate rests on, kept with it, and what of that has become another since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from tracker import __version__
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.domain.job_fields import plain
from tracker.domain.measurement import SOURCE
from tracker.domain.texts import figure

NOTICED = "noticed"  # by the daemon, on one of its looks
RECOMPUTED = "recomputed"  # because somebody asked

UNKNOWN = "not known: what it was made with is not on record"

_MEASURED = re.compile(r"measured on (\d{4}-\d{2}-\d{2}), version (\d+)")


def provenance(job: Job, gpu_key: str, catalogue: Catalogue, why: str) -> dict[str, Any]:
    """Plain values: by which gpucost, why, and digests of what the hours on *gpu_key* rest on.

    ``calibration`` is the digest of the fitted coefficients, ``catalogue`` has those of the figures
    of this GPU and of those that hours are given for, ``job`` is that of what the job says. Hours
    by GPU are in ``measurements`` and, those that the job gives, in ``hours``.
    """
    estimator = job.estimator
    stated = replace(job, hours={}, also_measured=(), title="", description="", estimator=None)
    return {
        "gpucost": __version__,
        "why": why,
        "calibration": None if estimator is None else estimator.calibration.version,
        "catalogue": {
            name: _digest(_figures(name, catalogue)) for name in (gpu_key, *sorted(job.hours))
        },
        "job": _digest((repr(stated),)),
        "measurements": {
            gpu: f"{figure(given.hours, 6)} h on {given.gpus}, {_version(given.note)}"
            for gpu, given in (
                *sorted(job.hours.items()),
                *((f"{gpu} x {given.gpus}", given) for gpu, given in sorted(job.also_measured)),
            )
            if given.source == SOURCE
        },
        "hours": {
            gpu: f"{plain(given.hours)} h on {given.gpus}, {given.basis}"
            for gpu, given in sorted(job.hours.items())
            if given.source != SOURCE
        },
    }


def causes(
    stored: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    ways: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> tuple[str, ...]:
    """What of an estimate's provenance is another *now*, in words.

    *ways* are those stored and those of now: all there is where no provenance was *stored*.
    """
    if stored is None:
        return tuple(_by_ways(*ways)) or (UNKNOWN,)
    return tuple(_apart(stored, now)) or (UNKNOWN,)


def _apart(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if stored["calibration"] != now["calibration"]:
        yield f"calibration {stored['calibration'] or 'none'} -> {now['calibration'] or 'none'}"
    before, after = stored["measurements"], now["measurements"]
    yield from _each("measurement on", before, after)
    # Hours of the job's own are out of sight while there is a measurement.
    seen = [{gpu: text for gpu, text in side["hours"].items() if gpu not in {*before, *after}}
            for side in (stored, now)]  # fmt: skip
    yield from _each("hours given for", *seen)
    figures, of_now = stored["catalogue"], now["catalogue"]
    for name in sorted(figures.keys() & of_now.keys()):
        if figures[name] != of_now[name]:
            yield f"catalogue: other figures of {name}"
    if stored["job"] != now["job"]:
        yield "the job says something else"
    if stored["gpucost"] != now["gpucost"]:
        yield f"gpucost {stored['gpucost']} -> {now['gpucost']}"


def _each(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for gpu in sorted({*before, *after}):
        was, is_ = before.get(gpu, "none"), after.get(gpu, "none")
        if was != is_:
            yield f"{what} {gpu}: {was} -> {is_}"


def _by_ways(
    stored: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """What the ways themselves tell of it."""
    before, after = ({way["version"] for way in ways if way["version"]} for ways in (stored, now))
    if before and after and before != after:
        yield f"calibration {', '.join(sorted(before))} -> {', '.join(sorted(after))}"
    measured = [set(_MEASURED.findall("; ".join(str(w["note"]) for w in ways)))
                for ways in (stored, now)]  # fmt: skip
    bases = [{way["basis"] for way in ways} & {"measured", "scaled"} for ways in (stored, now)]
    if measured[0] != measured[1] or bases[0] != bases[1]:
        yield "measurement"


def _version(note: str | None) -> str:
    found = _MEASURED.search(note or "")
    return f"version {found[2]} of {found[1]}" if found else "version not known"


def _figures(name: str, catalogue: Catalogue) -> Iterator[str]:
    """The figures of the part *name*; of every part of its family where it leaves that open."""
    one, family = catalogue.spec(name), name.split("-", 1)[0]
    for spec in [one] if one is not None else catalogue.specs():
        if spec.gpu.family == family:
            yield repr(spec)


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
