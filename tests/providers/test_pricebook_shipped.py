"""The price book that is shipped: whole, dated, and what the collected lists say."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from decimal import Decimal
from typing import cast

import pytest

from providers.pricebook import Config, fetch, parse
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.domain.normalize import normalise
from tracker.domain.offer import Offer
from tracker.provider import HttpClient, ListedOffer, Market, Parsed

D = Decimal


def shipped() -> Parsed:
    return parse(asyncio.run(fetch(cast(HttpClient, None), Config())))


def test_the_shipped_book_is_whole_dated_and_a_fallback() -> None:
    book = shipped()
    assert book.complete
    assert not book.rejected
    assert not book.discounts
    sellers = {offer.seller for offer in book.offers}
    assert sellers == {
        "runpod",
        "vastai",
        "databasemart",
        "aws",
        "azure",
        "lambda",
        "nebius",
        "gcp",
    }
    for offer in book.offers:
        assert offer.extras.fallback
        assert offer.extras.valid_as_of is not None
        assert offer.extras.expires_at is not None
        age = offer.extras.expires_at.date() - offer.extras.valid_as_of
        assert age.days == (30 if offer.market is Market.SPOT else 365)
        assert any(note.startswith("source: ") for note in offer.notes)
        assert not offer.terms.commitment_unknown


def test_what_one_must_know_of_a_figure_stands_in_its_id() -> None:
    ids = {offer.source_id: offer for offer in shipped().offers}
    [median] = [i for i in ids if "median of four asks" in i]
    assert ids[median].seller == "vastai"
    promotions = [i for i in ids if "promotion" in i]
    assert len(promotions) == 4
    assert "fallback:databasemart/A100 40GB, promotion (799 USD without it)" in promotions
    for promotion in promotions:
        assert any(note.startswith("promotion; ") for note in ids[promotion].notes)


def machine_hour(offer: ListedOffer) -> Decimal:
    return offer.price.machine_hour(offer.gpu_count, D(1)).usd


@pytest.mark.skipif(not SHARED.exists(), reason=NO_SHARED)
def test_the_shipped_book_has_every_dated_row_of_the_collected_list() -> None:
    with (SHARED / "providers" / "list_prices_2026.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    book = {
        (o.seller, o.gpu_name, o.gpu_count, o.market, o.tier, round(machine_hour(o), 4))
        for o in shipped().offers
    }
    dated = [row for row in rows if re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"])]
    assert len(rows) - len(dated) == 2
    for row in dated:
        # The list calls the H100 of Database Mart a PCIe card; the price table itself does not.
        mart = row["provider"] == "databasemart"
        gpu = "H100-80GB" if mart and row["gpu"].startswith("H100") else row["gpu"]
        key = (
            row["provider"], gpu, D(row["gpu_count"]), row["market"],
            row["tier"] or ("dedicated" if mart else "standard"),
            round(D(row["usd_per_hour_total"]), 4),
        )  # fmt: skip
        assert key in book


@pytest.mark.skipif(not SHARED.exists(), reason=NO_SHARED)
def test_the_shipped_book_has_every_plan_of_the_transcribed_price_table() -> None:
    path = SHARED / "providers" / "payloads" / "databasemart"
    table = path / "gpu-mart_price_table_transcribed_2026-08-11.json"
    plans = json.loads(table.read_text(encoding="utf-8"), parse_float=Decimal)["plans"]
    offers = {o.notes[0]: o for o in shipped().offers if o.seller == "databasemart"}
    assert sorted(offers) == sorted(plan["label"] for plan in plans)
    for plan in plans:
        offer = offers[plan["label"]]
        assert (offer.price.amount, offer.price.unit) == (plan["price_month"], "machine_month")
        assert offer.gpu_count == plan["gpu_count"]
        assert offer.tier == plan["kind"]
        assert offer.terms.commitment_hours == (plan["commitment_months"] or 1) * 730


@pytest.mark.parametrize(
    ("gpu", "count", "usd", "commitment"),
    [
        ("A100-40GB", 4, "2.601370", 730),
        ("RTX4090-24GB", 2, "0.615753", 730),
        ("H100-80GB", 1, "2.875342", 17_520),
    ],
)
def test_monthly_prices_worked_out_by_hand(gpu: str, count: int, usd: str, commitment: int) -> None:
    [offer] = [
        o
        for o in shipped().offers
        if (o.seller, o.gpu_name, o.gpu_count) == ("databasemart", gpu, D(count))
    ]
    assert offer.market is Market.MONTHLY
    assert round(machine_hour(offer), 6) == D(usd)
    assert offer.terms.commitment_hours == commitment


def test_every_gpu_of_the_shipped_book_is_in_the_catalogue_under_the_key_it_names() -> None:
    for listed in shipped().offers:
        offer = normalise("pricebook", listed, catalogue(), {})
        assert isinstance(offer, Offer), offer
        assert not offer.gpu.is_slice
        if "-" in listed.gpu_name:
            assert offer.gpu.key == listed.gpu_name
