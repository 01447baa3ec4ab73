"""Crusoe: a page that prices GPUs, and machines that are to be had in certain sizes only."""

from __future__ import annotations

from decimal import Decimal

import pytest

from providers.crusoe import SIZES, provider
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED, cases
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import Availability, FetchError, Market, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "crusoe"
PAGE = next(case for case in cases() if str(case) == "crusoe-page").payloads()[0].text()

# instance type | GPU | sizes | USD for one GPU and hour
LISTED = """
h200-141gb-sxm-ib | H200-SXM-141GB | 8 | 4.29
h100-80gb-sxm-ib | H100-SXM-80GB | 8 | 3.90
a100-80gb-sxm-ib | A100-SXM-80GB | 8 | 2.30
a100-80gb | A100-PCIE-80GB | 1 2 4 8 | 2.00
l40s-48gb | L40S-48GB | 1 2 4 8 10 | 1.50
mi300x-192gb-ib | MI300X-OAM-192GB | 8 | 3.45
"""


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_the_recorded_page_gives_whole_machines() -> None:
    body = (RECORDED / "pricing_gpu-index_2026-08_trimmed.html").read_bytes()
    found = digest(
        provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    expected = set()
    for line in LISTED.strip().splitlines():
        kind, gpu, counts, usd = (cell.strip() for cell in line.split("|"))
        expected |= {
            (f"{kind}.{count}x", gpu, int(count) * Decimal(usd)) for count in counts.split()
        }
    assert {(o.listed.source_id, o.gpu.key, o.price.usd) for o in found.accepted} == expected
    assert len(found.accepted) == len(expected)
    assert {o.listed.market for o in found.accepted} == {Market.ON_DEMAND}
    assert {o.listed.extras.availability for o in found.accepted} == {Availability.UNKNOWN}
    assert [(r.reason, r.sample.split(" | ")[0]) for r in found.rejected] == [
        ("price on request", "NVIDIA GB200 186GB NVL72")
    ]
    assert not found.held
    assert found.parsed.complete


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("GPU instances pricing", "Pricing of GPUs", "role=listitem"),
        ("role=\"listitem\"", "", "role=listitem"),
        ("On-demand", "Hourly", "pricing-heading"),
        ("pricing-heading", "heading", "pricing-heading"),
        ("pricing-rich", "rich", "pricing-rich"),
    ],
)  # fmt: skip
def test_a_page_of_another_shape_names_what_is_missing(old: str, new: str, field: str) -> None:
    assert old in PAGE
    with pytest.raises(ParseError) as caught:
        provider.parse([payload(PAGE.replace(old, new))])
    assert caught.value.field == field


def test_sizes_are_of_gpus_that_are_known() -> None:
    for (model, vram, form), (kind, counts) in SIZES.items():
        gpu = catalogue().identify(model, vram_gb=Decimal(vram), form_factor=form or None)
        assert getattr(gpu, "vram_gb", None) == vram, kind
        assert list(counts) == sorted(set(counts))


def test_one_request_for_the_page() -> None:
    http = Http(lambda *_: PAGE)
    assert provider.parse(fetched(provider, http, base_url="http://127.0.0.1:9/")).offers
    assert http.asked == [("http://127.0.0.1:9/cloud/pricing", {})]
    with pytest.raises(FetchError):
        fetched(provider, Http(lambda *_: refused(403)))
