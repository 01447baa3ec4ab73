"""A small market made by hand, for bills that can be worked out by hand.

BERT-Large takes 12 h on an A100 SXM 80 GB, 4 h on an H100 SXM 80 GB and at least 48 h on an
RTX 4090 (tracker/data/jobs/bert-large.toml).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from tests.cli.harness import A100, H100, RTX4090, ago, polled
from tests.support.offers import make_offer
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Extras, Market, NativePrice, Offer, PriceUnit, Terms
from tracker.store.polls import Poll


def polls() -> list[Poll]:
    """One poll of a cloud, one of a marketplace, one of a price book."""
    return [
        polled("acme", acme(), default_tiers=("standard",)),
        polled("hub", hub(), marketplace=True, default_tiers=("verified",)),
        polled("pricebook", book()),
    ]


def _monthly(name: str, usd: str, gpu: Gpu) -> Offer:
    """An offer of one month at least, at *usd* a month."""
    terms = Terms(commitment_hours=730)
    offer = make_offer(name, usd, gpu=gpu, market=Market.MONTHLY, terms=terms)
    price = NativePrice(Decimal(usd), "USD", PriceUnit.MACHINE_MONTH)
    hourly = price.machine_hour(Decimal(1), Decimal(1))
    return replace(offer, listed=replace(offer.listed, price=price), price=hourly)


def acme() -> list[Offer]:
    hourly = Terms(billing_increment_seconds=3600, egress_usd_per_gb=Decimal("0.09"))
    return [
        make_offer("h100", "3", gpu=H100, terms=hourly),
        make_offer("h100x8", "20", gpu=H100, gpu_count=Decimal(8)),
        make_offer("a100-day", "1", gpu=A100, terms=Terms(minimum_seconds=86_400)),
        _monthly("a100-month", "365", gpu=A100),
        make_offer("a100-years", "0.3", gpu=A100, market=Market.RESERVED,
                   terms=Terms(commitment_hours=17_520)),
        make_offer("4090", "0.55", gpu=RTX4090, terms=Terms(billing_increment_seconds=3600)),
        make_offer("spot", "1", gpu=H100, market=Market.SPOT),
        make_offer("no-term", "0.1", gpu=H100, terms=Terms(commitment_unknown=True)),
        make_offer("too-short", "0.1", gpu=H100, extras=Extras(max_duration_hours=Decimal(3))),
    ]  # fmt: skip


def hub() -> list[Offer]:
    # Vast.ai states $0.144 per GB-month; its month has 720 h: 0.0002 per GB-hour.
    terms = Terms(disk_included_gb=Decimal(0), disk_usd_per_gb_hour=Decimal("0.144") / 720)
    return [
        make_offer(
            "host",
            "2.8",
            source="hub",
            tier="verified",
            terms=terms,
            extras=Extras(disk_gb=Decimal(500)),
        ),
        make_offer("shady", "0.7", source="hub", tier="unverified", terms=terms),
    ]


def book() -> list[Offer]:
    extras = Extras(valid_as_of=date(2026, 11, 9), expires_at=ago(-60 * 24), fallback=True)
    return [
        make_offer("book-acme", "0.5", source="pricebook", seller="acme", extras=extras),
        make_offer("book-lambda", "4.29", source="pricebook", seller="lambda", extras=extras),
    ]
