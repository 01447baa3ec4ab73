"""``gpucost offers --sort``: the API's columns, and its order."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.harness import A100, H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.api.served import client
from tracker.app.ordering import GROUP_COLUMNS, OFFER_COLUMNS

GROUPED = ("--group-by", "provider,region")


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    """Two providers; of some offers neither region nor RAM is known."""
    acme = [
        make_offer("b", "3", gpu=H100, region="west", ram_gib=Decimal(64)),
        make_offer("a", "2", gpu=H100, region="east"),
        make_offer("eight", "12", gpu=H100, gpu_count=Decimal(8), ram_gib=Decimal(512)),
    ]
    hub = [make_offer(f"h{n}", str(1 + n), source="hub", gpu=A100) for n in range(3)]
    with filled(database_server, polled("acme", acme), polled("hub", hub, 30)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


@pytest.mark.parametrize("down", ["", "-"])
@pytest.mark.parametrize(
    ("more", "columns"),
    [((), OFFER_COLUMNS), (GROUPED, ("gpu", "market", "provider", "region", *GROUP_COLUMNS))],
    ids=["offers", "groups"],
)
def test_every_column_sorts_as_the_api_does(
    market: str, tmp_path: Path, more: tuple[str, ...], columns: tuple[str, ...], down: str
) -> None:
    query = "&group_by=provider,region" if more else ""
    key = "cheapest_offer" if more else "offer"
    with client(market, tmp_path) as asking:
        for column in columns:
            told = asking.get(f"/api/v1/offers?sort={down}{column}{query}")
            shown = run("offers", *more, "--sort", f"{down}{column}", "-o", "json").json()
            assert [row[key] for row in shown["rows"]] == [row[key] for row in told["rows"]], column
            assert shown["sort"] == told["sort"] == f"{down}{column}"
            assert shown.get("ranked_by") == told.get("ranked_by")


def test_it_sorts_all_that_matches_and_what_is_unknown_comes_last() -> None:
    def ids(*more: str) -> list[str]:
        rows = run("offers", *more, "-o", "json").json()["rows"]
        return [row["native_id"] for row in rows]

    assert ids("--sort", "-price", "--top", "2") == ["b", "h2"]
    assert ids("--sort", "ram")[:2] == ["b", "eight"]
    assert ids("--sort", "-ram")[:2] == ["eight", "b"]
    assert "sort" not in run("offers", "-o", "json").json()
    [_, first, *_] = run("offers", "--sort", "-gpus").lines
    assert first.split()[:2] == ["H100-SXM-80GB", "8"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--sort", "prise"), "there is no column 'prise' to sort by; did you mean price?"),
        (("--sort", "median"), "there is no column 'median'"),
        ((*GROUPED, "--sort", "memory"), "there is no column 'memory'"),
        (("--sort", "price", "--quarantined"), "--quarantined is not"),
    ],
)
def test_what_cannot_be_sorted_by_is_refused_before_anything_is_opened(
    words: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    answer = run("offers", *words)
    assert answer.code == 2
    assert says in answer.complaint
