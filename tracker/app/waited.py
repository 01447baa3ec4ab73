"""Start a job now, or wait for a lower price? On an open database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.asked import BadQuestion
from tracker.app.windows import since_moment

if TYPE_CHECKING:
    import psycopg

    from tracker.app.root import App
    from tracker.domain.job import Job
    from tracker.report.filters import Filters
    from tracker.report.waiting import Waiting


class Waited(NamedTuple):
    """What was asked, and the answer; ``found`` is None where no complete bill is on record.

    ``begins``: when history does, where the window ends before.
    """

    job: Job
    filters: Filters
    end: datetime
    deadline: timedelta
    found: Waiting | None
    begins: str | None = None


def waiting_window(since: str, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    """The history to go by, from and until when. Raises BadQuestion."""
    end = now
    if until is not None:
        try:
            end = since_moment(until, now + timedelta(microseconds=1), now)
        except BadQuestion as error:
            raise BadQuestion("until", error.problem) from None
    return since_moment(since, end, now, until), end


def waited_on(
    connection: psycopg.Connection[Any], app: App, job: Job, filters: Filters,
    window: tuple[datetime, datetime, datetime], deadline: timedelta, *, hours_typed: bool,
) -> Waited:  # fmt: skip
    """The answer by the history of *window* (start, end, now). Raises BadQuestion where the
    deadline leaves no time to wait."""
    from tracker.app.questions import all_slices
    from tracker.report.health import check_providers, check_tiers
    from tracker.report.history.answer import Question, history_report
    from tracker.report.measured import measured
    from tracker.report.record import begins
    from tracker.report.waiting import NothingKnown, NoTimeToWait, waiting

    check_providers(connection, filters.providers)
    check_tiers(connection, filters.tiers)
    if not hours_typed:
        job = measured(connection, job)
    names = filters.gpus or (tuple(job.hours) if job.task is None else ())
    if all_slices(app, filters):
        filters = filters._replace(include_slices=True)
    start, end, now = window
    # One estimate for all of the past: what changed is the price, not what one knew of the job.
    question = Question(job, filters._replace(gpus=names), start, end, names, estimates="latest")
    report = history_report(connection, question, app.catalogue, now)
    found = None
    try:
        found = waiting(report, deadline)
    except NoTimeToWait as error:
        raise BadQuestion("deadline", str(error)) from None
    except NothingKnown:
        pass
    known = report.record
    before = begins(known) if known and known[0].at >= report.end else None
    return Waited(job, report.question.filters, report.end, deadline, found, before)
