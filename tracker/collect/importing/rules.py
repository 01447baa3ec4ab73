"""What makes a row of an import a wrong one, by rules: never by the row.

The gates of ``tracker.domain.quality`` judge what a provider answers today. An import is read once,
from people who scraped, summed and converted before us, so it also has to know the mistakes that
only such data has. A rule's reason is a fixed phrase, by which rows are counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
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


class Week(NamedTuple):
    """A GPU family in a calendar week, which *monday* (UTC) begins."""

    family: str
    monday: date


def monday_of(day: date) -> date:
    """The Monday of the week of *day*."""
    return day - timedelta(days=day.weekday())


FAR = Decimal("0.28")
OTHERS = 3  # sellers that must have been seen in the same week
CONFIRMED_DAYS = 3  # on so many days the same offer was seen as cheap: then it really is


def far_below(lowest: Mapping[Week, Mapping[str, int]]) -> dict[tuple[Week, str], int]:
    """What a seller's list price per GPU-hour may not be below, by week and seller.

    *lowest* is each seller's lowest price, in micro-USD, as the limits are: FAR of the median of
    the lowest of the others, where there are OTHERS of them or more.
    """
    return {
        (week, seller): limit
        for week, sellers in lowest.items()
        for seller, limit in _limits(sellers).items()
    }


def unconfirmed(days: Iterable[tuple[int, date]]) -> set[int]:
    """Of the offers below their limit on these days those that are not believed.

    One mistyped row is not repeated, and who really undercuts all others stays: an offer that was
    as cheap on CONFIRMED_DAYS is believed.
    """
    seen: dict[int, set[date]] = defaultdict(set)
    for offer, day in days:
        seen[offer].add(day)
    return {offer for offer, known in seen.items() if len(known) < CONFIRMED_DAYS}


def _limits(lowest: Mapping[str, int]) -> dict[str, int]:
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
