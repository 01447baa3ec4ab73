"""Lambda Cloud: the API prices machines in cents, the page prices one of their GPUs in dollars."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.lambdacloud import provider
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED, cases
from tracker.collect import digest
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules
from tracker.provider import Availability, FetchError, ParseError, Payload, SecretStr

RECORDED = SHARED / "providers" / "payloads" / "lambda"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
PAGE = next(case for case in cases() if str(case) == "lambda-page").payloads()[0].text()


def recorded(name: str) -> tuple[Offer, ...]:
    body = (RECORDED / name).read_bytes()
    found = digest(
        provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    assert not found.held
    assert not found.rejected
    assert found.parsed.complete
    return found.accepted


def kind(cents: Any, gpus: Any, regions: Any = ()) -> dict[str, Any]:
    return {
        "instance_type": {
            "gpu_description": "H100 (80 GB SXM5)",
            "price_cents_per_hour": cents,
            "specs": {"gpus": gpus},
        },
        "regions_with_capacity_available": [{"name": name} for name in regions],
    }


# GPU | GPUs | USD for one GPU and hour, from the tables of the recorded page
TABLES = """
B200-SXM-180GB | 8 | 6.69
H100-SXM-80GB | 8 | 3.99
A100-SXM-80GB | 8 | 2.79
A100-SXM-40GB | 8 | 1.99
V100-16GB | 8 | 0.79
H100-SXM-80GB | 4 | 4.09
A100-PCIE-40GB | 4 | 1.99
A6000-48GB | 4 | 1.09
H100-SXM-80GB | 2 | 4.19
A100-PCIE-40GB | 2 | 1.99
B200-SXM-180GB | 1 | 6.99
GH200-SXM-96GB | 1 | 2.29
H100-SXM-80GB | 1 | 4.29
H100-PCIE-80GB | 1 | 3.29
A100-SXM-40GB | 1 | 1.99
A100-PCIE-40GB | 1 | 1.99
A10-24GB | 1 | 1.29
RTX6000-24GB | 1 | 0.69
"""


@needs_recordings
def test_recorded_page_gives_its_on_demand_tables_and_no_cluster() -> None:
    rows = [[cell.strip() for cell in line.split("|")] for line in TABLES.strip().splitlines()]
    offers = recorded("pricing_gpu-index_2026-08_trimmed.html")
    assert sorted((o.gpu.key, str(o.listed.gpu_count), o.price.usd) for o in offers) == sorted(
        (gpu, count, int(count) * Decimal(usd)) for gpu, count, usd in rows
    )
    assert {o.listed.extras.availability for o in offers} == {Availability.UNKNOWN}


@needs_recordings
def test_recorded_types_say_what_is_sold_out() -> None:
    offers = recorded("instance-types_inference-book_2026-08-15.json")
    assert {
        (o.listed.source_id, o.gpu.key, str(o.price.usd), o.listed.region, o.listed.country)
        for o in offers
    } == {
        ("gpu_1x_a100_sxm4", "A100-SXM-40GB", "1.99", "us-east-1", "US"),
        ("gpu_1x_a100_sxm4", "A100-SXM-40GB", "1.99", "us-west-2", "US"),
        ("gpu_1x_gh200", "GH200-SXM-96GB", "2.29", "us-east-3", "US"),
        ("gpu_1x_h100_sxm5", "H100-SXM-80GB", "4.29", None, None),
    }
    stock = {o.listed.source_id: o.listed.extras.availability for o in offers}
    assert stock.pop("gpu_1x_h100_sxm5") is Availability.NO
    assert set(stock.values()) == {Availability.YES}


@needs_recordings
@pytest.mark.parametrize("status", ["401", "429"])
def test_recorded_errors_are_quoted(status: str) -> None:
    body = json.loads((RECORDED / "errors_synthetic.json").read_text())[status]["body"]
    with pytest.raises(ParseError, match=f"^data: .*{body['error']['code']}"):
        provider.parse([payload(body)])


@given(cents=st.integers(1, 10**6), gpus=st.integers(1, 16))
def test_cents_are_for_the_whole_machine(cents: int, gpus: int) -> None:
    (offer,) = provider.parse([payload({"data": {"t": kind(cents, gpus)}})]).offers
    assert offer.price.machine_hour(offer.gpu_count, Decimal(1)).usd == Decimal(cents) / 100


def test_stock_that_is_not_a_list_of_names_is_unknown() -> None:
    data = {
        "none": kind(100, 1) | {"regions_with_capacity_available": None},
        "words": kind(100, 1) | {"regions_with_capacity_available": "everywhere"},
        "half": kind(100, 1) | {"regions_with_capacity_available": [{"name": "us-east-1"}, {}]},
    }
    offers = provider.parse([payload({"data": data})]).offers
    assert {o.extras.availability for o in offers} == {Availability.UNKNOWN}
    assert {o.region for o in offers} == {None}
    assert len(offers) == 3


def test_a_region_is_listed_once_and_its_country_is_never_guessed() -> None:
    regions = [
        {"name": "us-east-1", "description": "Virginia, USA"},
        {"name": "me-west-1", "description": "Tel Aviv, Israel"},
        {"name": "us-west-9"}, {"name": "x", "description": "somewhere"},
        {"name": "us-east-1", "description": "Virginia, USA"},
    ]  # fmt: skip
    data = {"t": kind(100, 1) | {"regions_with_capacity_available": regions}}
    offers = provider.parse([payload({"data": data})]).offers
    assert [(o.region, o.country) for o in offers] == [
        ("me-west-1", "IL"), ("us-east-1", "US"), ("us-west-9", None), ("x", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("Instances\n pricing", "Pricing of instances", "tr[data-plan]"),
        ("aria-controls", "data-controls", "tr[data-plan]"),
        ("data-plan", "data-row", "tr[data-plan]"),
        ("PRICE/GPU/HR", "PRICE/HR", "PRICE/GPU/HR"),
    ],
)
def test_a_page_of_another_shape_names_what_is_missing(old: str, new: str, field: str) -> None:
    assert old in PAGE
    with pytest.raises(ParseError) as caught:
        provider.parse([payload(PAGE.replace(old, new))])
    assert caught.value.field == field


def test_api_of_another_shape_names_what_is_missing() -> None:
    for name, row in {
        "data.*.instance_type": {"x": 1},
        "data.*.instance_type.price_cents_per_hour": {
            "instance_type": {"specs": {}}, "regions_with_capacity_available": [],
        },
    }.items():  # fmt: skip
        with pytest.raises(ParseError) as caught:
            provider.parse([payload({"data": {"t": row}})])
        assert caught.value.field == name


def test_a_third_price_of_one_machine_does_not_bring_it_back() -> None:
    row = '<tr data-plan="NVIDIA L4"><td data-label="PRICE/GPU/HR*">$0.80</td></tr>'
    more = PAGE.replace("<tbody>", f"<tbody>{row * 3}{row.replace('0.80', '0.70')}{row}")
    result = provider.parse([payload(more)])
    assert not [o for o in result.offers if o.source_id == "8x NVIDIA L4"]
    reasons = Counter(r.reason for r in result.rejected if "8x NVIDIA L4" in r.sample)
    assert sum(reasons.values()) == 5


def test_the_api_is_asked_with_a_key_and_the_page_without() -> None:
    api = Http(lambda *_: {"data": {"t": kind(100, 1)}})
    fetched(provider, api, api_key=SecretStr("a-key"))
    assert api.asked == [
        ("https://cloud.lambda.ai/api/v1/instance-types", {"Authorization": "Bearer a-key"})
    ]
    page = Http(lambda *_: PAGE)
    assert provider.parse(fetched(provider, page, page_url="http://127.0.0.1:9/")).offers
    assert page.asked == [("http://127.0.0.1:9/pricing", {})]
    with pytest.raises(FetchError):  # a key that is refused is not made up for by the page
        fetched(provider, Http(lambda *_: refused(401)), api_key=SecretStr("a-key"))
