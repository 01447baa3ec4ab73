"""What goes into the recorder and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracker.domain import spans
from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.offer import Discount, Offer
from tracker.domain.quality import Pending
from tracker.domain.surge import Sizes
from tracker.store.schema import ACCEPTED_STATUSES, POLL_STATUSES

if TYPE_CHECKING:
    from tracker.provider import Payload, Rejected

TTL_INTERVALS = 3  # a price is known for so many intervals after the poll that saw it
MAX_MICRO_USD = 2**63 - 1  # of an int8 column

_RECORDABLE = tuple(s for s in POLL_STATUSES if s not in ("late", "duplicate"))

Key = bytes  # Poll has a field named bytes


@dataclass(frozen=True, kw_only=True)
class Poll:
    """Everything one poll brought, ready to be recorded.

    ``status`` is complete, partial, empty, failed or shrunk; only the first two touch prices, and
    all but failed bring their findings (quarantine, unknown GPUs) up to date.
    ``polled_at`` is the moment the prices are from. ``ttl_seconds`` defaults to three intervals.
    ``facts`` are plain JSON values. ``released`` are offers among the accepted that a gate has
    let go after enough confirmations. Raises ValueError on contradictions.
    """

    source: str
    status: str
    started_at: datetime
    polled_at: datetime
    every_seconds: int
    ttl_seconds: int | None = None
    kind: str = "stream"
    marketplace: bool = False
    default_tiers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    accepted: Sequence[Offer] = ()
    quarantined: Sequence[Quarantined] = ()
    released: Sequence[Quarantined] = ()
    rejected: Sequence[Rejected] = ()
    unmapped: Sequence[UnmappedGpu] = ()
    discounts: Sequence[Discount] = ()
    payloads: Sequence[Payload] = ()
    error: str | None = None
    incomplete_reason: str | None = None
    content_sha256: Key | None = None
    bytes: int = 0
    requests: int = 0
    duration_ms: int = 0

    def __post_init__(self) -> None:
        if self.status not in _RECORDABLE:
            raise ValueError(f"a poll is one of {', '.join(_RECORDABLE)}, not {self.status!r}")
        if self.polled_at.tzinfo is None or self.started_at.tzinfo is None:
            raise ValueError("the times of a poll need a time zone")
        if self.every_seconds <= 0 or self.ttl.total_seconds() <= 0:
            raise ValueError("a poll's interval and time to live must be positive")

    @property
    def ttl(self) -> timedelta:
        """How long its prices are known for."""
        return timedelta(seconds=self.ttl_seconds or self.every_seconds * TTL_INTERVALS)

    @cached_property
    def offers(self) -> dict[Key, Offer]:
        """The accepted offers by key. Of two with one key the dearer stays, in any order."""
        offers: dict[Key, Offer] = {}
        for offer in self.accepted:
            if offer.source != self.source:
                raise ValueError(f"an offer of {offer.source} in a poll of {self.source}")
            other = offers.setdefault(offer.key, offer)
            if other is not offer and offer.listed.price.amount > other.listed.price.amount:
                offers[offer.key] = offer
        return offers

    @cached_property
    def seen(self) -> spans.Seen:
        """What is compared with the previous poll. Prices the store cannot hold are left out."""
        return spans.see(self.offers, MAX_MICRO_USD)

    @property
    def effective_status(self) -> str:
        """The status, but a poll that brought nothing at all is empty whatever it claims."""
        if self.status in ACCEPTED_STATUSES and not (
            self.seen or self.quarantined or self.unmapped or self.discounts
        ):
            return "empty"
        return self.status


@dataclass(frozen=True, slots=True)
class Recorded:
    """How a poll was recorded. ``status`` may be late or duplicate: then history is untouched.

    ``opened``: known again or for the first time; ``changed``: at another native price;
    ``updated``: something beside the price moved; ``closed``: no longer known. ``reason`` says
    why it failed, where only the recorder could know.
    """

    status: str
    poll_id: int
    offers: int = 0
    opened: int = 0
    changed: int = 0
    closed: int = 0
    updated: int = 0
    unchanged: int = 0
    quarantined: int = 0
    rejected: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PollContext:
    """What the quality gates need to know of a source before they judge a poll.

    ``last_price_micro_usd`` holds the open offers and, for quarantined ones, the price that was in
    force before. ``complete_count`` are the offers of the last complete poll and those that it
    held until confirmed. ``shrunk_counts`` are the polls refused as shrunk since the last accepted
    one, newest first, those in quick succession left out.
    ``pending`` is keyed by (offer key, gate). ``sizes``: how many offers its polls bring.
    """

    last_ok_at: datetime | None = None
    last_price_micro_usd: Mapping[bytes, int] = field(default_factory=dict)
    complete_count: int | None = None
    shrunk_counts: tuple[int, ...] = ()
    pending: Mapping[tuple[bytes, str], Pending] = field(default_factory=dict)
    content_sha256: bytes | None = None
    content_since: datetime | None = None
    consecutive_failures: int = 0
    sizes: Sizes = field(default_factory=Sizes)
