"""The bills of a rule over the past, as straight lines in the price.

``job_costing`` makes every bill in full, with its lines and notes, and rows to be shown: the daemon
evaluates every few minutes, and has them looked at. A backtest asks for thousands of looks at much
the same offers, of which only the price changes, and needs of each bill what it comes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from tracker.alert.sides import Ask, Costing
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.rank import Standing
from tracker.report import costing
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters, Selection, leave_out_resold, reason_by
from tracker.report.history.lines import Line, cost_at, line_of
from tracker.report.needs import with_needs
from tracker.report.priced import candidate_of
from tracker.store.reads import StoredOffer

# Nothing that is asked here depends on the time: what is too old was set aside before.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class _Kept(NamedTuple):
    """An offer that the filters keep, whatever it costs: its ways to run the job as lines (none: it
    has no bill), or the reason why there are none; and what decides between equal bills."""

    lines: tuple[Line, ...]
    problem: str | None
    standing: Standing | None


class _Billed(NamedTuple):
    """A bill, and its place among others: as ``domain.rank.order`` has it."""

    order: tuple[Any, ...]
    ask: Ask


_Result: TypeAlias = _Billed | str | None


class _Made(NamedTuple):
    """What was made of an offer: while it is kept here, no other one has its ``id``."""

    offer: StoredOffer
    result: _Result


class PastBills:
    """What ``sides.job_costing`` says, of offers of the past under one set of discounts."""

    def __init__(self, catalogue: Catalogue, discounts: DiscountBook) -> None:
        self._catalogue, self._discounts = catalogue, discounts
        self._made: list[tuple[Job, costing.End | None, Costing]] = []

    def costing(self, job: Job, end: costing.End | None) -> Costing:
        """How *job* is costed, with estimates at that *end* of their range."""
        for known, at, made in self._made:
            if at == end and known == job:
                return made
        made = _Lines(job, end, self._catalogue, self._discounts).cost
        self._made.append((job, end, made))
        return made


class _Lines:
    """The bills of one job."""

    def __init__(
        self, job: Job, end: costing.End | None, catalogue: Catalogue, discounts: DiscountBook
    ) -> None:
        self._job, self._catalogue, self._discounts = job, catalogue, discounts
        self._costing = costing.Costing(job, catalogue, discounts, end)
        self._kept: dict[Filters, dict[tuple[int, str], _Kept | str]] = {}
        self._reasons: dict[Filters, Callable[[StoredOffer], str | None]] = {}
        self._lines: dict[tuple[Any, ...], tuple[Line, ...]] = {}
        self._made: dict[int, _Made] = {}

    def cost(
        self, offers: Sequence[StoredOffer], filters: Filters
    ) -> tuple[list[Ask], Counter[str]]:
        """The bills of *offers*, cheapest first, and the reasons of those that have none."""
        known = self._kept.setdefault(filters, {})
        selection = Selection()
        for o in offers:
            name = o.offer_id, o.source  # an import's and the seller's own may differ in that
            kept = known.get(name)
            if kept is None:
                kept = known[name] = self._keep(o, filters)
            if isinstance(kept, str):
                selection.excluded[kept] += 1
            else:
                selection.kept.append(o)
        leave_out_resold(selection, _ANY_TIME)
        found = list[_Billed]()
        for o in selection.kept:
            one = self._billed(o, known)
            if isinstance(one, str):
                selection.excluded[one] += 1
            elif one is not None:
                found.append(one)
        found.sort(key=itemgetter(0))
        return [one.ask for one in found], selection.excluded

    def _billed(self, o: StoredOffer, known: dict[tuple[int, str], _Kept | str]) -> _Result:
        """The bill of an offer that the filters keep; or why it has none, None without a reason."""
        made = self._made.get(id(o))
        if made is not None and made.offer is o:
            return made.result
        kept = known[o.offer_id, o.source]
        assert not isinstance(kept, str)  # noqa: S101 - those are not in the selection
        result: _Result = kept.problem
        best = cost_at(o, kept.lines)
        if best is not None:
            line = best.line
            order = bool(line.partial), best.usd, line.lower_bound, kept.standing
            result = _Billed(order, Ask(o, best.usd, None, line.partial, line.lower_bound))
        self._made[id(o)] = _Made(o, result)
        return result

    def _keep(self, o: StoredOffer, filters: Filters) -> _Kept | str:
        reason_of = self._reasons.get(filters)
        if reason_of is None:
            asked = with_needs(filters, self._job)
            reason_of = self._reasons[filters] = reason_by(asked, self._catalogue, _ANY_TIME)
        reason = reason_of(o)
        if reason is not None:
            return reason
        ways = self._costing.ways_on(o)
        if isinstance(ways, NoEstimate):
            return _Kept((), ways.short, None)
        problem = costing.no_way(o, self._job, ways)
        if problem is not None:
            return _Kept((), problem, None)
        standing = candidate_of(o, ways[0], self._discounts).standing
        return _Kept(self._lines_of(o, ways), None, standing)

    def _lines_of(self, o: StoredOffer, ways: tuple[RuntimeEstimate, ...]) -> tuple[Line, ...]:
        alike = (
            o.gpu_key, o.gpu_count, o.is_slice, *costing.apart(o, self._job), o.market,
            o.price_unit, o.billing_increment_seconds, o.minimum_seconds, o.commitment_hours,
            o.commitment_unknown, o.disk_included_gb, o.disk_usd_per_gb_hour, o.egress_usd_per_gb,
            self._discounts.percent_for(o),
        )  # fmt: skip
        lines = self._lines.get(alike)
        if lines is None:
            found = (line_of(o, way, self._job, self._discounts) for way in ways)
            lines = self._lines[alike] = tuple(line for line in found if line is not None)
        return lines
