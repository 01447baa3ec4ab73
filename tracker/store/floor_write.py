"""The floors of one GPU, as they were worked out anew, in place of those that stand."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tracker.store.arrays import literal
from tracker.store.bulk import fields

if TYPE_CHECKING:
    from tracker.store.bulk.cells import Flags
    from tracker.store.floor_prices import Prices
    from tracker.store.series.keys import Ints
    from tracker.store.series.reduce import LowestSteps

Cursor = psycopg.Cursor[Any]

PG_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
FOREVER = 2**63 - 1  # infinity, as PostgreSQL sends it

_OF_GPU = (
    "key_id IN (SELECT id FROM floor_key WHERE source_id = ANY (%(sources)s) AND gpu_key = %(gpu)s)"
)
_AT_ONCE = 20_000  # rows
# What is around the two amounts of a row of COPY.
_HEAD = [("columns", ">i2"), ("size_key", ">i4"), ("key", ">i4"), ("size_offer", ">i4"),
         ("offer", ">i8"), ("size_usd", ">i4"), ("usd", ">i8")]  # fmt: skip
_TAIL = [("size_from", ">i4"), ("from", ">i8"), ("size_to", ">i4"), ("to", ">i8")]
_CLOSED_SQL = """
COPY price_floor (key_id, offer_id, price_micro_usd, price_native, fx_rate, valid_from, valid_to)
FROM STDIN (FORMAT BINARY)
"""
# Multiplying an interval is exact up to 2^53 microseconds, two centuries from 2000.
_INSTANT = "timestamptz '2000-01-01 00:00+00' + r.{} * interval '1 microsecond'"
_OPEN_SQL = f"""
INSERT INTO floor_now (key_id, offer_id, price_micro_usd, price_native, fx_rate, valid_from,
    seen_until)
SELECT key_id, offer_id, micro_usd, native, rate, {_INSTANT.format("starts")},
    {_INSTANT.format("seen")}
FROM unnest(%s::int[], %s::int8[], %s::int8[], %s::numeric[], %s::numeric[], %s::int8[], %s::int8[])
    AS r (key_id, offer_id, micro_usd, native, rate, starts, seen)
"""


class Source(NamedTuple):
    """One whose floors are built: until when its last accepted poll says what it does."""

    id: int
    last_ok_at: datetime | None
    ttl: timedelta


class Floor(NamedTuple):
    """Whose a floor is, and the moment at which all its prices expire (FOREVER: they do not)."""

    source_id: int
    expires: int


class Built(NamedTuple):
    """The floors of a GPU: the *prices* they were built of, the floor of each of these, what the
    floors are, and the steps of all of them."""

    prices: Prices
    floor_ids: Ints
    floors: Mapping[int, Floor]
    steps: LowestSteps


class Rows(NamedTuple):
    """The rows of a GPU's floors: closed steps in pieces, as COPY takes them, and open ones as
    arrays (None: there are none); how many of each."""

    closed: list[bytes]
    open: list[str | None] | None
    counts: tuple[int, int]


def rows_of(built: Built, sources: Mapping[int, Source]) -> Rows:
    """The rows to be written. Steps that end with an open offer are open."""
    import numpy as np

    prices, steps, floors = built.prices, built.steps, built.floors
    limits = {id_: floor.expires for id_, floor in floors.items()}
    limit = np.array([limits.get(id_, FOREVER) for id_ in steps.groups.tolist()], dtype=np.int64)
    at_end = np.flatnonzero(prices.is_open)
    open_ends = set(
        zip(
            built.floor_ids[at_end].tolist(), prices.natives[at_end].tolist(),
            prices.ends[at_end].tolist(), strict=True,
        )
    )  # fmt: skip
    known = zip(steps.groups.tolist(), steps.values.tolist(), steps.ends.tolist(), strict=True)
    opened = np.array([step in open_ends for step in known], dtype=bool)
    ends = np.minimum(steps.ends, limit)
    wanted = ends > steps.starts
    closed, still_open = wanted & ~opened, wanted & opened
    return Rows(
        list(_closed(built, closed, ends)) if closed.any() else [],
        _open(built, still_open, sources) if still_open.any() else None,
        (int(np.count_nonzero(closed)), int(np.count_nonzero(still_open))),
    )


def _closed(built: Built, wanted: Flags, ends: Ints) -> Iterator[bytes]:
    """Rows in COPY's binary format. Only what is before and behind an amount is of one length."""
    import numpy as np

    prices, steps = built.prices, built.steps
    amounts = list(map(fields.numeric, prices.amounts))
    factors = list(map(fields.numeric, prices.factors))
    yield fields.HEADER
    places = np.flatnonzero(wanted)
    for first in range(0, len(places), _AT_ONCE):
        here = places[first : first + _AT_ONCE]
        at = steps.chosen[here]
        head, tail = np.empty(len(here), _HEAD), np.empty(len(here), _TAIL)
        head["columns"], head["size_key"], head["size_offer"], head["size_usd"] = 7, 4, 8, 8
        head["key"], head["offer"] = steps.groups[here], prices.offers[at]
        head["usd"] = prices.micro_usd[at]
        tail["size_from"], tail["size_to"] = 8, 8
        tail["from"], tail["to"] = steps.starts[here], ends[here]
        lines = zip(
            head.view(f"V{head.dtype.itemsize}").tolist(),
            [amounts[place] for place in prices.natives[at].tolist()],
            [factors[place] for place in prices.rates[at].tolist()],
            tail.view(f"V{tail.dtype.itemsize}").tolist(),
            strict=True,
        )
        yield b"".join(chain.from_iterable(lines))
    yield fields.END


def _open(built: Built, wanted: Flags, sources: Mapping[int, Source]) -> list[str | None]:
    prices, steps = built.prices, built.steps
    at, groups = steps.chosen[wanted], steps.groups[wanted].tolist()
    of = [sources[built.floors[id_].source_id] for id_ in groups]
    return [
        literal(groups), literal(prices.offers[at].tolist()),
        literal(prices.micro_usd[at].tolist()),
        literal([prices.amounts[place] for place in prices.natives[at].tolist()]),
        literal([prices.factors[place] for place in prices.rates[at].tolist()]),
        literal(steps.starts[wanted].tolist()),
        literal(list(map(_seen_until, of, steps.ends[wanted].tolist()))),
    ]  # fmt: skip


def replace(
    cursor: Cursor, sources: Collection[int], gpu_key: str, built: Built, rows: Rows
) -> None:
    """Write them, and note with every open offer which floor it counts for."""
    for table in ("price_floor", "floor_now"):
        cursor.execute(
            f"DELETE FROM {table} WHERE {_OF_GPU}", {"sources": list(sources), "gpu": gpu_key}
        )
    if rows.closed:
        with cursor.copy(_CLOSED_SQL) as copy:
            for piece in rows.closed:
                copy.write(piece)
    if rows.open is not None:
        cursor.execute(_OPEN_SQL, rows.open)
    _assign(cursor, built.prices, built.floor_ids)


def _assign(cursor: Cursor, prices: Prices, floor_ids: Ints) -> None:
    import numpy as np

    still_open = np.flatnonzero(prices.is_open)
    if len(still_open):
        cursor.execute(
            "UPDATE offer_now n SET floor_id = r.floor_id"
            " FROM unnest(%s::int8[], %s::int[]) AS r (offer_id, floor_id)"
            " WHERE n.offer_id = r.offer_id",
            (literal(prices.offers[still_open].tolist()), literal(floor_ids[still_open].tolist())),
        )


def _seen_until(source: Source, end: int) -> int | None:
    """Until when an open step that is known until *end* has been seen; None: by the last poll."""
    seen = end - _micros(source.ttl)
    last_ok = None if source.last_ok_at is None else _micros(source.last_ok_at - PG_EPOCH)
    return None if seen == last_ok else seen


def _micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
