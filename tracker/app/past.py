"""Answers about the past, on an open database: a job's cost over time, two GPUs over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tracker.app.windows import Window, since_moment

if TYPE_CHECKING:
    import psycopg

    from tracker.app.root import App
    from tracker.domain.job import Job
    from tracker.report.cheapest import CheapestReport
    from tracker.report.filters import Filters
    from tracker.report.history.answer import EstimateVersion
    from tracker.report.history.told import Told
    from tracker.report.history.versus import Versus

# What is only known for now; in a question about the past nobody asks for it.
NOW_ONLY: Mapping[str, Any] = {
    "min_network": None, "available": False, "max_age": None, "include_stale": False, "as_of": None,
}  # fmt: skip


def history_on(
    connection: psycopg.Connection[Any], app: App, job: Job, filters: Filters, window: Window,
    options: Mapping[str, Any], now: datetime,
) -> Told:  # fmt: skip
    """The answer from what an open database holds, with the live one where the window ends now."""
    from tracker.report.health import check_providers, check_tiers
    from tracker.report.history.answer import Question, history_report
    from tracker.report.history.bucketed import Stat
    from tracker.report.history.told import told
    from tracker.report.measured import measured

    check_providers(connection, filters.providers)
    check_tiers(connection, filters.tiers)
    if not options["hours_texts"]:
        job = measured(connection, job)
    names = filters.gpus or (own_groups(app, job) if job.task is None else ())
    filters = slices_named(app, filters)
    question = Question(
        job, filters._replace(gpus=names), window.start, window.end,
        groups=names, per=options["per"],
        estimates=_estimates(job, options),
    )  # fmt: skip
    report = history_report(connection, question, app.catalogue, now)
    live = None
    if window.end == now:
        live = _live(connection, app, job, filters, options, names)
    return told(report, app.catalogue, window.edges, Stat(options["stat"]), options["below"], live)


def own_groups(app: App, job: Job) -> tuple[str, ...]:
    """The GPUs that *job* has hours for, but those that are within another one of them.

    With a run measured on an H100 SXM beside hours for "H100" the SXM would be in two series: each
    would tie with the other, and neither would ever be the cheapest.
    """
    keys = {name: app.catalogue.select(name) for name in job.hours}
    return tuple(
        name for name, own in keys.items() if not any(own < others for others in keys.values())
    )


def slices_named(app: App, filters: Filters) -> Filters:
    """*filters* of past prices, with slices where nothing else is named: as in the live answer."""
    from tracker.app.questions import all_slices

    return filters._replace(include_slices=True) if all_slices(app, filters) else filters


def _live(
    connection: psycopg.Connection[Any], app: App, job: Job, filters: Filters,
    options: Mapping[str, Any], names: tuple[str, ...],
) -> CheapestReport:  # fmt: skip
    """The answer of ``gpucost cheapest`` to the same question, with the best of each group.

    That has the best of each family anyway; for other groups every offer is billed.
    """
    from tracker.app.questions import answer_on

    every = options["per"] != "gpu" or not all(_is_family(app, name) for name in names)
    asked = {**options, **NOW_ONLY, "compare": None, "show_all": every, "top": 1}
    return answer_on(connection, app, job, filters, asked)


def _is_family(app: App, name: str) -> bool:
    keys = app.catalogue.select(name)
    families = {key.split("-", 1)[0] for key in keys}
    return len(families) == 1 and keys == app.catalogue.select(families.pop())


def _estimates(job: Job, options: Mapping[str, Any]) -> EstimateVersion:
    """What is on record is of the job as it is: one that the options change has no versions."""
    counted = options["gpus"] is not None and job.task is not None
    if options["hours_texts"] or options.get("deadline") is not None or counted:
        return "latest"
    version: EstimateVersion = options["estimates"]
    return version


def versus_on(
    connection: psycopg.Connection[Any], app: App, job: Job, names: tuple[str, str],
    filters: Filters, options: Mapping[str, Any],
) -> Versus:  # fmt: skip
    """The two GPUs since the time that the options name. Raises BadQuestion."""
    from tracker.report.history.answer import Question, history_report
    from tracker.report.history.versus import versus
    from tracker.report.measured import measured

    now = datetime.now(UTC)
    end = options["as_of"] or now
    if not options["hours_texts"]:
        job = measured(connection, job)
    # Each side is a question of its own in the live answer: slices may be one of them.
    slices = any(slices_named(app, filters._replace(gpus=(n,))).include_slices for n in names)
    start = since_moment(options["since"], end, now)
    question = Question(
        job, filters._replace(gpus=names, include_slices=slices), start, end, names,
        estimates=_estimates(job, options),
    )  # fmt: skip
    report = history_report(connection, question, app.catalogue, now)
    return versus(report, *names)
