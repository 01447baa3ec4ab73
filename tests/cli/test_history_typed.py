"""Answers about the past tell list and typed prices from live ones, as the live answer does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.harness import A100, H100, ago, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.pages.world import shop as shop_pages
from tests.web.pages.world import tree
from tests.web.world import ask
from tracker.app import App
from tracker.app.answers import Answers
from tracker.domain.offer import Extras, Offer

READ_ON = datetime.now(UTC).date() - timedelta(days=40)
NOT_LIVE = f"(a list price of {READ_ON}, not live)"


def typed(price: str, *, fallback: bool = True, read_on: date = READ_ON, **fields: Any) -> Offer:
    extras = Extras(valid_as_of=read_on, expires_at=ago(-60 * 24 * 300), fallback=fallback)
    return make_offer("typed", price, source="pricebook", seller="lambda", extras=extras, **fields)


class Shop(NamedTuple):
    """An H100 known by a list alone, polled hourly for six hours, and a live A100."""

    answers: Answers


@pytest.fixture
def shop(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    listed = typed("3.00", gpu=H100)
    live = make_offer("live", "4.00", gpu=A100)
    polls = [
        polled(*one, minutes_ago=minutes)
        for minutes in (305, 245, 185, 125, 65, 20)
        for one in (("acme", [live]), ("pricebook", [listed]))
    ]
    with filled(database_server, *polls) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield Shop(Answers(App(env={"GPUCOST_DATABASE_URL": url})))


def age_of_list() -> float:
    return (datetime.now(UTC) - datetime.combine(READ_ON, datetime.min.time(), UTC)).total_seconds()


def test_a_history_says_whose_word_its_prices_are(shop: Shop) -> None:
    asked = ("history", "bert-large", "--since", "6h", "--bucket", "1h")
    found = run(*asked, "-o", "json").json()
    assert found["answer"].endswith(f"{NOT_LIVE}.")
    rows = [row for row in found["rows"] if row["usd"] is not None]
    assert {row["series"]: (row["source"], row["valid_as_of"]) for row in rows} == {
        "H100": ("pricebook", str(READ_ON)), "A100": ("acme", None),
        "cheapest of all": ("pricebook", str(READ_ON)),
    }  # fmt: skip
    series = {one["name"]: one for one in found["series"]}
    assert (series["H100"]["now_source"], series["A100"]["now_source"]) == ("pricebook", "acme")
    assert abs(series["H100"]["now_age_seconds"] - age_of_list()) < 60
    assert abs(series["A100"]["now_age_seconds"] - 20 * 60) < 60
    now = f"Now by a list price, not live: H100 (lambda, read on {READ_ON})."
    past = "the cheapest was a list price, not live."
    assert now in found["remarks"]
    assert any(text.startswith("For all of the ") and text.endswith(past)
               for text in found["remarks"])  # fmt: skip
    table = run(*asked).out
    assert NOT_LIVE in table
    assert now in table
    cells = {line.split()[0]: line.split() for line in table.splitlines()[2:6] if line.split()}
    assert cells["GPU"][2] == "AGE"
    assert cells["H100"][2] == str(READ_ON)
    assert cells["A100"][2:4] == ["20", "min"]


def test_a_history_of_live_prices_says_nothing_of_lists(shop: Shop) -> None:
    found = run("history", "bert-large", "--since", "6h", "--gpu", "A100", "-o", "json").json()
    assert "not live" not in found["answer"] + " ".join(found["remarks"])
    assert {row["valid_as_of"] for row in found["rows"] if row["usd"]} == {None}


def test_waiting_says_that_the_price_of_now_is_not_live(shop: Shop) -> None:
    found = run("when", "bert-large", "--deadline", "1d", "-o", "json").json()
    now = found["now"]
    assert (now["source"], now["valid_as_of"]) == ("pricebook", str(READ_ON))
    assert abs(now["age_seconds"] - age_of_list()) < 60
    assert (
        f"Now by a list price, not live: H100-SXM-80GB (lambda, read on {READ_ON})."
        in (found["remarks"])
    )
    assert NOT_LIVE in run("when", "bert-large", "--deadline", "1d").lines[0]
    live = run("when", "bert-large", "--deadline", "1d", "--gpu", "A100", "-o", "json").json()
    assert live["remarks"] == []
    assert abs(live["now"]["age_seconds"] - 20 * 60) < 60


def test_two_gpus_over_time_say_which_of_them_is_by_a_list(shop: Shop) -> None:
    asked = ("compare", "H100", "A100", "bert-large", "--since", "6h")
    past = run(*asked, "-o", "json").json()["history"]
    step = past["steps"][-1]
    assert (step["left_source"], step["right_source"]) == ("pricebook", "acme")
    assert (step["left_valid_as_of"], step["right_valid_as_of"]) == (str(READ_ON), None)
    last = f"At the end by a list price, not live: H100 (lambda, read on {READ_ON})."
    assert last in past["remarks"]
    table = run(*asked).out
    assert last in table
    assert f"its price $3.0000 {NOT_LIVE}: a margin" in table


@pytest.mark.parametrize("name", ["history", "when", "cheapest"])
def test_a_tool_gives_the_age_and_the_source_of_list_prices(shop: Shop, name: str) -> None:
    pytest.importorskip("mcp", reason="needs gpucost[mcp]")
    from tracker.web.mcp import answer

    asked: dict[str, dict[str, Any]] = {
        "history": {"since": "6h", "bucket": "1h"}, "when": {"deadline": "1d"}, "cheapest": {},
    }  # fmt: skip
    found = answer(shop.answers, name, {"job": "bert-large", "gpu": ["H100"], **asked[name]})
    told = found["provenance"]
    assert told["sources"] == ["pricebook"]
    assert told["age_seconds"]["most"] >= age_of_list() - 60
    if name != "when":  # which rests on a history that has begun later
        assert told["age_seconds"]["least"] >= age_of_list() - 60
    live = answer(shop.answers, name, {"job": "bert-large", "gpu": ["A100"], **asked[name]})
    assert live["provenance"]["sources"] == ["acme"]
    assert abs(live["provenance"]["age_seconds"]["least"] - 20 * 60) < 60


def test_a_price_that_was_read_again_has_the_date_of_then(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = READ_ON + timedelta(days=30)
    polls = [
        polled("pricebook", [typed("3.00", fallback=False)], minutes_ago=120),
        polled("pricebook", [typed("2.00", fallback=False, read_on=again)], minutes_ago=60),
        polled("pricebook", [], minutes_ago=30),
        polled("acme", [make_offer("live", "1.00")], minutes_ago=30),
    ]
    with filled(database_server, *polls) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run(
            "history", "bert-large", "--since", "3h", "--bucket", "15m", "-o", "json"
        ).json()
    rows = [row for row in found["rows"] if row["usd"] and row["series"] == "cheapest of all"]
    dates = list(dict.fromkeys(row["valid_as_of"] for row in rows))
    assert dates == [str(READ_ON), str(again), None]
    assert "now it is $4.00." in found["answer"]
    assert any("a typed price, not live" in text for text in found["remarks"])


def test_the_page_says_that_the_price_of_now_is_not_live(
    database_server: TestServer, tmp_path: Path
) -> None:
    polls = [
        polled(*one, minutes_ago=minutes)
        for minutes in (125, 65, 20)
        for one in (
            ("acme", [make_offer("live", "4.00", gpu=A100)]),
            ("pricebook", [typed("3.00", gpu=H100)]),
        )
    ]
    with shop_pages(database_server, tmp_path, *polls) as served:
        found = tree(
            asyncio.run(ask(f"{served.url}/history?job=bert-large&since=3h&bucket=15m")).text
        )
        over_time = tree(asyncio.run(ask(f"{served.url}/break-even?job=bert-large&since=3h")).text)
    answer = found.css_first("p.answer").text()
    assert answer.endswith(f"{NOT_LIVE}.")
    assert f"Now by a list price, not live: H100 (lambda, read on {READ_ON})." in found.body.text()
    ages = {
        row.css_first("th").text(): row.css("td")[1].text()
        for row in found.css("table")[0].css("tbody tr")
    }
    assert (ages["H100"], ages["A100"]) == (f"read {READ_ON}", "20 min")
    last = found.css("#buckets tbody tr")[-1].css("td")
    assert any(NOT_LIVE in (cell.attributes.get("title") or "") for cell in last)
    assert f"At the end by a list price, not live: H100 (lambda, read on {READ_ON})." in (
        over_time.body.text()
    )
