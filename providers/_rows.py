"""Reading the rows of JSON lists, for the modules whose answers are such lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tracker.provider import Availability, ListedOffer, parse_decimal

_MAGNITUDE = 12  # powers of ten, either way: nothing that is sold is larger or smaller
_SAMPLE_CHARACTERS = 200


class BadRow(Exception):
    """Why a row, or a part of it, cannot be read."""


def number(row: Mapping[str, Any], name: str) -> Decimal | None:
    """The number under *name*; None where there is none. Raises BadRow."""
    value = row.get(name)
    if value is None:
        return None
    try:
        found = parse_decimal(value)
    except ValueError:
        raise BadRow(f"{name} is not a number") from None
    if found and abs(found.adjusted()) > _MAGNITUDE:
        raise BadRow(f"{name} is out of all range")
    return found


def amount(row: Mapping[str, Any], name: str) -> Decimal | None:
    """The number under *name*, which is not negative. Raises BadRow."""
    found = number(row, name)
    if found is not None and found < 0:
        raise BadRow(f"{name} is negative")
    return found


def in_stock(flag: Any) -> Availability:
    """Yes for true, no for false, and unknown for whatever is neither."""
    if not isinstance(flag, bool):
        return Availability.UNKNOWN
    return Availability.YES if flag else Availability.NO


def without_cut_end(page: str) -> str:
    """An HTML page without its last tag and what follows it.

    A text that no tag follows may have been cut: 3 of 3.99. Of a whole page this takes ``</html>``.
    """
    return page[: max(page.rfind("<"), 0)]


def rentable_first(offer: ListedOffer) -> tuple[bool, Decimal]:
    """Orders what one list has twice: what cannot be had comes last, then by price.

    A cheaper price that is out of stock must not hide the one that is to be had.
    """
    return offer.extras.availability is Availability.NO, offer.price.amount


def sample(row: Any) -> str:
    """The beginning of a row, for whoever looks into why it was rejected."""
    return json.dumps(row, default=str)[:_SAMPLE_CHARACTERS]
