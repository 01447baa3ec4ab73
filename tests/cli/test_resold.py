"""A machine that a reseller lists too is counted once: the offer of who runs it stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.harness import A100, by_id, filled, polled, run
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Availability, Extras, Market, Offer
from tracker.report.filters import ANY, RESOLD, Filters, select
from tracker.store.reads import StoredOffer

H100_UNSAID = Gpu("H100-80GB", "H100", None, 80)
SAME_MACHINE = RESOLD


def _resold(name: str, price: str, **fields: Any) -> Offer:
    options: dict[str, Any] = {"source": "reseller", "upstream": "acme"}
    return make_offer(name, price, **(options | fields))


def _offers() -> list[Offer]:
    return [
        _resold("cheaper", "1.90", extras=Extras(availability=Availability.YES), country="NO"),
        _resold("form-not-said", "2.10", gpu=H100_UNSAID),
        _resold("eight", "16", gpu_count=Decimal(8)),
        _resold("spot", "0.90", market=Market.SPOT),
        _resold("other-gpu", "1.20", gpu=A100),
        _resold("of-nobody-polled", "1.95", upstream="faraway"),
    ]


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    direct = [make_offer("direct", "2.00")]
    with filled(database_server, polled("acme", direct), polled("reseller", _offers())) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _answer(*options: str) -> tuple[set[str], dict[str, int]]:
    document = run("offers", "--market", "any", *options, "-o", "json").json()
    assert sum(document["excluded"].values()) + len(document["rows"]) == document["offers_total"]
    return set(by_id(document["rows"])), document["excluded"]


def test_the_same_machine_is_counted_once_and_the_reason_is_told() -> None:
    shown, excluded = _answer()
    assert shown == {"direct", "eight", "spot", "other-gpu", "of-nobody-polled"}
    assert excluded == {SAME_MACHINE: 2}
    assert run("offers", "--market", "any").lines[-1] == (
        "5 of 7 offers; left out: 2 also sold by who runs them"
    )


def test_who_asks_for_the_reseller_sees_all_that_it_sells() -> None:
    shown, excluded = _answer("--provider", "reseller")
    assert shown == {"cheaper", "form-not-said", "eight", "spot", "other-gpu", "of-nobody-polled"}
    assert excluded == {"of other providers": 1}


@pytest.mark.parametrize("option", [["--available"], ["--country", "NO"]])
def test_a_reseller_answers_what_the_provider_itself_does_not_say(option: list[str]) -> None:
    shown, excluded = _answer(*option)
    assert shown == {"cheaper"}
    assert SAME_MACHINE not in excluded


def test_the_cheapest_way_is_not_an_old_price_of_a_reseller() -> None:
    document = run("cheapest", "--hours", "H100=10", "--provider", "acme,reseller", "--gpu",
                   "H100-SXM", "--gpus", "1", "-o", "json").json()  # fmt: skip
    ranked = [(row["offer_id"], row["upstream"]) for row in document["rows"]]
    assert ("direct", None) in ranked
    assert "cheaper" not in dict(ranked)
    assert ranked[0] == ("of-nobody-polled", "faraway")


def test_who_runs_the_machine_is_told() -> None:
    rows = by_id(run("offers", "--provider", "reseller", "-o", "json").json()["rows"])
    assert rows["eight"]["provider"] == "reseller"
    assert rows["eight"]["upstream"] == "acme"
    assert "region -, run by acme" in run("explain", rows["eight"]["offer"]).out


def test_the_price_that_its_provider_has_not_confirmed_does_not_stand_for_a_resold_one(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = polled("acme", [make_offer("direct", "2.00")], minutes_ago=60 * 24)
    with filled(database_server, old, polled("reseller", [_resold("fresh", "2.1")])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        shown, excluded = _answer()
        with_stale, _ = _answer("--include-stale")
    assert (shown, excluded) == ({"fresh"}, {"stale": 1})
    assert with_stale == {"fresh", "direct"}


# -- against the rule, worked out pair by pair ---------------------------------------------------

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _stored(draw: Any, index: int) -> StoredOffer:
    form = draw(st.sampled_from(["SXM", "PCIE", None]))
    values: dict[str, Any] = dict.fromkeys(StoredOffer._fields)
    values |= {
        "offer_id": index, "gpu_key": f"H100-{form}", "gpu_family": "H100", "form_factor": form,
        "vram_gb": 80, "is_slice": False, "gpu_count": Decimal(draw(st.sampled_from([1, 8]))),
        "market": draw(st.sampled_from(["on_demand", "spot"])), "tier": "standard",
        "availability": "yes", "fallback": False, "default_tiers": (), "seen_at": NOW,
        "provider": draw(st.sampled_from(["a", "b", "r"])),
        "upstream": draw(st.sampled_from([None, "a", "b", "c"])),
        "source": draw(st.sampled_from(["own", "own", "book"])),
        "stale_at": NOW + timedelta(hours=draw(st.sampled_from([-1, 1]))),
    }  # fmt: skip
    values["source"] = values["provider"] if values["source"] == "own" else "book"
    return StoredOffer(**values)


def _stands_for(direct: StoredOffer, resold: StoredOffer) -> bool:
    return (
        direct.upstream is None
        and direct.provider == direct.source == resold.upstream
        and direct.stale_at > NOW
        and (direct.gpu_count, direct.market) == (resold.gpu_count, resold.market)
        and (
            direct.form_factor == resold.form_factor
            or None in (direct.form_factor, resold.form_factor)
        )
    )


@given(data=st.data())
def test_exactly_those_go_for_which_another_stands(data: st.DataObject) -> None:
    offers = [_stored(data.draw, i) for i in range(data.draw(st.integers(0, 8)))]
    filters = Filters(markets=(ANY,), include_stale=True)
    found = select(offers, filters, catalogue(), NOW)
    expected = [o for o in offers if not (o.upstream and any(_stands_for(d, o) for d in offers))]
    assert found.kept == expected
    assert found.excluded[RESOLD] == len(offers) - len(expected)
    assert select(found.kept, filters, catalogue(), NOW).kept == expected
