"""Recorded answers and documented shapes of ten clouds, against offers worked out by hand.

A row is: provider's id | GPU | count | market | tier | region | USD per machine-hour | stock.
Prices in EUR are taken at 1.10 USD.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.providers.checked_offers import Row, cells, usd
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker import registry
from tracker.collect import Digest, digest
from tracker.domain.normalize import FxRate
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules
from tracker.provider import ParseError, Payload

PAYLOADS = SHARED / "providers" / "payloads"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FX = {"EUR": FxRate(Decimal("1.10"), NOW.date())}

pytestmark = pytest.mark.skipif(not PAYLOADS.is_dir(), reason=NO_SHARED)

_VM = "virtual-machine/ethernet"
_RUSSIA, _KANSAS = "Nizhniy Novgorod, NIZ, RU", "Gardner, KS, US"
_HOST = "d4093d0c-8d7c-448a-b4e0-a34e44468ea8"
_RTX4090 = "00000000-0000-0000-0000-0000000004e0"

EXPECTED: dict[str, tuple[str, dict[str, int]]] = {
    "scaleway/servers_page1_gpu-index_2026-08_trimmed.json": (
        """
B300-SXM-8-288G | B300-SXM-270GB | 8 | on_demand | standard | - | 66 | unknown
H100-1-80G | H100-PCIE-80GB | 1 | on_demand | standard | - | 3.15315 | unknown
H100-2-80G | H100-PCIE-80GB | 2 | on_demand | standard | - | 6.3063 | unknown
H100-SXM-2-80G | H100-SXM-80GB | 2 | on_demand | standard | - | 7.28178 | unknown
H100-SXM-4-80G | H100-SXM-80GB | 4 | on_demand | standard | - | 14.0481 | unknown
H100-SXM-8-80G | H100-SXM-80GB | 8 | on_demand | standard | - | 27.86388 | unknown
L4-1-24G | L4-24GB | 1 | on_demand | standard | - | 0.86625 | unknown
""",
        {},
    ),
    "scaleway/servers_fr-par-2_markrusch.json": (
        """
B300-SXM-2-288G | B300-SXM-270GB | 2 | on_demand | standard | - | 20.856 | unknown
B300-SXM-4-288G | B300-SXM-270GB | 4 | on_demand | standard | - | 37.488 | unknown
B300-SXM-8-288G | B300-SXM-270GB | 8 | on_demand | standard | - | 66 | unknown
H100-1-80G | H100-PCIE-80GB | 1 | on_demand | standard | - | 3.15315 | unknown
H100-2-80G | H100-PCIE-80GB | 2 | on_demand | standard | - | 6.3063 | unknown
H100-SXM-2-80G | H100-SXM-80GB | 2 | on_demand | standard | - | 7.28178 | unknown
L4-1-24G | L4-24GB | 1 | on_demand | standard | - | 0.825 | unknown
""",
        {"no price": 1, "GPU name not in the catalogue": 2},
    ),
    "ovh/catalog_public_cloud_synthetic.json": (
        """
FR/h100-380.consumption | H100-PCIE-80GB | 1 | on_demand | standard | - | 3.08 | unknown
FR/a100-180.monthly.postpaid | A100-80GB | 1 | monthly | standard | - | 2.09 | unknown
""",
        {"GPU of another product than an instance": 1},
    ),
    "digitalocean/sizes_gpuhunt_tests.json": (
        """
gpu-h100x8-640gb | H100-80GB | 8 | on_demand | standard | nyc1 | 23.92 | yes
gpu-mi300x8-1536gb | MI300X-OAM-192GB | 8 | on_demand | standard | nyc1 | 15.92 | yes
""",
        {},
    ),
    "digitalocean/docs_droplets_pricing_gpu-index_2026-08-18_trimmed.html": (
        """
AMD MI300X on_demand | MI300X-OAM-192GB | 1 | on_demand | standard | - | 2.59 | unknown
AMD MI300X (8x) on_demand | MI300X-OAM-192GB | 8 | on_demand | standard | - | 20.72 | unknown
AMD MI325X on_demand | MI325X-OAM-256GB | 1 | on_demand | standard | - | 3.8 | unknown
AMD MI325X (8x) on_demand | MI325X-OAM-256GB | 8 | on_demand | standard | - | 30.4 | unknown
NVIDIA H100 on_demand | H100-80GB | 1 | on_demand | standard | - | 4.41 | unknown
NVIDIA H100 (8x) on_demand | H100-80GB | 8 | on_demand | standard | - | 35.28 | unknown
NVIDIA L40s on_demand | L40S-48GB | 1 | on_demand | standard | - | 1.57 | unknown
NVIDIA RTX 4000 on_demand | RTX4000ADA-20GB | 1 | on_demand | standard | - | 0.76 | unknown
NVIDIA RTX 6000 on_demand | RTX6000ADA-48GB | 1 | on_demand | standard | - | 1.57 | unknown
NVIDIA H200 on_demand | H200-141GB | 1 | on_demand | standard | - | 4.47 | unknown
NVIDIA H200 (8x) on_demand | H200-141GB | 8 | on_demand | standard | - | 35.76 | unknown
AMD MI350X spot | MI350X-OAM-288GB | 1 | spot | standard | - | 4 | unknown
AMD MI350X (8x) spot | MI350X-OAM-288GB | 8 | spot | standard | - | 32 | unknown
NVIDIA B300, air-cooled spot | B300-SXM-270GB | 1 | spot | standard | - | 11.19 | unknown
NVIDIA B300, air-cooled (8x) spot | B300-SXM-270GB | 8 | spot | standard | - | 89.52 | unknown
""",
        {},
    ),
    "jarvislabs/server_meta_gpuhunt_tests.json": (
        """
L4/container | L4-24GB | 1 | on_demand | container | india-noida-01 | 0.44 | yes
L4/container | L4-24GB | 2 | on_demand | container | india-noida-01 | 0.88 | yes
L4/container | L4-24GB | 4 | on_demand | container | india-noida-01 | 1.76 | no
L4/container | L4-24GB | 8 | on_demand | container | india-noida-01 | 3.52 | no
L4/container | L4-24GB | 1 | spot | container | india-noida-01 | 0.29 | yes
L4/container | L4-24GB | 2 | spot | container | india-noida-01 | 0.58 | yes
L4/container | L4-24GB | 4 | spot | container | india-noida-01 | 1.16 | no
L4/container | L4-24GB | 8 | spot | container | india-noida-01 | 2.32 | no
L4/vm | L4-24GB | 1 | on_demand | vm | india-noida-01 | 0.44 | yes
L4/vm | L4-24GB | 2 | on_demand | vm | india-noida-01 | 0.88 | yes
L4/vm | L4-24GB | 4 | on_demand | vm | india-noida-01 | 1.76 | no
L4/vm | L4-24GB | 8 | on_demand | vm | india-noida-01 | 3.52 | no
A100-80GB/vm | A100-80GB | 1 | on_demand | vm | india-noida-01 | 1.49 | yes
A100-80GB/vm | A100-80GB | 2 | on_demand | vm | india-noida-01 | 2.98 | no
A100-80GB/vm | A100-80GB | 4 | on_demand | vm | india-noida-01 | 5.96 | no
RTX-PRO6000/vm | RTXPRO6000-96GB | 1 | on_demand | vm | india-chennai-01 | 1.89 | yes
RTX-PRO6000/vm | RTXPRO6000-96GB | 2 | on_demand | vm | india-chennai-01 | 3.78 | yes
RTX-PRO6000/vm | RTXPRO6000-96GB | 4 | on_demand | vm | india-chennai-01 | 7.56 | no
RTX-PRO6000/vm | RTXPRO6000-96GB | 8 | on_demand | vm | india-chennai-01 | 15.12 | no
RTX PRO 6000/vm | RTXPRO6000-96GB | 1 | on_demand | vm | india-noida-01 | 1.89 | yes
RTX PRO 6000/vm | RTXPRO6000-96GB | 2 | on_demand | vm | india-noida-01 | 3.78 | no
RTX PRO 6000/vm | RTXPRO6000-96GB | 4 | on_demand | vm | india-noida-01 | 7.56 | no
RTX PRO 6000/vm | RTXPRO6000-96GB | 8 | on_demand | vm | india-noida-01 | 15.12 | no
H100/any | H100-80GB | 1 | on_demand | standard | europe-01 | 2.99 | yes
H100/vm | H100-80GB | 1 | on_demand | vm | unknown-region | 2.99 | yes
""",
        {"spot is sold for containers only": 3},
    ),
    # 8 vCPUs and 30 GiB (the most that 8 allow) beside an A5000: 0.52 + 0.0168 + 0.102.
    "cudo/machine-types_gpuhunt_tests.json": (
        """
no-luster-1/epyc-rome-rtx-a5000/nvidia-rtx-a5000 | A5000-24GB | 1 | on_demand | standard | no-luster-1 | 0.6388 | yes
no-luster-1/epyc-rome-rtx-a5000/nvidia-rtx-a5000 | A5000-24GB | 2 | on_demand | standard | no-luster-1 | 1.2776 | yes
no-luster-1/epyc-rome-rtx-a5000/nvidia-rtx-a5000 | A5000-24GB | 4 | on_demand | standard | no-luster-1 | 2.5552 | yes
""",  # noqa: E501
        {"RTX3080 without VRAM: 10 and 12 GB are both sold": 3},
    ),
    # 8 vCPUs and 32 GiB beside each GPU: 0.0168 + 0.1088.
    "cudo/machine-types_h100_a100_synthetic.json": (
        """
se-smedjebacken-1/sapphire-rapids-h100/nvidia-h100-sxm | H100-SXM-80GB | 1 | on_demand | standard | se-smedjebacken-1 | 2.0256 | yes
se-smedjebacken-1/sapphire-rapids-h100/nvidia-h100-sxm | H100-SXM-80GB | 2 | on_demand | standard | se-smedjebacken-1 | 4.0512 | yes
se-smedjebacken-1/sapphire-rapids-h100/nvidia-h100-sxm | H100-SXM-80GB | 4 | on_demand | standard | se-smedjebacken-1 | 8.1024 | yes
se-smedjebacken-1/sapphire-rapids-h100/nvidia-h100-sxm | H100-SXM-80GB | 8 | on_demand | standard | se-smedjebacken-1 | 16.2048 | yes
us-carlsbad-1/epyc-milan-a100/nvidia-a100-pcie | A100-PCIE-80GB | 1 | on_demand | standard | us-carlsbad-1 | 1.4756 | no
""",  # noqa: E501
        {},
    ),
    "hyperbolic/rental_options_gpu-index_2026-08_trimmed.json": (
        f"""
h100/sxm5/1/{_VM}/normal | H100-SXM-80GB | 1 | on_demand | standard | us-east-1 | 3.19 | unknown
h200/sxm5/1/{_VM}/normal | H200-SXM-141GB | 1 | on_demand | standard | us-east-2 | 3.99 | unknown
h100/sxm5/1/{_VM}/normal | H100-SXM-80GB | 1 | on_demand | standard | ca-east-3 | 4.85 | unknown
h100/pcie/1/{_VM}/normal | H100-PCIE-80GB | 1 | on_demand | standard | ca-east-1 | 2.75 | yes
h100/sxm5/8/bare-metal/infiniband | H100-SXM-80GB | 8 | on_demand | standard | uk-southeast-3 | 25.52 | unknown
h100/sxm5/8/{_VM}/rocev2 | H100-SXM-80GB | 8 | on_demand | standard | eu-north-4 | 25.52 | unknown
""",  # noqa: E501
        {},
    ),
    "lium/executors_gpu-index_2026-08-22_trimmed.json": (
        f"""
{_HOST}/1 | H100-SXM-80GB | 1 | on_demand | secure | {_RUSSIA} | 1.75 | yes
{_HOST}/2 | H100-SXM-80GB | 2 | on_demand | secure | {_RUSSIA} | 3.5 | yes
{_HOST}/4 | H100-SXM-80GB | 4 | on_demand | secure | {_RUSSIA} | 7 | yes
{_HOST}/8 | H100-SXM-80GB | 8 | on_demand | secure | {_RUSSIA} | 14 | yes
1b3a15ce-7359-4c50-96e2-e18330dd043a/1 | H100-PCIE-80GB | 1 | on_demand | secure | {_KANSAS} | 2.24 | yes
b37a337d-3e10-4eb0-b6a8-526dedf3afbe/8 | H200-141GB | 8 | spot | spot | New Delhi, DL, IN | 24.8 | yes
""",  # noqa: E501
        {},
    ),
    "cloudrift/instance-types_list_synthetic.json": (
        "rtx49-16c-kn.1 | RTX4090-24GB | 1 | on_demand | standard | us-east-nc-nr-1 | 0.39 | yes",
        {},
    ),
    "thundercompute/pricing_synthetic.json": (
        """
a100xl_x1_prototyping | A100-80GB | 1 | on_demand | prototyping | - | 0.78 | unknown
a100xl_x1_production | A100-80GB | 1 | on_demand | production | - | 1.79 | unknown
h100_x1_prototyping | H100-PCIE-80GB | 1 | on_demand | prototyping | - | 1.38 | unknown
h100_x1_production | H100-PCIE-80GB | 1 | on_demand | production | - | 2.49 | unknown
h100_x8_production | H100-PCIE-80GB | 8 | on_demand | production | - | 19.92 | unknown
""",
        {},
    ),
    "salad/gpu-classes_synthetic.json": (
        f"""
{_RTX4090} | RTX4090-24GB | 1 | spot | batch | - | 0.16 | unknown
{_RTX4090} | RTX4090-24GB | 1 | spot | low | - | 0.18 | unknown
{_RTX4090} | RTX4090-24GB | 1 | spot | medium | - | 0.22 | unknown
{_RTX4090} | RTX4090-24GB | 1 | spot | high | - | 0.3 | unknown
""",
        {},
    ),
}
# Of use beside a price list only.
REFUSED = {"scaleway/availability_page1_gpu-index_2026-08.json": "servers{}.hourly_price: no price"}


def _digest(*names: str, urls: tuple[str, ...] = ()) -> Digest:
    payloads = [
        Payload(url, (PAYLOADS / name).read_bytes(), NOW)
        for name, url in zip(names, urls or [""] * len(names), strict=True)
    ]
    it = registry.load(names[0].partition("/")[0])
    return digest(it, payloads, catalogue(), fx=FX, known=Known(), rules=Rules())


def _row(o: Offer) -> Row:
    x = o.listed
    return (
        x.source_id, o.gpu.key, format(x.gpu_count.normalize(), "f"), str(x.market), x.tier,
        x.region or "-", usd(str(o.price.usd)), str(x.extras.availability),
    )  # fmt: skip


def test_no_recorded_answer_is_left_out() -> None:
    named = EXPECTED.keys() | REFUSED.keys()
    found = {
        f"{folder}/{file.name}"
        for folder in {name.partition("/")[0] for name in named}
        for file in (PAYLOADS / folder).iterdir()
    }
    assert found == named


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recorded_answer_gives_exactly_these_offers(name: str) -> None:
    rows, rejected = EXPECTED[name]
    found = _digest(name)
    assert sorted(map(_row, found.accepted)) == sorted(tuple(row) for row in cells(rows))
    assert not found.held
    assert Counter(r.reason for r in found.rejected) == rejected
    assert found.parsed.complete


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_no_list_of_prices_is_refused(name: str) -> None:
    with pytest.raises(ParseError) as caught:
        _digest(name)
    assert str(caught.value).startswith(REFUSED[name])


def test_recorded_stock_goes_with_recorded_prices_of_the_same_zone() -> None:
    base = "https://api.scaleway.com/instance/v1/zones/fr-par-2/products/servers"
    found = _digest(
        "scaleway/servers_page1_gpu-index_2026-08_trimmed.json",
        "scaleway/availability_page1_gpu-index_2026-08.json",
        urls=(base, f"{base}/availability"),
    )
    stock = {o.listed.source_id: str(o.listed.extras.availability) for o in found.accepted}
    assert stock == {
        "B300-SXM-8-288G": "no", "H100-1-80G": "yes", "H100-2-80G": "no", "H100-SXM-2-80G": "yes",
        "H100-SXM-4-80G": "yes", "H100-SXM-8-80G": "yes", "L4-1-24G": "yes",
    }  # fmt: skip
    assert {o.listed.country for o in found.accepted} == {"FR"}
