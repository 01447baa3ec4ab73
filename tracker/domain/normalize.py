"""From a provider's words to an Offer: GPU identified, price in USD per machine-hour.

Normalising an already normalised offer's listing again gives the same offer; the provider's own
words stay in ``Offer.listed``, so every figure can be recomputed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tracker.domain.gpu import Catalogue, Unidentified
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import ListedOffer, Offer

MAX_TEXT = 200
MAX_GPUS = 1024  # no rentable machine or rack has more; a larger number is a unit error
MAX_FIGURE = 10**9  # cores, GB, seconds, what is in stock: a larger number is a broken one
MAX_DECIMALS = 100  # digits after the point: a quotient has 28
_ID_KEPT, _ID_HASH = 180, 8  # characters and bytes of an id that is too long

# Controls, invisible and direction-changing characters, and halves of a surrogate pair.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+"
)
_TEXT_FIELDS = ("gpu_name", "form_factor", "tier", "region", "country", "interconnect", "seller",
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
    source_id = _clean_id(listed.source_id)
    if source_id != listed.source_id:
        changes["source_id"] = source_id
    for name in _TEXT_FIELDS:
        value = getattr(listed, name)
        if value is not None:
            text = clean_text(value)
            if text != value:
                changes[name] = text
    label = listed.extras.stock_label
    if label is not None and clean_text(label) != label:
        changes["extras"] = dataclasses.replace(listed.extras, stock_label=clean_text(label))
    notes = tuple(clean_text(note) for note in listed.notes)
    if notes != listed.notes:
        changes["notes"] = notes
    currency = clean_text(listed.price.currency).upper()
    if currency != listed.price.currency:
        changes["price"] = dataclasses.replace(listed.price, currency=currency)
    return dataclasses.replace(listed, **changes) if changes else listed  # type: ignore[arg-type]


def _clean_id(text: str) -> str:
    """An id as clean text. A long one ends in its hash: cut, two offers would become one."""
    line = _CONTROL.sub(" ", text).strip()
    if len(line) <= MAX_TEXT:
        return line
    hashed = hashlib.blake2b(line.encode(), digest_size=_ID_HASH).hexdigest()
    return f"{line[:_ID_KEPT]}~{hashed}"


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
    if amount > Decimal(10) ** 8 or _too_fine(amount):
        return "price is absurd"
    if not listed.gpu_count.is_finite() or listed.gpu_count <= 0:
        return "GPU count is zero or negative"
    if listed.gpu_count > MAX_GPUS or _too_fine(listed.gpu_count):
        return "GPU count is absurd"
    if listed.gpu_count > 1 and listed.gpu_count != listed.gpu_count.to_integral_value():
        return "GPU count is not whole"
    if not all(map(_is_possible, _figures(listed))):
        return "a figure is out of range"
    return None


def _figures(listed: ListedOffer) -> Iterator[Decimal | int | None]:
    """Every number of a listing but its price and GPU count."""
    t, x = listed.terms, listed.extras
    yield from (
        listed.vram_mib, listed.vram_gb, listed.vcpus, listed.ram_gib,
        t.billing_increment_seconds, t.minimum_seconds, t.commitment_hours, t.disk_included_gb,
        t.disk_usd_per_gb_hour, t.egress_usd_per_gb, x.stock_count, x.disk_gb,
        x.network_down_mbps, x.network_up_mbps, x.reliability, x.interruption_percent_max,
        x.max_duration_hours,
    )  # fmt: skip


def _is_possible(figure: Decimal | int | None) -> bool:
    if figure is None:
        return True
    if isinstance(figure, Decimal) and (not figure.is_finite() or _too_fine(figure)):
        return False
    return 0 <= figure <= MAX_FIGURE


def _too_fine(number: Decimal) -> bool:
    """Whether it has more digits after the point than arithmetic and the database can keep."""
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent < -MAX_DECIMALS
