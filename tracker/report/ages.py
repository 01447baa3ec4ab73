"""How old a price is, and whether it is too old to be ranked."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from tracker.store.reads import StoredOffer


def is_stale(offer: StoredOffer, now: datetime) -> bool:
    """Whether the price has not been confirmed for longer than its source's time to live."""
    return now >= offer.stale_at


def known_at(offer: StoredOffer) -> datetime | None:
    """The moment the price is known to have held: the last poll that confirmed it, or for a price
    that a person typed the day it was read (00:00 UTC), however often its file has been polled.

    None for a price of the past of which that is not known.
    """
    if offer.valid_as_of is None:
        return offer.seen_at
    read_at = datetime.combine(offer.valid_as_of, time.min, UTC)
    # Read as of a past moment, the date may be a later one: that of a price typed once more.
    return read_at if offer.seen_at is None else min(offer.seen_at, read_at)


def age_of(offer: StoredOffer, now: datetime) -> timedelta | None:
    """How long ago ``known_at`` is, if that is known."""
    seen_at = known_at(offer)
    return None if seen_at is None else now - seen_at


def age_seconds(offer: StoredOffer, now: datetime) -> int | None:
    """The same in whole seconds."""
    age = age_of(offer, now)
    return None if age is None else int(age.total_seconds())
