"""gpucost from Python: ``gpucost.open()`` and what can be asked. See docs/python.md."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Unpack

from tracker.app.library_types import (
    Asked,
    BadQuestion,
    Cheapest,
    Comparison,
    Estimate,
    GpucostError,
    History,
    Moment,
    Point,
    Series,
    Unavailable,
    Way,
    Words,
)

if TYPE_CHECKING:
    from tracker.app.answers import Answers, Question
    from tracker.report.cheapest import Row
    from tracker.report.history.told import Group

_MOST_BITS = 1000  # of a whole number: no text may be made of much larger ones


def open(
    config: str | os.PathLike[str] | None = None, *, env: Mapping[str, str] | None = None
) -> Prices:
    """The prices that the configuration leads to; nothing is opened before something is asked.

    *config* is a gpucost.toml in the place of the one that is found, *env* variables in the place
    of the process's own. Raises BadQuestion where the configuration is wrong.
    """
    from tracker.app.answers import Answers
    from tracker.app.root import App

    app = App(None if config is None else os.fspath(config), env)
    with _errors():
        _ = app.boot
    return Prices(Answers(app, files=True))


class Prices:
    """Answers questions; each reads one state of the database. Threads may share one object.

    Parameters are the command line's, ``_`` in the place of ``-``. All methods raise BadQuestion
    for what makes no sense and Unavailable where there is nothing to answer from.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def cheapest(
        self, job: str | None = None, *, goal: str = "cheapest", top: int = 10,
        **asked: Unpack[Asked],
    ) -> Cheapest:  # fmt: skip
        """The cheapest ways to run *job*: a built-in or kept job's name, a job file, or *hours*.

        Nothing that matches is no error: there are no ``ways`` then, and ``excluded`` says why.
        """
        from tracker.report.shapes import words

        with _errors():
            question = _question("cheapest", asked, job=job, goal=goal, top=top)
            report = self._answers.cheapest(question)
        return Cheapest(
            report.now, words.sentence(report) if report.rows else None,
            tuple(_way(row, report.now) for row in report.rows), report.considered,
            dict(report.excluded), tuple(words.remarks(report)), report.only_stale,
        )  # fmt: skip

    def history(
        self, job: str | None = None, *, since: Moment = "90d", until: Moment | None = None,
        bucket: str | None = None, tz: str = "UTC", per: str = "gpu", stat: str = "min",
        **asked: Unpack[Asked],
    ) -> History:  # fmt: skip
        """What the cheapest way to run *job* cost over time, in buckets; gaps stay gaps."""
        from tracker.report.shapes import history

        with _errors():
            question = _question(
                "history", asked, job=job, since=since, until=until, bucket=bucket, tz=tz, per=per,
                stat=stat,
            )  # fmt: skip
            told = self._answers.history(question).told
        report = told.report
        return History(
            report.now, history.sentence(told), report.question.start, report.end,
            tuple(map(_series, told.groups)), _series(told.overall), report.begins_at,
            dict(report.excluded), tuple(told.remarks()),
        )  # fmt: skip

    def estimate(
        self, job: str, *, gpu: Words | None = None, gpus: int | None = None, prices: bool = True
    ) -> tuple[Estimate, ...]:
        """How long *job* takes on each GPU, the fastest first, with its cheapest offer.

        Without *prices* no database is needed.
        """
        with _errors():
            question = _question("estimate", {}, job=job, gpu=gpu, gpus=gpus, prices=prices)
            found = self._answers.estimate(question).found
        return tuple(_estimate(on, question.now) for on in found)

    def compare(
        self, left: str, right: str, job: str | None = None, **asked: Unpack[Asked]
    ) -> Comparison:
        """One GPU against another for *job*: which, and up to what price."""
        from tracker.report.shapes import compared

        with _errors():
            question = _question("compare", asked, left=left, right=right, job=job)
            report = self._answers.compare(question)
        found, now = report.compared, report.left.now
        remarks = tuple(compared.remarks(report))
        if found is None:
            one_way, other_way = (
                _way(side.rows[0], now) if side.rows else None
                for side in (report.left, report.right)
            )
            return Comparison(now, None, None, one_way, other_way, None, False, (), remarks)
        one, other = compared.rows(report)
        return Comparison(
            now, compared.verdict(found), str(found.winner), _way(one, now), _way(other, now),
            found.break_even.per_gpu.usd if found.break_even else None, found.break_even_unknown,
            found.unknown, remarks,
        )  # fmt: skip


# -- what is asked -------------------------------------------------------------------------------


def _question(name: str, asked: Mapping[str, Any], **more: object) -> Question:
    """Raises BadQuestion, of the answers or of the library."""
    from tracker.app.answers import Question

    given = {**asked, **more}
    for key, value in given.items():
        _exact(key, value)
    given["hours"] = _hours(given.get("hours"))
    return Question.of(name, **{key: value for key, value in given.items() if value is not None})


def _hours(hours: object) -> Sequence[str] | None:
    if hours is None:
        return None
    if not isinstance(hours, Mapping) or not hours:
        raise BadQuestion("hours: must map GPUs to hours: {'A100': 12, 'H100': 4}")
    for gpu, amount in hours.items():
        _exact(f"hours of {gpu}", amount)
        if any(sign in str(part) for part in (gpu, amount) for sign in ",="):
            raise BadQuestion(f"hours: {gpu!r}: {amount!r} must be one GPU and its hours")
    return [f"{gpu}={amount}" for gpu, amount in hours.items()]


def _exact(name: str, value: object) -> None:
    if isinstance(value, float):
        raise BadQuestion(f"{name}: {value!r} is a float, which is not exact; say '{value}'")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # no text may be made of some
        raise BadQuestion(f"{name}: is too large a number")


@contextmanager
def _errors() -> Iterator[None]:
    """What the layers below raise on purpose, as the library's own."""
    from tracker.app import asked
    from tracker.app.root import NothingRecorded
    from tracker.domain.gpu import UnknownGpu
    from tracker.domain.job import JobError
    from tracker.registry import BrokenProvider, UnknownProvider
    from tracker.settings import SettingsError
    from tracker.store.errors import StoreError

    try:
        yield
    except GpucostError:
        raise
    except (
        asked.BadQuestion, JobError, UnknownGpu, UnknownProvider, BrokenProvider, SettingsError
    ) as error:  # fmt: skip
        raise BadQuestion(str(error)) from error
    except NothingRecorded as error:
        raise Unavailable("no prices yet; ask for some with: gpucost poll") from error
    except StoreError as error:
        raise Unavailable(str(error)) from error


# -- what is answered ----------------------------------------------------------------------------


def _way(row: Row, now: datetime) -> Way:
    from tracker.report.ages import age_of, known_at
    from tracker.report.shapes.rows import ref

    offer, bill = row.offer, row.bill
    return Way(
        rank=row.rank, offer=ref(offer.key), gpu=offer.gpu_key,
        gpus_per_machine=Decimal(offer.gpu_count), machines=bill.machines,
        provider=offer.provider, source=offer.source, region=offer.region, tier=offer.tier,
        market=str(offer.market), total_usd=bill.total_usd, at_least_usd=bill.at_least_usd,
        partial=tuple(bill.partial), lower_bound=bill.lower_bound, low_usd=row.low_usd,
        high_usd=row.high_usd, price_usd_per_gpu_hour=bill.price.per_gpu(bill.gpu_count).usd,
        price_usd_per_machine_hour=bill.price.usd, runtime_hours=bill.runtime_hours,
        billed_hours=bill.billed_hours, done_hours=row.done_hours, basis=str(bill.basis),
        seen_at=known_at(offer), age=age_of(offer, now), stale=row.stale,
    )  # fmt: skip


def _series(group: Group) -> Series:
    from datetime import timedelta

    found = group.statistics
    points = []
    for point in group.points:
        best, bucket = point.best, point.bucket
        points.append(Point(
            bucket.start, bucket.end, point.usd, bucket.low, bucket.high, bucket.known,
            best.offer.gpu_key if best else None, best.offer.provider if best else None,
            str(best.cost.line.estimate.basis) if best else None,
            best.offer.source if best else None, best.offer.valid_as_of if best else None,
        ))  # fmt: skip
    return Series(
        group.name, tuple(points), group.now_usd,
        *((found.low, found.median, found.high, found.known) if found
          else (None, None, None, timedelta(0))),
    )  # fmt: skip


def _estimate(on: Any, now: datetime) -> Estimate:
    from tracker.domain.job import NoEstimate

    way = None if on.row is None else _way(on.row, now)
    if isinstance(on.hours, NoEstimate):
        return Estimate(on.gpu, on.gpus, None, None, None, False, None, None, on.hours.reason, way)
    hours = on.hours
    return Estimate(
        on.gpu, on.gpus, hours.hours, hours.low_hours, hours.high_hours, hours.lower_bound,
        str(hours.basis), hours.source, None, way,
    )  # fmt: skip
