"""Machines that a reseller lists count once, as in the live answer, at every moment.

Neither the price floor nor its keys know whose machine a reseller's offer is. Where there are such
offers at all, those of resellers are read one by one, each upstream for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracker.report.filters import RESOLD
from tracker.store.reads import StoredOffer
from tracker.store.series.coverage import Intervals, cut_at, union
from tracker.store.series.keys import Reading, Track
from tracker.store.series.tracks import OfferFilter, OfferIdentity
from tracker.store.stored import fetch

if TYPE_CHECKING:
    import psycopg

# Reads what is of these sellers (None: of all), where the filter (None: none) keeps it.
Read = Callable[[Collection[str] | None, OfferFilter | None], Reading]

_RESOLD_SQL = (
    "SELECT DISTINCT p.slug, o.upstream FROM offer o JOIN provider p ON p.id = o.seller_id"
    " WHERE o.upstream IS NOT NULL ORDER BY 1, 2"
)
_SELLERS_SQL = "SELECT slug FROM provider ORDER BY 1"


def read_apart(
    connection: psycopg.Connection[Any], read: Read, sellers: Collection[str] | None
) -> Reading:
    """What *read* gives of *sellers* (None: of all), no track of more than one upstream."""
    pairs = [
        (reseller, upstream)
        for reseller, upstream in fetch(connection, _RESOLD_SQL)
        if sellers is None or reseller in sellers
    ]
    if not pairs:
        return read(sellers, None)
    resellers = sorted({reseller for reseller, _ in pairs})
    everybody = sellers or [slug for (slug,) in fetch(connection, _SELLERS_SQL)]
    others = [slug for slug in everybody if slug not in resellers]
    readings = [read(others, None), read(resellers, _of(None))]
    readings += [read([reseller], _of(upstream)) for reseller, upstream in pairs]
    return Reading(
        [track for reading in readings for track in reading.tracks],
        [track for reading in readings for track in reading.replaced],
        max((r.spans_from for r in readings if r.spans_from), default=None),
    )


def _of(upstream: str | None) -> OfferFilter:
    def wanted(one: OfferIdentity) -> bool:
        return one.upstream == upstream

    return wanted


def without_resold(
    tracks: Sequence[Track], offers: Mapping[int, StoredOffer], excluded: Counter[str]
) -> list[Track]:
    """*tracks* without the times at which a machine's own provider listed the same machine.

    See ``_leave_out_resold`` of tracker/report/filters.py: the same rule, for one moment. A track
    of which nothing is left is counted.
    """
    own: dict[tuple[object, ...], list[tuple[str | None, Intervals]]] = {}
    for track in tracks:
        offer = offers[int(track.offer_ids[0])]
        if offer.upstream is None and offer.source == offer.provider:
            intervals = Intervals(track.starts, track.ends)
            own.setdefault(_machine(offer, offer.provider), []).append(
                (offer.form_factor, intervals)
            )
    kept = []
    for track in tracks:
        offer = offers[int(track.offer_ids[0])]
        same = [
            intervals
            for form, intervals in own.get(_machine(offer, offer.upstream), ())
            if None in (form, offer.form_factor) or form == offer.form_factor
        ]
        if offer.upstream is None or not same:
            kept.append(track)
            continue
        outside = cut_at(track, union(same))[1]
        if len(outside.starts):
            kept.append(outside)
        else:
            excluded[RESOLD] += 1
    return kept


def _machine(offer: StoredOffer, run_by: str | None) -> tuple[object, ...]:
    return (run_by, offer.gpu_family, offer.vram_gb, offer.is_slice, offer.gpu_count, offer.market)
