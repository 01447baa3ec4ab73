"""What a poll found beside prices, as people see it: unknown names, held prices, typed prices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.clouds import edited, live_rows, poll, query, serve
from tests.support.command import Cli
from tests.support.replay import ReplayServer

TODAY = datetime.now(UTC).date()


def rename(answer: dict[str, Any]) -> None:
    for row in answer["data"]["gpuTypes"]:
        if row["id"] == "NVIDIA GeForce RTX 4090":
            row["id"] = "NVIDIA Quantum Z9"


def test_an_unknown_name_is_kept_counted_listed_and_can_be_given_a_meaning(
    cli: Cli, server: ReplayServer, database_url: str
) -> None:
    serve(server, "runpod", edited("runpod", rename))
    outcome = poll(cli, "--provider", "runpod")["runpod"]
    assert (outcome["status"], outcome["unmapped"]) == ("complete", 1)
    assert outcome["rejected"]["GPU name not in the catalogue"] == 3
    [unknown] = cli("providers", "--unmapped", "-o", "json").json()["rows"]
    assert (unknown["provider"], unknown["name"], unknown["rows"]) == (
        "runpod", "NVIDIA Quantum Z9", 3,
    )  # fmt: skip
    assert unknown["vram"] == "24 GB"
    assert "0.71 USD per gpu_hour" in unknown["sample"]

    cli.environment["GPUCOST_ALIASES"] = '{"NVIDIA Quantum Z9": "RTX4090-24GB"}'
    outcome = poll(cli, "--provider", "runpod")["runpod"]
    assert (outcome["opened"], outcome["unmapped"]) == (3, 0)
    assert cli("providers", "--unmapped", "-o", "json").json()["rows"] == []
    named = "SELECT DISTINCT gpu_key FROM offer_now WHERE native_id = 'NVIDIA Quantum Z9'"
    assert query(database_url, named) == [("RTX4090-24GB",)]


def placeholder(answer: dict[str, Any]) -> None:
    for row in answer["data"]["gpuTypes"]:
        if row["id"].startswith("NVIDIA H100"):
            row["securePrice"] = 0.01


def test_a_held_price_is_shown_with_its_reason_and_ranked_nowhere(
    cli: Cli, server: ReplayServer
) -> None:
    serve(server, "runpod", edited("runpod", placeholder))
    outcome = poll(cli, "--provider", "runpod")["runpod"]
    assert (outcome["status"], outcome["quarantined"]) == ("complete", 2)
    held = cli("offers", "--quarantined", "-o", "json").json()["rows"]
    assert [(q["gpu"], q["gpus"], q["market"], q["gate"], q["confirmations"]) for q in held] == [
        ("H100-SXM-80GB", 1, "on_demand", "band", 1),
        ("H100-SXM-80GB", 2, "on_demand", "band", 1),
    ]
    assert all("outside the plausible" in q["reason"] for q in held)
    asked = ("offers", "--gpu", "H100", "--market", "on_demand", "-o", "json")
    assert cli(*asked).code == 3
    serve(server, "runpod")
    assert poll(cli, "--provider", "runpod")["runpod"]["opened"] == 4  # spot is below it again
    prices = [r["price_usd_per_machine_hour"] for r in cli(*asked).json()["rows"]]
    assert sorted(prices) == ["3.05", "6.1"]
    assert cli("offers", "--quarantined", "-o", "json").json()["rows"] == []


@pytest.fixture
def book(cli: Cli, tmp_path: Path) -> Path:
    """A price book of one's own, beside which no other is read."""
    file = tmp_path / "own.toml"
    cli.environment |= {
        "GPUCOST_PROVIDERS__PRICEBOOK__PATHS": f'["{file}"]',
        "GPUCOST_PROVIDERS__PRICEBOOK__SHIPPED": "false",
    }
    return file


def price(days_left: int) -> str:
    expires = TODAY + timedelta(days=days_left)
    return f"""
[[price]]
seller = "acme"
gpu = "A100-SXM-80GB"
price = "1.20"
unit = "machine_hour"
valid_as_of = {TODAY - timedelta(days=30)}
expires = {expires}
"""


def test_a_typed_price_is_stale_from_its_expiry_on(cli: Cli, book: Path) -> None:
    book.write_text(price(days_left=-1))
    assert poll(cli, "--provider", "pricebook")["pricebook"]["status"] == "complete"
    result = cli("offers", "-o", "json")
    assert result.code == 4
    assert result.err.count("\n") == 1
    [row] = cli("offers", "--include-stale", "-o", "json").json()["rows"]
    assert (row["provider"], row["stale"]) == ("acme", True)
    assert row["valid_as_of"] == str(TODAY - timedelta(days=30))
    book.write_text(price(days_left=30))
    poll(cli, "--provider", "pricebook")
    [row] = cli("offers", "-o", "json").json()["rows"]
    assert (row["stale"], row["price_usd_per_machine_hour"]) == (False, "1.2")


def test_a_half_edited_book_takes_no_price_away(cli: Cli, book: Path, database_url: str) -> None:
    book.write_text(price(days_left=30))
    poll(cli, "--provider", "pricebook")
    before = live_rows(database_url)
    assert len(before) == 1
    book.write_text("[[price]\nseller = ")
    outcome = poll(cli, "--provider", "pricebook", code=6)["pricebook"]
    assert outcome["status"] == "failed"
    assert "own.toml: not TOML" in outcome["reason"]
    assert live_rows(database_url) == before


def test_a_discount_is_taken_once_and_marked(cli: Cli, book: Path, database_url: str) -> None:
    book.write_text(f"""
[[discount]]
provider = "runpod"
percent = 10
valid_as_of = {TODAY}
expires = {TODAY + timedelta(days=30)}

[[price]]
seller = "runpod"
tier = "secure"
gpu = "H100-SXM-80GB"
price = "2.95"
unit = "machine_hour"
valid_as_of = {TODAY}
expires = {TODAY + timedelta(days=30)}
""")
    poll(cli, "--provider", "runpod,pricebook")
    poll(cli, "--provider", "runpod,pricebook")  # a second time, as any daemon would
    asked = ("cheapest", "--hours", "H100=10", "--provider", "runpod", "--all", "-o", "json")
    billed = {
        (row["source"], row["gpus"]): (row["price_usd_per_machine_hour"],
                                            row["discount_percent"])
        for row in cli(*asked).json()["rows"]
    }  # fmt: skip
    assert billed == {
        ("runpod", 1): ("2.745", 10),
        ("runpod", 2): ("5.49", 10),
        ("pricebook", 1): ("2.95", None),
    }
    # What is recorded is the list price: a discount that ends or changes rewrites no history.
    assert query(
        database_url,
        "SELECT n.price_micro_usd FROM offer_now n JOIN provider p ON p.id = n.source_id"
        " WHERE p.slug = 'runpod' AND gpu_key = 'H100-SXM-80GB' AND gpu_count = 1"
        " AND market = 'on_demand'",
    ) == [(3_050_000,)]
    assert query(database_url, "SELECT count(*) FROM price_span") == [(0,)]


def test_an_empty_answer_is_asked_for_again_not_remembered(cli: Cli, server: ReplayServer) -> None:
    def nothing(page: dict[str, Any]) -> None:
        page["Items"] = []

    with ReplayServer(etags=True) as cached:
        cli.environment |= {"GPUCOST_PROVIDERS__AZURE__BASE_URL": cached.url}
        serve(cached, "azure", edited("azure", nothing))
        for _ in range(2):
            assert poll(cli, "--provider", "azure", code=6)["azure"]["status"] == "empty"
        serve(cached, "azure")
        outcome = poll(cli, "--provider", "azure")["azure"]
    assert (outcome["status"], outcome["opened"]) == ("complete", 8)


def test_without_a_database_nobody_is_asked(cli: Cli, server: ReplayServer) -> None:
    cli.environment["GPUCOST_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    result = cli("poll")
    assert result.code == 5
    assert result.err.count("\n") == 1
    assert server.requests == []


def test_a_book_of_discounts_alone_is_in_force(cli: Cli, book: Path, database_url: str) -> None:
    typed = f"""
[[discount]]
provider = "runpod"
percent = 10
valid_as_of = {TODAY}
expires = {TODAY + timedelta(days=30)}
"""
    book.write_text(typed + price(days_left=30))
    poll(cli, "--provider", "runpod,pricebook")
    before = len(live_rows(database_url))
    book.write_text(typed)  # the typed price is taken out: it is gone, and the discount stays
    outcome = poll(cli, "--provider", "pricebook")["pricebook"]
    assert outcome["status"] == "complete"
    assert len(live_rows(database_url)) == before - 1
    rows = cli("cheapest", "--hours", "H100=10", "--provider", "runpod", "-o", "json").json()[
        "rows"
    ]
    assert rows
    assert {row["discount_percent"] for row in rows} == {10}
