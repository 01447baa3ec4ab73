"""From a provider's words to an Offer: GPU identified, price in USD per machine-hour.

Normalising an already normalised offer's listing again gives the same offer; the provider's own
words stay in ``Offer.listed``, so every figure can be recomputed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tracker.domain.gpu import Catalogue, Unidentified
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import ListedOffer, Offer

MAX_TEXT = 200
MAX_GPUS = 1024  # no rentable machine or rack has more; a larger number is a unit error

# Controls, invisible and direction-changing characters, and halves of a surrogate pair.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+"
)
_TEXT_FIELDS = ("source_id", "gpu_name", "tier", "region", "country", "interconnect", "seller",
                "upstream", "source_url")  # fmt: skip


@dataclass(frozen=True, slots=True)
class FxRate:
    """USD for one unit of a currency, and the day it was fixed."""

    usd_per_unit: Decimal
    on: date


@dataclass(frozen=True, slots=True)
class Unnormalised:
    """A listing that became no offer. ``unmapped`` when only its GPU's name is unknown."""

    listed: ListedOffer
    reason: str
    unmapped: bool = False


def normalise(
    source: str, listed: ListedOffer, catalogue: Catalogue, fx: Mapping[str, FxRate]
) -> Offer | Unnormalised:
    """Identify the GPU and convert the price; say why where that is not possible.

    *source* is the provider polled; *fx* maps a currency code to its rate (USD needs none).
    """
    listed = _clean(listed)
    problem = _impossible(listed)
    if problem:
        return Unnormalised(listed, problem)
    gpu = catalogue.identify(
        listed.gpu_name,
        gpu_count=listed.gpu_count,
        vram_mib=listed.vram_mib,
        vram_gb=listed.vram_gb,
        vram_is_total=listed.vram_is_total,
        form_factor=listed.form_factor,
        is_slice=listed.slice or listed.gpu_count < 1,
    )
    if isinstance(gpu, Unidentified):
        return Unnormalised(listed, gpu.reason, unmapped=gpu.unmapped)
    currency = listed.price.currency
    rate = None if currency == "USD" else fx.get(currency)
    if currency != "USD" and rate is None:
        return Unnormalised(listed, "no exchange rate for the currency")
    price = listed.price.machine_hour(listed.gpu_count, rate.usd_per_unit if rate else Decimal(1))
    if to_micro_usd(price.usd) <= 0:
        return Unnormalised(listed, "price rounds to zero")
    return Offer(
        source=source,
        provider=listed.seller or source,
        gpu=gpu,
        price=price,
        listed=listed,
        fx_rate=rate.usd_per_unit if rate else Decimal(1),
        fx_date=rate.on if rate else None,
    )


def _clean(listed: ListedOffer) -> ListedOffer:
    """Provider text without control characters and of bounded length; currency in capitals."""
    changes: dict[str, object] = {}
    for name in _TEXT_FIELDS:
        value = getattr(listed, name)
        if value is not None:
            text = clean_text(value)
            if text != value:
                changes[name] = text
    currency = listed.price.currency.strip().upper()
    if currency != listed.price.currency:
        changes["price"] = dataclasses.replace(listed.price, currency=currency)
    return dataclasses.replace(listed, **changes) if changes else listed  # type: ignore[arg-type]


def clean_text(text: str) -> str:
    """*text* on one line, without control and direction-changing characters, at most 200 long."""
    return _CONTROL.sub(" ", text)[:MAX_TEXT].strip()


def _impossible(listed: ListedOffer) -> str | None:
    if not listed.source_id:
        return "no offer id"
    amount = listed.price.amount
    if not amount.is_finite():
        return "price is not a number"
    if amount <= 0:
        return "price is zero or negative"
    if amount > Decimal(10) ** 8:
        return "price is absurd"
    if not listed.gpu_count.is_finite() or listed.gpu_count <= 0:
        return "GPU count is zero or negative"
    if listed.gpu_count > MAX_GPUS:
        return "GPU count is absurd"
    if listed.gpu_count > 1 and listed.gpu_count != listed.gpu_count.to_integral_value():
        return "GPU count is not whole"
    return None
