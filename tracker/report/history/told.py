"""A history with its figures: buckets, statistics, shares, and what a reader must know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.exact import plain
from tracker.domain.gpu import Catalogue
from tracker.domain.series_statistics import (
    Shares,
    Statistics,
    cheapest_shares,
    statistics,
    time_below,
)
from tracker.domain.texts import dollars
from tracker.report.ages import age_seconds
from tracker.report.cheapest import CheapestReport, Row
from tracker.report.dated import a_kind, whose
from tracker.report.history.answer import HistoryReport
from tracker.report.history.bucketed import Point, Stat, points
from tracker.report.history.steps import TIE, CostStep, series_of, step_at
from tracker.report.record import before_record, not_whole
from tracker.store.stored import StoredOffer

OVERALL = "cheapest of all"
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_MOSTLY = 0.9  # of the time compared
_NAMED = 5


class Group(NamedTuple):
    """One series. ``statistics`` are None where no complete bill is known; ``below`` where nobody
    asked. ``last`` is what its history says at the end, ``live`` what ``gpucost cheapest`` does."""

    name: str
    steps: Sequence[CostStep]
    points: Sequence[Point]
    statistics: Statistics | None
    below: timedelta | None
    last: CostStep | None
    live: Row | None

    @property
    def label(self) -> str:
        """Its name in a chart, with what must be known of all its figures."""
        bound = any(step.cost.line.lower_bound for step in self.steps)
        return f"{self.name} (at least)" if bound else self.name

    @property
    def now_usd(self) -> Decimal | None:
        """The bill at the end of the window: the live answer's, where there is one."""
        if self.live is not None:
            return self.live.bill.at_least_usd
        return None if self.last is None else self.last.usd

    @property
    def now_offer(self) -> StoredOffer | None:
        """Whose price that is."""
        if self.live is not None:
            return self.live.offer
        return None if self.last is None else self.last.offer

    @property
    def now_at_least(self) -> bool:
        """Whether that is only an "at least"."""
        if self.live is not None:
            return bool(self.live.bill.partial) or self.live.bill.lower_bound
        return self.last is not None and (self.last.cost.partial or self.last.cost.line.lower_bound)


class Told(NamedTuple):
    """The whole answer. ``live`` is there where the window ends now."""

    report: HistoryReport
    edges: Sequence[datetime]
    stat: Stat
    groups: Sequence[Group]
    overall: Group
    shares: Shares[str]
    live: CheapestReport | None

    def age_of(self, group: Group) -> int | None:
        """How many seconds old the price of *group* was at the end; None: not known."""
        offer = group.now_offer
        return None if offer is None else age_seconds(offer, self.report.end)

    def remarks(self) -> Iterator[str]:
        """What a reader of the figures must know."""
        yield from of_the_past(self.report)
        yield from whose(
            "Now by" if self.live is not None else "At the end by",
            [(one.name, one.now_offer) for one in self.groups if one.now_offer is not None],
        )
        yield from _of_shares(self.shares)
        if self.live is not None:
            yield from _of_now(self)


def told(
    report: HistoryReport, catalogue: Catalogue, edges: Sequence[datetime], stat: Stat,
    below: Decimal | None, live: CheapestReport | None,
) -> Told:  # fmt: skip
    """*report* with its figures. *live* is the answer of now to the same question."""
    rows = {} if live is None else _live_rows(report, live, catalogue)
    order = report.question.groups if report.question.per == "gpu" else ()
    names = [*order, *sorted((set(report.series) | set(rows)) - set(order))]

    def group(name: str, steps: Sequence[CostStep], row: Row | None) -> Group:
        series = series_of(steps)
        return Group(
            name, steps, points(steps, edges, stat), statistics(series),
            None if below is None else time_below(series, below),
            step_at(steps, report.end - _INSTANT), row,
        )  # fmt: skip

    groups = [group(name, report.series.get(name, ()), rows.get(name)) for name in names]
    first = live.rows[0] if live is not None and live.rows else None
    return Told(
        report, edges, stat, groups, group(OVERALL, report.overall, first),
        cheapest_shares({one.name: series_of(one.steps) for one in groups}, tolerance=TIE), live,
    )  # fmt: skip


def _live_rows(
    report: HistoryReport, live: CheapestReport, catalogue: Catalogue
) -> Mapping[str, Row]:
    """The first row of each group of the live answer."""
    from tracker.report.history.answer import names_of

    names = names_of(report.question, catalogue)
    found: dict[str, Row] = {}
    for row in (*live.rows, *live.best_by_gpu):
        for name in names(row.offer):
            found.setdefault(name, row)
    return found


def of_the_past(report: HistoryReport) -> Iterator[str]:
    """What a reader of any figure of *report* must know."""
    yield from _of_record(report)
    yield from typed_text(report)
    yield from _of_estimates(report)


def _of_record(report: HistoryReport) -> Iterator[str]:
    start = report.question.start
    yield from before_record(report.record, start)
    kept = not_whole(report.record, start)
    if report.spans_from is not None and kept is not None:
        yield f"These filters ask for single offers, and {kept}: before that is a gap."
    if report.replaced:
        yield (
            f"{report.replaced} imported or list prices gave way while their sellers answered"
            " themselves."
        )
    if report.ahead is not None:
        yield (
            f"The last poll is dated {report.ahead:%Y-%m-%d %H:%M} UTC, after now: check the clocks"
            " of this machine and of the one that polls."
        )
    partial = sum((s.end - s.start for s in report.overall if s.cost.partial), timedelta())
    if partial:
        yield (
            f"For {_days(partial)} only bills with an unknown part are known: they are shown as"
            " at least so much, and are in no statistics."
        )


def typed_text(report: HistoryReport) -> Iterator[str]:
    """For how long the cheapest of all was no live price."""
    typed = [step for step in report.overall if step.offer.valid_as_of is not None]
    if not typed:
        return
    known, by_list = (
        sum((step.end - step.start for step in some), timedelta())
        for some in (report.overall, typed)
    )
    part, whole = length_text(by_list), length_text(known)
    yield (
        f"For {'all' if part == whole else part} of the {whole} for which a price is known the"
        f" cheapest was {a_kind([step.offer for step in typed])}, not live."
    )


def _of_estimates(report: HistoryReport) -> Iterator[str]:
    used = report.estimates
    if report.question.estimates == "latest":
        return
    if used.first is not None and report.question.start < used.first:
        yield (
            f"Before {used.first:%Y-%m-%d %H:%M} UTC no estimate is on record: the oldest one"
            " stands for that time."
        )
    for moment in used.changes:
        yield f"The estimate changed on {moment:%Y-%m-%d %H:%M} UTC."


def _of_shares(shares: Shares[str]) -> Iterator[str]:
    """Of which series too little is known for the share of time in which it was the cheapest."""
    if len(shares.of) < 3:  # of two both are known whenever they are compared
        return
    short = [
        f"{name} only for {length_text(one.compared)}" if one.compared else f"{name} never"
        for name, one in sorted(shares.of.items(), key=lambda item: -item[1].alone)
        if one.compared < shares.compared * _MOSTLY
    ]
    if len(short) > _NAMED:  # those that were the cheapest for longest have come first
        short = [*short[:_NAMED], f"{len(short) - _NAMED} more for part"]
    if short:
        yield (
            f"Compared are the {length_text(shares.compared)} for which two or more are known:"
            f" {', '.join(short)}."
        )


def _of_now(answer: Told) -> Iterator[str]:
    for group in answer.groups:
        last = None if group.last is None else group.last.usd
        live = None if group.live is None else group.live.bill.at_least_usd
        if last != live:
            yield (
                f"{group.name}: by what was listed {_usd(last)} at the end, by what can be rented"
                f" now {_usd(live)}: history keeps neither stock nor hours that were never put on"
                " record."
            )


def length_text(length: timedelta) -> str:
    """A length of time in days, or hours below two of them, or minutes or seconds below one of
    those: only no time at all is 0."""
    if length >= 2 * _DAY:
        return f"{plain(Decimal(length // timedelta(hours=1)) / 24, 1)} days"
    if length >= timedelta(hours=1):
        return f"{plain(Decimal(length // timedelta(minutes=1)) / 60, 1)} h"
    if not length:
        return "0 h"
    if length >= timedelta(minutes=1):
        return f"{length // timedelta(minutes=1)} min"
    return f"{-(-length // timedelta(seconds=1))} s"


def _usd(value: Decimal | None) -> str:
    return "nothing" if value is None else dollars(value)


def _days(length: timedelta) -> str:
    days = length / timedelta(days=1)
    return f"{days:.0f} days" if days >= 2 else f"{length / timedelta(hours=1):.0f} hours"
