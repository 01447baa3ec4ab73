"""How machines are sold: what offers and the bills made of them have in common.

A part of ``tracker.domain.offer``, apart from what only reading a provider needs: the command line
answers from stored prices and imports this alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

OWN = "own"  # who "sells" a GPU that one owns


class Market(StrEnum):
    """How the machine is sold."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"
    MONTHLY = "monthly"
    CAPACITY_BLOCK = "capacity_block"


class Availability(StrEnum):
    """Whether it can be rented now, as the provider says it."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Terms:
    """How the machine is billed beside its hourly price. Part of an offer's identity."""

    billing_increment_seconds: int | None = None
    minimum_seconds: int | None = None
    commitment_hours: int | None = None  # must be paid for at least this long
    commitment_unknown: bool = False  # sold for a term that the provider did not state
    disk_included_gb: Decimal | None = None
    disk_usd_per_gb_hour: Decimal | None = None
    egress_usd_per_gb: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Discount:
    """A negotiated percentage off a seller's list prices, typed by a person in a price book.

    ``percent`` is in (0, 100). ``None`` in a selector means "all". ``since``: when it was first on
    record, None where that is not asked.
    """

    provider: str
    percent: Decimal
    valid_as_of: date
    expires_at: datetime
    gpu: str | None = None  # GPU key or family
    market: Market | None = None
    note: str | None = None
    since: datetime | None = None
