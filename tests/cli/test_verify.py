"""``gpucost cheapest --verify``: the leading offers' providers are asked again, just before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from tests.cli.harness import A100, H100, ago, polled, record, run
from tests.cli.shop import A100_NAME, H100_NAME, Shop, open_shop
from tests.support.offers import make_offer
from tests.support.replay import Answer
from tracker.domain.offer import Extras


@pytest.fixture
def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with open_shop(monkeypatch, database_url) as shop:
        shop.sell((H100_NAME, "2.00"), (A100_NAME, "1.00"))
        assert shop.poll().code == 0
        yield shop


def _verified() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    answer = run("cheapest", "bert-large", "--verify", "-o", "json")
    assert answer.code == 0, answer.err
    document = answer.json()
    return {v["gpu"]: v for v in document["verified"]}, document


def test_confirmed_and_changed(shop: Shop) -> None:
    shop.sell((H100_NAME, "2.50"), (A100_NAME, "1.00"))
    verdicts, document = _verified()
    h100, a100 = verdicts["H100-SXM-80GB"], verdicts["A100-SXM-80GB"]
    assert (h100["outcome"], h100["before_usd"], h100["after_usd"]) == ("changed", "8", "10")
    assert (a100["outcome"], a100["before_usd"], a100["after_usd"]) == ("confirmed", "12", "12")
    assert document["rows"][0]["total_usd"] == "10", "the answer is the one after asking"
    shop.sell((H100_NAME, "3.25"), (A100_NAME, "1.00"))
    lines = run("cheapest", "bert-large", "--verify").lines
    assert any("A100-SXM-80GB at runpod" in line and "confirmed" in line for line in lines)
    assert any("changed: $10.00 -> $13.00" in line for line in lines)


def test_a_dearer_offer_that_no_longer_leads_has_not_vanished(shop: Shop) -> None:
    shop.sell((H100_NAME, "5.50"), (A100_NAME, "1.00"))
    answer = run("cheapest", "bert-large", "--verify", "--top", "1", "-o", "json").json()
    [verdict] = answer["verified"]
    assert (verdict["outcome"], verdict["after_usd"]) == ("changed", "22")
    assert answer["rows"][0]["gpu"] == "A100-SXM-80GB"


def test_vanished_only_when_no_longer_live(shop: Shop) -> None:
    shop.sell((A100_NAME, "1.00"))
    verdicts, document = _verified()
    assert verdicts["H100-SXM-80GB"]["outcome"] == "vanished"
    assert verdicts["H100-SXM-80GB"]["after_usd"] is None
    assert [row["gpu"] for row in document["rows"]] == ["A100-SXM-80GB"]


def test_sold_out_and_held_back_have_not_vanished_either(shop: Shop) -> None:
    shop.sell((H100_NAME, "2.00"), (A100_NAME, "0.02"))
    verdicts, _ = _verified()
    assert verdicts["H100-SXM-80GB"]["outcome"] == "confirmed"
    assert verdicts["A100-SXM-80GB"]["outcome"] == "quarantined"
    assert "outside the plausible" in verdicts["A100-SXM-80GB"]["reason"]


def test_unchecked_when_the_provider_does_not_answer(shop: Shop) -> None:
    shop.broken = Answer(b"<html>sorry</html>", 503, {"content-type": "text/html"})
    verdicts, document = _verified()
    assert {v["outcome"] for v in verdicts.values()} == {"unchecked"}
    assert "503" in verdicts["H100-SXM-80GB"]["reason"]
    assert document["rows"][0]["total_usd"] == "8", "the last known prices still hold"
    assert "unchecked: " in run("cheapest", "bert-large", "--verify").out


def test_typed_prices_are_checked_by_asking_their_seller(shop: Shop, database_url: str) -> None:
    extras = Extras(valid_as_of=date(2026, 11, 9), expires_at=ago(-60 * 24))
    shop.sell((A100_NAME, "1.00"))
    assert shop.poll().code == 0
    book = [
        make_offer("book-h100", "1.5", source="pricebook", seller="runpod", gpu=H100, tier="secure",
                   extras=extras),
        make_offer("book-corner", "1.75", source="pricebook", seller="corner-shop", gpu=A100,
                   extras=extras),
    ]  # fmt: skip
    record(database_url, polled("pricebook", book))
    shop.sell((A100_NAME, "1.00"), (H100_NAME, "2.25"))
    answer = run("cheapest", "bert-large", "--verify", "-o", "json").json()
    verdicts = {v["provider"]: v for v in answer["verified"] if v["gpu"] != "A100-SXM-80GB"}
    assert verdicts["runpod"]["outcome"] == "replaced"
    assert answer["rows"][0]["total_usd"] == "6", "a price of one's own stays"
    corner = [v for v in answer["verified"] if v["provider"] == "corner-shop"]
    assert [(v["outcome"], v["reason"]) for v in corner] == [
        ("unchecked", "there is nobody to ask")
    ]


def test_nothing_to_verify_is_no_error(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    answer = run("cheapest", "bert-large", "--verify")
    assert answer.code == 3
    assert answer.complaint == "no offer matches"
