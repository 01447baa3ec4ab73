"""Offers and polls for tests of the store: as short to write as what matters in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.catalogue import catalogue
from tracker.domain.gpu import Gpu
from tracker.domain.normalize import normalise
from tracker.domain.offer import Extras, ListedOffer, Market, NativePrice, Offer, PriceUnit, Terms
from tracker.store.polls import Poll

START = datetime(2026, 3, 30, 22, 0, tzinfo=UTC)  # near the end of a month, on purpose
H100 = Gpu("H100-SXM-80GB", "H100", "SXM", 80)
A100 = Gpu("A100-PCIE-40GB", "A100", "PCIE", 40)


def at(minutes: float) -> datetime:
    """So many minutes after the start of the tests' world."""
    return START + timedelta(minutes=minutes)


def make_offer(
    name: str,
    price: str | Decimal,
    *,
    source: str = "acme",
    seller: str | None = None,
    gpu: Gpu = H100,
    currency: str = "USD",
    fx_rate: str = "1",
    terms: Terms | None = None,
    extras: Extras | None = None,
    flags: tuple[str, ...] = (),
    **listed: Any,
) -> Offer:
    """An offer of one GPU at *price* per machine-hour. *listed* are further fields of it."""
    words = ListedOffer(
        source_id=name,
        gpu_name=gpu.family,
        gpu_count=Decimal(1),
        price=NativePrice(Decimal(price), currency, PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        terms=terms or Terms(),
        extras=extras or Extras(),
    )
    words = replace(words, **listed)
    rate = Decimal(fx_rate)
    return Offer(
        source=source,
        provider=seller or source,
        gpu=gpu,
        price=words.price.machine_hour(words.gpu_count, rate),
        listed=words,
        fx_rate=rate,
        fx_date=None if currency == "USD" else START.date(),
        flags=flags,
    )


def listed(
    price: str = "2.50",
    *,
    currency: str = "USD",
    unit: PriceUnit = PriceUnit.MACHINE_HOUR,
    **fields: Any,
) -> ListedOffer:
    """What a provider might list: one H100, unless *fields* say otherwise."""
    return replace(
        ListedOffer(
            source_id="machine-1",
            gpu_name="H100 SXM",
            gpu_count=Decimal(1),
            price=NativePrice(Decimal(price), currency, unit),
            market=Market.ON_DEMAND,
            tier="standard",
            vram_gb=Decimal(80),
        ),
        **fields,
    )


def offer(price: str = "2.50", **fields: Any) -> Offer:
    """``listed``, normalised as an offer of the provider acme."""
    found = normalise("acme", listed(price, **fields), catalogue(), {})
    assert isinstance(found, Offer), found
    return found


def make_poll(
    minutes: float,
    offers: Iterable[Offer] | Mapping[str, str] = (),
    *,
    source: str = "acme",
    status: str = "complete",
    **fields: Any,
) -> Poll:
    """A poll *minutes* after the start, with an interval of one minute (time to live: three)."""
    if isinstance(offers, Mapping):
        offers = [make_offer(name, price, source=source) for name, price in offers.items()]
    moment = at(minutes)
    options: dict[str, Any] = {"every_seconds": 60, "started_at": moment, "polled_at": moment}
    return Poll(source=source, status=status, accepted=tuple(offers), **(options | fields))
