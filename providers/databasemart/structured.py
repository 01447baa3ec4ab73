"""Plans in a page's structured data: schema.org JSON-LD, embedded application state, tables.

The pages' real markup is not known to this project, so only what says its own meaning is read: a
plan title, a price, its unit. What lacks one of them is left to the card text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers.databasemart.amounts import Amount, find_amounts, us_number
from providers.databasemart.lines import Line, text_lines
from providers.databasemart.plans import MAX_TITLE, TITLE, Card
from tracker.provider import Availability, PriceUnit

_MAX_NODES = 200_000
_STATE = re.compile(r"(?:window\.)?__(?:INITIAL_STATE|NUXT)__\s*=\s*(?=\{)")
_UNITS = {
    **dict.fromkeys(("mon", "mo", "month", "monthly", "p1m", "permonth"), PriceUnit.MACHINE_MONTH),
    **dict.fromkeys(("hur", "hr", "hour", "hourly", "pt1h", "perhour"), PriceUnit.MACHINE_HOUR),
}
_PRICE_KEYS = {
    **dict.fromkeys(
        ("monthlyprice", "pricemonthly", "pricepermonth", "pricemonth"), PriceUnit.MACHINE_MONTH
    ),
    **dict.fromkeys(
        ("hourlyprice", "pricehourly", "priceperhour", "pricehour"), PriceUnit.MACHINE_HOUR
    ),
}
_LIST_PRICE_KEYS = ("listprice", "originalprice", "oldprice", "regularprice")
_UNIT_KEYS = (
    "unittext",
    "unitcode",
    "billingduration",
    "period",
    "unit",
    "billingcycle",
    "interval",
)
_TITLE_KEYS = ("name", "title", "planname")


def structured_cards(tree: LexborHTMLParser) -> Iterator[list[Card]]:
    """The cards of JSON-LD, then of embedded state, then of tables."""
    yield [card for data in _json_scripts(tree, ld=True) for card in _json_ld(data)]
    yield [card for data in _json_scripts(tree, ld=False) for card in _state(data)]
    yield [card for table in tree.css("table") for card in _table(table)]


def _json_scripts(tree: LexborHTMLParser, *, ld: bool) -> Iterator[Any]:
    for script in tree.css("script"):
        attributes = script.attributes
        text = script.text() or ""
        is_ld = attributes.get("type") == "application/ld+json"
        if is_ld != ld:
            continue
        if not ld and attributes.get("id") not in ("__NEXT_DATA__", "__NUXT_DATA__"):
            match = _STATE.search(text)
            if match is None:
                continue
            text = text[match.end() :]
        try:
            # raw_decode: an assignment may be followed by more script
            yield json.JSONDecoder(parse_float=Decimal).raw_decode(text.lstrip())[0]
        except (ValueError, RecursionError):
            continue  # a broken block says nothing; the text below it may


def _dicts(data: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object within *data*, outermost first; bounded."""
    stack, seen = [data], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            stack.extend(reversed(value))


def _json_ld(data: Any) -> Iterator[Card]:
    for node in _dicts(data):
        title = _title(node)
        if title is None or not {"Product", "Service"} & set(_list(node.get("@type"), str)):
            continue
        lines = _described(node)
        for offer in _offers(node):
            specifications = _list(offer.get("priceSpecification"), dict)
            amounts = _amounts(offer) or tuple(a for s in specifications for a in _amounts(s))
            if amounts:
                yield Card(title, lines, amounts, _availability(offer), _duration(offer))


def _offers(node: dict[str, Any]) -> list[Any]:
    """Offer objects of a product, those of an AggregateOffer included."""
    direct = _list(node.get("offers"), dict)
    return direct + [inner for offer in direct for inner in _list(offer.get("offers"), dict)]


def _state(data: Any) -> Iterator[Card]:
    for node in _dicts(data):
        title = _title(node)
        amounts = _amounts(node) if title else ()
        if title and amounts:
            yield Card(title, _described(node), amounts)


def _title(node: dict[str, Any]) -> str | None:
    for key, value in node.items():
        if key.casefold() in _TITLE_KEYS and isinstance(value, str):
            title = " ".join(value.split())
            if len(title) <= MAX_TITLE and TITLE.fullmatch(title):
                return title
    return None


def _amounts(node: dict[str, Any]) -> tuple[Amount, ...]:
    """The prices of an object that names their unit. Another currency than USD is ambiguous."""
    plain = {re.sub(r"[^a-z]", "", key.casefold()): value for key, value in node.items()}
    currency = plain.get("pricecurrency", plain.get("currency", "USD"))
    stated = (plain.get(key) for key in _UNIT_KEYS)
    unit = next((_UNITS[word] for text in stated if (word := _word(text)) in _UNITS), None)
    prices = [(value, _PRICE_KEYS[key]) for key, value in plain.items() if key in _PRICE_KEYS]
    if unit is not None and plain.get("price") is not None:
        prices.append((plain["price"], unit))
    found = [
        Amount(_number(value) if currency == "USD" else None, unit, False, str(value)[:20])
        for value, unit in prices
        if value is not None
    ]
    if len(found) == 1:
        old = next((v for k in _LIST_PRICE_KEYS if (v := _number(plain.get(k))) is not None), None)
        if old is not None:
            found.append(Amount(old, found[0].unit, True, str(old)[:20]))
    return tuple(found)


def _word(value: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", value.casefold()) if isinstance(value, str) else ""


def _number(value: Any) -> Decimal | None:
    """A JSON number, or text with American punctuation; None when it is neither."""
    if isinstance(value, str):
        return us_number(value.strip().removeprefix("$").strip())
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    # A bound keeps arithmetic on junk exponents cheap; no server costs a million.
    return number if number.is_finite() and abs(number.adjusted()) < 6 else None


def _described(node: dict[str, Any]) -> tuple[Line, ...]:
    """The object's own scalars as lines ``gpu memory: 80GB``; descriptions line by line."""
    lines: list[str] = []
    for key, value in node.items():
        if key in ("name", "@type") or isinstance(value, bool):
            continue
        label = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", key)
        if key == "description" and isinstance(value, str):
            lines += re.split(r"[\n;,|]+", value)
        elif isinstance(value, str | int):
            lines.append(f"{label}: {value}")
    for extra in _list(node.get("additionalProperty"), dict):
        lines.append(f"{extra.get('name')}: {extra.get('value')}")
    # Prices are taken from the fields, not once more from the description.
    return tuple(Line(" ".join(t.split())[:200]) for t in lines if t.strip() and "$" not in t)


def _list(value: Any, kind: type) -> list[Any]:
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, kind)]


def _availability(offer: dict[str, Any]) -> Availability | None:
    word = _word(offer.get("availability")).removeprefix("httpsschemaorg")
    word = word.removeprefix("httpschemaorg")
    if word in ("outofstock", "soldout", "discontinued", "preorder", "backorder"):
        return Availability.NO
    return Availability.YES if word in ("instock", "limitedavailability") else None


def _duration(offer: dict[str, Any]) -> int | None:
    """eligibleDuration in months."""
    duration = offer.get("eligibleDuration")
    if not isinstance(duration, dict):
        return None
    months = {"MON": 1, "ANN": 12}.get(str(duration.get("unitCode")))
    value = _number(duration.get("value"))
    if months is None or value is None or not 1 <= value <= 60 or value != int(value):
        return None
    return int(value) * months


def _table(table: LexborNode) -> Iterator[Card]:
    """Rows with a plan title, by the header row's words; a unit may stand in the header only."""
    rows = [[text_lines(cell) for cell in row.css("th, td")] for row in table.css("tr")[:500]]
    if not rows:
        return
    header = [" ".join(line.text for line in cell) for cell in rows[0]]
    for cells in rows[1:]:
        title: str | None = None
        lines: list[Line] = []
        amounts: list[Amount] = []
        for label, cell in zip(header, cells, strict=False):
            text = " ".join(line.text for line in cell)
            if title is None and len(text) <= MAX_TITLE and TITLE.fullmatch(text):
                title = text
            elif "$" in text:
                amounts += find_amounts(text) or find_amounts(f"{text} {_header_unit(label)}")
                lines += cell
            else:
                lines += [Line(f"{label}: {line.text}", line.control, line.chosen, line.disabled)
                          for line in cell]  # fmt: skip
                lines += cell
        if title and amounts:
            yield Card(title, tuple(lines), tuple(amounts))


def _header_unit(label: str) -> str:
    match = re.search(r"\b(mo|month|monthly|hr|hour|hourly)\b", label, re.IGNORECASE)
    return f"/{'month' if match[1].lower().startswith('mo') else 'hour'}" if match else ""
