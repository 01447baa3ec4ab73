"""From a provider's words to USD per machine-hour."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.offers import listed, offer
from tracker.domain.normalize import FxRate, Unnormalised, normalise
from tracker.domain.offer import Availability, Extras, Market, Offer, PriceUnit, Terms


@given(
    amount=st.decimals("0.01", "100", places=6),
    count=st.sampled_from([1, 2, 4, 8]),
    unit=st.sampled_from(list(PriceUnit)),
)
def test_normalising_again_changes_nothing(amount: Decimal, count: int, unit: PriceUnit) -> None:
    first = offer(str(amount), unit=unit, gpu_count=Decimal(count))
    again = normalise("acme", first.listed, catalogue(), {})
    assert isinstance(again, Offer)
    assert (again.gpu, again.price, again.listed, again.key) == (
        first.gpu, first.price, first.listed, first.key,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "price", "machine_hour"),
    [
        (PriceUnit.MACHINE_HOUR, "8", "8"),
        (PriceUnit.GPU_HOUR, "2", "8"),
        (PriceUnit.MACHINE_MONTH, "1899", "2.601370"),
        (PriceUnit.GPU_MONTH, "73", "0.4"),
    ],
)
def test_every_unit_becomes_a_machine_hour(unit: PriceUnit, price: str, machine_hour: str) -> None:
    it = offer(price, unit=unit, gpu_count=Decimal(4))
    assert round(it.price.usd, 6) == Decimal(machine_hour)
    assert round(it.price_per_gpu.usd, 6) == round(it.price.usd / 4, 6)


def test_another_currency_is_converted_and_its_rate_kept() -> None:
    fx = {"EUR": FxRate(Decimal("1.1"), date(2026, 11, 27))}
    it = normalise("acme", listed("2", currency="eur"), catalogue(), fx)
    assert isinstance(it, Offer)
    assert (it.price.usd, it.fx_rate, it.fx_date) == (
        Decimal("2.2"), Decimal("1.1"), date(2026, 11, 27),
    )  # fmt: skip
    assert it.listed.price.currency == "EUR"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"price": "0"}, "zero or negative"),
        ({"price": "-1"}, "zero or negative"),
        ({"price": "NaN"}, "not a number"),
        ({"price": "1e9"}, "absurd"),
        ({"price": "0.0000001"}, "rounds to zero"),
        ({"gpu_count": Decimal(0)}, "GPU count"),
        ({"gpu_count": Decimal("2.5")}, "not whole"),
        ({"gpu_count": Decimal(5000)}, "absurd"),
        ({"currency": "CHF"}, "no exchange rate"),
        ({"source_id": " \x00 "}, "no offer id"),
        ({"price": "1e-9999999"}, "absurd"),
        ({"gpu_count": Decimal("1e-200")}, "absurd"),
        ({"vcpus": Decimal("1e400")}, "a figure is out of range"),
        ({"ram_gib": Decimal("NaN")}, "a figure is out of range"),
        ({"vram_gb": Decimal("1e-20000")}, "a figure is out of range"),
        ({"vram_mib": Decimal(-1)}, "a figure is out of range"),
        ({"extras": Extras(stock_count=10**30)}, "a figure is out of range"),
        ({"terms": Terms(minimum_seconds=2**70)}, "a figure is out of range"),
        ({"gpu_name": "Voodoo 9000"}, ""),
    ],
)
def test_what_is_no_offer_says_why(changes: dict[str, Any], reason: str) -> None:
    found = normalise("acme", listed(**changes), catalogue(), {})
    assert isinstance(found, Unnormalised)
    assert reason in found.reason
    assert found.unmapped == (changes.get("gpu_name") == "Voodoo 9000")


def test_control_characters_and_endless_text_do_not_get_through() -> None:
    it = offer(source_id="a\x1b[31mb\u202ec", region="x" * 5000)
    assert it.listed.source_id == "a [31mb c"
    assert offer(source_id="a\ud800b", region="\udfff").key
    assert it.listed.region == "x" * 200


def test_long_ids_that_differ_in_the_end_only_are_two_offers() -> None:
    one, other = offer(source_id="x" * 200 + "1"), offer(source_id="x" * 200 + "2")
    assert one.key != other.key
    assert one.listed.source_id.startswith("x" * 180 + "~")
    assert len(one.listed.source_id) == 197
    assert offer(source_id="x" * 200).listed.source_id == "x" * 200
    again = normalise("acme", one.listed, catalogue(), {})
    assert isinstance(again, Offer)
    assert again.key == one.key


def test_words_beside_the_offer_are_cleaned_too() -> None:
    it = offer(extras=Extras(stock_label="a\0b"), notes=("x\0\x1b[31m",)).listed
    assert (it.extras.stock_label, it.notes) == ("a b", ("x [31m",))


@pytest.mark.parametrize(
    "changes",
    [
        {"tier": "community"},
        {"market": Market.SPOT},
        {"region": "eu"},
        {"gpu_count": Decimal(2)},
        {"vcpus": Decimal(16)},
        {"ram_gib": Decimal(64)},
        {"terms": Terms(commitment_hours=730)},
        {"terms": Terms(egress_usd_per_gb=Decimal("0.01"))},
        {"gpu_name": "H100 PCIe"},
        {"source_id": "machine-2"},
        {"currency": "usd", "unit": PriceUnit.GPU_HOUR},
    ],
)
def test_another_product_has_another_key(changes: dict[str, Any]) -> None:
    assert offer(**changes).key != offer().key


def test_what_merely_moves_keeps_the_key() -> None:
    moved = offer("3.10", extras=Extras(availability=Availability.NO, stock_count=0))
    assert moved.key == offer().key
    same = offer(ram_gib=Decimal("64.0"))
    assert same.key == offer(ram_gib=Decimal(64)).key
    assert dataclasses.replace(same, flags=("x",)).key == same.key
