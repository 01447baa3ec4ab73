"""Vast.ai: how the market is searched, and what answers cut off at 64 rows prove."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers import _vastai_search as search
from providers import vastai
from tracker.provider import FetchError, Parsed, Payload

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

ROW: dict[str, Any] = {
    "id": 1000,
    "machine_id": 10,
    "gpu_name": "RTX 4090",
    "num_gpus": 1,
    "gpu_ram": 24564,
    "dph_base": 0.35,
    "dph_total": 0.352,
    "min_bid": 0.2,
    "is_bid": False,
    "storage_cost": 0.18,
    "verification": "verified",
    "rentable": True,
    "rented": False,
}


def _payload(rows: Any, query: Any = None, status: int = 200) -> Payload:
    request = b"" if query is None else json.dumps(query).encode()
    body = rows if isinstance(rows, bytes) else json.dumps({"offers": rows}).encode()
    return Payload("", body, NOW, "POST", request, status)


# --- census ---------------------------------------------------------------------------------


def _full(**query: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A query and 64 rows that answer it."""
    body = {"gpu_name": {"in": ["RTX 3090"]}, "num_gpus": {"eq": 1}, "limit": 64,
            "order": [["dph_total", "asc"]]}  # fmt: skip
    rows: list[dict[str, Any]] = [
        ROW | {"id": i, "machine_id": i, "dph_total": i / 100} for i in range(1, 65)
    ]
    return body | query, rows


def _as_loaded(rows: list[dict[str, Any]]) -> list[Any]:
    return list(json.loads(json.dumps(rows), parse_float=Decimal))


def test_file_of_64_rows_and_unknown_query_may_be_cut_off() -> None:
    _, rows = _full()
    assert vastai.parse([_payload(rows[:63])]).complete
    parsed = vastai.parse([_payload(rows)])
    assert not parsed.complete
    assert parsed.incomplete_reason == (
        "truncated census: 64 rows came back for an unknown query, the most there can be"
    )
    assert len(parsed.offers) == 128  # what was seen is kept


def test_full_answer_is_whole_only_with_the_finer_queries_that_follow_from_it() -> None:
    body, rows = _full()
    parsed = vastai.parse([_payload(rows, body)])
    assert parsed.incomplete_reason is not None
    assert "RTX 3090 x 1" in parsed.incomplete_reason
    (page,) = search.finer(body, _as_loaded(rows))
    assert page == body | {"dph_total": {"gte": 0.639999}}
    assert vastai.parse([_payload(rows, body), _payload(rows[-1:], page)]).complete
    other = body | {"dph_total": {"gte": 0.7}}  # leaves a gap
    assert not vastai.parse([_payload(rows, body), _payload([], other)]).complete


def test_refused_query_makes_the_poll_partial() -> None:
    body, rows = _full()
    refused = _payload(b"API requests too frequent", body, status=429)
    parsed = vastai.parse([_payload(rows[:3], body), refused])
    assert not parsed.complete
    assert parsed.incomplete_reason == (
        "truncated census: no answer for RTX 3090 x 1 (API requests too frequent)"
    )
    assert len(parsed.offers) == 6


@pytest.mark.parametrize(
    ("query", "split"),
    [
        ({"num_gpus": {"in": [2, 4]}}, [{"num_gpus": {"eq": 2}}, {"num_gpus": {"eq": 4}}]),
        (
            {"gpu_name": {"in": ["A100 PCIE"]}},
            [{"gpu_ram": {"lt": 60_000}}, {"gpu_ram": {"gte": 60_000}}],
        ),
        ({"dph_total": {"gte": 0.1}}, [{"dph_total": {"gte": 0.639999}}]),
        (
            {"dph_total": {"gte": 0.639999}},  # one price fills the answer
            [{"verification": {"eq": v}} for v in ("verified", "unverified", "deverified")],
        ),
        ({"dph_total": {"gte": 0.639999}, "verification": {"eq": "verified"}}, []),
        ({"order": [["dph_total", "desc"]]}, []),
    ],
)
def test_what_follows_a_full_answer(query: Any, split: list[dict[str, Any]]) -> None:
    body, rows = _full(**query)
    assert search.finer(body, _as_loaded(rows)) == [body | part for part in split]


# --- fetch ----------------------------------------------------------------------------------


@dataclass
class FakeMarket:
    """Answers searches over *rows* as the service does: filtered, cheapest first, cut off."""

    rows: list[dict[str, Any]]
    most: int = 64
    fail: dict[int, FetchError] = field(default_factory=dict)  # by number of the request
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def post(
        self, url: str, *, json_body: Any, headers: Mapping[str, str] | None = None, **_: Any
    ) -> Payload:
        assert url == "https://console.vast.ai/api/v0/bundles/"
        self.asked.append(json_body)
        self.headers.append(dict(headers or {}))
        if len(self.asked) in self.fail:
            raise self.fail[len(self.asked)]
        found = [row for row in self.rows if all(_meets(row, *c) for c in _conditions(json_body))]
        found.sort(key=lambda row: (row["dph_total"], row["id"]))
        found = found[: min(self.most, json_body["limit"])]
        request = json.dumps(json_body).encode()
        return Payload(url, json.dumps({"offers": found}).encode(), NOW, "POST", request)


def _conditions(body: Mapping[str, Any]) -> Iterable[tuple[str, str, Any]]:
    for name, value in body.items():
        if isinstance(value, dict):
            for op, operand in value.items():
                yield name, op, operand


def _meets(row: Mapping[str, Any], name: str, op: str, operand: Any) -> bool:
    value = row[name]
    if op == "in":
        return value in operand
    compare = {"eq": operator.eq, "gte": operator.ge, "lt": operator.lt}[op]
    return bool(compare(value, operand))


def _poll(market: FakeMarket, **config: Any) -> Parsed:
    payloads = asyncio.run(search.fetch(market, search.VastaiConfig(**config)))  # type: ignore[arg-type]
    return vastai.parse(payloads)


def test_small_market_takes_two_queries_per_group_of_names() -> None:
    market = FakeMarket([ROW])
    parsed = _poll(market, gpus=[["RTX 4090", "RTX 4090D"], ["H200"]])
    assert [o.source_id for o in parsed.offers] == ["10/1", "10/1"]
    assert parsed.complete
    assert [body["num_gpus"] for body in market.asked] == [{"in": [1]}, {"in": [2, 4, 8]}] * 2
    assert market.asked[0] == {
        "gpu_name": {"in": ["RTX 4090", "RTX 4090D"]},
        "num_gpus": {"in": [1]},
        "rentable": {"eq": True},
        "type": "on-demand",
        "order": [["dph_total", "asc"]],
        "limit": 64,
        "allocated_storage": 8,
    }
    assert market.headers == [{}] * 4


def test_default_names_fit_into_the_request_limit_with_room_for_splits() -> None:
    market = FakeMarket([ROW])
    assert _poll(market).complete
    assert len(market.asked) == 14 < search.VastaiConfig().max_requests


def test_key_is_sent_only_where_there_is_one() -> None:
    market = FakeMarket([ROW])
    _poll(market, api_key="k1", gpus=[["RTX 4090"]])
    assert market.headers == [{"Authorization": "Bearer k1"}] * 2


@settings(max_examples=50, deadline=None)
@given(
    machines=st.lists(
        st.tuples(
            st.sampled_from(["RTX 4090", "A100 SXM4", "RTX 3090"]),
            st.sampled_from([1, 1, 1, 2, 4, 8]),
            st.sampled_from([24564, 49140, 81920]),
            st.integers(10, 30),  # few prices, so that one price often fills an answer
            st.sampled_from(["verified", "unverified", "deverified"]),
        ),
        max_size=40,
    ),
    max_requests=st.sampled_from([4, 12, 400]),
    refused=st.integers(2, 30),
)
def test_census_that_calls_itself_complete_has_every_offer_of_the_market(
    machines: list[tuple[str, int, int, int, str]], max_requests: int, refused: int
) -> None:
    rows = [
        ROW | {"id": i, "machine_id": i, "gpu_name": name, "num_gpus": size, "gpu_ram": ram,
               "dph_base": cents / 100, "dph_total": cents / 100 + 0.002, "verification": tier}
        for i, (name, size, ram, cents, tier) in enumerate(machines, 1)
    ]  # fmt: skip
    market = FakeMarket(rows, fail={refused: FetchError("too frequent", status=429)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MAX_ROWS", 4)
        parsed = _poll(market, gpus=[["RTX 4090"], ["A100 SXM4", "RTX 3090"]],
                       max_requests=max_requests)  # fmt: skip
    everything = vastai.parse([_payload(rows[i : i + 50]) for i in range(0, len(rows), 50)])
    found = {(o.source_id, o.market, o.price) for o in parsed.offers}
    all_there = {(o.source_id, o.market, o.price) for o in everything.offers}
    assert found <= all_there
    assert len(market.asked) <= max_requests
    if parsed.complete:
        assert found == all_there
        assert len(market.asked) < refused
    else:
        assert parsed.incomplete_reason is not None


def test_pages_reach_the_dearest_of_a_large_market() -> None:
    rows = [ROW | {"id": i, "machine_id": i, "dph_total": 0.2 + i / 1000} for i in range(1, 301)]
    market = FakeMarket(rows)
    parsed = _poll(market, gpus=[["RTX 4090"]])
    assert parsed.complete
    assert len({o.source_id for o in parsed.offers}) == 300
    assert len(market.asked) == 8  # 2 first, 2 by memory, 4 more pages, each repeating one row


def test_429_ends_the_poll_and_leaves_it_partial() -> None:
    market = FakeMarket([ROW], fail={2: FetchError("API requests too frequent", status=429)})
    parsed = _poll(market, gpus=[["RTX 4090"], ["H200"]])
    assert len(market.asked) == 2
    assert not parsed.complete
    assert parsed.incomplete_reason == (
        "truncated census: no answer for RTX 4090 x 2, 4, 8 (API requests too frequent)"
        " (and 2 more)"
    )
    assert parsed.offers


def test_query_that_is_not_understood_does_not_end_the_poll() -> None:
    market = FakeMarket([ROW], fail={2: FetchError("HTTP 400", status=400)})
    parsed = _poll(market, gpus=[["RTX 4090"], ["H200"]])
    assert len(market.asked) == 4
    assert not parsed.complete


def test_request_limit_leaves_a_partial_poll_that_says_so() -> None:
    market = FakeMarket([ROW])
    parsed = _poll(market, gpus=[["RTX 4090"], ["H200"]], max_requests=3)
    assert parsed.incomplete_reason == (
        "truncated census: no answer for H200 x 2, 4, 8 "
        "(not asked: the poll's max_requests are used up)"
    )


@pytest.mark.parametrize(("at", "status"), [(1, 429), (1, 400), (2, 401), (2, 403)])
def test_no_answer_at_all_or_a_refused_key_fails_the_poll(at: int, status: int) -> None:
    with pytest.raises(FetchError):
        _poll(FakeMarket([ROW], fail={at: FetchError("no", status=status)}))
