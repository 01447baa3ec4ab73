"""``gpucost compare --since``: two GPUs over time, read from history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tracker.app import App

if TYPE_CHECKING:
    import psycopg

    from tracker.domain.job import Job
    from tracker.report.filters import Filters
    from tracker.report.history.versus import Versus


def over_time(
    connection: psycopg.Connection[Any], app: App, job: Job, names: tuple[str, str],
    filters: Filters, options: dict[str, Any],
) -> Versus:  # fmt: skip
    """The two GPUs since the time that the options name. Raises click.UsageError."""
    from tracker.cli.window import since
    from tracker.report.history.answer import Question, history_report
    from tracker.report.history.versus import versus
    from tracker.report.measured import measured

    now = datetime.now(UTC)
    end = options["as_of"] or now
    if not options["hours_texts"]:
        job = measured(connection, job)
    question = Question(
        job, filters._replace(gpus=names), since(options["since"], end, now), end, names,
        estimates="latest" if options["hours_texts"] else options["estimates"],
    )  # fmt: skip
    report = history_report(connection, question, app.catalogue, now)
    return versus(report, *names)
