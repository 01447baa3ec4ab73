"""Exchange rates: kept by currency and day, and the newest of a span of days found again."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.worlds import rows
from tracker.domain.normalize import FxRate
from tracker.store.engine import connect
from tracker.store.errors import StoreError
from tracker.store.exchange_rates import StoredRates

DAY = date(2026, 11, 20)


def _rate(usd: str, days: int = 0) -> FxRate:
    return FxRate(Decimal(usd), DAY + timedelta(days))


def _all(url: str) -> list[tuple[str, date, Decimal]]:
    return [*rows(url, "SELECT currency, day, usd_per_unit FROM exchange_rate ORDER BY 1, 2")]


def test_each_fixing_is_kept_once_and_exactly(database_url: str) -> None:
    exact = Decimal(1) / Decimal("88.4275")
    for _ in range(2):  # another process does not know what this one has kept
        stored = StoredRates(database_url)
        stored.keep({"EUR": _rate("1.1"), "INR": FxRate(exact, DAY)})
        stored.keep({"EUR": _rate("1.1"), "INR": FxRate(exact, DAY)})
    stored.keep({"EUR": _rate("1.2", 1)})
    assert _all(database_url) == [
        ("EUR", DAY, Decimal("1.1")),
        ("EUR", DAY + timedelta(1), Decimal("1.2")),
        ("INR", DAY, exact),
    ]
    assert stored.latest(DAY, DAY)["INR"] == FxRate(exact, DAY)


def test_a_fixing_that_was_corrected_is_corrected(database_url: str) -> None:
    stored = StoredRates(database_url)
    stored.keep({"EUR": _rate("11")})
    stored.keep({"EUR": _rate("1.1")})
    assert _all(database_url) == [("EUR", DAY, Decimal("1.1"))]


@pytest.mark.parametrize("usd", ["0", "-1"])
def test_an_impossible_rate_is_refused(database_url: str, usd: str) -> None:
    with pytest.raises(StoreError):
        StoredRates(database_url).keep({"EUR": _rate(usd)})


_FIXINGS = st.dictionaries(
    st.tuples(st.sampled_from(["CNY", "EUR", "INR"]), st.integers(0, 12)),
    st.integers(1, 10**6),
    max_size=12,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fixings=_FIXINGS, first=st.integers(0, 12), span=st.integers(0, 12))
def test_the_newest_of_each_currency_within_the_days(
    database_url: str, fixings: dict[tuple[str, int], int], first: int, span: int
) -> None:
    with connect(database_url) as connection:
        connection.execute("TRUNCATE exchange_rate")
    stored = StoredRates(database_url)
    for (currency, day), milli in fixings.items():
        stored.keep({currency: FxRate(Decimal(milli) / 1000, DAY + timedelta(day))})
    newest: dict[str, FxRate] = {}
    for (currency, day), milli in sorted(fixings.items()):
        if first <= day <= first + span:
            newest[currency] = FxRate(Decimal(milli) / 1000, DAY + timedelta(day))
    found = stored.latest(DAY + timedelta(first), DAY + timedelta(first + span))
    assert found == newest
