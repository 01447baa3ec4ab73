"""Price floors by brute force, and as the store has them."""

# ruff: noqa: S608 - names of the schema only

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.store.oracle import Interval
from tests.store.worlds import rows

# (start, end, native price, expiry)
Price = tuple[datetime, datetime, Decimal, datetime | None]


def lowest(prices: Iterable[Price]) -> list[Interval]:
    """The lowest price at every moment, looking at each moment at which anything happens."""
    known = [
        (start, end if expires is None else min(end, expires), native)
        for start, end, native, expires in prices
    ]
    moments = sorted({moment for start, end, _ in known for moment in (start, end)})
    steps: list[Interval] = []
    for begin, end in itertools.pairwise(moments):
        prices_now = [native for start, stop, native in known if start <= begin < stop]
        if prices_now:
            steps.append((begin, end, min(prices_now)))
    return merged(steps)


def merged(steps: Iterable[Interval]) -> list[Interval]:
    """The same function with as few steps as possible: touching ones of one price are one."""
    result: list[Interval] = []
    for start, end, native in sorted(steps):
        if result and result[-1][1:] == (start, native):
            result[-1] = (result[-1][0], end, native)
        else:
            result.append((start, end, native))
    return result


_KEY = (
    "k.gpu_key, k.gpu_count, k.market, k.tier, k.currency, k.upstream, k.part, k.fallback,"
    " k.expires_at"
)
_PART = "CASE WHEN {0}.is_slice THEN substring({0}.native_id from '[0-9]g[.][0-9]+gb') END"
_OF_SPANS = _KEY.replace("k.part", _PART.format("o")).replace("k.", "o.")
_OF_OPEN = _KEY.replace("k.part", _PART.format("n")).replace("k.", "n.")
_UNTIL = "coalesce(n.seen_until, p.last_ok_at) + p.ttl_seconds * interval '1 second'"
_FLOOR = f"""
SELECT {_KEY}, f.valid_from, f.valid_to, f.price_native
FROM price_floor f JOIN floor_key k ON k.id = f.key_id JOIN provider p ON p.id = k.source_id
WHERE p.slug = %(source)s
UNION ALL
SELECT {_KEY}, n.valid_from, least({_UNTIL}, k.expires_at), n.price_native
FROM floor_now n JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id
WHERE p.slug = %(source)s
"""
_SPANS = f"""
SELECT {_OF_SPANS.replace("o.fallback", "n.fallback").replace("o.expires_at", "n.expires_at")},
    n.valid_from, n.valid_to, n.price_native
FROM price_span n JOIN offer o ON o.id = n.offer_id JOIN provider p ON p.id = n.source_id
WHERE p.slug = %(source)s
UNION ALL
SELECT {_OF_OPEN}, n.valid_from, {_UNTIL}, n.price_native
FROM offer_now n JOIN provider p ON p.id = n.source_id WHERE p.slug = %(source)s
"""

Floors = dict[tuple[Any, ...], list[Interval]]


def stored_floors(url: str, source: str) -> Floors:
    """The floors of a source, closed and open steps. Raises AssertionError if any overlap."""
    found: Floors = {}
    for *key, start, end, native in rows(url, _FLOOR, {"source": source}):
        found.setdefault(tuple(key), []).append((start, end, native))
    for steps in found.values():
        steps.sort()
        assert all(start < end for start, end, _ in steps), steps
        assert not overlapping(steps), steps
    return {key: merged(steps) for key, steps in found.items()}


def overlapping(steps: Sequence[Interval]) -> bool:
    """Whether any of the *steps*, in order, begins before the one before has ended."""
    return any(one[1] > other[0] for one, other in itertools.pairwise(steps))


def floors_of_spans(url: str, source: str) -> Floors:
    """What the floors should be, from every single offer's spans."""
    prices: dict[tuple[Any, ...], list[Price]] = {}
    for *key, start, end, native in rows(url, _SPANS, {"source": source}):
        prices.setdefault(tuple(key), []).append((start, end, native, key[-1]))
    floors = {key: lowest(found) for key, found in prices.items()}
    return {key: steps for key, steps in floors.items() if steps}
