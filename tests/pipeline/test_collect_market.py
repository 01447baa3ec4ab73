"""Whole markets over HTTP: what is cut off, paged, filtered wrongly or too large is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import clouds
from tests.support.clouds import case, expected_rows, recorded_rows
from tests.support.fixtures import FIXTURES, Case
from tests.support.lab import Lab, laboratory
from tests.support.replay import Answer, Handler, ReplayServer, Request, json_answer, vast_market

SEARCH = "/api/v0/bundles/"


def host(number: int, usd: float, **fields: Any) -> dict[str, Any]:
    [row, *_] = json.loads(case("vastai").payloads()[0].body)["offers"]
    return {
        **row, "id": 90_000 + number, "machine_id": 5_000 + number, "gpu_name": "A100 SXM4",
        "gpu_ram": 81_920, "dph_base": usd, "dph_total": usd + 0.004, "min_bid": usd,
        "verification": "verified", **fields,
    }  # fmt: skip


def test_a_market_larger_than_an_answer_is_read_whole(lab: Lab) -> None:
    rows = [host(n, round(1 + n * 0.001, 3)) for n in range(300)]
    rows += [host(400 + n, 0.9, gpu_ram=40_960, verification="unverified") for n in range(50)]
    lab.server.handle("POST", SEARCH, vast_market(rows))
    outcome = lab.poll("vastai", 0)
    assert (outcome.status, outcome.accepted) == ("complete", 350)
    assert {o.native_id for o in lab.live()} == {f"{row['machine_id']}/1" for row in rows}
    assert min(o.price_micro_usd for o in lab.live()) == 900_000
    lab.server.handle("POST", SEARCH, vast_market(rows[5:]))
    gone = lab.poll("vastai", 15)
    assert (gone.status, gone.closed, gone.opened, gone.changed) == ("complete", 5, 0, 0)


def test_a_market_that_cannot_be_read_whole_closes_nothing(lab: Lab) -> None:
    rows = [host(n, 1.5) for n in range(200)]  # one price: there is nothing to page by
    lab.server.handle("POST", SEARCH, vast_market(rows))
    outcome = lab.poll("vastai", 0)
    assert outcome.status == "partial"
    assert "64 rows came back" in (outcome.reason or "")
    seen = {o.native_id for o in lab.live()}
    lab.server.handle("POST", SEARCH, vast_market(rows[50:]))
    assert lab.poll("vastai", 15).closed == 0
    assert {o.native_id for o in lab.live()} >= seen


def test_a_search_that_ignores_its_filters_invents_nothing(lab: Lab) -> None:
    rows = [row for p in case("vastai").payloads() for row in json.loads(p.body)["offers"]]
    latest = list({row["id"]: row for row in rows}.values())
    lab.server.handle("POST", SEARCH, lambda request: json_answer({"offers": latest}))
    outcome = lab.poll("vastai", 0)
    assert outcome.status == "complete"
    assert recorded_rows(lab.url, case("vastai")) == expected_rows(case("vastai"))


def test_too_many_requests_leaves_a_partial_poll(lab: Lab) -> None:
    lab.poll("vastai", 0)
    known = lab.prices()
    answers = iter(case("vastai").payloads()[:1])

    def once(request: Request) -> Answer:
        payload = next(answers, None)
        if payload is None:
            return Answer(b"API requests too frequent", 429, {"content-type": "text/plain"})
        return Answer(payload.body)

    lab.server.handle("POST", SEARCH, once)
    outcome = lab.poll("vastai", 15)
    assert outcome.status == "partial"
    assert "429" in (outcome.reason or "") or "frequent" in (outcome.reason or "")
    assert outcome.closed == 0
    assert lab.prices().keys() == known.keys()


# --- Azure: pages -------------------------------------------------------------------------------


def _azure_pages(server: ReplayServer, size: int) -> Handler:
    """All rows of the fixture in pages of *size*, the links pointing to the real host."""
    items = [row for p in case("azure").payloads() for row in json.loads(p.body)["Items"]]

    def page(request: Request) -> Answer:
        start = int(request.query.get("$skip", 0))
        more = start + size < len(items)
        link = "https://prices.azure.com:443/api/retail/prices?"
        asked = "&".join(f"{k}={v}" for k, v in request.query.items() if k != "$skip")
        return json_answer({
            "BillingCurrency": "USD", "Items": items[start : start + size],
            "NextPageLink": f"{link}{asked}&$skip={start + size}" if more else None,
        })  # fmt: skip

    server.handle("GET", "/api/retail/prices", page)
    return page


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pages_of_any_size_give_the_same_offers(lab: Lab, size: int) -> None:
    _azure_pages(lab.server, size)
    assert lab.poll("azure", 0).status == "complete"
    assert recorded_rows(lab.url, case("azure")) == expected_rows(case("azure"))
    assert {r.path for r in lab.server.requests} == {"/api/retail/prices"}


def test_a_page_that_does_not_come_makes_the_poll_partial(lab: Lab) -> None:
    lab.poll("azure", 0)
    known = lab.prices()
    whole = _azure_pages(lab.server, 3)
    lab.server.handle(
        "GET", "/api/retail/prices",
        lambda request: Answer(b"{}", 500) if request.query.get("$skip") == "6" else whole(request),
    )  # fmt: skip
    outcome = lab.poll("azure", 60)
    assert outcome.status == "partial"
    assert "further page" in (outcome.reason or "")
    assert (outcome.closed, lab.prices()) == (0, known)


# --- AWS: the other source ----------------------------------------------------------------------

_CURRENT = "/offers/v1.0/aws/AmazonEC2/current"


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Iterator[tuple[Lab, Case]]:
    """AWS with only the bulk list of one region to read."""
    it = Case("aws", "bulk_csv_filters", FIXTURES / "aws" / "bulk_csv_filters")
    own = clouds.environment
    with ReplayServer() as server:
        settings = {"ON_DEMAND_SOURCE": "bulk", "BULK_REGIONS": '["us-east-2"]', "SPOT": "false"}
        monkeypatch.setattr(
            clouds, "environment",
            lambda server: own(server)
            | {f"GPUCOST_PROVIDERS__AWS__{k}": v for k, v in settings.items()},
        )  # fmt: skip
        version = "/offers/v1.0/aws/AmazonEC2/20261119000000/us-east-2/index"
        index = {"regions": {"us-east-2": {"currentVersionUrl": f"{version}.json"}}}
        server.handle("GET", f"{_CURRENT}/region_index.json", lambda request: json_answer(index))
        [payload] = it.payloads()
        server.handle(
            "GET", f"{version}.csv",
            lambda request: Answer(payload.body, 200, {"content-type": "text/csv"}),
        )  # fmt: skip
        with laboratory(database_url, server) as lab:
            yield lab, it


def test_the_bulk_list_is_streamed_and_only_its_gpu_lines_kept(bulk: tuple[Lab, Case]) -> None:
    lab, it = bulk
    outcome = lab.poll("aws", 0)
    assert outcome.status == "complete", outcome.reason
    assert recorded_rows(lab.url, it) == expected_rows(it)
    [kept] = clouds.query(
        lab.url,
        "SELECT b.bytes_raw FROM payload a JOIN payload_body b ON b.sha256 = a.body_sha256"
        " WHERE a.url LIKE '%%.csv'",
    )
    assert kept[0] < len(it.payloads()[0].body)
