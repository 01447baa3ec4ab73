"""What the live offers of each source depend on, beside their own rows: to read few of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from tracker.store.stored import Connection, StoredOffer, fetch


class Told(NamedTuple):
    """What offers say of their seller that stands in the seller's row."""

    kind: str
    marketplace: bool
    default_tiers: tuple[str, ...]


class SourceState(NamedTuple):
    """A row of ``provider``: while it stays the same, so do the live offers polled there, but for
    what their sellers' rows say. ``seq`` counts what was recorded."""

    seq: int
    last_ok_at: datetime | None
    ttl_seconds: int | None
    told: Told


def states(connection: Connection) -> dict[str, SourceState]:
    """The state of everybody who is polled or sells, by name."""
    rows = fetch(
        connection,
        "SELECT slug, seq, last_ok_at, ttl_seconds, kind, marketplace, default_tiers FROM provider",
    )
    return {
        slug: SourceState(seq, last_ok_at, ttl, Told(kind, marketplace, tuple(tiers)))
        for slug, seq, last_ok_at, ttl, kind, marketplace, tiers in rows
    }


class Stamp(NamedTuple):
    """The states that offers of one source were read at: its own, and what their sellers told."""

    source: SourceState
    sellers: tuple[tuple[str, Told], ...]

    @classmethod
    def of(
        cls, source: str, offers: Collection[StoredOffer], found: dict[str, SourceState]
    ) -> Stamp:
        """That of the *offers* of *source*, read in one snapshot with *found*."""
        sellers = sorted({o.provider for o in offers} - {source})
        return cls(found[source], tuple((slug, found[slug].told) for slug in sellers))

    def holds(self, source: str, found: dict[str, SourceState]) -> bool:
        """Whether the offers would be read as they were."""
        return found.get(source) == self.source and all(
            slug in found and found[slug].told == told for slug, told in self.sellers
        )
