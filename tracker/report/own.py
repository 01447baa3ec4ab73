"""Buying a machine for a job against renting the cheapest that does the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.cost import Bill, bill
from tracker.domain.energy import HOST, HOST_HIGH, HOST_LOW, LOAD_SHARE, Load, co2_kg
from tracker.domain.exact import EXACT, MICRO_USD, BadFigure, plain, ratio_up
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.owned import check_watts
from tracker.domain.ownership import (
    BuyOrRent,
    Purchase,
    against_rent,
    owned_inputs,
    plausible_price,
    used_evenly,
)
from tracker.domain.recurring import MonthBill, Recurring, month_bill
from tracker.report.cheapest import CheapestReport, Row
from tracker.report.costing import ways_on
from tracker.store.reads import TERM_MARKETS

_ONE, _KILO = Decimal(1), Decimal(1000)
_PART = Decimal("1e-12")  # what a division may lose
_LEAST_USE = Decimal("4e-7")  # of a month: a second of it

Span = tuple[Decimal, Decimal]
# By (sold by the month, of the machine's own GPU); None: nobody asks for such.
Look = Callable[[bool, bool], CheapestReport | None]


class Verdict(StrEnum):
    """What is the cheaper one over the whole range of either."""

    BUY = "buy"
    RENT = "rent"
    TIE = "tie"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wish:
    """A machine one thinks of buying: *gpus* of *gpu*, for the whole machine in USD and watts.

    ``watts`` None: by the TDP. The use is ``runs`` of the job a month, or a ``utilisation`` in
    (0, 1]; with neither it is all the time.
    """

    gpu: str
    gpus: int
    price_usd: Decimal
    usd_per_kwh: Decimal
    term_months: int
    resale_usd: Decimal = Decimal(0)
    pue: Decimal | None = None
    watts: Decimal | None = None
    idle_watts: Decimal | None = None
    hosting_usd_per_month: Decimal = Decimal(0)
    utilisation: Decimal | None = None
    runs: Decimal | None = None
    grid_g_per_kwh: Decimal | None = None


class Work(NamedTuple):
    """What the machine of ``gpu`` does: ``copies`` of the job side by side, each on
    ``estimate.gpus`` of them, ``hours`` a run with its set-up, ``runs`` a month."""

    gpu: str
    estimate: RuntimeEstimate
    copies: int
    hours: Decimal
    runs: Decimal
    utilisation: Decimal

    def runs_at(self, hours: Decimal | None) -> Decimal:
        """The runs in the same hours of the machine, if a run took *hours* of running."""
        if hours is None or hours == self.estimate.hours:
            return self.runs
        return ratio_up(EXACT.multiply(self.runs, self.estimate.hours), hours)


class Rented(NamedTuple):
    """A way to rent the same work. ``month`` is its month's bill, between ``low_usd`` and
    ``high_usd``; ``found`` is the purchase against it, and in ``early`` and ``late`` at the best
    and the worst for buying. ``by_the_month``: paid for whether it is used or not."""

    row: Row
    by_the_month: bool
    month: MonthBill
    low_usd: Decimal
    high_usd: Decimal
    found: BuyOrRent
    early: BuyOrRent
    late: BuyOrRent
    verdict: Verdict


class OwnReport(NamedTuple):
    """``rented``: the cheapest of all, then that of the machine's own GPU where it is another one.

    ``kwh_per_month`` with the host and, where the PUE is given, the building; ``co2_kg_per_month``
    where the grid's factor is. ``sides`` are the answers looked at, for what they left out.
    """

    wish: Wish
    purchase: Purchase
    work: Work
    rented: tuple[Rented, ...]
    kwh_per_month: Decimal
    co2_kg_per_month: Decimal | None
    own_low_usd: Decimal
    own_high_usd: Decimal
    sides: tuple[CheapestReport, ...]
    committed_longer: int
    assumptions: tuple[str, ...]

    @property
    def only_stale(self) -> bool:
        """Nothing fresh can be rented, but something stale."""
        return not self.rented and any(side.only_stale for side in self.sides)


def own_report(wish: Wish, job: Job, catalogue: Catalogue, look: Look) -> OwnReport:
    """*wish* against what *look* finds to rent for *job*.

    *look* answers for offers by the hour (best first) and, all of them, for those by the month.
    Raises BadFigure for what cannot be, or is implausible; the message names the option.
    """
    work = _work(wish, job, catalogue)
    load = load_of(job)
    points = [_purchase(wish, work, catalogue, LOAD_SHARE[load] * host) for host in _hosts(wish)]
    low, purchase, high = points[0], points[len(points) // 2], points[-1]
    rented: list[Rented] = []
    sides: list[CheapestReport] = []
    longest = wish.term_months * HOURS_PER_MONTH
    longer: set[bytes] = set()
    for same in (False, True):
        by_use, by_month = look(False, same), look(True, same)
        sides += [side for side in (by_use, by_month) if side is not None]
        months = by_month.rows if by_month is not None else ()
        longer |= {r.offer.key for r in months if (r.offer.commitment_hours or 0) > longest}
        rows = [*(by_use.rows[:1] if by_use is not None else ()),
                *(row for row in months if row.offer.key not in longer)]  # fmt: skip
        found = _cheapest(rows, job, work, (low, purchase, high))
        if found is not None and found.row.offer.key not in {r.row.offer.key for r in rented}:
            rented.append(found)
    with localcontext(EXACT):
        watts = purchase.watts * work.utilisation + purchase.idle_watts * (1 - work.utilisation)
        kwh = watts * HOURS_PER_MONTH * purchase.pue / _KILO
    return OwnReport(
        wish, purchase, work, tuple(rented), kwh, co2_kg(kwh, wish.grid_g_per_kwh),
        against_rent(low, Decimal(0)).own_usd, against_rent(high, Decimal(0)).own_usd,
        tuple(sides), len(longer),
        (*_assumptions(wish, work, job), *_beyond_the_term(wish, rented)),
    )  # fmt: skip


# --- the machine ----------------------------------------------------------------------------


def _work(wish: Wish, job: Job, catalogue: Catalogue) -> Work:
    """The way to run *job* on the machine by which it does most of it."""
    ways = ways_on(job, wish.gpu, wish.gpus, catalogue)
    if isinstance(ways, NoEstimate):
        raise BadFigure(f"{job.name} on {wish.gpus} x {wish.gpu}: {ways.reason}")
    inside = [way for way in ways if _gpus(way, job) <= wish.gpus]
    if not inside:
        least = min(_gpus(way, job) for way in ways)
        raise BadFigure(
            f"--count: {job.name} takes {least} x {wish.gpu}, and the machine has {wish.gpus}"
        )
    found = []
    for way in inside:
        copies = wish.gpus // _gpus(way, job)
        run = bill(owned_inputs(_gpus(way, job), PerMachineHour(_ONE)), job, way)
        if isinstance(run, Bill):
            found.append((ratio_up(run.billed_hours, Decimal(copies)), copies, run, way))
    if not found:
        raise BadFigure(f"{job.name} has no hours on {wish.gpu}")
    each, copies, run, way = min(found, key=lambda f: (f[0], f[1]))
    # ``each``: hours of the whole machine that a run takes
    runs = wish.runs
    if runs is None and wish.utilisation is None and job.limits is not None:
        most = job.limits.runs_per_month
        runs = None if most is None else Decimal(most)
    if runs is not None:
        use = ratio_up(EXACT.multiply(runs, each), HOURS_PER_MONTH)
        if use > _ONE + _PART:
            raise BadFigure(
                f"{plain(runs)} runs a month take {plain(use * 100, 1)} % of the machine's time; "
                "one machine is too little"
            )
        use = min(use, _ONE)
    else:
        use = _ONE if wish.utilisation is None else wish.utilisation
        runs = ratio_up(EXACT.multiply(use, HOURS_PER_MONTH), each)
    if use < _LEAST_USE:
        option = "--utilisation" if wish.runs is None else "--runs"
        raise BadFigure(f"{option}: a machine used for less than a second in a month never pays")
    return Work(wish.gpu, way, copies, run.billed_hours, runs, use)


def _gpus(way: RuntimeEstimate, job: Job) -> int:
    return max(way.gpus, job.gpus_needed)


def load_of(job: Job) -> Load:
    """What the GPUs are busy with: decoding for text that is generated, else as in training."""
    if job.task is None:
        return Load.TRAINING
    from tracker.domain.runtime.types import Inference

    return Load.DECODE if isinstance(job.task.workload, Inference) else Load.TRAINING


def _hosts(wish: Wish) -> tuple[Decimal, ...]:
    """What the host adds: its range where nobody measured the machine."""
    return (HOST_LOW, HOST, HOST_HIGH) if wish.watts is None else (_ONE,)


def _purchase(wish: Wish, work: Work, catalogue: Catalogue, of_tdp: Decimal) -> Purchase:
    spec, gpu = catalogue.spec(wish.gpu), catalogue.gpu(wish.gpu)
    tdp = spec.tdp_w if spec is not None else None
    if gpu is not None:
        band = plausible_price(wish.price_usd, wish.gpus, catalogue.band(gpu.family, "on_demand"))
        if band is not None:
            raise BadFigure(
                f"--price: ${wish.price_usd:,f} for a machine with {wish.gpus} x {wish.gpu} is "
                f"implausible (expected ${band[0]:,.0f} to ${band[1]:,.0f} for each GPU); dollars "
                "of the whole machine are asked for"
            )
    if wish.watts is not None:
        check_watts(wish.watts, tdp, wish.gpus)
        watts = wish.watts
    elif tdp is None:
        raise BadFigure(f"--watts: no source gives the power of {wish.gpu}; give the machine's")
    else:
        with localcontext(EXACT):
            watts = tdp * of_tdp * wish.gpus
    return Purchase(
        price_usd=wish.price_usd, gpus=wish.gpus, watts=watts, usd_per_kwh=wish.usd_per_kwh,
        term_months=wish.term_months, resale_usd=wish.resale_usd,
        idle_watts=wish.idle_watts or Decimal(0), pue=_ONE if wish.pue is None else wish.pue,
        hosting_usd_per_month=wish.hosting_usd_per_month, utilisation=work.utilisation,
    )  # fmt: skip


def _assumptions(wish: Wish, work: Work, job: Job) -> Iterator[str]:
    if wish.watts is None:
        share = plain(LOAD_SHARE[load_of(job)])
        yield (
            f"--watts not given: {share} of the TDP, and {plain(100 * HOST_LOW - 100)} to "
            f"{plain(100 * HOST_HIGH - 100)} % on top for the host"
        )
    if wish.pue is None:
        yield "--pue not given: cooling is not in it"
    if wish.idle_watts is None and work.utilisation < 1:
        yield "--idle-watts not given: taken as switched off while it is not used"
    if not wish.resale_usd:
        yield "--resale not given: worth nothing at the end of the term"
    if not wish.hosting_usd_per_month:
        yield "--hosting not given: space, network and hands cost nothing"
    if wish.runs is None and wish.utilisation is None:
        monthly = job.limits is not None and job.limits.runs_per_month
        if not monthly:
            yield "--utilisation not given: used all the time"
    if work.copies > 1:
        yield f"{work.copies} runs side by side, on {_gpus(work.estimate, job)} of its GPUs each"
    if work.estimate.lower_bound:
        yield "a run takes at least so long on the machine: it may do less than is rented here"
    yield "nothing is discounted, and rents are taken to stay as they are"


def _beyond_the_term(wish: Wish, rented: Iterable[Rented]) -> Iterator[str]:
    """Of commitments that do not end with the term: what is still owed then is in no sum."""
    term = wish.term_months * HOURS_PER_MONTH
    for one in rented:
        hours = one.row.offer.commitment_hours or 0
        begun = term % hours if one.by_the_month else 0
        if begun:
            each, over = (plain(h / HOURS_PER_MONTH, 1) for h in (hours, hours - begun))
            yield (
                f"{one.row.offer.provider} is rented for {each} months at a time: {over} months "
                "beyond the term are not counted"
            )


# --- rents ----------------------------------------------------------------------------------


def _cheapest(
    rows: Iterable[Row], job: Job, work: Work, points: tuple[Purchase, Purchase, Purchase]
) -> Rented | None:
    """The way with the least rent of a month; one that is not fully known only if no other is."""
    best: tuple[tuple[bool, Decimal, bool], Row, MonthBill] | None = None
    for row in rows:
        month = _month(row, job, work.runs)
        order = bool(month.partial), month.at_least_usd, row.offer.market in TERM_MARKETS
        if best is None or order < best[0]:
            best = order, row, month
    return None if best is None else _against(best[1], best[2], job, work, points)


def _month(row: Row, job: Job, runs: Decimal) -> MonthBill:
    hours = row.offer.commitment_hours or 0
    return month_bill([Recurring(job.name, runs, row.bill, row.offer.key, hours)])


def _against(
    row: Row, month: MonthBill, job: Job, work: Work, points: tuple[Purchase, Purchase, Purchase]
) -> Rented:
    low_point, point, high_point = points
    by_the_month = (row.offer.commitment_hours or 0) >= HOURS_PER_MONTH
    low, high = _range(row, month, job, work, by_the_month)

    def against(purchase: Purchase, rent: Decimal) -> BuyOrRent:
        rent = rent.quantize(MICRO_USD, ROUND_HALF_EVEN, EXACT)  # off with a quotient's last digit
        return against_rent(purchase, rent) if by_the_month else used_evenly(purchase, rent)

    early, late = against(low_point, high), against(high_point, low)
    if month.partial or month.lower_bound:
        # The rent may be higher: buying that pays already still does.
        verdict = Verdict.BUY if late.own_usd <= late.rent_usd else Verdict.UNKNOWN
    elif late.own_usd <= late.rent_usd:
        verdict = Verdict.BUY
    else:
        verdict = Verdict.RENT if early.own_usd > early.rent_usd else Verdict.TIE
    if work.estimate.lower_bound and verdict is Verdict.BUY:
        verdict = Verdict.UNKNOWN  # the machine may do less than was reckoned with
    return Rented(
        row, by_the_month, month, low, high, against(point, month.at_least_usd), early, late,
        verdict,
    )  # fmt: skip


def _range(row: Row, month: MonthBill, job: Job, work: Work, by_the_month: bool) -> Span:
    """The rent of a month at both ends of both estimates.

    On the same GPUs both are off by the same factor: there it is but the point.
    """
    usd, own, there = month.at_least_usd, work.estimate, row.estimate
    alike = (row.offer.gpu_key, there.gpus) == (work.gpu, own.gpus)
    if there.low_gpus is not None and not alike and row.low_usd and row.high_usd:
        # A service: by the hour or by the month, it is the machines that are fewer or more.
        low, high = (
            ratio_up(EXACT.multiply(usd, end), row.bill.at_least_usd)
            for end in (row.low_usd, row.high_usd)
        )
        return low, high
    if alike or (own.low_hours is None and there.low_hours is None):
        return usd, usd
    few, many = work.runs_at(own.high_hours), work.runs_at(own.low_hours)
    if by_the_month:
        ends = [
            _month(row, job, EXACT.multiply(runs, ratio_up(hours or there.hours, there.hours)))
            for runs, hours in ((few, there.low_hours), (many, there.high_hours))
        ]
        return min(usd, ends[0].at_least_usd), max(usd, ends[1].at_least_usd)
    at_low = row.bill.at_least_usd if row.low_usd is None else row.low_usd
    at_high = row.bill.at_least_usd if row.high_usd is None else row.high_usd
    return min(usd, EXACT.multiply(few, at_low)), max(usd, EXACT.multiply(many, at_high))
