"""Exchange rates as they were fixed, a row a currency and day.

So that a poll can use the last fixing while the bank cannot be reached, and so that prices in
another currency can be looked at by the rate of any day that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import psycopg

from tracker.domain.normalize import FxRate
from tracker.store.engine import connect, read_connection, translated

_KEEP = """
INSERT INTO exchange_rate AS kept (currency, day, usd_per_unit)
SELECT * FROM unnest(%s::text[], %s::date[], %s::numeric[])
ON CONFLICT (currency, day) DO UPDATE SET usd_per_unit = excluded.usd_per_unit
WHERE kept.usd_per_unit <> excluded.usd_per_unit
"""
_LATEST = """
SELECT DISTINCT ON (currency) currency, usd_per_unit, day FROM exchange_rate
WHERE day BETWEEN %s AND %s ORDER BY currency, day DESC
"""


class StoredRates:
    """Rates in the database at *url*, a connection for each call: they are used once a poll."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: Mapping[str, FxRate] = {}  # already there: nothing to write

    def keep(self, rates: Mapping[str, FxRate]) -> None:
        """Write *rates*; of a fixing that was corrected, the newer one. Raises StoreError."""
        if rates == self._kept:
            return
        # One order for everybody, so that two processes do not wait for one another.
        rows = [(code, rate.on, rate.usd_per_unit) for code, rate in sorted(rates.items())]
        with translated(), connect(self._url) as connection:
            connection.execute(_KEEP, [list(column) for column in zip(*rows, strict=True)])
        self._kept = dict(rates)

    def latest(self, first: date, last: date) -> dict[str, FxRate]:
        """The newest rate of each currency, of those fixed on *first* to *last*. Raises
        StoreError."""
        with read_connection(self._url) as connection:
            return latest(connection, first, last)


def latest(connection: psycopg.Connection[Any], first: date, last: date) -> dict[str, FxRate]:
    """The newest rate of each currency, of those fixed on *first* to *last*."""
    return {
        currency: FxRate(usd_per_unit, day)
        for currency, usd_per_unit, day in connection.execute(_LATEST, (first, last))
    }
