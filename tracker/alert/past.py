"""What a rule would have found at moments of the past: the same evaluation, on recorded prices.

At each look the offers that were known then are put into a snapshot as the daemon would have read
it, and ``evaluate`` does the rest. Two looks between which nothing changed share one evaluation.

What history does not keep cannot take part: stock, network, disk space, what a gate held back.
The hours of a job and its own prices are those of today.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.alert.evaluate import Evaluation, evaluate
from tracker.alert.looks import looks_of, steady_looks
from tracker.alert.past_bills import PastBills
from tracker.alert.rules import Rule
from tracker.alert.snapshot import DOUBT_HOLDS, Past, Snapshot
from tracker.domain.confirm import AUTO, host_of
from tracker.domain.gpu import Catalogue
from tracker.domain.rule.condition import CostDrops, NewOfferBelow, ProviderStale
from tracker.domain.terms import Discount
from tracker.report.discounts import DiscountBook
from tracker.store import status
from tracker.store.alert_inputs import Coverage
from tracker.store.past_offers import native_prices, offers_by_id
from tracker.store.reads import StoredOffer, discounts
from tracker.store.series.keys import Track, from_micros
from tracker.store.series.single import Polled, offer_tracks, polled

if TYPE_CHECKING:
    import psycopg

    from tracker.store.status import StoredProvider

_NEVER = datetime.max.replace(tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)
# Of offers that differ by price and machine alone, no more than so many hosts can matter to a rank.
_HOSTS = {AUTO: 2, "2nd": 2, "3rd": 3}
_BY_MONTH = ("machine_month", "gpu_month")
# Fields of an offer that a rule may tell apart offers by: without them they are of one kind.
_KIND = (
    "provider", "source", "gpu_key", "gpu_count", "market", "tier", "price_unit", "currency",
    "fallback", "upstream", "billing_increment_seconds", "minimum_seconds", "commitment_hours",
    "commitment_unknown", "disk_included_gb", "disk_usd_per_gb_hour", "egress_usd_per_gb",
    "form_factor", "vram_gb", "is_slice", "price_kind",
)  # fmt: skip
_KIND_IF_FILTERED = {
    "regions": "region", "countries": "country", "min_ram_gib": "ram_gib", "min_vcpus": "vcpus",
    "interconnect": "interconnect", "dedicated": "dedicated", "kinds": "dedicated",
}  # fmt: skip
NOT_KEPT = ("available", "max_age", "min_disk_gb", "min_network_mbps")


class Seen(NamedTuple):
    """The looks of a window, and what there was to see at each: the same object where nothing had
    changed. ``replaced`` counts offers of imports and lists that gave way to their sellers' own."""

    at: Sequence[datetime]
    found: Sequence[Evaluation]
    offers: int
    replaced: int


class _Quote(NamedTuple):
    """A price of an offer from ``start`` until before ``end``. Two polls had seen it from
    ``sure_at`` on. Where it ended by silence, it may be meant until ``doubted_until``."""

    offer: StoredOffer
    kind: tuple[Any, ...]
    start: datetime
    end: datetime
    sure_at: datetime
    doubted_until: datetime | None


def look_back(
    connection: psycopg.Connection[Any],
    rule: Rule,
    catalogue: Catalogue,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    every: timedelta | None = None,
) -> Seen:
    """What *rule* would have found in [start, end): at each poll, or *every* so often if given.

    The connection must be in one transaction of isolation level repeatable read.
    """
    days = rule.condition.days if isinstance(rule.condition, CostDrops) else 0
    begin = start - timedelta(days=days)
    filters = rule.filters._replace(
        available=False, max_age=None, min_disk_gb=None, min_network_mbps=None
    )
    rule = replace(rule, filters=filters)
    keys = frozenset[str]().union(*rule.gpus.values())
    reading = offer_tracks(connection, start=begin, end=end, now=now, gpu_keys=keys)
    sources = polled(connection, start=begin, end=end)
    at = looks_of(sources, rule.every, start, end)
    if every is not None and at:
        at = steady_looks(every, at[0], end)
    quotes = list(_quotes(connection, rule, reading.tracks, sources))
    market = _Market(connection, rule, catalogue, quotes, sources, begin)
    return Seen(at, list(market.at(at, days)), len(reading.tracks), len(reading.replaced))


def _quotes(
    connection: psycopg.Connection[Any], rule: Rule, tracks: Sequence[Track],
    sources: Iterable[Polled],
) -> Iterator[_Quote]:  # fmt: skip
    """The prices of the *tracks*, with what the polls of their sources say of each."""
    by_slug = {one.source: one for one in sources}
    offers = offers_by_id(connection, {int(track.offer_ids[0]) for track in tracks})
    monthly = {o.offer_id for o in offers.values() if o.price_unit in _BY_MONTH}
    natives = native_prices(connection, monthly, ()) if monthly else {}
    fields = (*_KIND, *(f for of, f in _KIND_IF_FILTERED.items() if getattr(rule.filters, of)))
    for track in tracks:
        offer = offers[int(track.offer_ids[0])]
        source = by_slug.get(offer.source)
        told = offer._replace(fallback=track.key.fallback)
        if track.key.source_kind == "import":
            # What a tracker saw its seller ask; of the seller's own polls there was none.
            told = told._replace(source=offer.provider)
        kind = (*(getattr(told, field) for field in fields), track.key.part)
        steps = zip(track.starts.tolist(), track.ends.tolist(), track.micro_usd.tolist(),
                    strict=True)  # fmt: skip
        for first, last, micro in steps:
            start, end = from_micros(first), from_micros(last)
            native, rate = natives.get((offer.offer_id, micro), (offer.price_native, None))
            priced = told._replace(
                price_micro_usd=micro, price_native=native, fx_rate=rate, valid_from=start,
                seen_at=start, stale_at=_NEVER,
            )  # fmt: skip
            sure_at, doubted_until = _polls_on(source, start, end)
            if not offer.marketplace:
                sure_at = start  # a list price needs no second poll
            yield _Quote(priced, kind, start, end, sure_at, doubted_until)


def _polls_on(
    source: Polled | None, start: datetime, end: datetime
) -> tuple[datetime, datetime | None]:
    """When a second poll had seen a price of *start*, and, where it ended because its source had
    fallen silent, until when it may have been meant."""
    if source is None or source.is_import:
        return start, None
    least = start + max(source.every / 2, _INSTANT)
    after = bisect_right(source.accepted, least - _INSTANT)
    sure_at = source.accepted[after] if after < len(source.accepted) else _NEVER
    following = bisect_right(source.accepted, end - _INSTANT)
    if following and source.accepted[following - 1] + source.ttl <= end + _INSTANT:
        again = source.accepted[following] if following < len(source.accepted) else _NEVER
        if again > end:
            return sure_at, min(again, end + DOUBT_HOLDS)
    return sure_at, None


@dataclass(slots=True)
class _Kind:
    """The prices known of one kind, cheapest first, as (micro-USD, number of the quote)."""

    known: list[tuple[int, int]]
    chosen: tuple[int, ...] | None = None


class _Market:
    """What was known at each look, and what a rule finds in that."""

    def __init__(
        self, connection: psycopg.Connection[Any], rule: Rule, catalogue: Catalogue,
        quotes: Sequence[_Quote], sources: Sequence[Polled], begin: datetime,
    ) -> None:  # fmt: skip
        self._rule, self._catalogue, self._quotes = rule, catalogue, quotes
        self._discounts: list[Discount] = list(discounts(connection, begin))
        self._providers = {p.slug: p for p in status.providers(connection)}
        self._asked = _by_name(sources, quotes)
        self._watches_providers = isinstance(rule.condition, ProviderStale)
        self._made: dict[Any, Evaluation] = {}
        self._bills: dict[tuple[Any, ...], PastBills] = {}
        self._seen: dict[tuple[int, str], StoredOffer] = {}

    def at(self, looks: Sequence[datetime], days: int) -> Iterator[Evaluation]:
        """What there is to see at each of *looks*; of a drop, *days* before it too."""
        earlier = [at - timedelta(days=days) for at in looks] if days else []
        past = iter(_known(self._quotes, earlier, self._hosts()))
        for at, known in zip(looks, _known(self._quotes, looks, self._hosts()), strict=True):
            yield self._found(at, known, next(past) if days else None, days)

    def _hosts(self) -> int | None:
        if isinstance(self._rule.condition, NewOfferBelow):
            return None
        return _HOSTS.get(self._rule.rank)

    def _found(self, at: datetime, known: _Known, past: _Known | None, days: int) -> Evaluation:
        book = self._book(at)
        moments = (at, *([at - timedelta(days=days)] if days else []))
        answering = tuple(self._answering(moment) for moment in moments) if days else ()
        key = known, past, answering, _name(book), at if self._watches_providers else None
        if key not in self._made:
            self._made[key] = evaluate(self._rule, self._snapshot(at, known, past, book, days), at)
        return self._made[key]

    def _book(self, at: datetime) -> DiscountBook:
        return DiscountBook.at(self._discounts, at) if self._discounts else DiscountBook()

    def _answering(self, at: datetime) -> frozenset[str]:
        return frozenset(n for n in self._asked if self._coverage(n, at).known_at(at))

    def _coverage(self, name: str, at: datetime) -> Coverage:
        moments, _, ttl = self._asked[name]
        before = bisect_right(moments, at)
        return Coverage(
            moments[0] if moments else None, moments[before - 1] if before else None, ttl
        )

    def _snapshot(
        self, at: datetime, known: _Known, past: _Known | None, book: DiscountBook, days: int
    ) -> Snapshot:
        then = {}
        if past is not None:
            moment = at - timedelta(days=days)
            coverage = {name: self._coverage(name, moment) for name in self._asked}
            sold = frozenset(
                (q.offer.source, q.offer.gpu_key) for q in self._quotes
                if q.start <= moment and q.end > moment - DOUBT_HOLDS
            )  # fmt: skip
            offers = tuple(self._quotes[i].offer for i, _ in past.fresh)
            then[days] = Past(moment, offers, coverage, sold)
        return Snapshot(
            offers=tuple(self._offers(known)), held=(), providers=self._providers_at(at),
            discounts=book, catalogue=self._catalogue, past=then,
            costing=self._bills_under(book).costing,
        )  # fmt: skip

    def _bills_under(self, book: DiscountBook) -> PastBills:
        name = _name(book)
        if name not in self._bills:
            self._bills[name] = PastBills(self._catalogue, book)
        return self._bills[name]

    def _offers(self, known: _Known) -> Iterator[StoredOffer]:
        for number, sure in known.fresh:
            yield self._as_seen(number, "sure" if sure else "new")
        for number in known.stale:
            yield self._as_seen(number, "stale")

    def _as_seen(self, number: int, how: str) -> StoredOffer:
        """The offer of a quote as it is known at a look: the same object each time."""
        offer = self._seen.get((number, how))
        if offer is None:
            quote = self._quotes[number]
            offer = quote.offer._replace(seen_at=quote.start)
            if how == "sure":
                every = self._every(offer.source)
                offer = offer._replace(seen_at=quote.start + max(every / 2, _INSTANT))
            elif how == "stale":
                offer = offer._replace(seen_at=quote.end, stale_at=quote.end)
            self._seen[number, how] = offer
        return offer

    def _every(self, source: str) -> timedelta:
        provider = self._providers.get(source)
        return timedelta(seconds=(provider.every_seconds or 0) if provider else 0)

    def _providers_at(self, at: datetime) -> Mapping[str, StoredProvider]:
        found = {}
        for name, (moments, tries, ttl) in self._asked.items():
            tried, before = bisect_right(tries, at), bisect_right(moments, at)
            if name in self._providers and (tried or before):
                last_ok = moments[before - 1] if before else None
                found[name] = self._providers[name]._replace(
                    last_ok_at=last_ok, last_attempt_at=tries[tried - 1] if tried else last_ok,
                    ttl_seconds=int(ttl.total_seconds()),
                )  # fmt: skip
        return found


def _name(book: DiscountBook) -> tuple[Any, ...]:
    return tuple((name, tuple(some)) for name, some in book.by_provider.items())


_Asked = tuple[Sequence[datetime], Sequence[datetime], timedelta]


def _by_name(sources: Iterable[Polled], quotes: Iterable[_Quote]) -> dict[str, _Asked]:
    """When each was asked with success, when at all, and how long that held. Whose prices come
    from imports alone was asked whenever a price of it began."""
    asked: dict[str, _Asked] = {}
    imported = timedelta(0)
    for one in sources:
        if one.is_import:
            imported = max(imported, one.ttl)
        else:
            asked[one.source] = (one.accepted, one.attempts, one.ttl)
    seen: dict[str, set[datetime]] = {}
    for quote in quotes:
        if quote.offer.source not in asked:
            seen.setdefault(quote.offer.source, set()).add(quote.start)
    for name, moments in seen.items():
        asked[name] = (sorted(moments), sorted(moments), imported)
    return asked


class _Known(NamedTuple):
    """The quotes that matter at a look, by number: fresh ones, each with whether two polls had seen
    it, and those whose source was silent."""

    fresh: tuple[tuple[int, bool], ...]
    stale: tuple[int, ...]


def _known(
    quotes: Sequence[_Quote], looks: Sequence[datetime], hosts: int | None
) -> Iterator[_Known]:
    """What is known at each of *looks*, which rise; of each kind the cheapest *hosts* (None: all),
    for of offers that differ by nothing else no more can matter."""
    turns = sorted(_turns(quotes))
    kinds: dict[tuple[bool, tuple[Any, ...]], _Kind] = {}
    sure, at, known = set[int](), 0, _Known((), ())
    for look in looks:
        before = at
        while at < len(turns) and turns[at][0] <= look:
            _, what, number = turns[at]
            _take(kinds, sure, what, number, quotes[number])
            at += 1
        if at != before:
            fresh, stale = list[int](), list[int]()
            for (is_stale, _), kind in kinds.items():
                if kind.chosen is None:
                    kind.chosen = _cheapest(kind.known, quotes, hosts)
                (stale if is_stale else fresh).extend(kind.chosen)
            known = _Known(
                tuple((number, number in sure) for number in sorted(fresh)), tuple(sorted(stale))
            )
        yield known


_ENDS, _FORGOTTEN, _BEGINS, _SURE = range(4)


def _turns(quotes: Sequence[_Quote]) -> Iterator[tuple[datetime, int, int]]:
    for number, quote in enumerate(quotes):
        yield quote.start, _BEGINS, number
        yield quote.end, _ENDS, number
        if quote.sure_at < quote.end:
            yield quote.sure_at, _SURE, number
        if quote.doubted_until is not None:
            yield quote.doubted_until, _FORGOTTEN, number


def _take(
    kinds: dict[tuple[bool, tuple[Any, ...]], _Kind], sure: set[int], what: int, number: int,
    quote: _Quote,
) -> None:  # fmt: skip
    entry = quote.offer.price_micro_usd, number

    def of(*, stale: bool) -> _Kind:
        kind = kinds.setdefault((stale, quote.kind), _Kind([]))
        kind.chosen = None
        return kind

    if what == _SURE:
        sure.add(number)
    elif what == _BEGINS:
        insort(of(stale=False).known, entry)
    elif what == _FORGOTTEN:
        of(stale=True).known.remove(entry)
    else:
        of(stale=False).known.remove(entry)
        sure.discard(number)
        if quote.doubted_until is not None:
            insort(of(stale=True).known, entry)


def _cheapest(
    known: Sequence[tuple[int, int]], quotes: Sequence[_Quote], hosts: int | None
) -> tuple[int, ...]:
    if hosts is None:
        return tuple(number for _, number in known)
    taken, chosen = set[str](), list[int]()
    for _, number in known:
        offer = quotes[number].offer
        # As in ``confirm.figure``: a list price stands for itself.
        host = host_of(offer.native_id) if offer.marketplace else offer.native_id
        if host not in taken:
            taken.add(host)
            chosen.append(number)
            if len(taken) == hosts:
                break
    return tuple(chosen)


def not_kept(rule: Rule) -> Collection[str]:
    """The filters of *rule* that history cannot answer."""
    return [name for name in NOT_KEPT if getattr(rule.filters, name)]
