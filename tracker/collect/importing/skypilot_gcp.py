"""SkyPilot's GCP rows, put together again.

A machine row (``a2-highgpu-1g``, no accelerator) is the price of vCPUs and memory alone; the GPUs
are rows of their own, with an empty machine type, by count and zone. A machine costs both, in its
zone: 0.73948 + 2.93391 = 3.67339 for an A100 in us-central1-a, the list price. TPUs are also rows
without a machine type, with a word where others have a dictionary.
"""

from __future__ import annotations

import re
from collections import defaultdict
from decimal import Decimal
from statistics import median

from tracker.collect.importing import words
from tracker.collect.importing.observation import NO_GPU, Snapshot
from tracker.collect.importing.words import Unreadable

TPU = "a TPU, not a GPU"
GPU_ALONE = "the GPU of a machine, priced without its host"
HOST_ALONE = "a host whose GPUs have no price in its zone"
UNEXPLAINED = "the GPU's price is under 70 % of its price in the other regions, unexplained"

# Machine types that have their GPUs built in, from their names alone: GPU as SkyPilot names it.
_BUILT_IN = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-edgegpu": "H100",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
}
_L4_OF_G2 = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}  # by the vCPUs in the name
_TYPE = re.compile(r"(a\d-[a-z]+gpu)-(\d+)g")
_G2 = re.compile(r"g2-standard-(\d+)")
_CHEAP = Decimal("0.7")  # of the median: GCP's regions differ by up to a third, not by half

Row = tuple[str, dict[str, str]]
Part = tuple[str, str, Decimal]  # zone, GPU, count


def join(rows: list[Row], into: Snapshot) -> list[Row]:
    """The rows of whole machines: those given, with each host's GPUs added to its prices.

    What cannot be rented by itself, or is not explained, is refused in *into*.
    """
    whole: list[Row] = []
    hosts: list[tuple[str, dict[str, str], Part]] = []
    gpus: dict[Part, tuple[str, dict[str, str]]] = {}
    used: set[Part] = set()
    for sample, row in rows:
        machine, name = row["InstanceType"].strip(), row["AcceleratorName"].strip()
        if machine and name:
            whole.append((sample, row))
        elif machine:
            part = _part_of(machine, row)
            if part is None:
                into.refuse(NO_GPU, sample)
            else:
                hosts.append((sample, row, part))
        elif name.lower().startswith("tpu") or not row.get("GpuInfo", "").strip().startswith("{"):
            into.refuse(TPU, sample)
        else:
            _add_gpu(row, sample, gpus, into)
    doubted = _doubted(gpus)
    for sample, row, part in hosts:
        found = gpus.get(part)
        used.add(part)
        if found is None:
            into.refuse(HOST_ALONE, sample)
        elif part in doubted:
            into.refuse(UNEXPLAINED, f"{sample} + {found[0]}")
        else:
            whole.append((f"{sample} + {found[0]}", _sum(row, found[1])))
    for part, (sample, _) in gpus.items():
        if part not in used:
            into.refuse(GPU_ALONE, sample)
    return whole


def _part_of(machine: str, row: dict[str, str]) -> Part | None:
    """The GPUs that *machine* needs, from its name; None for one without built-in GPUs."""
    zone = row.get("AvailabilityZone", "").strip() or row["Region"].strip()
    found = _TYPE.fullmatch(machine)
    if found and found[1] in _BUILT_IN:
        return zone, _BUILT_IN[found[1]], Decimal(found[2])
    small = _G2.fullmatch(machine)
    if small and int(small[1]) in _L4_OF_G2:
        return zone, "L4", Decimal(_L4_OF_G2[int(small[1])])
    return None


def _add_gpu(
    row: dict[str, str], sample: str, gpus: dict[Part, tuple[str, dict[str, str]]], into: Snapshot
) -> None:
    zone = row.get("AvailabilityZone", "").strip() or row["Region"].strip()
    try:
        part = (zone, row["AcceleratorName"].strip(), words.count(row["AcceleratorCount"]))
    except Unreadable as problem:
        into.refuse(str(problem), sample)
        return
    if part in gpus:
        into.refuse("the same GPU twice in one zone", sample)
        return
    gpus[part] = (sample, row)


def _doubted(gpus: dict[Part, tuple[str, dict[str, str]]]) -> set[Part]:
    """The GPUs whose list price is not explained: far below that of the other regions."""
    by_kind: dict[tuple[str, Decimal], dict[Part, Decimal]] = defaultdict(dict)
    for part, (_, row) in gpus.items():
        listed = words.number(row["Price"])
        if listed:
            by_kind[part[1:]][part] = listed
    doubted: set[Part] = set()
    for prices in by_kind.values():
        middle = median(prices.values())
        doubted |= {part for part, usd in prices.items() if usd < middle * _CHEAP}
    return doubted


def _sum(host: dict[str, str], gpu: dict[str, str]) -> dict[str, str]:
    """The machine: the host's row with the GPU's name, count and memory, and both prices added."""
    row = dict(host)
    for column in ("AcceleratorName", "AcceleratorCount", "GpuInfo"):
        row[column] = gpu.get(column, "")
    for column in ("Price", "SpotPrice"):
        parts = (words.number(host.get(column)), words.number(gpu.get(column)))
        row[column] = str(parts[0] + parts[1]) if parts[0] and parts[1] else ""
    return row
