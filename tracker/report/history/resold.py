"""Machines that a reseller lists count once, as in the live answer, at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tracker.report.filters import RESOLD, machine_of
from tracker.store.reads import StoredOffer
from tracker.store.series.coverage import Intervals, cut_at, union
from tracker.store.series.keys import Track


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
            own.setdefault(machine_of(offer, offer.provider), []).append(
                (offer.form_factor, intervals)
            )
    kept = []
    for track in tracks:
        offer = offers[int(track.offer_ids[0])]
        same = [
            intervals
            for form, intervals in own.get(machine_of(offer, offer.upstream), ())
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
