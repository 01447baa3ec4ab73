"""Hyperstack: prices and machines joined, the page of prices, and which of the two is asked."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import hyperstack
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import Digest, digest
from tracker.domain.quality import Known, Rules
from tracker.provider import FetchError, Market, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "hyperstack"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)


def _digest(*payloads: Payload) -> Digest:
    return digest(hyperstack.provider, payloads, catalogue(), fx={}, known=Known(), rules=Rules())


def _recorded(*names: str) -> Digest:
    return _digest(*(Payload("", (RECORDED / name).read_bytes(), NOW) for name in names))


@needs_recordings
def test_recorded_page() -> None:
    found = _recorded("gpu-pricing_gpu-index_2026-08_trimmed.html")
    assert {(o.gpu.key, str(o.price.usd)) for o in found.accepted} == {
        ("H200-SXM-141GB", "3.99"), ("H100-SXM-80GB", "3.20"), ("H100-PCIE-80GB", "2.60"),
        ("H100-PCIE-80GB", "2.50"), ("RTXPRO6000-SERVER-96GB", "1.85"), ("A100-SXM-80GB", "1.60"),
        ("A100-PCIE-80GB", "1.40"),
    }  # fmt: skip
    assert (found.held, found.rejected, found.unmapped) == ((), (), ())


@needs_recordings
def test_answers_in_the_shape_of_the_api() -> None:
    names = ("pricebook_synthetic.json", "flavors_synthetic.json", "stocks_synthetic.json")
    found = _recorded(*names)
    assert {
        (o.listed.source_id, o.gpu.key, str(o.price.usd), o.listed.extras.stock_count)
        for o in found.accepted
    } == {
        ("n3-A100x1", "A100-PCIE-80GB", "1.35", 6),
        ("n3-H100-SXM5x8", "H100-SXM-80GB", "19.2", 0),
    }
    assert sorted(r.reason for r in found.rejected) == [
        "no price", "priced, but no machine has it", "priced, but no machine has it",
    ]  # fmt: skip


def _flavor(**fields: Any) -> dict[str, Any]:
    flavor = {
        "name": "n3-H100x1", "gpu": "H100-80G-PCIe", "gpu_count": 1, "region_name": "CANADA-1",
        "stock_available": True,
    } | fields  # fmt: skip
    return {"data": [{"gpu": flavor["gpu"], "region_name": "CANADA-1", "flavors": [flavor]}]}


@given(micro=st.integers(1, 10**8), count=st.integers(1, 16), exponent=st.booleans())
def test_price_is_that_of_one_gpu_times_their_number(
    micro: int, count: int, exponent: bool
) -> None:
    text = f"{micro}E-6" if exponent else format(Decimal(micro) / 10**6, "f")
    parsed = hyperstack.parse(
        [payload([{"name": "H100-80G-PCIe", "value": text}]), payload(_flavor(gpu_count=count))]
    )
    (offer,) = parsed.offers
    machine = offer.price.machine_hour(offer.gpu_count, Decimal(1))
    assert machine.usd * 10**6 == micro * count


def test_the_price_of_spot_is_never_that_of_on_demand() -> None:
    prices = [{"name": "H100-80G-PCIe", "value": "2"}, {"name": "H100-80G-PCIe-spot", "value": "1"}]
    (offer,) = hyperstack.parse([payload(prices), payload(_flavor())]).offers
    assert (offer.market, offer.price.amount) == (Market.ON_DEMAND, 2)
    spot = _flavor(gpu="H100-80G-PCIe-spot")
    (offer,) = hyperstack.parse([payload(prices), payload(spot)]).offers
    assert (offer.market, offer.price.amount) == (Market.SPOT, 1)


def test_order_of_the_answers_does_not_matter() -> None:
    answers = [payload([{"name": "H100-80G-PCIe", "value": "2"}]), payload(_flavor())]
    assert hyperstack.parse(answers) == hyperstack.parse(answers[::-1])


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"status": False, "message": "no"}, "data"),
        (["a"], "pricebook[]"),
        ([{"id": 1}], "pricebook[].name"),
        ([{"name": "L40"}], "pricebook[].value"),
        ({"data": [{"gpu": "L40"}]}, "data[].flavors"),
        ("<html></html>", "#cloud-pricing .page-price_card"),
    ],
)
def test_another_shape_names_the_field(answer: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        hyperstack.parse([payload(answer)])
    assert caught.value.field == field


def test_without_a_key_the_page_is_read() -> None:
    http = Http(lambda *_: "<html></html>")
    fetched(hyperstack.provider, http)
    assert http.asked == [("https://www.hyperstack.cloud/gpu-pricing", {})]


def test_with_a_key_the_api_is_asked() -> None:
    http = Http(lambda *_: [])
    fetched(hyperstack.provider, http, api_key="k", base_url="http://127.0.0.1:1/v1/")
    assert [url.removeprefix("http://127.0.0.1:1/v1") for url in http.urls] == [
        "/pricebook", "/core/flavors", "/core/stocks",
    ]  # fmt: skip
    assert {tuple(headers.items()) for _, headers in http.asked} == {(("api_key", "k"),)}


def test_stock_may_fail_and_prices_may_not() -> None:
    http = Http(lambda url, _: refused(500) if "stocks" in url else [])
    assert len(fetched(hyperstack.provider, http, api_key="k")) == 2
    http = Http(lambda url, _: refused(500) if "flavors" in url else [])
    with pytest.raises(FetchError):
        fetched(hyperstack.provider, http, api_key="k")
