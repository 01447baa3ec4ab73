"""What a chart of the past shows beside known prices: prices that nobody confirmed any more, and
prices that a quality gate holds back. Neither counts in any figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.report.shapes import texts
from tracker.web.pages.site import Asked

if TYPE_CHECKING:
    import psycopg

    from tracker.report.history.steps import CostStep
    from tracker.report.history.told import Group, Told
    from tracker.store.reads import StoredOffer
    from tracker.store.series.tracks import Intervals
    from tracker.store.status import StoredQuarantine

MOST_STALE = 50
_NARROWEST = 500  # a window holds so many of the shortest spans that are shown
MOST_HELD = 100


class Stale(NamedTuple):
    """From *start* until *end* nobody confirmed the last bill of a series; ``place`` is its own."""

    place: int
    series: str
    start: datetime
    end: datetime
    shown: str
    exact: str
    provider: str


class Held(NamedTuple):
    """A price that is held back; ``exact`` is what a chart draws, None where that is not known."""

    place: int | None
    at: datetime
    gpu: str
    provider: str
    market: str
    price: str
    shown: str
    exact: str | None
    why: str
    freed: bool


def stale_spans(
    connection: psycopg.Connection[Any], told: Told, groups: Sequence[Group], show: str
) -> list[Stale]:
    """Where a series ends, or has a gap, because its seller told nothing of that market: the latest
    MOST_STALE, without what a chart is too narrow for. Where the seller answered and had nothing,
    there is nothing to be stale."""
    from tracker.store.series.tracks import coverage

    report = told.report
    gaps = list(_gaps(groups, report.end))
    if not gaps:
        return []
    covered = coverage(
        connection, start=report.question.start, end=report.end, now=report.now,
        sellers={step.offer.provider for _, _, step, _ in gaps},
    )  # fmt: skip
    found = []
    for place, group, step, end in gaps:
        until = _told_again(covered.get((step.offer.provider, step.offer.market)), step.end, end)
        if until - step.end > (report.end - report.question.start) / _NARROWEST:
            value = step.cost.price_usd_per_gpu_hour if show == "price" else step.usd
            found.append(
                Stale(place, group.name, step.end, until,
                      texts.usd(value, 4 if show == "price" else 2), texts.usd_text(value) or "",
                      step.offer.provider)
            )  # fmt: skip
    return sorted(found, key=lambda one: one.start)[-MOST_STALE:]


def _gaps(
    groups: Sequence[Group], end: datetime
) -> Iterator[tuple[int, Group, CostStep, datetime]]:
    """The last step before each gap of each series but that of all, and when the gap ends."""
    for place, group in enumerate(groups[:-1]):
        steps = [step for step in group.steps if not step.cost.partial]
        for at, step in enumerate(steps):
            following = steps[at + 1].start if at + 1 < len(steps) else end
            if step.end < following:
                yield place, group, step, following


def _told_again(covered: Intervals | None, start: datetime, end: datetime) -> datetime:
    """Until when after *start* a seller was silent, *end* at the latest."""
    from tracker.store.series.tracks import from_micros, to_micros

    if covered is None:
        return end
    at = to_micros(start)
    for begins, ends in zip(covered.starts.tolist(), covered.ends.tolist(), strict=True):
        if begins <= at < ends:
            return start
        if begins > at:
            return min(end, from_micros(begins))
    return end


def held_points(
    asked: Asked, connection: psycopg.Connection[Any], told: Told, groups: Sequence[Group],
    show: str,
) -> list[Held]:  # fmt: skip
    """The prices of these GPUs that a gate held back within the window, the latest MOST_HELD.

    A bill is only told where the same offer is known by an earlier price: its terms are then known.
    """
    from tracker.domain.money import PerMachineHour, from_micro_usd
    from tracker.store import reads
    from tracker.store.past_offers import offers_by_key

    report, app = told.report, asked.site.answers.app
    wanted = report.question.filters
    keys = frozenset().union(*(app.catalogue.select(name) for name in wanted.gpus))
    found = [
        one
        for one in reads.quarantined(connection, include_released=True)
        if (not keys or one.gpu_key in keys)
        and (not wanted.providers or one.seller in wanted.providers)
        and report.question.start <= one.first_seen_at < report.end
    ]
    found = sorted(found, key=lambda one: one.first_seen_at)[-MOST_HELD:]
    if not found:
        return []
    known = offers_by_key(connection, {one.offer_key for one in found})
    places = _places(told, groups, asked)
    rows = []
    for one in found:
        usd = from_micro_usd(one.price_micro_usd)
        per_gpu = PerMachineHour(usd).per_gpu(one.gpu_count).usd
        value = per_gpu if show == "price" else _bill(one, known.get(one.offer_key), told, asked)
        rows.append(
            Held(
                places.get(one.gpu_key if report.question.per == "gpu" else one.seller),
                one.first_seen_at, one.gpu_key, one.seller, one.market.replace("_", "-"),
                texts.usd(per_gpu, 4), texts.usd(value, 4 if show == "price" else 2),
                texts.usd_text(value), one.reason, one.released_at is not None,
            )
        )  # fmt: skip
    return rows


def _bill(
    one: StoredQuarantine, offer: StoredOffer | None, told: Told, asked: Asked
) -> Decimal | None:
    from tracker.report.costing import bill_now
    from tracker.report.discounts import DiscountBook

    if offer is None or offer.price_unit in ("machine_month", "gpu_month"):
        return None
    priced = offer._replace(price_micro_usd=one.price_micro_usd)
    catalogue = asked.site.answers.app.catalogue
    found = bill_now(priced, told.report.question.job, catalogue, DiscountBook())
    return None if found is None else found.total_usd


def _places(told: Told, groups: Sequence[Group], asked: Asked) -> dict[str, int]:
    """The place of the first series that each GPU, or each provider, is in."""
    catalogue = asked.site.answers.app.catalogue
    found: dict[str, int] = {}
    for place, group in enumerate(groups[:-1]):
        names = {group.name}
        if told.report.question.per == "gpu":
            names = set(catalogue.select(group.name))
        for name in names:
            found.setdefault(name, place)
    return found
