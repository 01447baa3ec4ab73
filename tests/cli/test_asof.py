"""A question about a past moment gets the answer that it got then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import HOUR, Result, filled, record, run
from tests.support.offers import A100, make_offer, make_poll
from tests.support.pg import TestServer
from tracker.domain.offer import Discount, Extras, Offer
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
READ_ON = date(2026, 2, 20)
OWN = Extras(valid_as_of=READ_ON, expires_at=START + timedelta(hours=3))
LISTED = Extras(valid_as_of=READ_ON, expires_at=START + timedelta(days=90), fallback=True)
HALF = Discount("hub", Decimal(50), READ_ON, START + timedelta(days=90))


def after(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def told(hours: float, source: str, *offers: Offer, **fields: Any) -> Poll:
    """A complete poll so many hours after the start; its prices hold for three hours."""
    times: dict[str, Any] = {
        "started_at": after(hours),
        "polled_at": after(hours),
        "every_seconds": HOUR,
    }
    return make_poll(0, offers, source=source, **(times | fields))


def ask(hours: float, *more: str) -> Result:
    moment = f"{after(hours):%Y-%m-%dT%H:%MZ}"
    return run("cheapest", "--hours", "H100=4,A100=4", "--as-of", moment, "-o", "json", *more)


def bills(answer: Result) -> list[tuple[str, str]]:
    return [(row["offer_id"], row["at_least_usd"]) for row in answer.json()["rows"]]


@pytest.fixture
def url(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with filled(database_server) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield url


@pytest.mark.parametrize("closed", [False, True], ids=["still open", "closed since"])
def test_a_typed_price_keeps_its_date_its_expiry_and_its_discount(url: str, closed: bool) -> None:
    typed = make_offer("typed", "2", source="pricebook", seller="hub", extras=OWN)
    live = make_offer("live", "6", source="hub")
    for hours in range(5):
        record(url, told(hours, "pricebook", typed, discounts=(HALF,)), told(hours, "hub", live))
    if closed:
        other = make_offer("other", "9", source="pricebook", seller="hub", extras=OWN)
        record(url, told(5, "pricebook", other, discounts=(HALF,)))
        record(url, told(5, "hub", make_offer("live", "7", source="hub")))

    assert bills(ask(2)) == [("typed", "8"), ("live", "12")]  # live: half off, typed: all in
    [row, _] = ask(2).json()["rows"]
    assert (row["valid_as_of"], row["discount_percent"]) == (READ_ON.isoformat(), None)
    assert row["age_seconds"] == (after(2) - datetime(2026, 2, 20, tzinfo=UTC)).total_seconds()
    assert row["stale"] is False
    late = ask(4.5)
    assert bills(late) == [("live", "12")]
    assert late.json()["excluded"] == {"stale": 1}
    assert {row["stale"] for row in ask(4.5, "--include-stale").json()["rows"]} == {True, False}


def test_a_discount_that_was_edited_or_taken_back_is_still_that_of_then(url: str) -> None:
    books = ((HALF,), (replace(HALF, percent=Decimal(25)),), ())
    for hours in range(9):
        other = make_offer("other", "9", source="pricebook", seller="shop", gpu=A100, extras=OWN)
        record(url, told(hours, "pricebook", other, discounts=books[hours // 3]),
               told(hours, "hub", make_offer("live", "6", source="hub")))  # fmt: skip
    found = {hours: bills(ask(hours, "--gpu", "H100")) for hours in (0.5, 2.9, 3, 5.9, 6, 8)}
    assert {hours: usd for hours, [(_, usd)] in found.items()} == {
        0.5: "12", 2.9: "12", 3: "18", 5.9: "18", 6: "24", 8: "24",
    }  # fmt: skip
    past = run("history", "--hours", "H100=4", "--since", "2026-03-02", "--until",
               "2026-03-02T09:00Z", "--bucket", "1h", "-o", "json")  # fmt: skip
    rows = [row["usd"] for row in past.json()["rows"] if row["series"] == "H100"]
    assert rows == ["12"] * 3 + ["18"] * 3 + ["24"] * 3


def test_only_expired_prices_are_only_stale_ones(url: str) -> None:
    typed = make_offer("typed", "2", source="pricebook", seller="hub", extras=OWN)
    record(url, *(told(hours, "pricebook", typed) for hours in range(5)))
    assert ask(2.99).code == 0
    assert ask(3).code == 4


@pytest.mark.parametrize("closed", [False, True], ids=["still open", "closed since"])
def test_a_list_price_gave_way_while_its_seller_answered(url: str, closed: bool) -> None:
    typed = make_offer("typed", "1", source="pricebook", seller="hub", extras=LISTED)
    for hours in range(0, 8, 2):
        record(url, told(hours, "pricebook", typed))
    record(url, told(1, "hub", make_offer("live", "5", source="hub", gpu=A100)))
    if closed:
        record(url, told(9, "hub", make_offer("live", "6", source="hub", gpu=A100)))
    ranked = {hours: [name for name, _ in bills(ask(hours))] for hours in (0.5, 1, 3.9, 4)}
    # The seller answered once, one hour after the start: its answer holds for three hours.
    assert ranked == {0.5: ["typed"], 1: ["live"], 3.9: ["live"], 4: ["typed"]}
    assert ask(2, "--gpu", "H100").code == 3


@pytest.mark.parametrize("closed", [False, True], ids=["still open", "closed since"])
def test_an_import_gave_way_while_its_seller_answered(url: str, closed: bool) -> None:
    kept = make_offer("kept", "1", source="import-tracker", seller="hub")
    record(url, *(told(hours, "import-tracker", kept, kind="import") for hours in (0, 2, 4)))
    record(url, told(1, "hub", make_offer("own", "5", source="hub", gpu=A100)))
    if closed:
        record(url, told(9, "hub", make_offer("own", "6", source="hub", gpu=A100)))
    ranked = {hours: [name for name, _ in bills(ask(hours))] for hours in (0.5, 1, 3.9, 4)}
    assert ranked == {0.5: ["kept"], 1: ["own"], 3.9: ["own"], 4: ["kept"]}
    assert ask(2).json()["excluded"] == {"imported, and told by their sellers themselves": 1}


def test_a_price_dated_anew_is_never_of_negative_age(url: str) -> None:
    for hours, read_on in ((0, READ_ON), (30, date(2026, 3, 3))):
        extras = Extras(valid_as_of=read_on, expires_at=after(900))
        typed = make_offer("typed", "2", source="pricebook", seller="hub", extras=extras)
        record(url, told(hours, "pricebook", typed, every_seconds=24 * HOUR))
    [row] = ask(0).json()["rows"]
    assert row["age_seconds"] == 0
    [row] = ask(1).json()["rows"]  # polled an hour before
    assert row["age_seconds"] == HOUR


def test_a_foreign_price_is_exact_as_told_and_in_usd_at_the_last_rate_of_its_span(url: str) -> None:
    for hours, rate in ((0, "1.10"), (1, "1.20")):
        record(url, told(hours, "hub", make_offer("euro", "2", source="hub", currency="EUR",
                                                  fx_rate=rate)))  # fmt: skip
    record(url, told(2, "hub", make_offer("euro", "3", source="hub", currency="EUR",
                                          fx_rate="1.30")))  # fmt: skip

    def price(moment: str) -> tuple[str, str]:
        answer = run("offers", "--gpu", "H100", "--as-of", moment, "-o", "json")
        [row] = answer.json()["rows"]
        return row["price_native"], row["price_usd_per_machine_hour"]

    assert price("2026-03-02T00:30Z") == ("2", "2.4")
    assert price("2026-03-02T02:30Z") == ("3", "3.9")
