"""Vultr: whole GPUs and slices told apart, places, pages and what is in stock."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import vultr
from providers._vultr_plans import VRAM_GB
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import Availability, FetchError, Parsed, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "vultr"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)


def _plan(**fields: Any) -> dict[str, Any]:
    return {
        "id": "vcg-a100-12c-120g-80vram", "hourly_cost": 2.4, "locations": ["ewr"],
        "gpu_type": "NVIDIA_A100", "gpu_vram_gb": 80,
    } | fields  # fmt: skip


def _parse(*plans: Any, metal: tuple[Any, ...] = ()) -> Parsed:
    return vultr.parse([payload({"plans": list(plans)}), payload({"plans_metal": list(metal)})])


@needs_recordings
def test_recorded_plans() -> None:
    names = ("plans_gpuhunt_tests.json", "plans-metal_gpuhunt_tests.json")
    payloads = [Payload("", (RECORDED / name).read_bytes(), NOW) for name in names]
    found = digest(
        vultr.provider, payloads, catalogue(), fx={}, known=Known(), rules=Rules()
    )  # fmt: skip
    rows = {
        (o.gpu.key, format(o.listed.gpu_count.normalize(), "f"), str(o.listed.market),
         format(o.price.usd.normalize(), "f"), o.listed.region)
        for o in found.accepted
    }  # fmt: skip
    assert rows == {
        ("A100-SLICE", "0.05", "on_demand", "0.123", "ewr"),
        ("A100-SLICE", "0.5", "on_demand", "1.397", "ewr"),
        ("A100-80GB", "1", "on_demand", "2.397", "ewr"),
        ("MI300X-OAM-192GB", "8", "on_demand", "17.52", "ord"),
        ("MI300X-OAM-192GB", "8", "spot", "14.72", "ord"),
        ("H100-80GB", "8", "on_demand", "23.92", "sea"),
        ("H100-80GB", "8", "spot", "18.4", "sea"),
    }
    assert (found.held, found.rejected, found.parsed.complete) == ((), (), True)


@given(
    model=st.sampled_from(sorted(VRAM_GB)),
    gpus=st.integers(1, 16),
    parts=st.sampled_from([1, 2, 4, 5, 8, 10, 20]),
    by_id=st.booleans(),
)
def test_memory_tells_whole_gpus_from_shares_of_one(
    model: str, gpus: int, parts: int, by_id: bool
) -> None:
    total = Decimal(VRAM_GB[model] * gpus) / parts
    if by_id and total != total.to_integral_value():
        return
    row = _plan(id=f"vcg-{model}-9c-9g-{total:f}vram", gpu_vram_gb=float(total),
                gpu_type=f"NVIDIA_{model.upper()}")  # fmt: skip
    if by_id:
        del row["gpu_vram_gb"], row["gpu_type"]
    (offer,) = _parse(row).offers
    assert abs(offer.gpu_count - Decimal(gpus) / parts) < Decimal("0.000001")
    assert offer.slice == (gpus < parts)


@given(gpus=st.integers(1, 16), model=st.sampled_from(sorted(VRAM_GB)))
def test_bare_metal_says_it_in_the_id(gpus: int, model: str) -> None:
    row = {"id": f"vbm-112c-2048gb-{gpus}-{model}-gpu", "hourly_cost": 9, "locations": ["sea"]}
    (offer,) = _parse(metal=(row,)).offers
    assert (offer.gpu_count, offer.gpu_name, offer.slice) == (gpus, model, False)
    assert offer.dedicated
    assert offer.vram_gb == VRAM_GB[model] * gpus
    assert offer.vram_is_total


@pytest.mark.parametrize(
    ("said", "count"),
    [("1/8", "0.125"), (" 1 / 3 ", "0.333333"), (4, "4"), ("2", "2"), (None, "1"), (0, "1")],
)
def test_a_count_that_is_said_goes_before_the_memory(said: Any, count: str) -> None:
    (offer,) = _parse(_plan(gpu_count=said)).offers
    assert offer.gpu_count == Decimal(count)


def test_a_price_of_zero_is_no_offer() -> None:
    parsed = _parse(_plan(hourly_cost=0), _plan(hourly_cost=None))
    assert parsed.offers == ()
    assert [r.reason for r in parsed.rejected] == ["no price", "no price"]


def test_one_list_alone_is_not_the_whole() -> None:
    parsed = vultr.parse([payload({"plans": [_plan()]})])
    assert parsed.incomplete_reason == "plans_metal not in the answer"


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "plans"),
        ([], "plans"),
        ({"plans": {}}, "plans"),
        ({"plans": ["a"]}, "plans[]"),
        ({"plans": [{"id": "a"}]}, "plans[].hourly_cost"),
    ],
)
def test_another_shape_names_the_field(answer: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        vultr.parse([payload(answer)])
    assert caught.value.field == field


# -- fetch ---------------------------------------------------------------------------------------


def _service(url: str, _: Mapping[str, str]) -> Any:
    if "availability" in url:
        return {"available_plans": ["vcg-a100-12c-120g-80vram"] if "/ewr/" in url else []}
    if "/regions" in url:
        return {"regions": [{"id": "ewr", "country": "US"}, {"id": "fra", "country": "DE"}]}
    if "plans-metal" in url:
        return {"plans_metal": [], "meta": {"links": {"next": ""}}}
    if "cursor=two" in url:
        return {"plans": [_plan(locations=["fra", "../x"])], "meta": {"links": {"next": ""}}}
    return {"plans": [_plan(), {"id": "vc2-1c", "locations": ["ord"]}],
            "meta": {"links": {"next": "two"}}}  # fmt: skip


def _asked(http: Http, **config: Any) -> tuple[Parsed, list[str]]:
    parsed = vultr.parse(fetched(vultr.provider, http, **config))
    return parsed, [url.removeprefix("https://api.vultr.com/v2") for url in http.urls]


def test_lists_are_read_to_their_end_without_a_key() -> None:
    http = Http(_service)
    parsed, asked = _asked(http)
    assert asked == [
        "/plans?type=all&per_page=500", "/plans?type=all&per_page=500&cursor=two",
        "/plans-metal?per_page=500", "/regions?per_page=500",
    ]  # fmt: skip
    assert parsed.complete
    assert {(o.region, o.country) for o in parsed.offers} == {
        ("ewr", "US"), ("fra", "DE"), ("../x", None),
    }  # fmt: skip
    assert {headers.get("Authorization") for _, headers in http.asked} == {None}


def test_with_a_key_each_place_with_gpus_is_asked_for_its_stock() -> None:
    http = Http(_service)
    parsed, asked = _asked(http, api_key="k")
    assert asked[4:] == ["/regions/ewr/availability", "/regions/fra/availability"]
    assert {headers.get("Authorization") for _, headers in http.asked[4:]} == {"Bearer k"}
    assert {o.region: o.extras.availability for o in parsed.offers} == {
        "ewr": Availability.YES, "fra": Availability.NO, "../x": Availability.UNKNOWN,
    }  # fmt: skip


@pytest.mark.parametrize("failing", ["/regions", "availability"])
def test_places_and_stock_may_fail(failing: str) -> None:
    http = Http(lambda url, h: refused(500) if failing in url else _service(url, h))
    parsed, _ = _asked(http, api_key="k")
    assert parsed.complete
    assert {o.extras.availability for o in parsed.offers} == {Availability.UNKNOWN}


def test_a_later_page_that_fails_leaves_the_answer_incomplete() -> None:
    http = Http(lambda url, h: refused(500) if "cursor" in url else _service(url, h))
    parsed, _ = _asked(http)
    assert parsed.incomplete_reason == "a further page of plans was not read"


def test_a_list_that_fails_is_the_polls_failure() -> None:
    http = Http(lambda url, h: refused(500) if "metal" in url else _service(url, h))
    with pytest.raises(FetchError):
        _asked(http)


def test_a_cursor_that_comes_again_is_not_followed() -> None:
    answer = {"plans": [_plan()], "meta": {"links": {"next": "same"}}}
    http = Http(lambda url, h: answer if "/plans?" in url else _service(url, h))
    parsed, asked = _asked(http)
    assert len([url for url in asked if url.startswith("/plans?")]) == 2
    assert not parsed.complete
