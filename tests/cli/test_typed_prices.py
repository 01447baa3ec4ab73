"""A typed price is as old as its date says, and gives way only to what replaces it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.cli.harness import ago, by_id, filled, polled, run
from tests.support.offers import A100, make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Extras, Market

READ_ON = datetime.now(UTC).date() - timedelta(days=20)


def book() -> Extras:
    return Extras(valid_as_of=READ_ON, expires_at=ago(-60 * 24 * 300), fallback=True)


def test_polling_the_file_again_does_not_make_its_price_younger(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = make_offer("live", "4.00")
    typed = make_offer("typed", "3.00", source="pricebook", seller="lambda", extras=book())
    with filled(database_server, polled("acme", [live]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        recent = run("cheapest", "bert-large", "--max-age", "2h", "-o", "json").json()
        assert set(by_id(recent["rows"])) == {"live"}
        assert recent["excluded"]["older than asked for"] == 1
        everything = by_id(run("cheapest", "bert-large", "-o", "json").json()["rows"])
        midnight = datetime.combine(READ_ON, datetime.min.time(), UTC)
        age = (datetime.now(UTC) - midnight).total_seconds()
        assert abs(everything["typed"]["age_seconds"] - age) < 60
        assert date.fromisoformat(everything["typed"]["valid_as_of"]) == READ_ON


def test_a_live_spot_price_does_not_hide_the_typed_on_demand_one(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spot = make_offer("spot", "1.00", source="aws", market=Market.SPOT)
    typed = make_offer("typed", "3.00", source="pricebook", seller="aws", extras=book())
    with filled(database_server, polled("aws", [spot]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert set(by_id(found["rows"])) == {"typed"}


def test_a_gpu_that_its_seller_does_not_list_now_is_not_ranked_by_an_old_list(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = make_offer("answered", "1.50", source="hub", gpu=A100)
    typed = make_offer("typed", "1.00", source="pricebook", seller="hub", extras=book())
    with filled(database_server, polled("hub", [answered]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert set(by_id(found["rows"])) == {"answered"}


def test_a_price_you_typed_is_ranked_whatever_tier_its_seller_usually_has(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Extras(valid_as_of=READ_ON, expires_at=ago(-60 * 24 * 300))
    live = make_offer("live", "4.00", source="hub", tier="verified")
    typed = make_offer("typed", "3.00", source="pricebook", seller="hub", extras=own)
    tiers = ("verified",)
    with filled(
        database_server,
        polled("hub", [live], default_tiers=tiers),
        polled("pricebook", [typed]),
    ) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert [row["offer_id"] for row in found["rows"]] == ["typed", "live"]
        only = run("cheapest", "bert-large", "--tier", "verified", "-o", "json").json()
        assert [row["offer_id"] for row in only["rows"]] == ["live"]
