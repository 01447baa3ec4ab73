"""Machines that one owns beside the rented ones: ranked, listed, explained, and never recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.support.providers import disabled
from tracker.domain.offer import Terms

OWN = """
[[own]]
gpu = "A100-SXM-80GB"
count = 2
name = "cellar"
usd_per_kwh = 0.30
pue = 1.2
watts = 1000
wear_usd_per_hour = 0.04
"""
# An hour of the machine: 1,000 W x 1.2 x 0.30 / 1,000 + 0.04 = 0.40; of one GPU half of it.


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    terms = Terms(billing_increment_seconds=1)
    offers = [
        make_offer("h100", "2.5", gpu=H100, terms=terms),
        make_offer("a100", "1.1", gpu=A100, terms=terms),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
    (tmp_path / "gpucost.toml").write_text(OWN)


def ask(*argv: str, code: int = 0) -> dict[str, Any]:
    answer = run(*argv, "-o", "json")
    assert answer.code == code, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_one_gpu_of_ones_own_is_ranked_at_its_share_of_the_electricity() -> None:
    document = ask("cheapest", "bert-large", "--disk", "100", "--egress", "50")
    first = document["rows"][0]
    assert (first["provider"], first["owned"]) == ("own", True)
    assert first["total_usd"] == "2.4"  # 12 h x 0.20; disk and traffic are one's own
    assert first["offer_id"] == "cellar, 1 of 2"
    assert not any(row["owned"] for row in document["rows"] if row["provider"] != "own")
    assert document["offers_total"] == 4
    assert any("what it cost is not in it" in text.lower() for text in document["remarks"])


def test_without_the_table_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text("")
    document = ask("cheapest", "bert-large")
    assert document["offers_total"] == 2
    assert not any(row["owned"] for row in document["rows"])


def test_nobody_rents_a_machine_more_of_what_one_owns() -> None:
    document = ask("cheapest", "bert-large", "--gpus", "4", "--gpu", "A100")
    assert [row["provider"] for row in document["rows"]] == ["acme"]
    assert document["excluded"]["of your own, with too few GPUs"] == 2
    two = ask("cheapest", "bert-large", "--gpus", "2", "--gpu", "A100")
    own = [row for row in two["rows"] if row["owned"]]
    assert [(row["offer_id"], row["machines"]) for row in own] == [("cellar", 1)]
    assert two["excluded"]["of your own, with too few GPUs"] == 1


def test_an_estimated_job_takes_no_more_gpus_than_there_are() -> None:
    document = ask("cheapest", "llama-3.1-8b-full", "--all")
    own = [row for row in document["rows"] if row["owned"]]
    assert all(row["gpus_used"] <= 2 and row["machines"] == 1 for row in own)
    assert sum(document["excluded"].values()) + len(document["rows"]) == 4


def test_filters_hold_for_it_as_for_any_offer() -> None:
    assert [o["native_id"] for o in ask("offers", "--provider", "own")["rows"]] == [
        "cellar, 1 of 2", "cellar",
    ]  # fmt: skip
    none = ask("offers", "--provider", "own", "--gpu", "H100", code=3)
    assert none["offers_total"] == 4
    assert none["excluded"] == {"of other GPUs": 3, "of other providers": 1}
    listed = by_id(ask("offers")["rows"])
    assert listed["cellar"]["price_usd_per_machine_hour"] == "0.4"
    assert listed["cellar"]["price_usd_per_gpu_hour"] == "0.2"
    assert listed["cellar"]["stock_label"] == "yours"


def test_the_past_knows_of_none_and_says_so() -> None:
    document = ask("offers", "--as-of", "2020-01-01", code=3)
    assert document["excluded"] == {"of your own, known for now only": 2}


def test_compare_weighs_it_and_explain_shows_the_way_to_its_price() -> None:
    compared = ask("compare", "A100", "H100", "bert-large")["comparison"]
    assert compared["left"]["owned"] is True
    row = by_id(ask("offers", "--provider", "own")["rows"])["cellar"]
    text = run("explain", row["offer"]).out
    assert "1000 W x PUE 1.2 x $0.3/kWh / 1,000 + $0.04 wear = $0.4 per machine-hour" in text
    assert json.loads(run("explain", "own/cellar, 1 of 2", "-o", "json").out)["live"] is True
    assert run("explain", "abcd9999").code == 3


def test_alerts_never_look_at_it(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text(OWN + disabled("acme"))
    found = ask("alerts", "eval", "h100-cheaper-than-a100")
    assert "cellar" not in json.dumps(found)
    right = found["inputs"]["right"]
    assert (right["gpu"], right["provider"]) == ("A100-SXM-80GB", "acme")


def test_the_place_gives_energy_its_building_and_its_co2(tmp_path: Path) -> None:
    bare = by_id(ask("cheapest", "llama-3.1-8b-lora")["rows"])
    assert bare["a100"]["co2_kg"] is None
    (tmp_path / "gpucost.toml").write_text(OWN + "[energy]\npue = 1.5\ngrid_g_per_kwh = 400\n")
    there = by_id(ask("cheapest", "llama-3.1-8b-lora")["rows"])
    rented, own = there["a100"], there["cellar, 1 of 2"]
    assert rented["kwh"] == pytest.approx(bare["a100"]["kwh"] * 1.5, rel=1e-5)
    assert rented["low_kwh"] == pytest.approx(bare["a100"]["low_kwh"] * 1.5, rel=1e-5)
    assert rented["co2_kg"] == pytest.approx(rented["kwh"] * 0.4, rel=1e-5)
    assert "PUE 1.5" in rented["energy_assumptions"]
    assert own["kwh"] == pytest.approx(rented["kwh"] * 1.2 / 1.5, rel=1e-5)  # its own PUE
    # 50 M tokens; a kWh is 3.6 million watt-seconds.
    assert rented["tokens_per_kwh"] == pytest.approx(50e6 / rented["kwh"], rel=1e-5)
    each = rented["tokens_per_second_per_watt"]
    assert each == pytest.approx(rented["tokens_per_kwh"] / 3.6e6, rel=1e-5)
    text = run("cheapest", "llama-3.1-8b-lora", "--explain").out
    assert " kg of CO2" in text
    assert "tokens a second for each watt" in text


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('gpu = "A100"\nusd_per_kwh = 0.3', "A100 may be several; name one of A100-PCIE-40GB"),
        ('gpu = "A1000-SXM"\nusd_per_kwh = 0.3', "unknown GPU 'A1000-SXM'"),
        ('gpu = "A100-SXM-80GB"', "usd_per_kwh: must be given"),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = 30', "dollars, not cents"),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = 0', "must be above 0"),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = 0.3\nwatts = 20', "is it per GPU"),
        (
            'gpu = "A100-SXM-80GB"\nusd_per_kwh = 0.3\npu = 2',
            'unknown key "pu", did you mean "pue"',
        ),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = 0.3\npue = 12', "pue: 12 must be from 1 to 3"),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = 0.3\ncount = 0', "count: must be a whole number"),
        ('gpu = "A100-SXM-80GB"\nusd_per_kwh = true', "usd_per_kwh: must be a number"),
    ],
)
def test_a_table_that_cannot_be_is_one_line(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "gpucost.toml").write_text(f"[[own]]\n{table}\n")
    answer = run("cheapest", "bert-large")
    assert answer.code == 2
    assert said in answer.complaint
    checked = run("doctor")
    assert checked.code == 2
    assert said in checked.out


def test_two_alike_need_names(tmp_path: Path) -> None:
    one = '[[own]]\ngpu = "A100-SXM-80GB"\nusd_per_kwh = 0.3\n'
    (tmp_path / "gpucost.toml").write_text(one * 2)
    assert "give each a name" in run("offers").complaint
    (tmp_path / "gpucost.toml").write_text(one + one + 'name = "other"\n')
    own = ask("offers", "--provider", "own")["rows"]
    assert len({row["offer"] for row in own}) == len(own) == 2
    # No watts given: 400 W x 0.9 x 1.225 x 0.3 / 1,000.
    assert {Decimal(row["price_usd_per_machine_hour"]) for row in own} == {Decimal("0.1323")}
