"""Shadeform: whose machines it sells, in which form and where, and what is asked for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import shadeform
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import FetchError, Parsed, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "shadeform"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)

ROW: dict[str, Any] = {
    "cloud": "hyperstack",
    "shade_instance_type": "H100x2",
    "cloud_instance_type": "n3-H100x2",
    "configuration": {
        "num_gpus": 2, "gpu_type": "H100", "interconnect": "pcie", "vram_per_gpu_in_gb": 80,
    },
    "hourly_price": 500,
    "availability": [{"region": "oslo-norway-1", "display_name": "NO, Oslo", "available": True}],
    "deployment_type": "vm",
}  # fmt: skip


def _parse(*rows: Any) -> Parsed:
    return shadeform.parse([payload({"instance_types": list(rows)})])


# Worked out by hand: cents / 100, one row per region, forms from the types' names.
EXPECTED = {
    ("A100-SXM-80GB", 8, "15.6", "culpeper-usa-1", "US", "no", "crusoe"),
    ("A100-SXM-80GB", 8, "25.76", "amsterdam-netherlands-1", "NL", "no", "paperspace"),
    ("A100-SXM-80GB", 8, "25.76", "santaclara-usa-1", "US", "no", "paperspace"),
    ("A100-SXM-80GB", 8, "25.76", "newyork-usa-1", "US", "no", "paperspace"),
    ("A100-PCIE-80GB", 8, "11.2", "montreal-canada-2", "CA", "no", "hyperstack"),
    ("A100-SXM-40GB", 8, "11.2", "calgary-canada-1", "CA", "yes", "denvr"),
    ("A100-PCIE-80GB", 1, "1.65", "fairview-usa-1", "US", "no", "crusoe"),
    ("RTX4090-24GB", 8, "3.92", "raleigh-usa-1", "US", "no", "boostrun"),
    ("H100-PCIE-80GB", 8, "20.8", "montreal-canada-2", "CA", "no", "hyperstack"),
    ("H100-SXM-80GB", 8, "25.6", "houston-usa-3", "US", "no", "hyperstack"),
    ("H100-SXM-80GB", 8, "25.6", "montreal-canada-2", "CA", "yes", "hyperstack"),
    ("H100-SXM-80GB", 8, "25.6", "CANADA-2", "CA", "no", "hyperstack"),
    ("H100-NVL-94GB", 2, "6.32", "desmoines-usa-3", "US", "no", "massedcompute"),
    ("H100-NVL-94GB", 2, "6.32", "desmoines-usa-1", "US", "no", "massedcompute"),
    ("L4-24GB", 1, "0.95", "paris-france-5", "FR", "yes", "scaleway"),
    ("L4-24GB", 1, "0.95", "paris-france-1", "FR", "no", "scaleway"),
    ("L4-24GB", 1, "0.95", "warsaw-poland-1", "PL", "yes", "scaleway"),
}


@needs_recordings
def test_recorded_entries() -> None:
    body = (RECORDED / "instance_types_gpu-index_2026-08-22_trimmed.json").read_bytes()
    found = digest(
        shadeform.provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(),
        rules=Rules(),
    )  # fmt: skip
    rows = {
        (
            o.gpu.key, int(o.listed.gpu_count), format(o.price.usd.normalize(), "f"),
            o.listed.region, o.listed.country, str(o.listed.extras.availability), o.listed.upstream,
        )
        for o in found.accepted
    }  # fmt: skip
    assert rows == EXPECTED
    assert (found.held, found.rejected, found.unmapped) == ((), (), ())


@given(cents=st.integers(1, 10**6), count=st.integers(1, 16))
def test_price_is_that_of_the_machine_whatever_its_size(cents: int, count: int) -> None:
    facts = ROW["configuration"] | {"num_gpus": count}
    row = ROW | {"shade_instance_type": f"H100x{count}" if count > 1 else "H100"}
    (offer,) = _parse(row | {"hourly_price": cents, "configuration": facts}).offers
    assert offer.price.amount * 100 == cents
    assert offer.gpu_count == count


def test_the_seller_is_shadeform_and_the_machine_another_clouds() -> None:
    (offer,) = _parse(ROW | {"cloud": "LambdaLabs"}).offers
    assert (offer.seller, offer.upstream) == (None, "lambda")
    assert offer.notes == ("a machine of lambda, sold by Shadeform",)


@pytest.mark.parametrize(
    ("name", "interconnect", "form"),
    [
        ("n3-H100-SXM5x8", "pcie", "SXM"),
        ("gpu_1x_h100_pcie", "sxm5", "pcie"),
        ("plain", "sxm5", "sxm5"),
        ("plain", None, None),
    ],
)
def test_form_of_the_types_name_goes_before_the_interconnect(
    name: str, interconnect: str | None, form: str | None
) -> None:
    facts = ROW["configuration"] | {"interconnect": interconnect}
    row = ROW | {"cloud_instance_type": name, "shade_instance_type": "H100", "configuration": facts}
    assert _parse(row).offers[0].form_factor == form


@pytest.mark.parametrize(
    "told",
    [
        {"num_gpus": 1},  # beside 2 in the configuration
        {"shade_instance_type": "H100x8"},
        {"shade_instance_type": "H100x1_NVLINK"},
        {"configuration": ROW["configuration"] | {"num_gpus": 8}},
    ],
)
def test_a_price_of_an_unclear_number_of_gpus_is_none(told: dict[str, Any]) -> None:
    parsed = _parse(ROW | told)
    assert not parsed.offers
    assert [r.reason for r in parsed.rejected] == ["the number of GPUs is told in two ways"]


def test_dollars_where_cents_were_due_are_no_cents() -> None:
    parsed = _parse(ROW | {"hourly_price": "5.25"})
    assert [r.reason for r in parsed.rejected] == ["hourly_price is not whole cents"]
    assert not parsed.offers


@pytest.mark.parametrize("order", [1, -1])
def test_a_cheaper_price_that_nobody_can_have_hides_no_other(order: int) -> None:
    place = ROW["availability"][0]
    gone = ROW | {"hourly_price": 100, "availability": [place | {"available": False}]}
    (offer,) = _parse(*[ROW, gone][::order]).offers
    assert (str(offer.price.amount), str(offer.extras.availability)) == ("5", "yes")


def test_the_form_in_the_gpus_name_goes_before_the_interconnect() -> None:
    facts = ROW["configuration"] | {"gpu_type": "H100_nvl", "vram_per_gpu_in_gb": 94}
    (offer,) = _parse(ROW | {"configuration": facts}).offers
    assert offer.form_factor == "nvl"


def test_one_bad_row_leaves_its_neighbours() -> None:
    parsed = _parse(ROW, ROW | {"hourly_price": "a lot"}, ROW | {"hourly_price": None})
    assert len(parsed.offers) == 1
    reasons = Counter(r.reason for r in parsed.rejected)
    assert reasons == {"hourly_price is not a number": 1, "no price": 1}


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "instance_types"),
        ({"instance_types": {}}, "instance_types"),
        ({"instance_types": ["a"]}, "instance_types[]"),
        ({"instance_types": [{"cloud": "x"}]}, "instance_types[].shade_instance_type"),
        ("<html>no list here</html>", "page"),
    ],
)
def test_another_shape_names_the_field(answer: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        shadeform.parse([payload(answer)])
    assert caught.value.field == field


def test_it_is_off_until_it_is_enabled() -> None:
    assert not shadeform.provider.config().enabled


def test_without_a_key_the_list_is_asked_for_as_it_is() -> None:
    http = Http(lambda *_: {"instance_types": [ROW]})
    assert shadeform.parse(fetched(shadeform.provider, http)).offers
    assert http.asked == [("https://api.shadeform.ai/v1/instances/types", {})]


@pytest.mark.parametrize("status", [401, 403])
def test_where_a_key_is_due_the_home_page_is_read(status: int) -> None:
    http = Http(lambda url, _: refused(status) if "/v1/" in url else "<html></html>")
    fetched(shadeform.provider, http)
    assert http.urls[1:] == ["https://shadeform.com/"]


def test_a_key_is_sent_and_its_refusal_is_told() -> None:
    http = Http(lambda *_: refused())
    with pytest.raises(FetchError):
        fetched(shadeform.provider, http, api_key="k", base_url="http://127.0.0.1:1/")
    assert http.asked == [("http://127.0.0.1:1/v1/instances/types", {"X-API-KEY": "k"})]


def test_other_failures_are_no_reason_to_read_the_page() -> None:
    http = Http(lambda *_: refused(503))
    with pytest.raises(FetchError):
        fetched(shadeform.provider, http)
    assert len(http.asked) == 1
