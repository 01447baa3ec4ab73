"""Plan cards as a page may show them, and what the parser makes of them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from providers.databasemart import provider
from tracker.provider import ListedOffer, Parsed, Payload

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
TITLE = "Enterprise GPU Dedicated Server - RTX 4090"


def card(price: str, *specs: str, title: str = TITLE, button: str = "<a>Order Now</a>") -> str:
    items = "".join(f"<li>{spec}</li>" for spec in specs)
    return f"<div><h3>{title}</h3><div>{price}</div><ul>{items}</ul>{button}</div>"


def payload(html: str, url: str = "", status: int = 200) -> Payload:
    return Payload(url, html.encode(), NOW, status=status)


def parsed(*pages: str) -> Parsed:
    return provider.parse([payload(page) for page in pages])


def only(html: str) -> ListedOffer:
    result = parsed(html)
    assert not result.rejected
    (offer,) = result.offers
    return offer


def reasons(result: Parsed) -> Counter[str]:
    return Counter(r.reason for r in result.rejected)
