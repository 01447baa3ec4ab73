"""What is said of a ranking in words: its headline, the break-even, and what one must know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracker.domain.break_even import Bound, BreakEven, break_even_is_unknown
from tracker.domain.cost import Bill, LineKind, separate_machines
from tracker.domain.money import HOURS_PER_MONTH
from tracker.domain.pareto import Goal
from tracker.domain.terms import OWN
from tracker.domain.texts import figure
from tracker.report.dated import not_live
from tracker.report.record import begins as begun
from tracker.report.record import then
from tracker.report.shapes import goals, texts

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.domain.spot import BreakEvenRate
    from tracker.report.cheapest import CheapestReport, Comparison, Row


def sentence(report: CheapestReport) -> str:
    """The answer in a sentence."""
    best, b = report.rows[0], report.rows[0].bill
    o = best.offer
    gpus = f"{texts.count(o.gpu_count)} x {o.gpu_key}"
    machine = gpus if b.machines == 1 else f"{b.machines} machines of {gpus}"
    market = None if o.market == "on_demand" else o.market.replace("_", " ")
    place = f"{o.provider} ({', '.join(filter(None, (o.tier, market, o.region)))})"
    count = "" if b.machines == 1 else f"{b.machines} machines x "
    kinds = [ln.kind for ln in b.lines if ln.kind in (LineKind.DISK, LineKind.EGRESS)]
    extras = f" + {texts.usd(b.extras_usd)} for {' and '.join(kinds)}" if kinds else ""
    done = "" if report.goal is Goal.CHEAPEST else f"done after {goals.done(best)} for "
    text = (
        f"{report.job.title or report.job.name}: {done}{total(b)}{_range(best)} on {machine} "
        f"at {place}, {count}{texts.hours(b.billed_hours)} x {texts.usd(b.price.usd, 4)}/h"
        f"{extras}"
    )
    text += not_live(o)
    rows = (*report.rows[1:], *report.best_by_gpu)
    other = next((r for r in rows if r.offer.gpu_family != o.gpu_family), None)
    if other and b.at_least_usd:
        if report.goal is Goal.CHEAPEST:
            text += f"; next GPU {other.offer.gpu_key} {_more(b, other.bill)}"
        else:
            text += f"; next GPU {other.offer.gpu_key}, {goals.done(other)} for {total(other.bill)}"
    if open_ended(b):
        sure = next((r for r in rows if not open_ended(r.bill)), None)
        if sure is not None:
            text += (
                f". The cheapest whose bill is certain: {total(sure.bill)} on {sure.offer.gpu_key}"
                f" at {sure.offer.provider}"
            )
    return text + "."


def range_text(row: Row) -> str:
    """The bill at both ends of the estimate, once where it is the same."""
    if row.low_usd is None or row.high_usd is None:
        return texts.DASH
    if row.low_usd == row.high_usd:
        return texts.usd(row.low_usd)
    return f"{texts.usd(row.low_usd)} to {texts.usd(row.high_usd)}"


def range_of(row: Row) -> str:
    """The range of the bill, and what of the estimate it is of; empty where there is none."""
    if row.low_usd is None or row.high_usd is None:
        return ""
    low, high = row.low_hours, row.high_hours
    of = "" if low is None else f"{texts.hours(low)} to {texts.hours(high)}"
    if row.low_machines is not None and row.high_machines is not None:
        few, many = f"{row.low_machines:,}", texts.counted(row.high_machines, "machine")
        of = many if row.low_machines == row.high_machines else f"{few} to {many}"
        of += " by the range of the speed"
    return f"{range_text(row)}, for {of}"


def _range(row: Row) -> str:
    return "" if row.low_usd is None or row.low_usd == row.high_usd else f" ({range_text(row)})"


def _more(best: Bill, other: Bill) -> str:
    """How much more *other* costs. A share of an "at least" would say nothing, nor does one of an
    "at least" that is below: the bill may be above all the same."""
    if open_ended(best):
        return total(other)
    if open_ended(other) and other.at_least_usd < best.at_least_usd:
        return f"{total(other)}, the whole of its bill is not known"
    more = (other.at_least_usd / best.at_least_usd - 1) * 100
    return f"{'at least ' if open_ended(other) else ''}{more:+.0f} %"


def open_ended(b: Bill) -> bool:
    """Whether the bill is only an "at least"."""
    return bool(b.partial) or b.lower_bound


def total(b: Bill) -> str:
    """The bill's amount, with the "at least" that belongs to it."""
    text = texts.usd(b.at_least_usd)
    return f"at least {text}" if open_ended(b) else text


def remarks(report: CheapestReport) -> Iterable[str]:
    """What a reader of the figures must know, for people and programs alike."""
    if report.total_offers == 0:
        begins = begun(report.record)
        yield f"No offer was on record at {texts.iso(report.now)}{f': {begins}' if begins else ''}."
    yield from then(report.record, report.now)
    if report.comparison is not None:
        yield break_even_sentence(report.comparison)
    if report.slices:
        yield _of_slices(report.slices)
    yield from _missing(report)
    rows = report.rows + report.best_by_gpu
    yield from _of_hours(report, rows)
    if report.job.task is not None:
        yield from _of_estimates(report)
    limits = report.job.limits
    if limits is not None and limits.runs_per_month and report.rows:
        yield _per_month(report.rows[0], limits.runs_per_month)
    if any(r.discount_percent for r in rows):
        yield "* less a negotiated discount from your price book."
    if any(r.bill.partial for r in rows):
        unknown = ", ".join(sorted({part for r in rows for part in r.bill.partial}))
        yield f"A total with >= leaves out what the provider does not state ({unknown})."
    dated = [r.offer.valid_as_of is not None for r in rows]
    if any(dated):
        yield _of_typed([r for r in rows if r.offer.valid_as_of is not None], every=all(dated))
    yield from _of_terms(rows)
    if any(r.offer.source == OWN for r in rows):
        yield (
            f"{OWN}: a machine of yours, at its electricity and the wear set aside. What it cost "
            "is not in it: gpucost own weighs buying against renting."
        )
    spot = [r for r in rows if r.offer.market == "spot"]
    if any(r.estimate.interrupted is not None for r in spot):
        yield from _of_interruptions(spot)
    elif spot:
        yield "Spot: interruptions and repeated work are not in the bill."
    first = next((r for r in spot if r.spot_break_even is not None), None)
    if first is not None and first.spot_break_even is not None:
        yield f"#{first.rank}: {spot_break_even(first.spot_break_even)}."
    if any(r.stale for r in rows):
        yield "Stale prices are ranked, marked as such, because they were asked for."


def _of_typed(typed: Iterable[Row], *, every: bool) -> str:
    """Whose prices those with a date are: the shipped list's, or the user's own book's."""
    own = sorted(r.offer.fallback for r in typed)
    which = "All prices are" if every else "A date under AGE marks"
    if not own[0] and not own[-1]:
        return f"{which} prices from a price book of your own, read on the date shown: not live."
    what = "list prices from a price book" if own[0] else "list prices or prices of your own book"
    return f"{which} {what}, read on the date shown: not live."


def gpus_rented(row: Row) -> str:
    """How many GPUs are paid for, and on how many machines where it is not one."""
    gpus = texts.count(row.bill.gpu_count)
    return gpus if row.bill.machines == 1 else f"{row.bill.machines:,} machines of {gpus}"


def stock(availability: str, label: str | None) -> str:
    """The provider's word for its stock; "list" for a list price that says nothing of it."""
    return {"yes": label or "yes", "no": "none"}.get(availability, "list")


def listed(availability: str) -> str:
    """What is to be known of a price that says nothing of stock; empty for one that does."""
    unknown = availability == "unknown"
    return "; a list price: nobody says whether it is to be had" if unknown else ""


def renewed_by(*, expired: bool) -> str:
    """What makes stale prices fresh: of one's own typed ones (*expired*) no poll does."""
    return "renew them in your price book" if expired else "poll again"


def _of_terms(rows: Iterable[Row]) -> Iterable[str]:
    """What the figure of a machine paid for longer than a month, or at a promotion, rests on."""
    told = dict.fromkeys(
        f"#{r.rank}" if r.rank else f"{r.offer.provider} {r.offer.gpu_key}"
        for r in rows
        if "promotion" in r.offer.native_id.lower()
    )
    if told:
        yield f"A promotion of the day it was read, perhaps over: {', '.join(told)}."
    for r in rows:
        hours = r.offer.commitment_hours
        if hours is not None and hours > HOURS_PER_MONTH:
            place = f"#{r.rank}" if r.rank else f"{r.offer.provider} {r.offer.gpu_key}"
            yield f"{place} is sold for a term of {term(hours)}, billed whole."


def term(hours: int) -> str:
    """A term in months where it is some, else in hours."""
    months, rest = divmod(hours, int(HOURS_PER_MONTH))
    return f"{hours:,} h" if rest or not months else texts.counted(months, "month")


def _of_interruptions(spot: list[Row]) -> Iterable[str]:
    first = next((r for r in spot if r.estimate.interrupted is not None), None)
    if first is not None and (expected := first.estimate.interrupted) is not None:
        place = f"#{first.rank}" if first.rank else first.offer.gpu_key
        yield (
            f"Spot: what interruptions are expected to cost is in the bill; {place}: "
            f"{expected.interruptions:.2g} interruptions, {texts.hours(expected.rerun_hours)} run "
            f"again, done after {texts.hours(expected.wall_hours)} ({expected.rate.basis})."
        )
    unknown = sum(r.estimate.interrupted is None for r in spot)
    if unknown:
        yield (
            f"Spot: of {texts.counted(unknown, 'row')} nobody knows the rate of interruptions: "
            "they are not in those bills."
        )


def spot_break_even(even: BreakEvenRate) -> str:
    """Up to how many interruptions spot is worth it."""
    return (
        f"spot costs no more than the same machine on demand up to "
        f"{figure(even.interruptions, 2)} interruptions in a run ({figure(even.per_hour)} an hour)"
    )


def _of_hours(report: CheapestReport, rows: Iterable[Row]) -> Iterable[str]:
    bounds = sorted({r.offer.gpu_family for r in rows if r.bill.lower_bound})
    if bounds:
        yield f"Hours on {', '.join(bounds)} are a lower bound (>=): it takes at least so long."
    job, told = report.job, fewer(report.job)
    if told and report.rows:
        yield told
    if report.rows and report.rows[0].bill.machines > 1:
        first = report.rows[0]
        yield f"#1 is on {separate_machines(first.bill.machines, job, first.estimate)}."


def fewer(job: Job) -> str | None:
    """That the hours are for fewer GPUs than are asked for; None: they are not.

    With a workload the hours are estimated for the count that is billed.
    """
    found = sorted(gpu for gpu, h in job.hours.items() if h.gpus < job.gpus_needed)
    if not found or job.task is not None:
        return None
    return (
        f"{job.gpus_needed} GPUs are billed for the hours that fewer take on {', '.join(found)}: "
        "how the job scales is not modelled."
    )


def _of_estimates(report: CheapestReport) -> Iterable[str]:
    ranged = [r for r in report.rows if r.low_usd is not None]
    if ranged:
        bases = " or ".join(sorted({str(r.bill.basis) for r in ranged}))
        what = "Hours" if ranged[0].low_machines is None else "Machines"
        yield (
            f"{what} are {bases}; a range is one that held 8 of 10 measured jobs of its kind, or a "
            "factor of 2. gpucost estimate shows the way to them."
        )
    ties = sum(r.tie for r in report.rows)
    if ties:
        them = "it" if ties == 1 else "them"
        may_be = goals.BETTER[report.goal]
        yield f"~ marks a tie: the ranges of #1 and {them} overlap, and either may be {may_be}."
    limits = report.job.limits
    if limits is not None and limits.deadline_hours is not None:
        late = [r.rank for r in report.rows if (r.estimate.high_hours or 0) > limits.deadline_hours]
        if late:
            rows = ", ".join(f"#{rank}" for rank in late)
            yield f"At the long end of the range {rows} would miss the deadline."


def _of_slices(slices: Iterable[Row]) -> str:
    """What parts of GPUs would do, which no whole one is ranked beside."""
    told = "; ".join(
        f"{total(r.bill)}{_range(r)} on {r.offer.gpu_key} ({_part(r)}) at {r.offer.provider}, "
        f"{goals.done(r)} (offer {r.offer.key.hex()[:10]})"
        for r in slices
    )
    return f"It also fits a part of a GPU, not ranked beside whole ones: {told}."


def _part(r: Row) -> str:
    """Which share of the card, as the offer says it."""
    count = r.offer.gpu_count
    return f"{texts.count(count)} of one" if count < 1 else r.offer.native_id


def _per_month(best: Row, runs: int) -> str:
    if best.offer.market not in ("on_demand", "spot"):
        return (
            f"{runs} runs a month: what is paid by the term is paid once, however many fit in it."
        )
    least = "at least " if open_ended(best.bill) else ""
    return f"{runs} runs a month on #1 come to {least}{texts.usd(best.bill.at_least_usd * runs)}."


def _missing(report: CheapestReport) -> Iterable[str]:
    """The GPUs asked for of which no row tells anything: no hours, or no offer."""
    from tracker import data
    from tracker.domain.gpu import Catalogue, UnknownGpu
    from tracker.domain.job import NoEstimate, runtime_for

    ranked = {r.offer.gpu_key for r in report.rows + report.best_by_gpu}
    families = {r.offer.gpu_family for r in report.best_by_gpu}
    missing = [name for name in report.filters.gpus if name not in families | ranked]
    if not missing:
        return
    catalogue = Catalogue.from_compiled(data.text("gpus.json"), lambda: data.text("aliases.toml"))
    hours, offers = [], []
    for name in missing:
        try:
            keys = catalogue.select(name)
        except UnknownGpu:  # an alias of the user's own, which says no more here
            continue
        whys = [runtime_for(report.job, key, catalogue) for key in sorted(keys)]
        if all(isinstance(why, NoEstimate) for why in whys):
            if report.job.task is None:
                hours.append(name)
            else:
                yield f"{name}: " + next(why.reason for why in whys if isinstance(why, NoEstimate))
        elif not families & {gpu.family for key in keys if (gpu := catalogue.gpu(key))}:
            offers.append(name)
    if offers and report.rows:
        yield f"No offer of {', '.join(offers)} is on record that the filters leave."
    if hours:
        option = ",".join(f"{name.replace(' ', '-')}=..." for name in hours)
        yield f"The job has no hours for {', '.join(hours)}: give them with --hours {option}"


def break_even_sentence(c: Comparison) -> str:
    """The price at which one GPU costs what the other does, or why there is none."""
    a, b = c.left.offer.gpu_key, c.right.offer.gpu_key
    costs = f"{a} {total(c.left.bill)} against {b} {total(c.right.bill)}"
    if c.break_even is None:
        if break_even_is_unknown(c.left.bill, c.right.bill):
            return f"Break-even: {costs}; not known, since {_unknown(c)}."
        return f"Break-even: {costs}; no price of the {a} would make them equal."
    return f"Break-even: {costs}. {_at_what_price(c, c.break_even)} {_by_speed(c)}"


def _unknown(c: Comparison) -> str:
    sides = [
        f"the bill of {r.offer.provider} for {r.offer.gpu_key} lacks a part "
        f"({', '.join(r.bill.partial)})"
        for r in (c.left, c.right)
        if r.bill.partial
    ]
    return " and ".join(sides) or f"the hours on the {c.right.offer.gpu_key} are a lower bound"


def _at_what_price(c: Comparison, at: BreakEven) -> str:
    left, a, b = c.left, c.left.offer.gpu_key, c.right.offer.gpu_key
    even, now = at.per_gpu.usd, left.bill.price.per_gpu(left.bill.gpu_count).usd
    price = f"{texts.usd(even, 4)} per GPU-hour"
    mine, other = left.bill.at_least_usd, c.right.bill.at_least_usd
    relation = "below" if mine < other else ("at" if mine == other else "above")
    its = f"its price is {texts.usd(now, 4)}, {relation} that."
    if at.bound is Bound.AT_LEAST:
        return (
            f"Only a bound, since the {b} takes at least so long: the {a} job is the cheaper one "
            f"below {price}, and perhaps above it too; {its}"
        )
    if at.bound is Bound.AT_MOST:
        return (
            f"Only a bound, since the {a} takes at least so long: the {a} job is the dearer one "
            f"above {price}, and perhaps below it too; {its}"
        )
    if at.bound is Bound.OPEN:
        return (
            f"Not more than a hint, since both take at least so long: by these hours they cost the "
            f"same at {price} of the {a}; {its}"
        )
    return f"The {a} job is the cheaper one below {price}; {its}"


def _by_speed(c: Comparison) -> str:
    left, right = c.left.bill.lower_bound, c.right.bill.lower_bound
    # Nothing is known of the ratio of two lower bounds.
    times = "" if left == right else ("at most " if left else "at least ")
    if (left and right) or (c.speed.had == 1 and not times):
        return f"It costs {c.speed.needed:.2f} times as much an hour."
    return (
        f"It is {times}{c.speed.had:.2f} times as fast and costs {c.speed.needed:.2f} times as "
        "much an hour."
    )
