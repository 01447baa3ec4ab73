"""SkyPilot's catalogues (skypilot-org/skypilot-catalog): one CSV of machines a cloud.

Columns come in another order for each cloud and are read by name. Prices are USD per machine-hour;
what the memory field means differs from cloud to cloud (``skypilot_memory``), and GCP's file holds
hosts and GPUs apart (``skypilot_gcp``).
"""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, timedelta
from decimal import Decimal

from tracker.collect.importing import skypilot_gcp, words
from tracker.collect.importing.observation import (
    NO_GPU,
    Observation,
    Snapshot,
    placeholder,
)
from tracker.collect.importing.skypilot_memory import gpu_memory_mib
from tracker.collect.importing.words import Unreadable
from tracker.domain.offer import ListedOffer, Market, PriceKind

HOLD = timedelta(days=8)  # rewritten several times a week, and committed only when it changes
NOT_A_CATALOGUE = "the file has no columns of a SkyPilot catalogue"
SAME_AS_LIST = "the spot price is the list price: no spot price in practice"

_NEEDED = {"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region"}
# catalogs/v8/aws/vms.csv in the repository, aws_v8_vms.csv as one file by itself, aws.csv.
_PATHS = (
    re.compile(r"(?:^|/)v(?P<version>\d+)/(?P<cloud>[\w.-]+)/vms\.csv$"),
    re.compile(r"(?:^|/)(?P<cloud>[a-z][a-z0-9-]*)_v(?P<version>\d+)_vms(?:\.[\w-]+)?\.csv$"),
    re.compile(r"(?:^|/)(?P<cloud>[a-z][a-z0-9-]*)/vms\.csv$"),
    re.compile(r"(?:^|/)(?P<cloud>[a-z][a-z0-9-]*)\.csv$"),
)
_UNPLACED = frozenset({"", "default", "none"})
_COUNTRY = re.compile(r"(?P<place>.*), (?P<country>[A-Z]{2}), [A-Z]{2}")


def whose(path: str) -> tuple[str, int] | None:
    """The cloud and the version of the format that *path* names; None: no catalogue of machines."""
    for pattern in _PATHS:
        found = pattern.search(path)
        if found:
            version = found.groupdict().get("version")
            return found["cloud"].lower(), int(version or 0)
    return None


def parse(
    body: bytes, cloud: str, at: datetime, hold: timedelta = HOLD, where: str = ""
) -> Snapshot:
    """The observations of one cloud's file as of *at*."""
    seller = words.seller(cloud)
    into = Snapshot()
    reader = csv.DictReader(io.StringIO(body.decode("utf-8-sig", errors="replace")))
    if not set(reader.fieldnames or ()) >= _NEEDED:
        into.refuse(NOT_A_CATALOGUE, where or cloud)
        return into
    rows: list[tuple[str, dict[str, str]]] = []
    for row in reader:
        into.rows += 1
        told = {str(name): value or "" for name, value in row.items() if name is not None}
        line = ",".join(told.values())
        rows.append((f"{where or cloud} line {reader.line_num}: {line}", told))
    if seller == "gcp":
        rows = skypilot_gcp.join(rows, into)
    for sample, told in rows:
        _add(told, seller, at, at + hold, into, sample)
    if into.rows:
        into.moments.add((seller, at))
    return into


def _add(
    row: dict[str, str], seller: str, at: datetime, until: datetime, into: Snapshot, sample: str
) -> None:
    """One machine: its list price, its spot price, both, or the reason why neither."""
    try:
        if words.is_nothing(row["AcceleratorName"]):
            raise Unreadable(NO_GPU)
        listed, spot = _price(row, "Price"), _price(row, "SpotPrice")
        if listed is None and spot is None:
            raise Unreadable(words.NO_PRICE)
        if listed is not None:
            offer = _offer(row, seller, Market.ON_DEMAND)
            into.observations.append(Observation(at, until, listed, offer, where=sample))
        if spot is not None and spot == listed:
            into.refuse(SAME_AS_LIST, sample)
        elif spot is not None:
            offer = _offer(row, seller, Market.SPOT)
            into.observations.append(Observation(at, until, spot, offer, where=sample))
    except Unreadable as problem:
        into.refuse(str(problem), sample)


def _price(row: dict[str, str], column: str) -> Decimal | None:
    """None for an empty cell and for 0.00, by which Vast's rows say that there is none."""
    try:
        return words.price(row.get(column))
    except Unreadable as problem:
        if str(problem) in (words.NO_PRICE, words.ZERO_PRICE):
            return None
        raise


def _offer(row: dict[str, str], seller: str, market: Market) -> ListedOffer:
    name = row["AcceleratorName"].strip()
    gpus = words.count(row["AcceleratorCount"])
    machine = row["InstanceType"].strip()
    region, country = place(row.get("Region", ""))
    zone = row.get("AvailabilityZone", "").strip()
    upstream = row.get("UpstreamCloudId", "").strip()
    own_id = "@".join(part for part in (machine, zone) if part)
    if upstream and upstream != machine:
        own_id += f"#{upstream}"  # one type of machine at several sources, each at its own price
    memory = gpu_memory_mib(row.get("GpuInfo", ""), seller, name, gpus)
    return ListedOffer(
        source_id=own_id,
        gpu_name=name,
        gpu_count=gpus,
        price=placeholder(),
        market=market,
        tier=_tier(machine, seller),
        price_kind=PriceKind.DYNAMIC if market is Market.SPOT else PriceKind.FIXED,
        vram_mib=memory,
        form_factor=_form(machine, row.get("GpuInfo", "")),
        region=region,
        country=country,
        vcpus=words.number(row.get("vCPUs")) or None,
        ram_gib=words.number(row.get("MemoryGiB")) or None,
        seller=seller,
        upstream=upstream if upstream and upstream != machine else None,
    )


def place(text: str) -> tuple[str | None, str | None]:
    """Region and country of a region's text: ``Texas, US, NA`` and ``, US, NA`` (state unknown)."""
    text = " ".join(text.split())
    if text.lower() in _UNPLACED:
        return None, None
    found = _COUNTRY.fullmatch(text) or re.fullmatch(
        r"(?P<place>), ?(?P<country>[A-Z]{2}), [A-Z]{2}", text
    )
    if found:
        where = found["place"].strip(" ,")
        return (f"{where}, {found['country']}" if where else None), found["country"]
    return text, None


_FORM = re.compile(r"(?<![a-z])(sxm\d?|pcie|nvl|nvlink)(?![a-z])", re.IGNORECASE)


def _form(machine: str, info: str) -> str | None:
    """The form factor, which is only in the machine's name or the GPU's long one."""
    named = re.search(r"['\"]Name['\"]: ['\"]([^'\"]*)['\"]", info)
    for text in (machine.replace("_", " "), named[1] if named else ""):
        found = _FORM.search(text)
        if found:
            return found[1]
    return None


def _tier(machine: str, seller: str) -> str:
    """RunPod's class of trust, which its machine names end with; others have one class."""
    if seller == "runpod":
        return "community" if machine.upper().endswith("_COMMUNITY") else "secure"
    return "standard"
