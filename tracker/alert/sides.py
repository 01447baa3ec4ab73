"""One side of a rule: which of the offers stands for a selection, and whether it can be believed.

A side is judged by what is fresh, told by the seller itself, and wholly known. What is none of
that never becomes its figure, but it can take the figure's word away: where the figure would be
another one with a stale price (its provider may answer again in a minute), with an offer that a
gate holds back (at the price that had been accepted), or with a single ask of a marketplace that
nothing confirms, the side is STALE or SUSPECT, and nothing is decided. A doubt is not held for
ever: what has been stale or held for DOUBT_HOLDS counts as gone, and so does, at once, all of a
provider that is turned off: nobody will ask it again.

Prices typed into a price book are dated, hard-coded prices: fallback ones never take part, a
user's own only where the rule asks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from tracker.alert.rules import Rule
from tracker.alert.snapshot import DOUBT_HOLDS, Snapshot
from tracker.domain.confirm import (
    Figure,
    Quote,
    figure,
    host_of,
    is_sure,
    needed,
    seen_twice,
)
from tracker.domain.job import Job
from tracker.domain.money import from_micro_usd
from tracker.domain.rule.types import Health
from tracker.report.ages import is_stale, known_at
from tracker.report.cheapest import Row, cheapest_report
from tracker.report.costing import End
from tracker.report.filters import Filters, select
from tracker.store.reads import TERM_MARKETS, StoredOffer

TYPED = "typed, not live"
OFF = "of providers that are turned off"
GONE = "of sellers silent for a week"
PARTIAL = "with an unknown part in the bill"


class Ask(NamedTuple):
    """An offer with what it costs: the job's bill, or USD per GPU-hour (``row`` is None then).

    ``partial``: what of the bill nobody states. ``lower_bound``: the hours are one.
    """

    offer: StoredOffer
    usd: Decimal
    row: Row | None = None
    partial: tuple[str, ...] = ()
    lower_bound: bool = False


Costing: TypeAlias = Callable[[Sequence[StoredOffer], Filters], tuple[list[Ask], Counter[str]]]


@dataclass(frozen=True, slots=True)
class Side:
    """A selection's figure. ``best`` is None unless there is one; ``health`` says what it is worth.

    ``least_usd`` is what it may be instead: with what is not wholly known at its least, or with
    what is in doubt. ``unknown`` says which of the first would be below the figure.
    """

    selection: str
    health: Health
    reason: str | None = None
    best: Ask | None = None
    least_usd: Decimal | None = None
    unknown: str | None = None
    unknown_usd: Decimal | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)

    @property
    def usd(self) -> Decimal:
        """The figure. Only of a side that has one."""
        if self.best is None:
            raise ValueError(f"{self.selection} has no figure")
        return self.best.usd

    @property
    def lower_bound(self) -> bool:
        return self.best is not None and self.best.lower_bound


@dataclass(frozen=True, slots=True)
class Pool:
    """The offers of a selection by what they are worth, and the counts of the others."""

    fresh: tuple[StoredOffer, ...]
    stale: tuple[StoredOffer, ...]
    held: tuple[StoredOffer, ...]
    excluded: Counter[str]


def pool(
    rule: Rule, keys: Collection[str], snapshot: Snapshot, now: datetime,
    sources: Collection[str] | None = None,
) -> Pool:  # fmt: skip
    """The offers of *keys* now, of *sources* only where given."""
    excluded: Counter[str] = Counter()
    fresh: list[StoredOffer] = []
    stale: list[StoredOffer] = []
    for offer in snapshot.offers:
        if offer.gpu_key not in keys or (sources is not None and offer.source not in sources):
            continue
        since = stale_since(offer, rule.filters.max_age, now)
        if offer.source in snapshot.off:
            excluded[OFF] += 1
        elif not takes_part(rule, offer):
            excluded[TYPED] += 1
        elif since is None:
            fresh.append(offer)
        elif now - since >= DOUBT_HOLDS:
            excluded[GONE] += 1
        else:
            stale.append(offer)
    held = tuple(
        h.offer
        for h in snapshot.held
        if h.offer.gpu_key in keys
        and (sources is None or h.offer.source in sources)
        and h.offer.source not in snapshot.off
        and takes_part(rule, h.offer)
        and now - h.since < DOUBT_HOLDS
    )
    return Pool(tuple(fresh), tuple(stale), held, excluded)


def takes_part(rule: Rule, offer: StoredOffer) -> bool:
    """Whether the price is live, or a typed one that *rule* asks for."""
    if offer.fallback:
        return False
    typed = offer.valid_as_of is not None or offer.source != offer.provider
    return rule.typed_prices or not typed


def stale_since(offer: StoredOffer, max_age: timedelta | None, now: datetime) -> datetime | None:
    """The moment from which the price is too old, if that has come."""
    since = offer.stale_at if is_stale(offer, now) else None
    seen_at = known_at(offer) or offer.valid_from
    if max_age is not None and now - seen_at > max_age:
        too_old = seen_at + max_age
        since = too_old if since is None else min(since, too_old)
    return since


def job_costing(job: Job, snapshot: Snapshot, now: datetime, end: End | None = None) -> Costing:
    """Bills as ``gpucost cheapest`` makes them, of estimates at that *end* of their range.

    Budget and deadline leave nothing out here: an offer beyond them has its bill, and the rule is
    about bills. With them a rule would be stuck once a price passes the budget.
    """
    if job.limits is not None:
        job = replace(job, limits=job.limits._replace(budget_usd=None, deadline_hours=None))
    if snapshot.costing is not None:
        found: Costing = snapshot.costing(job, end)
        return found

    def cost(offers: Sequence[StoredOffer], filters: Filters) -> tuple[list[Ask], Counter[str]]:
        report = cheapest_report(
            offers, job, filters, snapshot.catalogue, now, top=None, total_offers=len(offers),
            discounts=snapshot.discounts, end=end,
        )  # fmt: skip
        asks = [
            Ask(r.offer, r.bill.at_least_usd, r, r.bill.partial, r.bill.lower_bound)
            for r in report.rows
        ]
        return asks, report.excluded

    return cost


def price_costing(snapshot: Snapshot, now: datetime) -> Costing:
    """USD per GPU-hour, cheapest first. What is sold for a term that nobody states has no price."""

    def cost(offers: Sequence[StoredOffer], filters: Filters) -> tuple[list[Ask], Counter[str]]:
        chosen = select(offers, filters, snapshot.catalogue, now)
        asks = []
        for o in chosen.kept:
            if o.commitment_unknown or (o.market in TERM_MARKETS and o.commitment_hours is None):
                chosen.excluded["sold for a term that is not stated"] += 1
                continue
            usd = from_micro_usd(o.price_micro_usd)
            percent = snapshot.discounts.percent_for(o)
            if percent is not None:
                usd = usd * (100 - percent) / 100
            asks.append(Ask(o, usd / o.gpu_count))
        asks.sort(key=lambda ask: (ask.usd, ask.offer.key))
        return asks, chosen.excluded

    return cost


def asked(
    rule: Rule, offers: Sequence[StoredOffer], cost: Costing, **changes: Any
) -> tuple[list[Ask], Counter[str]]:
    """What *offers* ask under the filters of *rule* (with *changes*), and what they leave out."""
    if not offers:
        return [], Counter()
    # Age is judged by ``pool``; a filter must not make the same price silently disappear.
    slices = bool(offers) and all(o.is_slice for o in offers)
    filters = rule.filters._replace(
        gpus=(), include_stale=True, max_age=None, include_slices=slices, **changes
    )
    return cost(offers, filters)


def believed(asks: Iterable[Ask], among: Sequence[Ask], snapshot: Snapshot) -> list[Ask]:
    """Those of *asks* that two polls have seen, that another of *among* supports, or that are
    list prices."""
    quotes = [_quote(ask, snapshot) for ask in among]
    return [a for a in asks if is_sure(_quote(a, snapshot), quotes)]


def _quote(ask: Ask, snapshot: Snapshot) -> Quote[Ask]:
    o = ask.offer
    confirmed = seen_twice(o.valid_from, o.confirmed_at, snapshot.interval(o.source))
    return Quote(ask.usd, ask, o.provider, host_of(o.native_id), o.marketplace, confirmed)


def side(
    selection: str, rule: Rule, pool: Pool, cost: Costing, snapshot: Snapshot,
    *, certain: bool,
) -> Side:  # fmt: skip
    """The figure of *selection*.

    *certain*: of hours that are a lower bound only where there are no others. That is for the side
    that a rule says is cheap; for the other one a lower bound is on the safe side.
    """
    asks, excluded = asked(rule, pool.fresh, cost)
    stale, _ = asked(rule, pool.stale, cost)
    # What is not kept in history must not hide that an offer was there.
    held, _ = asked(rule, pool.held, cost, available=False, min_network_mbps=None, min_disk_gb=None)
    whole = [a for a in asks if not a.partial]
    sure = [a for a in whole if not a.lower_bound]
    partial = [a for a in asks if a.partial]
    only_sure = certain and bool(sure)

    def usable(others: Iterable[Ask]) -> list[Ask]:
        return [a for a in others if not a.partial and not (only_sure and a.lower_bound)]

    judge = _Judge(selection, rule.rank, snapshot)
    used = sure if only_sure else whole
    chosen = judge.figure(used)
    with_stale = judge.figure(used, usable(stale)) if stale else chosen
    with_held = judge.figure(used, usable(held)) if held else chosen
    maybe = asks if not only_sure else [*sure, *(a for a in asks if a.partial or a.lower_bound)]
    least = judge.figure(maybe, trusted=True)
    health, reason = judge.verdict(
        chosen,
        with_stale,
        with_held,
        used,
        usable(stale),
        usable(held),
        partial,
        pool.excluded + excluded,
    )
    counts = {
        "considered": len(asks), "used": len(used), "stale": len(stale), "held": len(held),
        "partial": len(partial), "lower_bound": sum(a.lower_bound for a in whole),
    }  # fmt: skip
    best = chosen.quote.item if chosen.quote is not None else None
    return Side(
        selection, health, reason, best,
        _least(chosen, with_stale, with_held, least),
        _unknown(best, least.quote), None if least.quote is None else least.quote.usd,
        counts, dict(pool.excluded + excluded),
    )  # fmt: skip


def _least(*figures: Figure[Ask]) -> Decimal | None:
    amounts = [q.usd for f in figures for q in f if q is not None]
    return min(amounts) if amounts else None


def _unknown(best: Ask | None, least: Quote[Ask] | None) -> str | None:
    """What the figure would be below, if it were as cheap as it may be."""
    if least is None or (best is not None and least.usd >= best.usd):
        return None
    ask = least.item
    if ask.partial:
        return f"{' and '.join(ask.partial)} ({ask.offer.provider})"
    if ask.lower_bound:
        return f"the hours on {ask.offer.gpu_family} are a lower bound"
    return None


class _Judge:
    """Health of one side."""

    def __init__(self, selection: str, rank: str, snapshot: Snapshot) -> None:
        self._selection = selection
        self._rank = rank
        self._snapshot = snapshot
        self._quotes: dict[int, Quote[Ask]] = {}  # of asks that live as long as this

    def figure(
        self, asks: Iterable[Ask], doubted: Iterable[Ask] = (), *, trusted: bool = False
    ) -> Figure[Ask]:
        """What the rank picks of *asks* and *doubted*; the latter (all, if *trusted*) need no
        confirmation, for they only ask what the figure might be."""
        quotes = [self._quote(ask, trusted=trusted) for ask in asks]
        quotes += [self._quote(ask, trusted=True) for ask in doubted]
        return figure(quotes, self._rank)

    def _quote(self, ask: Ask, *, trusted: bool) -> Quote[Ask]:
        quote = self._quotes.get(id(ask))
        if quote is None:
            quote = self._quotes[id(ask)] = _quote(ask, self._snapshot)
        return quote._replace(confirmed=True) if trusted and not quote.confirmed else quote

    def verdict(
        self,
        chosen: Figure[Ask],
        with_stale: Figure[Ask],
        with_held: Figure[Ask],
        used: Sequence[Ask],
        stale: Sequence[Ask],
        held: Sequence[Ask],
        partial: Sequence[Ask],
        excluded: Mapping[str, int],
    ) -> tuple[Health, str | None]:
        """GOOD, or what is the matter."""
        if _moved(chosen, with_stale):
            return Health.STALE, self._stale(stale, alone=not used)
        if _moved(chosen, with_held):
            first = min(held, key=lambda a: a.usd).offer
            return Health.SUSPECT, (
                f"{self._selection}: an offer of {first.provider} is held back for its price"
            )
        if chosen.doubtful is not None:
            first = chosen.doubtful.item.offer
            return Health.SUSPECT, (
                f"{self._selection}: the cheapest ask is alone on {first.provider}, and only one"
                " poll has seen it"
            )
        if chosen.quote is not None:
            return Health.GOOD, None
        if used:
            return Health.NO_DATA, (
                f"{self._selection}: rank {self._rank} needs {needed(self._rank)} offers,"
                f" there is {len(used)}"
            )
        if partial:
            ask = partial[0]
            what = f"{' and '.join(ask.partial)} ({ask.offer.provider})"
            return Health.NO_DATA, f"{self._selection}: no bill is wholly known: {what}"
        return Health.NO_DATA, f"{self._selection}: no offer matches{_why(excluded)}"

    def _stale(self, stale: Sequence[Ask], *, alone: bool) -> str:
        offer = min(stale, key=lambda a: a.usd).offer
        seen = offer.confirmed_at.strftime("%Y-%m-%d %H:%M UTC")
        provider = self._snapshot.providers.get(offer.source)
        since = "has not answered since"
        if provider and provider.last_ok_at and provider.last_ok_at > offer.confirmed_at:
            since = "has given no complete answer since"  # it may be in the part that is missing
        whose = "no other price matches" if alone else "its price would count"
        return f"{self._selection}: {offer.source} {since} {seen}; {whose}"


def _moved(chosen: Figure[Ask], other: Figure[Ask]) -> bool:
    """Whether the figure would be another one."""
    if other.quote is None:
        return False
    return chosen.quote is None or other.quote.usd != chosen.quote.usd


def _why(excluded: Mapping[str, int]) -> str:
    reasons = Counter(excluded).most_common(2)
    return f" ({', '.join(f'{n} {reason}' for reason, n in reasons)})" if reasons else ""
