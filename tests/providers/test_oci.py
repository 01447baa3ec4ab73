"""Oracle: one price a GPU-hour by part number, and the licences that look like GPUs."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.oci import PARTS, UNKNOWN_PARTS, provider
from tests.providers.answering import NOW, Http, fetched, payload
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.http import make_client
from tracker.provider import Market, Parsed, ParseError, Payload
from tracker.settings import Settings

RECORDED = SHARED / "providers" / "payloads" / "oci"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)

# shape | GPU | GPUs | USD for the machine and hour: GPUs x price of the part
LISTED = """
BM.GPU.H100.8 | H100-SXM-80GB | 8 | 80
BM.GPU4.8 | A100-SXM-40GB | 8 | 24.4
BM.GPU.A100-v2.8 | A100-SXM-80GB | 8 | 32
BM.GPU.H200.8 | H200-SXM-141GB | 8 | 80
BM.GPU.B200.8 | B200-SXM-180GB | 8 | 112
BM.GPU.B300.8 | B300-SXM-270GB | 8 | 120
BM.GPU.GB200.4 | GB200-SXM-186GB | 4 | 64
BM.GPU.GB300.4 | GB300-SXM-288GB | 4 | 72
BM.GPU.MI300X.8 | MI300X-OAM-192GB | 8 | 48
BM.GPU.MI355X.8 | MI355X-OAM-288GB | 8 | 68.8
BM.GPU.L40S.4 | L40S-48GB | 4 | 14
BM.GPU.RTXPRO.8 | RTXPRO6000-SERVER-96GB | 8 | 36
VM.GPU.A10.1 | A10-24GB | 1 | 2
VM.GPU.A10.2 | A10-24GB | 2 | 4
BM.GPU.A10.4 | A10-24GB | 4 | 8
VM.GPU3.1 | V100-SXM-16GB | 1 | 2.95
VM.GPU3.2 | V100-SXM-16GB | 2 | 5.9
VM.GPU3.4 | V100-SXM-16GB | 4 | 11.8
BM.GPU3.8 | V100-SXM-16GB | 8 | 23.6
VM.GPU2.1 | P100-PCIE-16GB | 1 | 1.275
BM.GPU2.2 | P100-PCIE-16GB | 2 | 2.55
"""
PREEMPTIBLE = {"VM.GPU3.1", "VM.GPU3.2", "VM.GPU3.4", "VM.GPU2.1"}


def item(part: str, name: str, value: Any, **over: Any) -> dict[str, Any]:
    prices = [{"model": "PAY_AS_YOU_GO", "value": value}]
    return {
        "partNumber": part,
        "displayName": name,
        "metricName": "GPU Per Hour",
        "serviceCategory": "Compute - GPU",
        "currencyCodeLocalizations": [{"currencyCode": "USD", "prices": prices}],
    } | over


def parsed(*items: Any, url: str = "") -> Parsed:
    return provider.parse([payload({"items": list(items)}, url)])


@needs_recordings
def test_the_recorded_list_gives_every_shape_at_its_price() -> None:
    body = (RECORDED / "products_usd_gpu.json").read_bytes()
    found = digest(
        provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    rows = [[cell.strip() for cell in line.split("|")] for line in LISTED.strip().splitlines()]
    seen = {
        (o.listed.source_id, o.gpu.key, str(o.listed.gpu_count), o.price.usd)
        for o in found.accepted
        if o.listed.market is Market.ON_DEMAND
    }
    assert seen == {(name, gpu, count, Decimal(usd)) for name, gpu, count, usd in rows}
    spot = {o.listed.source_id: o.price.usd for o in found.accepted} | {
        o.listed.source_id: o.price.usd for o in found.accepted if o.listed.market is Market.SPOT
    }
    full = {name: Decimal(usd) for name, _, _, usd in rows}
    assert {name for name, usd in spot.items() if usd == full[name] / 2} == PREEMPTIBLE
    assert len(found.accepted) == len(rows) + len(PREEMPTIBLE)
    assert not found.held
    assert not found.unmapped
    assert Counter(r.reason for r in found.rejected) == {
        "NVIDIA AI Enterprise licence, not a GPU": 8,
        "GPU of another service": 4,
        "what this part is, is not known for sure": 1,
    }


@pytest.mark.parametrize("number", sorted(PARTS))
def test_seconds_are_billed_of_a_minute_or_on_bare_metal_of_an_hour_at_least(number: str) -> None:
    result = parsed(item(number, "OCI - Compute - GPU", 2))
    assert result.offers
    for offer in result.offers:
        assert offer.terms.billing_increment_seconds == 1
        least = 3600 if offer.source_id.startswith("BM.") else 60
        assert (offer.terms.minimum_seconds, offer.dedicated) == (least, least == 3600)


@needs_recordings
@pytest.mark.parametrize("name", ["shapes_gpu_synthetic.json", "shapes_trimmed_real.json"])
def test_the_recorded_shapes_are_not_taken_for_prices(name: str) -> None:
    with pytest.raises(ParseError, match=r"items\[\]\.partNumber"):
        provider.parse([Payload("", (RECORDED / name).read_bytes(), NOW)])


@given(
    part=st.sampled_from([*PARTS, *UNKNOWN_PARTS, "B111824"]),
    name=st.sampled_from(
        ["OCI - NVIDIA AI Enterprise - H100", "oci - Nvidia  AI enterprise", "NVIDIA AI ENTERPRISE"]
    ),
    value=st.sampled_from([0.5, 2.5, 10, "2.5"]),
    category=st.sampled_from(["Compute - GPU", "Compute - GPU - Other"]),
)
def test_a_licence_never_is_a_gpu(part: str, name: str, value: Any, category: str) -> None:
    h100 = item("B98415", "Oracle Cloud Infrastructure - Compute - GPU - H100", 10)
    licence = item(part, name, value, serviceCategory=category)
    for items in ([licence, h100], [h100, licence]):
        result = parsed(*items)
        assert result.offers == parsed(h100).offers
        assert [r.reason for r in result.rejected] == ["NVIDIA AI Enterprise licence, not a GPU"]


def test_the_currency_is_the_one_that_was_asked_for() -> None:
    prices = [
        {"currencyCode": code, "prices": [{"model": "PAY_AS_YOU_GO", "value": value}]}
        for code, value in (("USD", 10), ("EUR", 9.3))
    ]
    both = item("B98415", "Compute - GPU - H100", 0, currencyCodeLocalizations=prices)
    for url, currency, amount in (
        ("", "USD", "10"),
        ("https://apexapps.oracle.com/x?currencyCode=EUR", "EUR", "9.3"),
    ):
        (offer,) = parsed(both, url=url).offers
        assert (offer.price.currency, str(offer.price.amount)) == (currency, amount)


def test_tables_name_gpus_that_are_known() -> None:
    names = [shape.name for part in PARTS.values() for shape in part.shapes]
    assert len(names) == len(set(names))
    for part in PARTS.values():
        gpu = catalogue().identify(
            part.gpu, vram_gb=Decimal(part.vram_gb), form_factor=part.form_factor
        )
        assert getattr(gpu, "key", None), part.gpu


async def _patience() -> tuple[float, float]:
    async with make_client(
        provider, provider.config(), Settings(data_dir=Path("/nowhere"))
    ) as client:
        return client._limits.read_s, client._limits.total_s


def test_one_request_with_time_to_answer() -> None:
    http = Http(lambda *_: {"items": []})
    assert not provider.parse(fetched(provider, http, base_url="http://127.0.0.1:9/")).offers
    assert http.asked == [
        ("http://127.0.0.1:9/pls/apex/cetools/api/v1/products/?currencyCode=USD", {})
    ]
    assert asyncio.run(_patience()) == (120, 120)


@pytest.mark.parametrize("name", [None, "", " ", 7])
def test_without_a_name_a_licence_cannot_be_told_from_a_gpu(name: Any) -> None:
    result = parsed(item("B98415", "Compute - GPU - H100", 2.5, displayName=name))
    assert not result.offers
    assert [r.reason for r in result.rejected] == ["displayName is missing"]


@pytest.mark.parametrize("part", [{"number": "B98415"}, ["B98415"], None, 98415])
def test_a_part_number_of_another_type_costs_its_row_alone(part: Any) -> None:
    found = parsed(item(part, "H100", 10), item("B95907", "A100", 4))
    assert [r.reason for r in found.rejected] == ["part without GPU facts"]
    assert [o.source_id for o in found.offers] == ["BM.GPU.A100-v2.8"]
