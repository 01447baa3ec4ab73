"""Which offers of an import by columns may be far below all others of a week."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

import numpy as np

from tracker.store.bulk.months import month_tables
from tracker.store.bulk.offers import Offers
from tracker.store.bulk.unit import Lowest
from tracker.store.imports import Connection, Limit, Run

_MANY = 200_000  # rows that are put together
_ZERO = date(1970, 1, 1).toordinal()


def by_week(connection: Connection, run: Run) -> Iterator[Limit]:
    """Each seller's lowest list price of whole GPUs, by GPU family and week (UTC), in each of the
    staged months."""
    for table in month_tables(connection, run).values():
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT o.gpu_family, date_trunc('week', p.valid_from, 'UTC')::date, o.seller,"
                f" trunc(min(p.price_micro_usd / o.gpu_count))::bigint FROM {table} p"
                f" JOIN {run.stage}_offer o ON o.id = p.offer_id"
                " WHERE o.market = 'on_demand' AND NOT o.is_slice GROUP BY 1, 2, 3"
            )
            yield from (Limit(*row) for row in cursor.fetchall())


class Gathered:
    """The lowest prices of many units, as one."""

    def __init__(self) -> None:
        self._parts: list[Lowest] = []
        self._rows = 0

    def add(self, lowest: Lowest) -> None:
        """Take up those of one more unit."""
        self._parts.append(lowest)
        self._rows += len(lowest.mondays)
        if self._rows > _MANY:
            self._parts = [self.all()]
            self._rows = -len(self._parts[0].mondays)  # so many more before the next time

    def all(self) -> Lowest:
        """The lowest price of each seller, GPU family and week."""
        if not self._parts:
            return Lowest(*np.zeros((4, 0), dtype=np.int64))
        columns = map(np.concatenate, zip(*self._parts, strict=True))
        families, mondays, sellers, micro_usd = columns
        # Numbers of families and sellers have 15 bits; weeks of the years 1 to 9999 have 19.
        key = (families << 36) | (sellers << 20) | (mondays // 7 + 2**19)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        least = np.full(len(first), np.iinfo(np.int64).max)
        np.minimum.at(least, place.reshape(-1), micro_usd)
        return Lowest(families[first], mondays[first], sellers[first], least)


def named(lowest: Lowest, offers: Offers) -> Iterator[Limit]:
    """The same, as ``by_week`` says it."""
    for family, monday, seller, micro_usd in zip(*(c.tolist() for c in lowest), strict=True):
        yield Limit(
            offers.families.all[family], date.fromordinal(_ZERO + monday),
            offers.sellers.all[seller], micro_usd,
        )  # fmt: skip


def doubtful(
    offers: Offers, limits: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], list[int]]:
    """The numbers of the offers that were ever listed below the limit of their GPU family and
    seller (micro-USD per GPU-hour; of several weeks' limits the highest), by those two."""
    known = offers.known
    found: dict[tuple[str, str], list[int]] = {}
    for (family, seller), limit in limits.items():
        family_number, seller_number = offers.families.number(family), offers.sellers.number(seller)
        low = (known.families == family_number) & (known.sellers == seller_number)
        low &= known.lowest < limit
        if low.any():
            found[family, seller] = (np.flatnonzero(low) + 1).tolist()
    return found
