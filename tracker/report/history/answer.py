"""Job cost over time: for each GPU or provider, what the cheapest way to run a job cost when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate
from tracker.domain.terms import Discount
from tracker.report.costing import billable_ways, known_ways
from tracker.report.discounts import DiscountBook
from tracker.report.filters import ANY, DEFAULT_MARKETS, Filters, reason_by
from tracker.report.history.lines import Line, line_of
from tracker.report.history.resold import without_resold
from tracker.report.history.said import with_said
from tracker.report.history.steps import CostStep, Names, Natives, Piece, by_month, cheapest_steps
from tracker.report.history.versions import Versions, digest_of, machine_gpus
from tracker.report.needs import with_needs
from tracker.store import job_estimates, reads
from tracker.store.beginnings import Beginning, beginnings
from tracker.store.past_offers import native_prices, offers_by_id
from tracker.store.reads import StoredOffer
from tracker.store.series.keys import Reading, Track, from_micros
from tracker.store.series.tracks import OfferFilter, read_tracks

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

EstimateVersion: TypeAlias = Literal["recorded", "latest"]
Per: TypeAlias = Literal["gpu", "provider"]


class Question(NamedTuple):
    """What is asked: *job* under *filters*, from *start* until before *end* (aware).

    ``groups`` are the GPUs told apart, by the names asked for; none: each family is one. With
    ``per`` provider each seller is one instead.
    """

    job: Job
    filters: Filters
    start: datetime
    end: datetime
    groups: tuple[str, ...] = ()
    per: Per = "gpu"
    estimates: EstimateVersion = "recorded"


class Estimates(NamedTuple):
    """Which estimates the past was priced with. ``first``: when the first one was recorded, None
    when none is on record; ``changes``: when they changed within the window."""

    first: datetime | None
    changes: tuple[datetime, ...]


class HistoryReport(NamedTuple):
    """The answer. ``series`` holds the steps of each group, ``overall`` those of the cheapest of
    all. ``kinds`` counts the kinds of offers (alike but for their price) that count, ``excluded``
    those that do not, by reason; ``replaced`` those that gave way, at some time, to what their
    sellers told themselves. ``begins_at``: when that of the GPUs asked for does (of all, where
    none of them was ever on record). ``spans_from``:
    what a filter asks of single offers is not known before. ``ahead``: a poll that the clock says
    is yet to come. ``record``: since when prices of these GPUs and sellers are known, source by
    source.
    """

    question: Question
    now: datetime
    series: Mapping[str, Sequence[CostStep]]
    overall: Sequence[CostStep]
    kinds: int
    excluded: Counter[str]
    replaced: int
    estimates: Estimates
    begins_at: datetime | None
    spans_from: datetime | None
    ahead: datetime | None = None
    record: tuple[Beginning, ...] = ()

    @property
    def end(self) -> datetime:
        """Until when anything can be known."""
        return min(self.question.end, self.now)


def history_report(
    connection: Connection, question: Question, catalogue: Catalogue, now: datetime
) -> HistoryReport:
    """Read, filter, estimate, bill and reduce. Raises UnknownGpu for a name that nobody knows."""
    job = question.job
    question = question._replace(filters=with_needs(question.filters, job))
    filters, start, end = question.filters, question.start, min(question.end, now)
    excluded: Counter[str] = Counter()
    reading = _read(connection, question, catalogue, now)
    offers = offers_by_id(connection, _first_ids(reading.tracks))
    tracks = _selected(reading.tracks, offers, filters, catalogue, now, excluded)
    tracks = without_resold(tracks, offers, excluded)
    recorded = job_estimates.of_job(connection, digest_of(job))
    versions = Versions.read(recorded if question.estimates == "recorded" else [])
    discounts = reads.discounts(connection, start)
    changes = versions.changes(start, end)
    moments = sorted({start, end, *changes, *_edges(discounts, start, end)})
    pieces, kinds = _pieces(tracks, offers, job, catalogue, versions, discounts, moments, excluded)
    series, overall = cheapest_steps(
        pieces, names_of(question, catalogue), lambda ids: offers_by_id(connection, ids),
        _natives(connection, pieces),
        job.limits.budget_usd if job.limits is not None else None,
    )  # fmt: skip
    series, overall = with_said(connection, series, overall, start, end)
    record = beginnings(connection, _gpu_keys(filters, catalogue), filters.providers or None)
    return HistoryReport(
        question=question, now=now, series=series, overall=overall, kinds=kinds,
        excluded=excluded, replaced=len(reading.replaced),
        estimates=Estimates(versions.first, tuple(changes)),
        begins_at=_first_at(record or beginnings(connection)) or reads.first_poll_at(connection),
        spans_from=reading.spans_from, ahead=_ahead(connection, now), record=record,
    )  # fmt: skip


def _gpu_keys(filters: Filters, catalogue: Catalogue) -> frozenset[str] | None:
    if not filters.gpus:
        return None
    return frozenset().union(*(catalogue.select(name) for name in filters.gpus))


def _read(
    connection: Connection, question: Question, catalogue: Catalogue, now: datetime
) -> Reading:
    filters = question.filters
    gpu_keys = _gpu_keys(filters, catalogue)
    markets = filters.markets or DEFAULT_MARKETS
    return read_tracks(
        connection, start=question.start, end=question.end, now=now, gpu_keys=gpu_keys,
        sellers=filters.providers or None, markets=None if ANY in markets else markets,
        tiers=filters.tiers if filters.tiers and ANY not in filters.tiers else None,
        regions=filters.regions or None, countries=filters.countries or None,
        offer_filter=OfferFilter(
            filters.min_ram_gib, filters.min_vcpus, filters.interconnect, filters.dedicated,
            filters.kinds,
        ),
    )  # fmt: skip


def _first_ids(tracks: Sequence[Track]) -> set[int]:
    return {int(track.offer_ids[0]) for track in tracks}


def _natives(connection: Connection, pieces: Sequence[Piece]) -> Natives:
    """The own prices of the offers that are sold by the month."""
    tracks = [piece.track for piece in pieces if by_month(piece.track)]
    if not tracks:
        return {}
    ids = {id_ for track in tracks for id_ in track.offer_ids.tolist()}
    keys = {track.key.id for track in tracks if track.key.id is not None}
    return native_prices(connection, ids, keys)


def _selected(
    tracks: Sequence[Track], offers: Mapping[int, StoredOffer], filters: Filters,
    catalogue: Catalogue, now: datetime, excluded: Counter[str],
) -> list[Track]:  # fmt: skip
    """The tracks whose offers the filters keep; the others are counted."""
    reason_of = reason_by(filters, catalogue, now)
    kept = []
    for track in tracks:
        reason = reason_of(offers[int(track.offer_ids[0])])
        if reason is None:
            kept.append(track)
        else:
            excluded[reason] += 1
    return kept


def _pieces(
    tracks: Sequence[Track], offers: Mapping[int, StoredOffer], job: Job, catalogue: Catalogue,
    versions: Versions, discounts: Sequence[Discount], moments: Sequence[datetime],
    excluded: Counter[str],
) -> tuple[list[Piece], int]:  # fmt: skip
    """The tracks that make a bill, cut at the *moments* at which their lines may change."""
    books = [DiscountBook.at(discounts, moment) for moment in moments[:-1]]
    # A budget is of a price, and looked at with it.
    if job.limits is not None:
        job = replace(job, limits=job.limits._replace(budget_usd=None))
    pieces, kinds = list[Piece](), 0
    lines_of: dict[tuple[Any, ...], tuple[Line, ...] | NoEstimate] = {}
    for track in tracks:
        offer = offers[int(track.offer_ids[0])]
        first, last = from_micros(int(track.starts[0])), from_micros(int(track.ends[-1]))
        reasons, mine = list[str](), 0
        for start, end, book in zip(moments[:-1], moments[1:], books, strict=True):
            if first >= end or last <= start:
                continue
            known = versions.at(offer.gpu_key, machine_gpus(job, offer), start)
            alike = (_alike(track), book.percent_for(offer), id(known) if known else None)
            lines = lines_of.get(alike)
            if lines is None:
                known = known or known_ways(job, offer, catalogue)
                lines = lines_of[alike] = _lines(offer, job, known, book)
            if isinstance(lines, NoEstimate):
                reasons.append(lines.short)
                continue
            pieces.append(Piece(track, offer, start, end, lines))
            mine += 1
        kinds += bool(mine)
        if reasons and not mine:
            excluded[reasons[-1]] += 1
    return pieces, kinds


def _alike(track: Track) -> tuple[Any, ...]:
    """What decides the lines of a track, but for its discount and the estimates."""
    key = track.key
    return key.gpu_key, key.gpu_count, key.part, key.market, key.terms, by_month(track)


def _lines(
    offer: StoredOffer, job: Job, known: Any, book: DiscountBook
) -> tuple[Line, ...] | NoEstimate:
    ways = billable_ways(offer, job, known)
    if isinstance(ways, NoEstimate):
        return ways
    # Any price will do to find the lines: what is stored of an offer of the past has none.
    priced = offer._replace(price_micro_usd=1_000_000, price_native=Decimal(730))
    lines = (line_of(priced, way, job, book) for way in ways)
    found = tuple(line for line in lines if line is not None)
    return found or NoEstimate("no bill", "without a bill")


def names_of(question: Question, catalogue: Catalogue) -> Names:
    """The groups that an offer belongs to in the answer to *question*."""
    if question.per == "provider":
        return lambda offer: (offer.provider,)
    if not question.groups:
        return lambda offer: (offer.gpu_family,)
    keys = {name: catalogue.select(name) for name in question.groups}
    return lambda offer: tuple(name for name, of in keys.items() if offer.gpu_key in of)


def _edges(discounts: Sequence[Discount], start: datetime, end: datetime) -> list[datetime]:
    """When discounts begin and end within the window."""
    moments = (
        moment
        for d in discounts
        for moment in (datetime.combine(d.valid_as_of, time.min, UTC), d.expires_at, d.since)
    )
    return [moment for moment in moments if moment is not None and start < moment < end]


def _first_at(record: Sequence[Beginning]) -> datetime | None:
    return record[0].at if record else None


def _ahead(connection: Connection, now: datetime) -> datetime | None:
    row = connection.execute(
        "SELECT max(last_ok_at) FROM provider WHERE last_ok_at > %s",
        (now + timedelta(minutes=1),),
    ).fetchone()
    return row[0] if row else None
