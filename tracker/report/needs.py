"""What a job asks of an offer, as filters."""

from __future__ import annotations

from decimal import Decimal

from tracker.domain.job import Job
from tracker.report.filters import Filters


def with_needs(filters: Filters, job: Job) -> Filters:
    """*filters* with what the job needs. Markets, tiers, regions and an interconnect asked for
    take the place of the job's own; of two minima the larger one holds."""
    limits = job.limits
    if limits is not None:
        filters = filters._replace(
            markets=filters.markets or limits.markets,
            tiers=filters.tiers or limits.tiers,
            regions=filters.regions or limits.regions,
            interconnect=filters.interconnect or limits.interconnect,
            min_ram_gib=_larger(filters.min_ram_gib, limits.min_ram_gib),
            min_network_mbps=_larger(filters.min_network_mbps, limits.min_network_mbps),
            dedicated=filters.dedicated or limits.dedicated,
            ecc=filters.ecc or limits.ecc,
        )
    return filters._replace(min_vram_gb=_larger(filters.min_vram_gb, job.min_vram_gb))


def _larger(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return max((x for x in (one, other) if x is not None), default=None)
