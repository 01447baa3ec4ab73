"""What an interrupted import by columns had staged, as the next attempt needs to know it."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from tracker.store.bulk.cells import Column, Entry, Ints
from tracker.store.bulk.fields import field_of
from tracker.store.bulk.months import month_tables
from tracker.store.bulk.offers import ANY_PRICE, HEAD, TAIL, Offers
from tracker.store.imports import Connection, Run
from tracker.store.schema import offer
from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns

_AT_ONCE = 10_000  # offers
_NEEDED = (*HEAD[2:], *TAIL, "gpu_family", "is_slice")


def staged_offers(connection: Connection, run: Run) -> Offers:
    """The offers staged so far, each with the end of its latest span.

    That span's price is not looked up: one that begins when it ends is taken for the same price,
    which ``import_merge`` then looks at.
    """
    found = Offers()
    with connection.transaction():
        _read_offers(connection, run, found)
        if not found.count:
            return found
        known = found.known
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT n FROM {run.stage}_odd")
            known.odd[[n - 1 for (n,) in cursor]] = True
        places = np.argsort(known.ids)
        for table in month_tables(connection, run).values():
            ids, ends, micro_usd = read_columns(
                connection,
                f"SELECT offer_id, max(valid_to), min(price_micro_usd) FROM {table}"
                " GROUP BY offer_id",
                {}, 3, times=(1,),
            )  # fmt: skip
            of = places[np.searchsorted(known.ids[places], ids)]
            np.maximum.at(known.until, of, ends + PG_EPOCH_MICROS)
            _lower(found, of, micro_usd)
        numbers, micro_usd = read_columns(
            connection,
            f"SELECT n, min(price_micro_usd) FROM {run.stage}_price GROUP BY n",
            {}, 2, times=(),
        )  # fmt: skip
        _lower(found, numbers - 1, micro_usd)
        known.price[:] = ANY_PRICE
    return found


def _lower(found: Offers, of: Ints, micro_usd: Ints) -> None:
    known = found.known
    np.minimum.at(known.lowest, of, micro_usd * known.parts[of] // known.counts[of])


def _read_offers(connection: Connection, run: Run, found: Offers) -> None:
    listed = ", ".join(f"s.{name}" for name in _NEEDED)
    with connection.cursor(name="staged") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(
            f"SELECT s.key, s.id, a.id, b.id, s.source, s.seller, {listed}"
            f" FROM {run.stage}_offer s"
            " JOIN provider a ON a.slug = s.source JOIN provider b ON b.slug = s.seller"
            " ORDER BY s.n"
        )
        while rows := cursor.fetchmany(_AT_ONCE):
            keys, ids, source_ids, seller_ids, *cells = (
                list(column) for column in zip(*rows, strict=True)
            )
            slugs = dict(zip(cells[0] + cells[1], source_ids + seller_ids, strict=True))
            names = ("source", "provider", *_NEEDED)
            columns = {name: _column(name, of) for name, of in zip(names, cells, strict=True)}
            halves = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.uint64).reshape(-1, 2)
            found.note(halves, found.add(np.array(ids), slugs, columns, np.arange(len(ids))))


def _column(name: str, values: list[Any]) -> Column:
    places = {value: n for n, value in enumerate(dict.fromkeys(values))}
    fields = map(field_of(offer.c[name]), places) if name in offer.c else repeat(b"")
    entries = [Entry(value, "", field) for value, field in zip(places, fields, strict=False)]
    return Column(entries, np.array([places[value] for value in values]))
