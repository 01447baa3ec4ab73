"""Offers in order, and providers as they stand: the read side of lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.report.ages import is_stale
from tracker.report.filters import STALE, Filters, select
from tracker.report.shapes.rows import offer_row

if TYPE_CHECKING:
    from tracker.domain.gpu import Catalogue
    from tracker.report.asked import Asked
    from tracker.report.health import ProviderHealth
    from tracker.store.reads import StoredOffer

PROVIDER_COLUMNS = (
    "provider", "kind", "last_ok_at", "age_seconds", "stale", "last_status", "last_error",
    "consecutive_failures", "offers", "quarantined", "rejected", "unmapped", "unchanged_since",
    "usual_offers", "coverage", "retired", "reachable", "configured", "problem", "key",
    "key_variable", "key_set", "key_adds", "next_due_at",
)  # fmt: skip
SET_UP_COLUMNS = ("configured", "problem", "key", "key_variable", "key_set", "key_adds")


class OffersReport(NamedTuple):
    """The offers that the filters leave, the cheapest per GPU-hour first, and what is left out."""

    filters: Filters
    now: datetime
    offers: tuple[StoredOffer, ...]
    total_offers: int
    excluded: Counter[str]
    begins_at: datetime | None  # of history, where nothing was on record

    @property
    def only_stale(self) -> bool:
        """Nothing fresh is left, but stale offers would match."""
        return not self.offers and self.excluded[STALE] > 0

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """The first *top* (None: all) as plain values."""
        return [offer_row(o, self.now, is_stale(o, self.now)) for o in self.offers[:top]]

    def document(self) -> dict[str, Any]:
        """What stands around the rows."""
        return {
            "as_of": self.now, "filters": self.filters.echo(), "offers_total": self.total_offers,
            "offers_matching": len(self.offers), "excluded": dict(self.excluded),
        }  # fmt: skip


def offers_report(
    found: Asked, filters: Filters, catalogue: Catalogue, now: datetime, begins: datetime | None
) -> OffersReport:
    """Filter and sort what was found."""
    selection = select(
        found.offers, filters, catalogue, now,
        total_offers=found.total, left_out=found.left_out, shelves=found.shelves,
    )  # fmt: skip
    kept = tuple(sorted(selection.kept, key=_order))
    return OffersReport(filters, now, kept, found.total, selection.excluded, begins)


def _order(o: StoredOffer) -> tuple[Any, ...]:
    """By price; of equal ones what may be interrupted comes last, then by names."""
    return (Decimal(o.price_micro_usd) / o.gpu_count, o.price_micro_usd, o.market == "spot",
            o.provider, o.region or "", o.native_id, o.key)  # fmt: skip


class ProvidersReport(NamedTuple):
    """Every provider that was ever polled, and the names of those that were not.

    ``set_ups`` holds the SET_UP_COLUMNS of installed providers; a mere seller has none.
    """

    now: datetime
    health: tuple[ProviderHealth, ...]
    never: tuple[str, ...]
    set_ups: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def rows(self) -> list[dict[str, Any]]:
        """All of them as plain values; of those never polled nothing is known but their set-up."""
        rows = [one.as_dict(self.now) for one in self.health] + [
            dict.fromkeys(PROVIDER_COLUMNS) | {"provider": name, "last_status": "never polled"}
            for name in self.never
        ]
        nothing = dict.fromkeys(SET_UP_COLUMNS)
        return [row | nothing | self.set_ups.get(row["provider"], {}) for row in rows]

    def document(self) -> dict[str, Any]:
        """What stands around the rows."""
        return {"as_of": self.now}
