"""Prices in other currencies: kept in the provider's own, with the rate of a day that is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_collect import listed, module, two
from tests.support.clouds import query
from tests.support.command import Cli
from tests.support.fixtures import FIXTURES
from tests.support.lab import Lab, at
from tests.support.replay import Answer, ReplayServer
from tracker.collect import exchange
from tracker.domain.normalize import FxRate
from tracker.fx import MAX_AGE, parse_ecb
from tracker.provider import FetchError
from tracker.store.exchange_rates import StoredRates

DAY_MINUTES = 24 * 60


class Bank:
    """The bank: says these rates, or cannot be reached."""

    def __init__(self, today: date) -> None:
        self.today = today
        self.rates: dict[str, FxRate] | None = None

    def says(self, days_ago: int = 0, **usd: str) -> None:
        day = self.today - timedelta(days_ago)
        self.rates = {currency: FxRate(Decimal(rate), day) for currency, rate in usd.items()}

    def is_down(self) -> None:
        self.rates = None

    async def fetch(self, http: object) -> Mapping[str, FxRate]:
        if self.rates is None:
            raise FetchError("www.ecb.europa.eu: could not connect")
        return self.rates


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> Bank:
    lab.collector.rates = StoredRates(lab.url)
    made = Bank(lab.clock.now().date())
    monkeypatch.setattr(exchange, "fetch_rates", made.fetch)
    return made


def _kept(lab: Lab) -> list[tuple[Any, ...]]:
    return query(lab.url, "SELECT currency, day, usd_per_unit FROM exchange_rate ORDER BY 1, 2")


def _closed(lab: Lab) -> list[tuple[Any, ...]]:
    return query(lab.url, "SELECT price_native, price_micro_usd FROM price_span ORDER BY 1, 2")


def _open(lab: Lab) -> list[tuple[Any, ...]]:
    return [
        (o.native_id, o.price_native, o.currency, o.price_micro_usd, o.fx_rate, o.fx_date)
        for o in sorted(lab.live(), key=lambda o: o.native_id)
    ]


def test_every_rate_of_the_day_is_kept_with_the_poll(bank: Bank, lab: Lab) -> None:
    bank.says(EUR="1.1", INR="0.012", CNY="0.14")
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "250", "INR")))
    assert lab.poll(euro, 0).status == "complete"
    assert _open(lab) == [
        ("a", 2, "EUR", 2_200_000, Decimal("1.1"), bank.today),
        ("b", 250, "INR", 3_000_000, Decimal("0.012"), bank.today),
    ]
    assert [row[0] for row in _kept(lab)] == ["CNY", "EUR", "INR"]


def test_without_the_bank_the_last_fixing_counts(bank: Bank, lab: Lab) -> None:
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    bank.says(EUR="1.1")
    lab.poll(euro, 0)
    bank.is_down()
    outcome = lab.poll(euro, 10)
    assert (outcome.status, outcome.reason) == ("complete", None)
    assert (outcome.opened, outcome.changed, outcome.closed) == (0, 0, 0)
    assert {o.native_id: o.seen_at for o in lab.live()} == {"a": at(10), "b": at(10)}


@pytest.mark.parametrize(
    ("days", "status"), [(MAX_AGE.days, "complete"), (MAX_AGE.days + 1, "partial")]
)
def test_a_fixing_counts_no_longer_than_its_age(
    bank: Bank, lab: Lab, days: int, status: str
) -> None:
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    bank.says(EUR="1.1")
    lab.poll(euro, 0)
    bank.is_down()
    outcome = lab.poll(euro, days * DAY_MINUTES)
    assert outcome.status == status
    if status == "partial":
        assert "no exchange rates (www.ecb.europa.eu: could not connect)" in str(outcome.reason)


def test_without_any_rate_the_foreign_prices_are_not_known(bank: Bank, lab: Lab) -> None:
    outcome = lab.poll(module(lab, two(listed("a", "2", "EUR"), listed("b", "3"))), 0)
    assert outcome.status == "partial"
    assert outcome.rejected == {"no exchange rate for the currency": 1}
    assert [row[0] for row in _open(lab)] == ["b"]


def test_a_currency_that_the_bank_is_silent_on_today(bank: Bank, lab: Lab) -> None:
    both = module(lab, two(listed("a", "2", "EUR"), listed("b", "250", "INR")))
    bank.says(1, EUR="1.1", INR="0.012")
    lab.poll(both, 0)
    bank.says(EUR="1.2")
    assert lab.poll(both, 10).status == "complete"
    assert [(row[0], row[3], row[5]) for row in _open(lab)] == [
        ("a", 2_400_000, bank.today),
        ("b", 3_000_000, bank.today - timedelta(1)),
    ]


@pytest.mark.parametrize("wrong", ["0.85", "110", "0.011", "1.38"])
def test_a_rate_far_from_the_last_one_is_not_believed(bank: Bank, lab: Lab, wrong: str) -> None:
    """The pound's rate in the dollar's place made every price in euro a fifth cheaper."""
    bank.says(days_ago=1, EUR="1.1", INR="0.012")
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "250", "INR")))
    lab.poll(euro, 0)
    bank.says(EUR=wrong, INR="0.0121")
    assert lab.poll(euro, 60).status == "complete"
    yesterday = bank.today - timedelta(1)
    assert _open(lab) == [
        ("a", 2, "EUR", 2_200_000, Decimal("1.1"), yesterday),
        ("b", 250, "INR", 3_025_000, Decimal("0.0121"), bank.today),
    ]
    assert ("EUR", bank.today, Decimal(wrong)) not in _kept(lab)
    # What is said for longer than a fixing counts is how it is now.
    bank.today += MAX_AGE
    bank.says(EUR=wrong)
    lab.poll(euro, 60 + DAY_MINUTES * MAX_AGE.days)
    assert ("EUR", bank.today, Decimal(wrong)) in _kept(lab)


def test_a_rate_that_moves_changes_no_price(bank: Bank, lab: Lab) -> None:
    euro = module(lab, two(listed("a", "2", "EUR")))
    for day, rate in enumerate(("1.10", "1.15", "1.05")):
        bank.says(3 - day, EUR=rate)
        outcome = lab.poll(euro, 10 * day)
        assert (outcome.changed, outcome.closed) == (0, 0)
    assert _closed(lab) == []
    assert _open(lab) == [("a", 2, "EUR", 2_100_000, Decimal("1.05"), bank.today - timedelta(1))]
    assert len(_kept(lab)) == 3


def test_a_price_that_moves_against_its_rate_is_a_change(bank: Bank, lab: Lab) -> None:
    bank.says(1, EUR="1.25")
    lab.poll(module(lab, two(listed("a", "2", "EUR"))), 0)
    bank.says(EUR="1.00")
    outcome = lab.poll(module(lab, two(listed("a", "2.5", "EUR"))), 10)
    assert outcome.changed == 1, "2.50 USD both times, but another price"
    assert _closed(lab) == [(2, 2_500_000)]
    assert _open(lab)[0][1:4] == (Decimal("2.5"), "EUR", 2_500_000)


def test_no_rate_is_asked_for_or_kept_for_dollars(bank: Bank, lab: Lab) -> None:
    bank.says(EUR="1.1")
    assert lab.poll(module(lab, two()), 0).status == "complete"
    assert _kept(lab) == []


_ECB = b"""<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"
  xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
  <gesmes:subject>Reference rates</gesmes:subject>
  <Cube><Cube time="2026-11-27">
    <Cube currency="USD" rate="1.1250"/><Cube currency="INR" rate="90.0000"/>
    <Cube currency="CNY" rate="8.0000"/>
  </Cube></Cube>
</gesmes:Envelope>"""


def test_the_banks_own_format_gives_dollars_for_one_unit() -> None:
    day = date(2026, 11, 27)
    assert parse_ecb(_ECB) == {
        "EUR": FxRate(Decimal("1.125"), day),
        "USD": FxRate(Decimal(1), day),
        "INR": FxRate(Decimal("0.0125"), day),
        "CNY": FxRate(Decimal("0.140625"), day),
    }


# --- the command line -------------------------------------------------------------------------

ZONE = "/instance/v1/zones/fr-par-2/products/servers"
SERVERS = {"servers": {"H100-1-80G": {"gpu": 1, "hourly_price": 2.5, "gpu_info": {
    "gpu_name": "H100-PCIe", "gpu_memory": 80 * 2**30}}}}  # fmt: skip


@pytest.fixture
def scaleway(cli: Cli, server: ReplayServer, monkeypatch: pytest.MonkeyPatch) -> tuple[Cli, Bank]:
    server.handle("GET", ZONE, lambda _: Answer(json.dumps(SERVERS).encode()))
    stock = {"servers": {"H100-1-80G": {"availability": "available"}}}
    server.handle("GET", f"{ZONE}/availability", lambda _: Answer(json.dumps(stock).encode()))
    cli.environment |= {
        "GPUCOST_PROVIDERS__SCALEWAY__ENABLED": "true",
        "GPUCOST_PROVIDERS__SCALEWAY__BASE_URL": server.url,
        "GPUCOST_PROVIDERS__SCALEWAY__ZONES": '["fr-par-2"]',
    }
    bank = Bank(datetime.now(UTC).date())
    monkeypatch.setattr(exchange, "fetch_rates", bank.fetch)
    return cli, bank


def test_a_price_in_euro_from_the_service_to_the_answer(scaleway: tuple[Cli, Bank]) -> None:
    cli, bank = scaleway
    bank.says(EUR="1.1")
    [checked] = cli("provider", "check", "scaleway", "-o", "json").json()["rows"]
    assert (checked["price_native"], checked["currency"]) == ("2.5", "EUR")
    assert (checked["price_usd_per_machine_hour"], checked["availability"]) == ("2.75", "yes")
    [polled] = cli("poll", "--provider", "scaleway", "-o", "json").json()["rows"]
    assert polled["status"] == "complete"
    bank.is_down()
    [again] = cli("poll", "--provider", "scaleway", "-o", "json").json()["rows"]
    assert (again["status"], again["changed"]) == ("complete", 0)
    [offer] = cli("offers", "--provider", "scaleway", "-o", "json").json()["rows"]
    assert (offer["price_native"], offer["currency"]) == ("2.5", "EUR")
    told = cli("explain", "H100-1-80G").out
    assert "2.5 EUR" in told
    assert f"1.1 USD ({bank.today})" in told


def test_a_recorded_answer_is_read_at_the_last_rates_that_were_kept(
    scaleway: tuple[Cli, Bank], tmp_path: Path
) -> None:
    cli, bank = scaleway
    file = str(FIXTURES / "scaleway" / "prices_and_stock_of_two_zones" / "recording.json")
    before = cli("provider", "parse", "scaleway", file, "-o", "json")
    assert before.code == 3
    assert before.json()["rejected"][0]["reason"] == "no exchange rate for the currency"
    bank.says(EUR="1.2")
    cli("poll", "--provider", "scaleway")
    bank.is_down()
    rows = cli("provider", "parse", "scaleway", file, "-o", "json").json()["rows"]
    assert {row["price_usd_per_machine_hour"] for row in rows} == {"3", "3.12", "7.2", "0.96"}
