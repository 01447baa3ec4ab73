"""The offers that a quality gate holds back: shown with the reason, never ranked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.domain.place import is_in
from tracker.report.filters import ANY, Filters
from tracker.report.shapes.rows import held_row

if TYPE_CHECKING:
    from tracker.store.status import StoredQuarantine

COLUMNS = (
    "offer", "gpu", "gpus", "provider", "region", "tier", "market", "price_usd_per_machine_hour",
    "gate", "reason", "confirmations", "releasable", "first_seen_at", "last_seen_at",
)  # fmt: skip


class HeldReport(NamedTuple):
    """Those that the filters ask for, by source and GPU, the cheapest first; ``total`` of all."""

    now: datetime
    filters: Filters
    held: tuple[StoredQuarantine, ...]
    total: int

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """The first *top* (None: all) as plain values."""
        return [held_row(one) for one in self.held[:top]]

    def document(self) -> dict[str, Any]:
        """What stands around the rows."""
        return {
            "filters": self.filters.echo(), "quarantined_total": self.total,
            "quarantined_matching": len(self.held),
        }  # fmt: skip

    @property
    def footer(self) -> str:
        """How many there are, in words."""
        counted = f"{len(self.held):,} of {self.total:,} quarantined offers"
        return f"{counted}: shown here, never ranked"


def held_report(
    found: Sequence[StoredQuarantine], filters: Filters, wanted: frozenset[str] | None,
    now: datetime,
) -> HeldReport:  # fmt: skip
    """Those of *found* that the filters ask for; *wanted* are the GPUs they name, None: all.

    Only GPU, provider, region, market and tier are known of a price that is held back.
    """
    kept = tuple(one for one in found if fits(one, filters, wanted))
    return HeldReport(now, filters, kept, len(found))


def fits(one: StoredQuarantine, f: Filters, wanted: frozenset[str] | None) -> bool:
    """Whether a quarantined offer is one that the filters ask for."""
    return (
        (wanted is None or one.gpu_key in wanted)
        and (not f.providers or one.seller in f.providers)
        and (not f.regions or is_in(one.region or "", f.regions))
        and (not f.markets or ANY in f.markets or one.market in f.markets)
        and (not f.tiers or ANY in f.tiers or one.tier in f.tiers)
    )
