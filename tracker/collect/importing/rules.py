"""What makes a row of an import a wrong one, by rules: never by the row.

The gates of ``tracker.domain.quality`` judge what a provider answers today. An import is read once,
from people who scraped, summed and converted before us, so it also has to know the mistakes that
only such data has. A rule's reason is a fixed phrase, by which rows are counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.gpu import Catalogue, Gpu
from tracker.domain.offer import ListedOffer, Market

COMPONENT = "price of a component (the GPU without its machine), not of something one can rent"
HOST_ONLY = "price of the host alone: its GPUs are missing"
NOT_SOLD_SO = "a machine type that is not sold on this market"
PER_GPU = "a large cloud's list price of a machine that is as low as one of its GPUs should be"
PLACEHOLDER = "a placeholder: no GPU of this size has been offered for so little"
OUT_OF_BAND = "price per GPU-hour outside what is plausible for the GPU"
FAR_BELOW = "far below every other seller of that week, and not confirmed by later rows"

# Texts of billing components. GCP: "Nvidia Tesla A100 GPU running in Americas", "... attached to
# Spot Preemptible VMs", "Commitment v1: ...", "Reserved ... in Calendar Mode". OCI: part numbers.
_COMPONENT = re.compile(
    r"\bGPU (?:running|attached)\b|^Commitment v\d|\bCalendar Mode\b|^B\d{5,6}(?= \[|$)",
    re.IGNORECASE,
)

# GCP's hosts: what their vCPUs and memory alone cost on demand in us-central1, in USD per GPU-hour
# of the machine type (SkyPilot's catalogue of GCP, machine rows; a3-megagpu: the price published on
# 2024-08-17 before the GPU was added). Elsewhere a host costs up to a third more.
_GCP_HOST_USD_PER_GPU = {
    "a2-highgpu": Decimal("0.73948"),
    "a2-megagpu": Decimal("0.54981"),
    "a2-ultragpu": Decimal("1.09962"),
    "a3-edgegpu": Decimal("1.18251"),
    "a3-highgpu": Decimal("1.18251"),
    "a3-megagpu": Decimal("1.26470"),
}
# Up to so many times the host's list price, a price is that of a host. Real machines in Cyclenerd's
# prices of 2022 to 2026 cost 1.2 times (reserved for three years) the host's list price and more.
_HOST_AT_MOST = {
    Market.ON_DEMAND: Decimal("1.4"),
    Market.RESERVED: Decimal("0.95"),
    Market.SPOT: Decimal("0.65"),
}
_GCP_TYPE = re.compile(r"(a\d-[a-z]+gpu)-(\d+)g\b")
# GCP sells the small A3 machines as spot and flex-start capacity only; list prices that are summed
# from its price components exist all the same.
_GCP_NOT_LISTED = re.compile(r"a3-highgpu-[124]g\b")

# Half the lowest list price per GPU-hour of AWS, Azure, GCP and Oracle on demand in the trackers'
# observations of 2022 to 2026 (A100: AWS 2.74, H100: AWS 6.88), in USD: what is below is the price
# of one GPU taken for the machine's.
_LARGE_CLOUDS = frozenset({"aws", "azure", "gcp", "oci"})
_LARGE_CLOUD_LOW = {"A100": Decimal("1.37"), "H100": Decimal("3.44")}
# RunPod listed H200 NVL and MI300X at 0.50 for months; elsewhere the least was 2.10 (MI300X, in
# gpus.toml).
_PLACEHOLDER_BELOW = Decimal("0.60")
_LARGEST = frozenset({"H200", "GH200", "B200", "B300", "GB200", "GB300", "MI300X", "MI325X",
                      "MI350X", "MI355X"})  # fmt: skip


def is_component(own_id: str) -> bool:
    """Whether an offer's id is the text or number of a billing component."""
    return _COMPONENT.search(own_id) is not None


def refusal(
    seller: str, offer: ListedOffer, gpu: Gpu, usd_per_machine: Decimal, catalogue: Catalogue
) -> str | None:
    """Why a price is not believed, by itself; None where nothing speaks against it.

    *usd_per_machine* is USD per machine-hour of *offer*.
    """
    per_gpu = usd_per_machine / offer.gpu_count
    if seller == "gcp":
        problem = _gcp(offer, per_gpu)
        if problem:
            return problem
    if gpu.is_slice:
        return None
    if offer.market is Market.ON_DEMAND:
        low = _LARGE_CLOUD_LOW.get(gpu.family) if seller in _LARGE_CLOUDS else None
        if low is not None and per_gpu < low:
            return PER_GPU
        if gpu.family in _LARGEST and per_gpu < _PLACEHOLDER_BELOW:
            return PLACEHOLDER
    low, high = catalogue.band(gpu.family, offer.market)
    return None if low <= per_gpu <= high else OUT_OF_BAND


def _gcp(offer: ListedOffer, per_gpu: Decimal) -> str | None:
    if _GCP_NOT_LISTED.match(offer.source_id) and offer.market is not Market.SPOT:
        return NOT_SOLD_SO
    kind = _GCP_TYPE.match(offer.source_id)
    host = _GCP_HOST_USD_PER_GPU.get(kind[1]) if kind else None
    times = _HOST_AT_MOST.get(offer.market)
    if host is not None and times is not None and per_gpu <= host * times:
        return HOST_ONLY
    return None


class Daily(NamedTuple):
    """The lowest list price of one offer on one day, in micro-USD per GPU-hour."""

    offer: int
    family: str
    seller: str
    day: date
    micro_usd_per_gpu: int


class Doubted(NamedTuple):
    """An offer's prices of one day that lie below *limit* micro-USD per GPU-hour: not believed."""

    offer: int
    day: date
    limit_micro_usd_per_gpu: int


FAR = Decimal("0.28")
OTHERS = 3  # sellers that must have been seen in the same week
CONFIRMED_DAYS = 3  # on so many days the same offer was seen as cheap: then it really is


def far_below(prices: Iterable[Daily]) -> list[Doubted]:
    """The list prices that are less than a third of what the others asked in the same week.

    For each GPU family and calendar week, a seller's lowest prices are compared with the median of
    the other sellers' lowest (at least OTHERS of them). An offer that was as cheap on three days is
    believed: one mistyped row is not repeated, and a real undercutter stays.
    """
    weeks: dict[tuple[str, int, int], dict[str, int]] = defaultdict(dict)
    known = list(prices)
    for p in known:
        lowest = weeks[(p.family, *p.day.isocalendar()[:2])]
        lowest[p.seller] = min(lowest.get(p.seller, p.micro_usd_per_gpu), p.micro_usd_per_gpu)
    limits = {week: _limits(lowest) for week, lowest in weeks.items()}
    doubted: list[Doubted] = []
    days: dict[int, set[date]] = defaultdict(set)
    for p in known:
        limit = limits[(p.family, *p.day.isocalendar()[:2])].get(p.seller)
        if limit is not None and p.micro_usd_per_gpu < limit:
            doubted.append(Doubted(p.offer, p.day, limit))
            days[p.offer].add(p.day)
    return [d for d in doubted if len(days[d.offer]) < CONFIRMED_DAYS]


def _limits(lowest: Mapping[str, int]) -> dict[str, int]:
    """For each seller what its price may not be below, where enough others were seen."""
    if len(lowest) <= OTHERS:
        return {}
    ranked = sorted(lowest.values())
    limits: dict[str, int] = {}
    for seller, own in lowest.items():
        others = ranked.copy()
        others.remove(own)
        middle = len(others) // 2
        twice = others[middle] * 2 if len(others) % 2 else others[middle - 1] + others[middle]
        limits[seller] = int(twice * FAR / 2)
    return limits
