"""``gpucost offers``: one order over all providers and regions, and a limit that hides no match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.harness import A100, H100, filled, polled, run
from tests.cli.test_ranking_oracle import NOW, stored
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Market
from tracker.report.asked import Asked
from tracker.report.filters import Filters
from tracker.report.listing import offers_report


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    """Two providers whose own lists are in no order, and a flood of cheaper other GPUs."""
    acme = [
        make_offer("b", "3", gpu=H100, region="west"),
        make_offer("a", "2", gpu=H100, region="east"),
        make_offer("bid", "2", gpu=H100, region="east", market=Market.SPOT),
        make_offer("c", "2", gpu=H100, region="north"),
        make_offer("eight", "12", gpu=H100, gpu_count=Decimal(8), region="east"),
    ]  # fmt: skip
    hub = [
        make_offer("z", "2.5", source="hub", gpu=H100),
        make_offer("y", "1.9", source="hub", gpu=H100),
        *(make_offer(f"flood-{n}", "0.9", source="hub", gpu=A100) for n in range(60)),
    ]  # fmt: skip
    with filled(database_server, polled("acme", acme), polled("hub", hub)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _ids(*argv: str) -> list[str]:
    return [row["native_id"] for row in run("offers", *argv, "-o", "json").json()["rows"]]


def test_every_region_is_listed_by_price_then_by_risk_then_by_place() -> None:
    found = _ids("--gpu", "H100", "--market", "any")
    assert found == ["eight", "y", "a", "c", "bid", "z", "b"]


def test_a_limit_counts_what_matches_and_not_what_was_looked_at() -> None:
    """Sixty cheaper A100s are more than the default limit: filtered first, they hide nothing."""
    assert _ids("--min-vram", "80", "--region", "north") == ["c"]
    assert _ids("--gpu", "H100", "--top", "2") == ["eight", "y"]
    document = run("offers", "--top", "2", "-o", "json").json()
    assert (len(document["rows"]), document["offers_matching"], document["offers_total"]) == (
        2, 66, 67,
    )  # fmt: skip
    assert "64 more; --all shows them" in run("offers", "--top", "2").lines


worlds = st.lists(
    st.fixed_dictionaries({
        "gpu_key": st.sampled_from([H100.key, A100.key]),
        "gpu_count": st.sampled_from([Decimal(1), Decimal(3), Decimal(8)]),
        "price_micro_usd": st.integers(1, 9).map(lambda n: n * 10**6),
        "provider": st.sampled_from(["p1", "p2", "p3"]),
        "region": st.sampled_from([None, "east", "west"]),
        "market": st.sampled_from(["on_demand", "spot", "reserved"]),
    }), max_size=20,
)  # fmt: skip


@given(worlds, st.randoms(use_true_random=False))
def test_the_order_is_one_of_prices_whatever_order_they_came_in(
    world: list[dict[str, Any]], random: Any
) -> None:
    offers = [stored(n, **facts) for n, facts in enumerate(world)]

    def listed() -> tuple[Any, ...]:
        asked = Asked(list(offers), len(offers), Counter(), frozenset())
        return offers_report(asked, Filters(markets=("any",)), catalogue(), NOW, None).offers

    found = listed()
    assert len(found) == len(offers)
    keys = [(o.price_micro_usd / o.gpu_count, o.price_micro_usd, o.market == "spot", o.provider,
             o.region or "") for o in found]  # fmt: skip
    assert keys == sorted(keys)
    random.shuffle(offers)
    assert listed() == found
