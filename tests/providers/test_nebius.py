"""Nebius: the table of GPU instances, and which of its columns is in force."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import nebius
from tests.providers.answering import NOW, Http, fetched
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import Market, Parsed, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "nebius"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)


def _page(rows: list[Any], title: str = "NVIDIA GPU Instances") -> str:
    block = {"type": "highlight-table-block", "title": title, "table": {"content": rows}}
    piece = json.dumps(json.dumps([block], separators=(",", ":")))
    return f"<html><script>self.__next_f.push([1,{piece}])</script></html>"


def _parse(*rows: Any, at: datetime = NOW) -> Parsed:
    return nebius.parse([Payload("", _page(list(rows)).encode(), at)])


@needs_recordings
def test_recorded_table() -> None:
    body = (RECORDED / "prices_gpu-index_2026-08.html").read_bytes()
    found = digest(
        nebius.provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    rows = [*found.accepted, *(h.offer for h in found.held)]
    per_gpu = {(o.gpu.key, str(o.listed.market), str(o.price_per_gpu.usd.normalize()), int(
        o.listed.gpu_count)) for o in rows}  # fmt: skip
    # On-demand H100 at 3.85 is also what a third party read there in 2026-09.
    expected = {
        (gpu, market, usd, count)
        for gpu, spot, on_demand in (
            ("B300-SXM-270GB", "4.3", "7.85"), ("B200-SXM-180GB", "3.95", "7.15"),
            ("H200-SXM-141GB", "2.45", "4.5"), ("H100-SXM-80GB", "2.15", "3.85"),
        )
        for market, usd in (("spot", spot), ("on_demand", on_demand))
        for count in (1, 8)
    } | {
        ("RTXPRO6000-96GB", "spot", "0.95", 1), ("RTXPRO6000-96GB", "on_demand", "1.8", 1),
        ("L40S-48GB", "spot", "0.9", 1), ("L40S-48GB", "on_demand", "1.82", 1),
        ("L40S-48GB", "spot", "0.74", 1), ("L40S-48GB", "on_demand", "1.55", 1),
    }  # fmt: skip
    assert per_gpu == expected
    assert not found.unmapped
    assert sorted(r.reason for r in found.rejected) == [
        "no price", "no price", "price on request", "price on request",
    ]  # fmt: skip


@given(data=st.data())
def test_columns_are_found_by_their_heads_in_any_order(data: st.DataObject) -> None:
    cells = {
        "Item": "NVIDIA HGX H100", "vCPUs": "16", "RAM, GB": "200",
        "Preemptible, GPU-hour": "$2.15", "On-demand, GPU-hour": "$3.85", "Notes": "$9.99",
    }  # fmt: skip
    heads = data.draw(st.permutations(list(cells)))
    parsed = _parse(heads, [cells[head] for head in heads])
    assert {(o.market, o.price.amount) for o in parsed.offers} == {
        (Market.SPOT, Decimal("2.15")), (Market.ON_DEMAND, Decimal("3.85")),
    }  # fmt: skip


@given(
    days=st.lists(st.integers(-400, 400), unique=True, max_size=4),
    alone=st.booleans(),
)
def test_of_announced_prices_the_latest_that_has_begun_is_in_force(
    days: list[int], alone: bool
) -> None:
    begins = [NOW.date() + timedelta(days=day) for day in days]
    before = "" if alone else "On-demand, GPU-hour, "
    dated = [f"{before}Effective {day:%B} {day.day}, {day.year}" for day in begins]
    head = ["Item", "On-demand, GPU-hour", *dated]
    prices = [f"${i + 1}" for i in range(len(head) - 1)]
    (offer,) = _parse(head, ["NVIDIA L40S", *prices]).offers
    begun = [(day, index) for index, day in enumerate(begins) if day <= NOW.date()]
    assert offer.price.amount == (max(begun)[1] + 2 if begun else 1)


def test_a_day_that_cannot_be_read_is_never_in_force() -> None:
    head = ["Item", "On-demand, GPU-hour", "Effective soon", "Effective Octember 1, 2026"]
    (offer,) = _parse(head, ["NVIDIA L40S", "$3", "$1", "$2"]).offers
    assert offer.price.amount == 3


def test_the_day_is_that_of_the_answer() -> None:
    head = ["Item", "On-demand, GPU-hour", "Effective October 1, 2026"]
    row = ["NVIDIA L40S", "$3", "$2"]
    for at, usd in (
        (datetime(2026, 9, 30, 23, 59, tzinfo=UTC), 3),
        (datetime(2026, 10, 1, tzinfo=UTC), 2),
    ):
        (offer,) = _parse(head, row, at=at).offers
        assert offer.price.amount == usd
    assert date(2026, 10, 1) < NOW.date()


@pytest.mark.parametrize(
    ("page", "field"),
    [
        ("", "highlight-table-block"),
        (_page([["Item"]], "CPU-only instances"), "highlight-table-block"),
        (_page([]), "table.content"),
        (_page(["Item"]), "table.content"),
        (_page([["vCPUs", "On-demand, GPU-hour"]]), "table.content[0]"),
        (_page([["Item", "On-demand, GPU-month"]]), "table.content[0]"),
        (_page([["Item", "Preemptible, GPU-hour"]]), "table.content[0]"),
    ],
)
def test_another_shape_names_the_field(page: str, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        nebius.parse([Payload("", page.encode(), NOW)])
    assert caught.value.field == field


def test_one_page_is_asked_for() -> None:
    http = Http(lambda *_: _page([]))
    fetched(nebius.provider, http, base_url="http://127.0.0.1:1/")
    assert http.asked == [("http://127.0.0.1:1/prices", {})]
