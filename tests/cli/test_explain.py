"""``gpucost explain``: live, closed and held offers, ambiguous ids, lost archives, new parsers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import run
from tests.cli.shop import A100_NAME, H100_NAME, Shop, open_shop
from tests.support.catalogue import catalogue
from tracker import registry
from tracker.provider import Parsed, ParseError
from tracker.store import archive
from tracker.store.engine import connect


@pytest.fixture
def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with open_shop(monkeypatch, database_url) as shop:
        shop.sell((H100_NAME, "2.99"), (A100_NAME, "1.89"))
        assert shop.poll().code == 0
        yield shop


def _ids() -> dict[str, str]:
    rows = run("offers", "-o", "json").json()["rows"]
    return {row["gpu"]: row["offer"] for row in rows}


def _explained(reference: str) -> dict[str, Any]:
    answer = run("explain", reference, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.usefixtures("shop")
def test_a_live_offer_in_the_providers_words() -> None:
    offer = _ids()["H100-SXM-80GB"]
    text = run("explain", offer).out
    assert f'"id": "{H100_NAME}"' in text
    assert "POST http://127.0.0.1:" in text
    assert f"GPU {H100_NAME!r} -> H100-SXM-80GB" in text
    assert "price 2.99 USD per GPU-hour = $2.990000 per machine-hour" in text
    assert ", live" in text
    for gate in ("band", "duplicate", "count scaling", "jump"):
        assert f"passed  {gate}:" in text
    document = _explained(offer)
    assert document["live"] is True
    assert document["offer"]["price_usd_per_machine_hour"] == "2.99"
    assert document["offer"]["offer"] == offer
    assert document["gpu_raw"] == H100_NAME
    assert document["problem"] is None
    assert document["poll"]["status"] == "complete"
    assert all(gate["passed"] for gate in document["gates"])
    assert document["quarantine"] == []


@pytest.mark.usefixtures("shop")
def test_an_offer_by_any_of_its_names() -> None:
    offer = _ids()["H100-SXM-80GB"]
    row = next(r for r in run("offers", "-o", "json").json()["rows"] if r["offer"] == offer)
    for reference in (offer, offer[:4], row["native_id"], f"runpod/{row['native_id']}"):
        assert _explained(reference)["offer"]["offer"] == offer


def test_a_closed_offer_is_explained_by_the_poll_that_last_saw_it(shop: Shop) -> None:
    offer = _ids()["A100-SXM-80GB"]
    shop.sell((H100_NAME, "2.99"))
    assert shop.poll().code == 0
    assert "A100-SXM-80GB" not in _ids()
    document = _explained(offer)
    assert document["live"] is False
    assert A100_NAME in document["words"]
    assert "no longer offered" in run("explain", offer).out


def test_the_jump_gate_compares_with_the_price_before(shop: Shop) -> None:
    shop.sell((H100_NAME, "3.49"), (A100_NAME, "1.89"))
    assert shop.poll().code == 0
    text = run("explain", _ids()["H100-SXM-80GB"]).out
    assert "passed  jump: last $2.9900" in text
    assert "= $3.490000 per machine-hour" in text


@pytest.mark.usefixtures("shop")
def test_an_ambiguous_id_lists_what_it_fits(database_url: str) -> None:
    with connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE offer SET native_id = 'same'")
    answer = run("explain", "same")
    assert answer.code == 2
    assert "'same' fits 2 offers: " in answer.complaint
    for gpu, offer in _ids().items():
        assert f"{offer} ({gpu} on_demand" in answer.complaint


@pytest.mark.usefixtures("shop")
def test_an_archive_that_has_expired_is_said_to_have(database_url: str) -> None:
    with connect(database_url, autocommit=True) as connection:
        connection.execute("DELETE FROM payload")
        archive.delete_payloads_before(connection, datetime.now(UTC) + timedelta(days=1))
    document = _explained(_ids()["H100-SXM-80GB"])
    assert document["problem"] == "the answer is no longer in the archive"
    assert (document["words"], document["answer"], document["gates"]) == (None, None, [])
    text = run("explain", _ids()["H100-SXM-80GB"]).out
    assert "(the answer is no longer in the archive)" in text
    assert "Gates" not in text


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("parsed", "says"),
    [
        (Parsed(()), "today's parser makes another offer of it"),
        (ParseError("gpuTypes", "a list was expected"), "gpuTypes: a list was expected"),
        (KeyError("gpuTypes"), "parse: failed with KeyError: 'gpuTypes'"),
        (None, "parse: gave NoneType, not Parsed"),
    ],
)
def test_a_parser_that_has_changed_is_said_to_have(
    parsed: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = _ids()["H100-SXM-80GB"]
    provider = registry.load("runpod")

    def parse(_payloads: Any) -> Any:
        if isinstance(parsed, Exception):
            raise parsed
        return parsed

    changed = dataclasses.replace(provider, parse=parse)
    monkeypatch.setattr(registry, "load", lambda name: changed)
    document = _explained(offer)
    assert says in document["problem"]
    assert H100_NAME in document["words"], "the provider's words are shown all the same"
    assert f"but {document['problem']}" in run("explain", offer).out


def test_a_quarantined_offer_is_explained_too(shop: Shop) -> None:
    shop.sell((H100_NAME, "0.02"), (A100_NAME, "1.89"), ("NVIDIA A100 80GB PCIe", "0.03"))
    assert shop.poll().code == 0
    low, high = catalogue().band("H100", "on_demand")
    rows = run("offers", "--quarantined", "-o", "json").json()["rows"]
    held = {row["gpu"]: row["offer"] for row in rows}
    text = run("explain", held["H100-SXM-80GB"]).out
    assert f"outside the plausible ${low} to ${high}" in text
    assert "not freed by repetition" in text
    document = _explained(held["H100-SXM-80GB"])
    assert document["quarantine"][0]["gate"] == "band"
    assert document["quarantine"][0]["price_usd_per_machine_hour"] == "0.02"
    # The H100 had a price before; a GPU first seen at a wrong price has none at all.
    assert document["offer"]["price_usd_per_machine_hour"] == "2.99"
    document = _explained(held["A100-PCIE-80GB"])
    assert document["offer"] is None
    assert [g["gate"] for g in document["gates"] if not g["passed"]] == ["band"]
    assert '"NVIDIA A100 80GB PCIe"' in document["words"]
    assert "QUARANTINED: never ranked" in run("explain", held["A100-PCIE-80GB"]).out


@pytest.mark.usefixtures("shop")
def test_every_price_says_where_its_reader_can_look_it_up() -> None:
    """For whoever thinks it wrong: the seller's own page, and the answer that it was read from."""
    offer = _ids()["H100-SXM-80GB"]
    document = _explained(offer)
    assert document["source_url"] == "https://www.runpod.io/pricing"
    lines = run("explain", offer).lines
    assert "see also https://www.runpod.io/pricing" in [line.strip() for line in lines]
    assert document["poll"]["id"]
    assert document["answer"]["url"].endswith("/graphql")
    assert H100_NAME in document["words"]


BOOK = """
[[discount]]
provider = "runpod"
percent = 40
gpu = "H100"
market = "on_demand"
valid_as_of = {today}
max_age_days = 30
note = "contract 7"
"""


def test_what_a_discount_takes_off_is_told(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell((H100_NAME, "4.40"), (A100_NAME, "1.89"))
    assert shop.poll().code == 0
    offers = _ids()
    assert _explained(offers["H100-SXM-80GB"])["discount"] is None
    assert "Discount" not in run("explain", offers["H100-SXM-80GB"]).out
    today = datetime.now(UTC).date()
    (tmp_path / "rates.toml").write_text(BOOK.format(today=today))
    monkeypatch.setenv("GPUCOST_PRICEBOOK_PATHS", f'["{tmp_path / "rates.toml"}"]')
    monkeypatch.setenv("GPUCOST_PROVIDERS__PRICEBOOK__SHIPPED", "false")
    assert run("poll", "--provider", "pricebook").code == 0
    answer = run("cheapest", "--hours", "H100=1", "--provider", "runpod", "-o", "json").json()
    row = answer["rows"][0]
    explained = _explained(offers["H100-SXM-80GB"])
    assert explained["offer"]["price_usd_per_machine_hour"] == "4.4"
    assert explained["discount"] == {
        "percent": 40, "price_usd_per_machine_hour": row["price_usd_per_machine_hour"],
        "gpu": "H100", "market": "on_demand", "valid_as_of": f"{today}",
        "expires_at": f"{today + timedelta(days=30)}T00:00:00Z", "note": "contract 7",
    }  # fmt: skip
    assert row["price_usd_per_machine_hour"] == "2.64"
    text = run("explain", offers["H100-SXM-80GB"]).out
    assert f"40 % off runpod H100 on-demand, typed by a person in a price book on {today}" in text
    assert "answers and rules take $2.640000 per machine-hour" in text
    assert "note: contract 7" in text
    assert "Discount" not in run("explain", offers["A100-SXM-80GB"]).out
    shop.sell((A100_NAME, "1.89"))
    assert shop.poll().code == 0
    assert _explained(offers["H100-SXM-80GB"])["discount"] is None  # no answer has it any more


def test_a_file_of_discounts_alone_is_parsed_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(BOOK.format(today="2026-11-01"))
    answer = run("provider", "parse", "pricebook", str(file))
    assert answer.code == 0
    assert answer.lines == [
        "discount: 40 % off runpod H100 on-demand, from 2026-11-01 until 2026-12-01 00:00 UTC"
        " (contract 7)",
        "0 offers, 1 discount, 0 quarantined, 0 rows rejected",
    ]
    [discount] = run("provider", "parse", "pricebook", str(file), "-o", "json").json()["discounts"]
    assert (discount["percent"], discount["gpu"]) == (40, "H100")
    file.write_text(BOOK.format(today="2026-11-01").replace("runpod", "runpodd"))
    refused = run("provider", "parse", "pricebook", str(file))
    assert (refused.code, "discount for an unknown provider" in refused.out) == (3, True)
