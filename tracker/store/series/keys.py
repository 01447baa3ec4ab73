"""What a price series is of, and the series itself: ``FloorKey`` and ``Track``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracker.domain.terms import Terms

Ints: TypeAlias = NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class FloorKey(NamedTuple):
    """What makes the bills of two offers differ by nothing but their price.

    ``source`` was polled (``source_kind``: stream, pricebook, import…), ``seller`` sells.
    ``id`` is that of ``floor_key``; None for a key that was put together from spans. ``terms`` are
    part of it: two offers with other minimums or commitments have two keys. ``fallback``: a list
    price that stands in where the seller has told none itself. ``upstream`` runs a machine that is
    resold; ``part`` is the MIG profile of a slice.
    """

    id: int | None
    source: str
    source_kind: str
    seller: str
    gpu_key: str
    gpu_family: str
    is_slice: bool
    gpu_count: Decimal
    market: str
    tier: str
    price_unit: str
    currency: str
    price_kind: str
    terms: Terms
    fallback: bool
    upstream: str | None = None
    part: str | None = None

    @property
    def gives_way(self) -> bool:
        """Whether the seller's own polls win over it: list prices that stand in, and imports."""
        return self.fallback or self.source_kind == "import"


class Track(NamedTuple):
    """One key's cheapest known price within a window.

    Half-open steps in order that do not overlap; between two of them there may be a gap, in which
    no price is known. Two steps that touch differ in price. Times are microseconds since 1970 UTC
    and lie within the window; ``micro_usd`` is per machine-hour; ``offer_ids`` name an offer that
    had the price when the step began.
    """

    key: FloorKey
    starts: Ints
    ends: Ints
    micro_usd: Ints
    offer_ids: Ints


class Reading(NamedTuple):
    """What was read. ``replaced`` are the parts of tracks (imports, list prices that stand in)
    that do not count, because the seller's own polls covered that market at the time.

    ``spans_from``: single offers were read, and before this moment not all of them are kept any
    more, so that prices may be missing there; None where that is not so within the window.
    """

    tracks: list[Track]
    replaced: list[Track]
    spans_from: datetime | None = None


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC of an aware *moment*, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The moment (UTC) that is *micros* microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=int(micros))


def micros_of(moments: Sequence[datetime]) -> Ints:
    """``to_micros`` of all of them: the edges of buckets, say."""
    return np.array([to_micros(moment) for moment in moments], dtype=np.int64)
