"""Prices, times and sellers as trackers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.importing.worlds import NOW
from tracker.collect.importing import words
from tracker.collect.importing.words import Unreadable


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("14.4000000001", "14.4"),
        ("3.2000000000999997", "3.2"),
        ("3.3000000000000003", "3.3"),
        ("1.9899999999999998", "1.99"),
        ("3.673385", "3.673385"),
        ("14.996830625", "14.996831"),
        ("16.00", "16"),
        ("1E+2", "100"),
        (" $2.50 ", "2.5"),
    ],
)
def test_a_price_loses_the_noise_of_floats_and_nothing_else(text: str, amount: str) -> None:
    assert str(words.price(text)) == amount


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", words.NO_PRICE), ("null", words.NO_PRICE), ("NaN", words.NO_PRICE),
        (None, words.NO_PRICE), ("0.00", words.ZERO_PRICE), ("0", words.ZERO_PRICE),
        ("Enquire", words.NOT_A_PRICE), ("-1.5", words.NOT_A_PRICE), ("inf", words.NOT_A_PRICE),
        ("1,234.50", words.NOT_A_PRICE), ("1e999999999", words.NOT_A_PRICE),
    ],
)  # fmt: skip
def test_what_is_no_price_says_why(text: str | None, reason: str) -> None:
    with pytest.raises(Unreadable, match=f"^{reason}$"):
        words.price(text)


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-02-18T09:00:00Z", UTC, "2026-02-18T09:00:00+00:00"),
        ("2026-02-18T05:00:00-04:00", UTC, "2026-02-18T09:00:00+00:00"),
        ("2026-02-18 17:00:00+08:00", UTC, "2026-02-18T09:00:00+00:00"),
        ("2026-02-18T09:00:00.123456", UTC, "2026-02-18T09:00:00.123456+00:00"),
        ("2026-02-18 09:00:00", UTC, "2026-02-18T09:00:00+00:00"),
        ("2026-02-18 09:00:00 UTC", UTC, "2026-02-18T09:00:00+00:00"),
        ("2026-02-18 09:00:00", ZoneInfo("America/New_York"), "2026-02-18T14:00:00+00:00"),
        ("2026-02-18", UTC, "2026-02-18T00:00:00+00:00"),
        ("20260218", UTC, "2026-02-18T00:00:00+00:00"),
        ("2026-02-18", ZoneInfo("Asia/Shanghai"), "2026-02-17T16:00:00+00:00"),
        ("1771405200", UTC, "2026-02-18T09:00:00+00:00"),
        ("1771405200000", UTC, "2026-02-18T09:00:00+00:00"),
        ("2025-11-02 01:30:00", ZoneInfo("America/New_York"), "2025-11-02T05:30:00+00:00"),
    ],
)
def test_a_moment_is_of_its_offset_or_of_the_table_s_zone(
    text: str, zone: timezone, moment: str
) -> None:
    assert words.moment(text, zone, NOW).isoformat() == moment


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", words.NO_MOMENT), ("yesterday", words.NOT_A_MOMENT),
        ("2026-13-01", words.NOT_A_MOMENT), ("1999-01-01", words.NOT_A_MOMENT),
        ("2027-01-01", words.FUTURE), ("12", words.NOT_A_MOMENT),
    ],
)  # fmt: skip
def test_what_is_no_moment_says_why(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=f"^{reason}$"):
        words.moment(text, UTC, NOW)


@given(
    st.datetimes(datetime(2011, 1, 1), datetime(2026, 1, 1)),  # noqa: DTZ001 (made aware below)
    st.integers(-14 * 60, 14 * 60),
)
def test_any_offset_comes_back_as_the_same_instant(naive: datetime, minutes: int) -> None:
    aware = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert words.moment(aware.isoformat(), UTC, NOW) == aware


@given(st.decimals(Decimal("0.000001"), Decimal(10**6), places=6))
def test_a_price_of_six_places_is_kept_to_the_digit(amount: Decimal) -> None:
    assert words.price(f"{amount:f}") == amount
    assert "E" not in str(words.price(str(amount)))


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("datacrunch", "verda"), ("lambdalabs", "lambda"), ("Lambda Labs", "lambda"),
        ("lambda-labs", "lambda"), ("oracle", "oci"), ("latitude", "latitude.sh"),
        ("Vast.ai", "vastai"), ("runpod.io", "runpod"), ("Google Cloud", "gcp"),
        ("ovh", "ovh"), ("ovhcloud", "ovhcloud"), ("dc_roan", "dc_roan"), ("  ", ""),
        ("Foo & Bar", "foo-bar"),
    ],
)  # fmt: skip
def test_a_seller_has_one_slug_whatever_it_is_called(name: str, slug: str) -> None:
    assert words.seller(name) == slug
