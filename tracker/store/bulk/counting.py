"""What was kept of a unit, as counts for people."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import numpy as np

from tracker.store.bulk.cells import Ints
from tracker.store.bulk.offers import Offers, Words
from tracker.store.bulk.unit import Judged, Unit

_DAY = 86_400_000_000
_ZERO = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Kept(NamedTuple):
    """Rows kept: how many by seller and GPU, on which days, and the first and last moment."""

    rows: int
    sellers: dict[str, int]
    gpus: dict[str, int]
    days: list[str]
    first: datetime | None
    last: datetime | None


def kept(unit: Unit, judged: Judged, offers: Offers) -> Kept:
    """Count the rows that were kept."""
    starts = unit.starts.values[judged.kept]
    if not len(starts):
        return Kept(0, {}, {}, [], None, None)
    known = offers.known
    days = [date.fromordinal(_ZERO + day).isoformat() for day in np.unique(starts // _DAY).tolist()]
    return Kept(
        len(starts), _counts(offers.sellers, known.sellers[judged.offers]),
        _counts(offers.gpus, known.gpus[judged.offers]), days,
        _EPOCH + timedelta(microseconds=int(starts.min())),
        _EPOCH + timedelta(microseconds=int(starts.max())),
    )  # fmt: skip


def _counts(words: Words, numbers: Ints) -> dict[str, int]:
    counts = np.bincount(numbers, minlength=len(words.all)).tolist()
    return {word: count for word, count in zip(words.all, counts, strict=True) if count}
