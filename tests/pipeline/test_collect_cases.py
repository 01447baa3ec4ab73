"""What users of price trackers ran into: wrong prices held back, old ones never taken for new."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.support.catalogue import catalogue
from tests.support.clouds import FIVE, case, edited, query, serve
from tests.support.fixtures import FIXTURES, Case
from tests.support.lab import Lab, at
from tests.support.replay import Answer
from tracker import registry
from tracker.collect import Digest, digest
from tracker.domain.quality import Known, Rules
from tracker.provider import ParseError, Payload
from tracker.report.filters import STALE
from tracker.report.health import provider_health
from tracker.store import reads

JSON_SOURCES = ("aws", "azure", "runpod", "vastai")
H100 = ("NVIDIA H100 80GB HBM3", "on_demand", 2, "secure")


def digest_of(provider: str, payloads: list[Payload]) -> Digest:
    it = registry.load(provider)
    return digest(it, payloads, catalogue(), fx={}, known=Known(), rules=Rules())


def offers(found: Digest) -> set[tuple[Any, ...]]:
    return {
        (o.listed.source_id, o.gpu.key, o.listed.gpu_count, o.listed.market, o.listed.tier,
         o.listed.region, o.price.usd)
        for o in (*found.accepted, *(h.offer for h in found.held))
    }  # fmt: skip


def row_lists(value: Any) -> Iterator[Any]:
    """The lists (or, in AWS's small feed, tables) of rows in an answer."""
    inner = list(value.values() if isinstance(value, dict) else value)
    objects = [v for v in inner if isinstance(v, dict)]
    if objects and (isinstance(value, list) or any("price" in row for row in objects)):
        yield value
    for part in inner:
        if isinstance(part, dict | list):
            yield from row_lists(part)


# --- a bad row costs only itself ----------------------------------------------------------------


@pytest.mark.parametrize("provider", JSON_SOURCES)
@pytest.mark.parametrize("junk", [None, 7, "sold out", [], {}], ids=repr)
def test_a_bad_row_among_good_ones_costs_nothing_else(provider: str, junk: Any) -> None:
    payloads = case(provider).payloads()
    whole = offers(digest_of(provider, payloads))
    for number, payload in enumerate(payloads):
        for index in range(len(list(row_lists(json.loads(payload.body))))):
            value = json.loads(payload.body)
            rows = list(row_lists(value))[index]
            if isinstance(rows, dict):
                rows["added"] = junk
            else:
                rows.insert(1, junk)
            spoilt = [*payloads]
            spoilt[number] = replace(payload, body=json.dumps(value).encode())
            assert offers(digest_of(provider, spoilt)) == whole


@pytest.mark.parametrize("provider", FIVE)
def test_the_order_of_the_answers_rows_does_not_matter(provider: str) -> None:
    def shuffled(value: Any) -> None:
        for rows in row_lists(value):
            if isinstance(rows, list):
                random.Random(7).shuffle(rows)  # noqa: S311

    if provider == "databasemart":
        payloads = case(provider).payloads()[::-1]
    else:
        payloads = edited(provider, shuffled)
    assert offers(digest_of(provider, payloads)) == offers(
        digest_of(provider, case(provider).payloads())
    )


# --- prices that cannot be true -----------------------------------------------------------------


def _bundle(**fields: Any) -> dict[str, Any]:
    [row, *_] = json.loads(case("vastai").payloads()[0].body)["offers"]
    return {**row, "gpu_name": "B200", "gpu_ram": 183_359, "num_gpus": 1, "dph_base": 3.0,
            "dph_total": 3.004, "min_bid": 1.5, "verification": "verified", **fields}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "price"),
    [
        (_bundle(min_bid=0.01), "0.01"),
        (_bundle(gpu_name="A100 SXM4", gpu_ram=81_920, num_gpus=8, dph_base=7.6, min_bid=0.08),
         "0.08"),
    ],
    ids=["B200", "8 x A100"],
)  # fmt: skip
def test_the_floor_of_the_bids_is_not_believed_below_any_market(
    row: dict[str, Any], price: str
) -> None:
    found = digest_of("vastai", [Payload("", json.dumps({"offers": [row]}).encode(), at(0))])
    assert [o.listed.market for o in found.accepted] == ["on_demand"]
    [held] = found.held
    assert (held.offer.listed.market, held.gate, held.releasable) == ("spot", "band", False)
    assert held.offer.price.usd == Decimal(price)


def test_a_spot_price_lags_or_lies_when_it_is_a_fiftieth_of_on_demand() -> None:
    def cheap_spot(page: dict[str, Any]) -> None:
        for row in page["Items"]:
            if row["meterName"].endswith(" Spot"):
                row["retailPrice"] = 0.07  # on-demand is 3.71

    found = digest_of("azure", edited("azure", cheap_spot))
    held = {h.offer.listed.source_id: h.gate for h in found.held}
    assert held["Standard_NC24ads_A100_v4"] == "spot_against_on_demand"
    assert all(o.listed.market == "on_demand" for o in found.accepted)


def test_a_capacity_block_has_no_hourly_price() -> None:
    bulk = Case("aws", "bulk_csv_filters", FIXTURES / "aws" / "bulk_csv_filters")
    [payload] = bulk.payloads()
    assert b"CapacityBlock" in payload.body
    found = digest_of("aws", [payload])
    refused = [r for r in found.rejected if r.reason == "capacity block"]
    assert len(refused) == 2
    assert not any(o.listed.market == "capacity_block" for o in found.accepted)
    assert min(o.price.usd for o in found.accepted if not o.gpu.is_slice) > 1


def test_a_memory_size_that_the_card_does_not_come_in_is_no_offer_and_no_unknown_name() -> None:
    def wrong_memory(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            if row["id"] == "NVIDIA A100 80GB PCIe":
                row["memoryInGb"] = 40

    found = digest_of("runpod", edited("runpod", wrong_memory))
    assert not [o for o in found.accepted if o.gpu.family == "A100"]
    assert not found.unmapped, "the name is known: it is the memory that contradicts it"
    assert any("A100 80GB" in r.sample for r in found.rejected)


def test_a_doubled_space_in_a_name_is_the_same_offer() -> None:
    def spaced(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            row["id"] = row["id"].replace(" ", "  ")

    plain, odd = (digest_of("runpod", p) for p in (case("runpod").payloads(),
                                                   edited("runpod", spaced)))  # fmt: skip
    assert {o.key for o in odd.accepted} == {o.key for o in plain.accepted}


@pytest.mark.parametrize("token", ["NaN", "Infinity", "1e9", "-3.05", '"3,05"'])
def test_what_is_no_price_is_never_one(token: str) -> None:
    [payload] = case("runpod").payloads()
    body = json.loads(payload.body)
    body["data"]["gpuTypes"][1]["securePrice"] = "@"
    text = json.dumps(body).replace('"@"', token).encode()
    try:
        found = digest_of("runpod", [replace(payload, body=text)])
    except ParseError as error:
        assert token in str(error)
        return
    name = body["data"]["gpuTypes"][1]["id"]
    on_demand = {o.listed.source_id for o in found.accepted if o.listed.market == "on_demand"}
    assert on_demand == {row["id"] for row in body["data"]["gpuTypes"]} - {name}
    assert any(name in r.sample for r in found.rejected) or {
        h.gate for h in found.held if h.offer.listed.source_id == name
    } == {"band"}


def test_an_impossible_price_does_not_make_its_neighbours_look_wrong() -> None:
    def in_cents(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            row["securePrice"] = row["securePrice"] * 100

    found = digest_of("runpod", edited("runpod", in_cents))
    assert {(h.gate, h.offer.listed.tier, h.offer.listed.market) for h in found.held} == {
        ("band", "secure", "on_demand")
    }
    spot = [o for o in found.accepted if o.listed.market == "spot" and o.listed.tier == "secure"]
    assert spot, "2 % of a hundredfold price would rule them out"


# --- quarantine ---------------------------------------------------------------------------------


def _h100_at(price: float) -> Callable[[dict[str, Any]], None]:
    def edit(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            if row["id"] == H100[0]:
                row["securePrice"] = price

    return edit


def test_a_jump_is_held_visibly_and_believed_when_it_stays(lab: Lab) -> None:
    lab.poll("runpod", 0)
    usual = lab.prices()
    assert usual[H100] == 2 * 3_050_000
    serve(lab.server, "runpod", edited("runpod", _h100_at(9.5)))
    for number, minutes in ((1, 10), (2, 20)):
        outcome = lab.poll("runpod", minutes)
        assert (outcome.status, outcome.held) == ("complete", 2)  # one GPU and two
        assert H100 not in lab.prices(), "neither the old price nor the doubtful one"
        with psycopg.connect(lab.url) as connection:
            held = reads.quarantined(connection)
        assert {(q.native_id, q.gate, q.releasable, q.confirmations) for q in held} == {
            (H100[0], "jump", True, number)
        }
        assert "last accepted price" in held[0].reason
    assert lab.poll("runpod", 30).held == 0
    assert lab.prices()[H100] == 2 * 9_500_000
    assert lab.poll("runpod", 40).changed == 0
    assert {k: v for k, v in lab.prices().items() if k[0] != H100[0]} == {
        k: v for k, v in usual.items() if k[0] != H100[0]
    }


def test_another_wild_price_starts_the_count_again(lab: Lab) -> None:
    lab.poll("runpod", 0)
    for minutes, price in ((10, 9.5), (20, 9.5), (30, 12.5), (40, 12.5)):
        serve(lab.server, "runpod", edited("runpod", _h100_at(price)))
        assert lab.poll("runpod", minutes).held == 2
    assert lab.poll("runpod", 50).held == 0
    assert lab.prices()[H100] == 2 * 12_500_000


def test_a_unit_error_is_not_believed_however_often_it_comes(lab: Lab) -> None:
    lab.poll("runpod", 0)
    serve(lab.server, "runpod", edited("runpod", _h100_at(290)))  # cents
    for minutes in range(10, 80, 10):
        assert lab.poll("runpod", minutes).held == 2
    assert H100 not in lab.prices()
    serve(lab.server, "runpod")
    assert lab.poll("runpod", 80).held == 0
    assert lab.prices()[H100] == 2 * 3_050_000
    assert query(lab.url, "SELECT count(*) FROM quarantine WHERE released_at IS NULL") == [(0,)]


# --- old prices ---------------------------------------------------------------------------------


def test_a_price_that_nobody_confirms_is_stale_data(lab: Lab) -> None:
    lab.poll_all(["runpod", "azure"], 0)
    total, sold_out = len(lab.live()), 4
    lab.server.handle("POST", "/graphql", lambda request: Answer(b"{}", 404))
    for minutes in (10, 20):
        assert lab.poll("runpod", minutes).status == "failed"
    # RunPod is asked every 10 minutes: its prices hold for 30, and a failed poll confirms nothing.
    assert len(lab.select(29.9).kept) == total - sold_out
    late = lab.select(30)
    assert {o.provider for o in late.kept} == {"azure"}
    assert late.excluded[STALE] == total - sold_out - len(late.kept) == 10
    assert len(lab.select(30, include_stale=True).kept) == total - sold_out
    with psycopg.connect(lab.url) as connection:
        health = {h.provider.slug: h for h in provider_health(connection, at(30))}
    assert (health["runpod"].stale, health["azure"].stale) == (True, False)
    assert health["runpod"].provider.consecutive_failures == 2


def test_the_past_of_a_provider_that_has_gone_can_still_be_read(lab: Lab) -> None:
    lab.poll("runpod", 0)
    known = lab.prices()
    lab.poll("azure", 10_000)
    assert lab.prices(as_of=at(15)) == known
    assert lab.prices(as_of=at(29.9)) == known
    assert not lab.prices(as_of=at(30)), "a price that was not confirmed is not known any more"


def test_time_without_polls_is_a_gap_not_a_price(lab: Lab) -> None:
    lab.poll("runpod", 0)
    known = lab.prices()
    again = lab.poll("runpod", 100)
    assert again.opened == again.closed == len(known)
    assert query(lab.url, "SELECT DISTINCT valid_from, valid_to FROM price_span") == [
        (at(0), at(30))
    ]
    assert not lab.prices(as_of=at(60))
    assert lab.prices(as_of=at(100)) == known


def test_a_frozen_spot_feed_keeps_nothing_alive(lab: Lab) -> None:
    lab.poll("aws", 0)
    spot = {o.key for o in lab.live() if o.market == "spot"}
    assert spot
    frozen = Case("aws", "spot_frozen", FIXTURES / "aws" / "spot_frozen").payloads()
    lab.server.replay(p for p in frozen if p.url.endswith("/spot.json"))
    for hour in (1, 2, 3):
        outcome = lab.poll("aws", 60 * hour)
        assert outcome.status == "partial"
        assert "frozen" in (outcome.reason or "")
    kept = lab.select(181)
    assert {o.market for o in kept.kept} == {"on_demand"}
    assert kept.excluded[STALE] == len(spot)
    assert {o.key: o.price_micro_usd for o in lab.live() if o.key in spot}.keys() == spot


def test_a_feed_that_never_moves_is_an_alarm(lab: Lab) -> None:
    for day in range(0, 16, 5):
        assert lab.poll("azure", day * 1440).status == "complete"
    lab.poll("pricebook", 0)
    lab.poll("pricebook", 15 * 1440)
    with psycopg.connect(lab.url) as connection:
        early = {h.provider.slug: h.unchanged_since for h in provider_health(connection, at(0))}
        late = {
            h.provider.slug: h.unchanged_since
            for h in provider_health(connection, at(0) + timedelta(days=15))
        }
    assert early["azure"] is None
    assert late["azure"] == at(0)
    assert late["pricebook"] is None, "what a person typed may stand for months"


def test_a_sudden_empty_set_says_what_was_there(lab: Lab) -> None:
    lab.poll("runpod", 0)

    def half_closed(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            row["communityCloud"] = row["secureCloud"] = row["id"].endswith("4090")

    serve(lab.server, "runpod", edited("runpod", half_closed))
    outcome = lab.poll("runpod", 10)
    assert outcome.status == "shrunk"
    assert outcome.reason == f"{outcome.accepted} offers where the last complete poll had 14"
    assert len(lab.live()) == 14


def test_out_of_stock_is_no_price_of_zero(lab: Lab) -> None:
    def sold_out(answer: dict[str, Any]) -> None:
        for row in answer["data"]["gpuTypes"]:
            row["s2"] = {"stockStatus": None, "uninterruptablePrice": None, "minimumBidPrice": None}

    lab.poll("runpod", 0)
    before = lab.prices()
    serve(lab.server, "runpod", edited("runpod", sold_out))
    outcome = lab.poll("runpod", 10)
    assert (outcome.changed, outcome.closed) == (0, 0)
    assert lab.prices() == before
    [offer] = [o for o in lab.live() if (o.native_id, o.market, o.gpu_count, o.tier) == H100]
    assert offer.availability == "no"
    assert offer.key not in {o.key for o in lab.select(10, available=True).kept}
