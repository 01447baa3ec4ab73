"""What must come of the recorded answers, transcribed by hand from them and the documented rules.

A row is (provider's id, GPU, count, market, tier, region, USD per machine-hour, availability).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

Row = tuple[str, str, str, str, str, str | None, str, str]

OD, SPOT, MONTHLY = "on_demand", "spot", "monthly"


@dataclass(frozen=True)
class Expected:
    """Offers with what was refused beside them, or (``error``) a refusal of the whole answer."""

    offers: tuple[Row, ...] = ()
    rejected: dict[str, int] = field(default_factory=dict)
    complete: bool = True
    error: str | None = None  # what the message must begin with: it names the field


def refused(error: str) -> Expected:
    return Expected(error=error)


# RunPod: USD per GPU-hour as listed (secure, community, secure spot, community spot), None where
# that cloud is closed, has no price, or its spot is not below on-demand; the largest pod last.
_RUNPOD = """
AMD Instinct MI300X OAM | MI300X-OAM-192GB | 2.49 - 1.49 - | 8
NVIDIA A100 80GB PCIe | A100-PCIE-80GB | 1.64 1.19 0.82 0.6 | 8
NVIDIA A100-SXM4-80GB | A100-SXM-80GB | 1.74 1.39 0.95 0.79 | 8
NVIDIA A30 | A30-24GB | - 0.22 - 0.11 | 4
NVIDIA A40 | A40-48GB | 0.4 - 0.28 - | 10
NVIDIA B200 | B200-SXM-180GB | 6.39 - - - | 8
NVIDIA GeForce RTX 3070 | RTX3070-8GB | - 0.13 - 0.07 | 8
NVIDIA GeForce RTX 3080 | RTX3080-10GB | - 0.17 - 0.09 | 4
NVIDIA GeForce RTX 3080 Ti | RTX3080TI-12GB | - 0.18 - 0.09 | 4
NVIDIA GeForce RTX 3090 | RTX3090-24GB | 0.46 0.22 0.22 0.11 | 9
NVIDIA GeForce RTX 3090 Ti | RTX3090TI-24GB | - 0.27 - 0.14 | 2
NVIDIA GeForce RTX 4070 Ti | RTX4070TI-12GB | - 0.19 - 0.1 | 2
NVIDIA GeForce RTX 4080 | RTX4080-16GB | - 0.27 - 0.16 | 2
NVIDIA GeForce RTX 4080 SUPER | RTX4080S-16GB | - 0.28 - 0.17 | 6
NVIDIA GeForce RTX 4090 | RTX4090-24GB | 0.69 0.34 0.35 0.2 | 9
NVIDIA GeForce RTX 5080 | RTX5080-16GB | - 0.49 - 0.25 | 4
NVIDIA GeForce RTX 5090 | RTX5090-32GB | 0.94 0.69 - - | 8
NVIDIA H100 80GB HBM3 | H100-SXM-80GB | 2.99 2.69 1.75 1.5 | 8
NVIDIA H100 NVL | H100-NVL-94GB | 2.79 2.59 1.65 1.4 | 10
NVIDIA H100 PCIe | H100-PCIE-80GB | 2.19 1.99 1.25 1.35 | 8
NVIDIA H200 | H200-141GB | 3.99 3.59 - - | 8
NVIDIA L4 | L4-24GB | 0.43 - 0.22 - | 10
NVIDIA L40 | L40-48GB | 0.99 0.69 0.5 - | 10
NVIDIA L40S | L40S-48GB | 0.86 0.79 0.43 0.4 | 8
NVIDIA RTX 2000 Ada Generation | RTX2000ADA-16GB | 0.23 - 0.14 - | 8
NVIDIA RTX 4000 Ada Generation | RTX4000ADA-20GB | 0.26 0.2 0.19 0.1 | 8
NVIDIA RTX 5000 Ada Generation | RTX5000ADA-32GB | - 0.49 - 0.25 | 8
NVIDIA RTX 6000 Ada Generation | RTX6000ADA-48GB | 0.77 0.74 0.39 0.4 | 8
NVIDIA RTX A2000 | A2000-6GB | - 0.12 - 0.06 | 4
NVIDIA RTX A4000 | A4000-16GB | 0.24 0.17 0.16 0.09 | 12
NVIDIA RTX A4500 | A4500-20GB | 0.25 0.19 0.18 0.1 | 4
NVIDIA RTX A5000 | A5000-24GB | 0.26 0.16 0.14 0.11 | 10
NVIDIA RTX A6000 | A6000-48GB | 0.49 0.33 0.33 0.25 | 10
NVIDIA RTX PRO 6000 Blackwell Workstation Edition | RTXPRO6000-WS-96GB | 1.79 - - - | 4
Tesla V100-FHHL-16GB | V100-FHHL-16GB | - 0.19 - 0.1 | 8
Tesla V100-PCIE-16GB | V100-PCIE-16GB | - 0.19 - 0.1 | 8
Tesla V100-SXM2-16GB | V100-SXM-16GB | - 0.23 - 0.12 | 8
Tesla V100-SXM2-32GB | V100-SXM-32GB | - 0.33 - 0.17 | 4
"""

# Vast.ai: machine / GPUs | GPU | tier | where | on-demand | spot (min_bid where below, else -)
_VAST_H100 = """
142194/1 | H100-SXM-80GB | unverified | Montana, US | 1.306667 | 1
144339/1 | H100-SXM-80GB | unverified | US | 1.653333 | 1.333333
139170/1 | H100-SXM-80GB | verified | Washington, US | 1.733333 | -
32302/1 | H100-SXM-80GB | deverified | India, IN | 1.92 | 0.6
68392/1 | H100-SXM-80GB | unverified | Japan, JP | 2 | 0.446667
52300/1 | H100-NVL-94GB | verified | Florida, US | 2.133333 | 1.226667
59184/1 | H100-SXM-80GB | verified | Taiwan, TW | 2.246667 | 1.246667
59352/1 | H100-NVL-94GB | verified | India, IN | 2.266667 | 2
55971/1 | H100-NVL-94GB | verified | California, US | 2.666667 | -
139968/2 | H100-SXM-80GB | unverified | Japan, JP | 3.2 | 0.533333
139170/2 | H100-SXM-80GB | verified | Washington, US | 3.466667 | -
32302/2 | H100-SXM-80GB | deverified | India, IN | 3.84 | 1.2
68392/2 | H100-SXM-80GB | unverified | Japan, JP | 4 | 0.893333
52300/2 | H100-NVL-94GB | verified | Florida, US | 4.266667 | 2.453333
20897/2 | H100-SXM-80GB | verified | The Netherlands, NL | 4.4 | 2.133333
140139/2 | H100-NVL-94GB | verified | Nebraska, US | 5.493333 | 2.4
142073/2 | H100-SXM-80GB | verified | Taiwan, TW | 6 | 4
92731/2 | H100-SXM-80GB | deverified | US | 7.56 | -
68392/4 | H100-SXM-80GB | unverified | Japan, JP | 8 | 1.786667
20897/4 | H100-SXM-80GB | verified | The Netherlands, NL | 8.8 | 4.266667
140139/4 | H100-NVL-94GB | verified | Nebraska, US | 10.986667 | 4.8
144224/4 | H100-SXM-80GB | unverified | Taiwan, TW | 12 | 8
68392/8 | H100-SXM-80GB | unverified | Japan, JP | 16 | 3.573333
68251/4 | H100-SXM-80GB | verified | US | 18.613333 | -
"""
_VAST_EDGE = """
148199/1 | H100-SXM-80GB | unverified | US | 1.386667 | 0.4
148032/1 | H100-SXM-80GB | unverified | Japan, JP | 1.733333 | 0.28
59380/1 | H100-SXM-80GB | verified | Washington, US | 1.733333 | -
146215/8 | H100-SXM-80GB | unverified | New Jersey, US | 15.466677 | -
68475/8 | H100-SXM-80GB | verified | Japan, JP | 35.157333 | 29.888
68475/4 | H100-SXM-80GB | verified | Japan, JP | 17.578667 | 14.944
"""
_VAST_MIXED = """
501/1 | A100-SXM-40GB | verified | Georgia, US | 0.6 | 0.3
502/4 | A100-SXM-80GB | verified | Czechia, CZ | 3.2 | 1.6
503/1 | A100-PCIE-40GB | verified | Japan, JP | 0.66 | 0.35
504/1 | A100-PCIE-80GB | verified | Oklahoma, US | 0.87 | 0.45
505/1 | H100-PCIE-80GB | verified | US | 1.9 | 1
506/1 | H100-NVL-94GB | verified | Bulgaria, BG | 2 | 1.1
507/1 | RTX4090-24GB | verified | Texas, US | 0.29 | 0.15
507/2 | RTX4090-24GB | verified | Texas, US | 0.58 | 0.3
508/1 | RTX4090-48GB | verified | Hong Kong, HK | 0.4 | 0.22
509/1 | RTX4090D-24GB | unverified | Guangxi, CN | 0.24 | 0.12
510/1 | A100-SLICE | verified | - | 0.15 | 0.08
"""

# AWS: type | GPU | count | region | USD per machine-hour
_AWS_BULK = """
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-1 | 21.957642
p4de.24xlarge | A100-SXM-80GB | 8 | us-east-1 | 27.44705
p5.48xlarge | H100-SXM-80GB | 8 | us-east-1 | 55.04
p5.4xlarge | H100-SXM-80GB | 1 | us-east-1 | 6.88
"""
_AWS_FRACTION = "g6f.large | L4-SLICE | 0.125 | us-east-1 | 0.202"
_AWS_ZONES = """
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-2/us-east-2a | 6.0374
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-2/us-east-2b | 6.0965
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-2/us-east-2c | 21.8535
"""
_AWS_SMALL = """
p5.48xlarge | H100-SXM-80GB | 8 | us-east-1 | 55.04
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-1 | 21.957642
"""
_AWS_SPOT = """
g6.xlarge | L4-24GB | 1 | us-east-1 | 0.5375
g6.12xlarge | L4-24GB | 4 | us-east-1 | 2.846
g6e.xlarge | L40S-48GB | 1 | us-east-1 | 1.6119
g6e.48xlarge | L40S-48GB | 8 | us-east-1 | 11.5708
g6f.large | L4-SLICE | 0.125 | us-east-1 | 0.0579
g7e.2xlarge | RTXPRO6000-SERVER-96GB | 1 | us-east-1 | 1.482
g7e.48xlarge | RTXPRO6000-SERVER-96GB | 8 | us-east-1 | 7.7687
p3.2xlarge | V100-SXM-16GB | 1 | us-east-1 | 0.5509
p3dn.24xlarge | V100-SXM-32GB | 8 | us-east-1 | 5.1428
p4d.24xlarge | A100-SXM-40GB | 8 | us-east-1 | 14.2313
p4de.24xlarge | A100-SXM-80GB | 8 | us-east-1 | 21.8259
p5.48xlarge | H100-SXM-80GB | 8 | us-east-1 | 19.4933
p5.4xlarge | H100-SXM-80GB | 1 | us-east-1 | 2.6295
p5en.48xlarge | H200-SXM-141GB | 8 | us-east-1 | 27.0749
p6-b200.48xlarge | B200-SXM-180GB | 8 | us-east-1 | 42.2529
p6-b300.48xlarge | B300-SXM-270GB | 8 | us-east-1 | 44.5408
p5.48xlarge | H100-SXM-80GB | 8 | us-east-1-atl-1 | 20.5265
p5en.48xlarge | H200-SXM-141GB | 8 | us-east-1-atl-1 | 27.3692
p6-b200.48xlarge | B200-SXM-180GB | 8 | us-east-1-atl-1 | 42.4741
p6-b300.48xlarge | B300-SXM-270GB | 8 | us-east-1-atl-1 | 43.4733
"""

# Azure: size | GPU | count | on-demand | spot
_AZURE = """
Standard_NC24ads_A100_v4 | A100-PCIE-80GB | 1 | 3.673 | 0.7345
Standard_ND96asr_v4 | A100-SXM-40GB | 8 | 27.197 | -
Standard_ND96amsr_A100_v4 | A100-SXM-80GB | 8 | 32.77 | -
Standard_ND96isr_H100_v5 | H100-SXM-80GB | 8 | 98.32 | 18.169536
Standard_NC40ads_H100_v5 | H100-NVL-94GB | 1 | 6.98 | -
Standard_NC80adis_H100_v5 | H100-NVL-94GB | 2 | 13.96 | -
Standard_NCC40ads_H100_v5 | H100-NVL-94GB | 1 | 6.98 | -
"""

# Database Mart: plan | GPU | count | market | tier | USD a month or, hourly, an hour | stock
_PLANS = """
enterprise-gpu-dedicated-server-h100 | H100-80GB | 1 | monthly | dedicated | 2099 | unknown
enterprise-gpu-dedicated-server-a100 | A100-40GB | 1 | monthly | dedicated | 399.50 | unknown
enterprise-gpu-dedicated-server-a100-80gb | A100-80GB | 1 | monthly | dedicated | 1559 | unknown
multi-gpu-dedicated-server-2xrtx-4090 | RTX4090-24GB | 2 | monthly | dedicated | 449.50 | unknown
multi-gpu-dedicated-server-4xa100 | A100-40GB | 4 | monthly | dedicated | 1899 | unknown
enterprise-gpu-dedicated-server-rtx-4090 | RTX4090-24GB | 1 | monthly | dedicated | 409 | unknown
professional-gpu-vps-a4000 | A4000-16GB | 1 | on_demand | vps | 0.25 | unknown
advanced-gpu-dedicated-server-a40 | A40-48GB | 1 | monthly | dedicated | 439 | no
"""

# The transcribed plans in the shipped price book: GPU | count | tier | USD a month | months
TRANSCRIBED = """
H100-80GB | 1 | dedicated | 2099 | 24
A100-40GB | 4 | dedicated | 1899 | 1
A100-80GB | 1 | dedicated | 1559 | 1
A6000-48GB | 4 | dedicated | 1199 | 1
A6000-48GB | 3 | dedicated | 899 | 1
RTX5090-32GB | 2 | dedicated | 859 | 1
RTX5090-32GB | 1 | dedicated | 479 | 1
RTX4090-24GB | 2 | dedicated | 449.5 | 1
RTX4090-24GB | 1 | dedicated | 409 | 1
A100-40GB | 1 | dedicated | 399.5 | 1
A6000-48GB | 1 | dedicated | 329.4 | 1
RTXPRO6000-96GB | 1 | vps | 479 | 1
RTX5090-32GB | 1 | vps | 291.85 | 1
A4000-16GB | 1 | vps | 119 | 1
"""


def cells(table: str) -> Iterator[list[str]]:
    """The rows of a table above."""
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def usd(text: str, times: str = "1", parts: str = "1") -> str:
    """*text* x *times* / *parts*, to a micro-dollar, without trailing zeros."""
    return format(round(Decimal(text) * Decimal(times) / Decimal(parts), 6).normalize(), "f")


def _runpod() -> tuple[Row, ...]:
    """One offer a pod size of 1, 2, 4 and 8 GPUs, up to the largest, at GPUs x list price."""
    rows: list[Row] = []
    for name, gpu, prices, largest in cells(_RUNPOD):
        kinds = (OD, "secure"), (OD, "community"), (SPOT, "secure"), (SPOT, "community")
        for price, (market, tier) in zip(prices.split(), kinds, strict=True):
            if price != "-":
                rows += [
                    (name, gpu, count, market, tier, None, usd(price, count), "unknown")
                    for count in ("1", "2", "4", "8")
                    if int(count) <= int(largest)
                ]
    return tuple(rows)


def _vast(table: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for machine, gpu, tier, place, on_demand, spot in cells(table):
        count, where = machine.partition("/")[2], None if place == "-" else place
        for market, price in ((OD, on_demand), (SPOT, spot)):
            if price != "-":
                rows.append((machine, gpu, count, market, tier, where, usd(price), "yes"))
    return tuple(rows)


def _aws(table: str, market: str = OD) -> tuple[Row, ...]:
    return tuple(
        (name, gpu, count, market, "standard", region, usd(price), "unknown")
        for name, gpu, count, region, price in cells(table)
    )


def _azure() -> tuple[Row, ...]:
    return tuple(
        (name, gpu, count, market, "standard", "eastus", usd(price), "unknown")
        for name, gpu, count, *prices in cells(_AZURE)
        for market, price in zip((OD, SPOT), prices, strict=True)
        if price != "-"
    )


def _databasemart() -> tuple[Row, ...]:
    return tuple(
        (name, gpu, count, market, tier, "US",
         usd(price, parts="730" if market == MONTHLY else "1"), stock)
        for name, gpu, count, market, tier, price, stock in cells(_PLANS)
    )  # fmt: skip


EXPECTED: dict[str, Expected] = {
    "runpod/gputypes_array_jumbo2020_2025-06-21.json": Expected(
        _runpod(), {"market closed": 15, "placeholder without a GPU": 1}
    ),
    "runpod/gputypes_gpu-index_2026-08-22.json": Expected((), {"market flag missing": 9}),
    # Not answers to our query: other queries, other interfaces, other people's tables.
    "runpod/datacenters_synthetic.json": refused("data.gpuTypes: missing"),
    "runpod/errors_synthetic.json": refused("data: "),
    "runpod/gputypes_docs_examples.json": refused("data: "),
    "runpod/v2_catalog_gpus_docs_example.json": refused("data: "),
    "runpod/vms_skypilot-catalog_v8_excerpt.csv": refused("body: not JSON"),
    "vastai/bundles_h100_2026-07-18.json": Expected(
        _vast(_VAST_H100), {"spot price not below on-demand": 5}
    ),
    "vastai/bundles_edge_cases_gpu-index_2026-08-22_trimmed.json": Expected(
        _vast(_VAST_EDGE), {"spot price not below on-demand": 2}
    ),
    "vastai/bundles_mixed_synthetic.json": Expected(_vast(_VAST_MIXED), {"not rentable": 1}),
    "vastai/errors_synthetic.json": refused("offers: missing"),
    "vastai/gpu_names_unique_synthetic.json": refused("offers: missing"),
    "vastai/vms_skypilot-catalog_v8_excerpt.csv": refused("body: not JSON"),
    "databasemart/pricing_page_synthetic.html": Expected(_databasemart()),
    "databasemart/js_shell_synthetic.html": refused("price: no page holds a plan with a price"),
    "databasemart/gpu-mart_price_table_transcribed_2026-08-11.json": refused(
        "price: no page holds a plan with a price"
    ),
    "aws/bulk_index_us-east-1_synthetic.csv": Expected(
        _aws(_AWS_BULK + _AWS_FRACTION),
        {"dedicated host": 1, "capacity reservation": 2, "capacity block": 2, "Windows": 1,
         "tenancy is not shared": 1, "pre-installed software": 1, "Red Hat Enterprise Linux": 1,
         "reserved term": 2},
    ),  # the twelfth row that is no offer is of a disk, not of an instance
    "aws/bulk_index_us-east-1_synthetic.json": Expected(_aws(_AWS_BULK), {"dedicated host": 1}),
    "aws/bulk_index_csv_header_and_row_real.csv": Expected(),  # one row, without a GPU
    "aws/bulk_row_capacity_block_us-east-2_truncated_real.txt": refused("header: "),
    "aws/meteredUnitMaps_us-east-1_linux_trimmed.json": Expected(_aws(_AWS_SMALL)),
    "aws/spot_json_us-east-1_gpu_trimmed.json": Expected(_aws(_AWS_SPOT, SPOT)),
    "aws/spot_json_edge_cases_synthetic.json": Expected(),  # t3.nano has no GPU
    # Files that a poll reads beside the prices hold none, and say so.
    "aws/spot_advisor_gpu_trimmed.json": Expected(complete=False),
    "aws/region_index_synthetic.json": Expected(complete=False),
    "aws/offers_index_trimmed_real.json": Expected(complete=False),
    "aws/describe_instance_types_gpu.json": refused("body: none of AWS's price files"),
    "aws/describe_spot_price_history_synthetic.json": Expected(_aws(_AWS_ZONES, SPOT)),
    "aws/savings_plan_ap-east-2_trimmed.csv": Expected(),  # one row, without a GPU
    "aws/savings_plan_region_index_trimmed.json": Expected(complete=False),
    "aws/skypilot_v8_p4d_rows.csv": refused("body: not JSON"),
    "aws/vantage_instances_json_synthetic.json": refused("body: none of AWS's price files"),
    "azure/retail_page_synthetic.json": Expected(
        _azure(),
        {"Low Priority": 1, "Windows": 2, "DevTest price": 1, "reservation price": 1,
         "not yet in force": 1, "placeholder price, far below other regions": 1,
         "test or staging region": 1, "no armSkuName": 1, "Dedicated Host": 1},
        complete=False,  # its NextPageLink was not followed
    ),
    "azure/retail_page_shape_spotinfo_fixture.json": Expected(
        (), {"Windows": 1, "Low Priority": 1, "Cloud Services": 1, "price is not above zero": 1,
             "no armSkuName": 1, "not a GPU size": 2}, complete=False,
    ),
    "azure/error_429_synthetic.json": refused("Items: missing or not a list"),
}  # fmt: skip

# Error answers as they would arrive, cut out of the files that collect them: where, and what of it.
ERROR_ANSWERS: tuple[tuple[str, str | None, str], ...] = (
    ("runpod/errors_synthetic.json", "200_graphql_error", "errors[0].message: Cannot query field"),
    ("runpod/errors_synthetic.json", "401", "errors[0].message: Unauthorized"),
    ("runpod/errors_synthetic.json", "403_cloudflare_1010", "body: not JSON"),
    ("vastai/errors_synthetic.json", "400_wrapped_query", "offers: missing"),
    ("vastai/errors_synthetic.json", "429_plain_text", "body: not JSON"),
    ("vastai/errors_synthetic.json", "401", "offers: missing (the answer says: auth_error)"),
    ("azure/error_429_synthetic.json", None, "Items: missing or not a list"),
)
