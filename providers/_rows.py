"""Reading the rows of JSON lists, for the modules whose answers are such lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tracker.provider import Availability, ListedOffer, ParseError, Rejected, parse_decimal

_MAGNITUDE = 12  # powers of ten, either way: nothing that is sold is larger or smaller
_SAMPLE_CHARACTERS = 200

# Elements that hold others; one that a page leaves open counts as open to its end.
_TAG = re.compile(r"<(/?)(?!(?:br|hr|img|input|link|meta|path|source|wbr)\b)[a-z]", re.IGNORECASE)
_DEEPEST = 20_000  # half a second; pages as recorded have some hundred tags in all
_US_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", re.ASCII)


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


def us_number(text: str) -> Decimal:
    """``1,234.50`` as it is written in the US. Raises BadRow on any other way of writing.

    ``1.234,50`` or ``3,20`` is refused and not guessed at: taken for the other way it would be
    off by a factor of a hundred or a thousand.
    """
    if not _US_NUMBER.fullmatch(text):
        raise BadRow("price cannot be read")
    return parse_decimal(text.replace(",", ""))


def in_stock(flag: Any) -> Availability:
    """Yes for true, no for false, and unknown for whatever is neither."""
    if not isinstance(flag, bool):
        return Availability.UNKNOWN
    return Availability.YES if flag else Availability.NO


def without_cut_end(page: str) -> str:
    """An HTML page without its last tag and what follows it, for an HTML parser.

    A text that no tag follows may have been cut: 3 of 3.99. Of a whole page this takes ``</html>``.
    Raises ParseError for elements within one another without end: for each that begins, the parser
    goes through all that are open, and nothing else of the process runs meanwhile.
    """
    depth = 0
    for closing in _TAG.finditer(page):
        depth = max(depth - 1, 0) if closing[1] else depth + 1
        if depth > _DEEPEST:
            raise ParseError("page", "elements nested too deeply")
    return page[: max(page.rfind("<"), 0)]


def believed(same: Sequence[ListedOffer]) -> list[ListedOffer]:
    """Of one thing that a list has several times what is to be had, once at each of its prices.

    A price that is out of stock must not hide the one that is to be had. Where several are left,
    nobody knows which one holds: a gate then quarantines them all (docs/quality.md).
    """
    there = [o for o in same if o.extras.availability is not Availability.NO] or same
    return list({offer.price: offer for offer in reversed(there)}.values())[::-1]


def told_once(
    groups: Iterable[Sequence[ListedOffer]], reason: str, rejected: list[Rejected]
) -> tuple[ListedOffer, ...]:
    """What is ``believed`` of each group of offers of one thing; the others go to *rejected*."""
    offers: list[ListedOffer] = []
    for same in groups:
        kept = believed(same)
        offers += kept
        rejected += [
            Rejected(reason, f"{other.source_id} {other.price.amount}"[:_SAMPLE_CHARACTERS])
            for other in same
            if all(other is not one for one in kept)
        ]
    return tuple(offers)


def rentable_first(offer: ListedOffer) -> tuple[bool, Decimal]:
    """Orders alternatives that a list has under one name: what cannot be had last, then by price.

    For those that may well have prices of their own; else see ``believed``.
    """
    return offer.extras.availability is Availability.NO, offer.price.amount


def sample(row: Any) -> str:
    """The beginning of a row, for whoever looks into why it was rejected."""
    return json.dumps(row, default=str)[:_SAMPLE_CHARACTERS]
