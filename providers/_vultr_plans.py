"""What a plan of Vultr holds: how many of which GPU, or which share of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from providers._rows import BadRow, amount, number

# vcg-a100-96c-896g-320vram: the GPU, and the memory of all of the plan's GPUs.
_VM_ID = re.compile(r"^v(?:cg|dm)-([a-z0-9]+)-(?:.*-)?(\d{1,5})vram", re.IGNORECASE)
# vbm-112c-2048gb-8-h100-gpu: how many GPUs, and which.
_METAL_ID = re.compile(r"^vbm-.*-(\d{1,3})-([a-z0-9]+)-gpu", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,3})\s*/\s*(\d{1,3})")
_MIB_PER_GIB = 1024
_DIGITS = Decimal("0.000001")  # of a share: 1/3 of a card has no end

# GB of one whole GPU, from the makers' data sheets. Vultr sells the A100 with 80 GB only; an A16
# card is four GPUs of 16 GB.
VRAM_GB = {
    "a16": 16,
    "a40": 48,
    "a100": 80,
    "b200": 180,
    "b300": 270,
    "gh200": 96,
    "h100": 80,
    "h200": 141,
    "l40s": 48,
    "mi300x": 192,
    "mi325x": 256,
    "mi355x": 288,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan with GPUs. ``count`` is below 1 for a slice; ``total_vram_gb`` is of the plan."""

    id: str
    gpu_name: str
    count: Decimal
    total_vram_gb: Decimal
    metal: bool
    vcpus: Decimal | None
    ram_gib: Decimal | None
    disk_gb: Decimal | None
    monthly_usd: Decimal | None
    monthly_usd_preemptible: Decimal | None

    @property
    def is_slice(self) -> bool:
        """Whether it has less than a whole GPU."""
        return self.count < 1


def read_plan(row: Any, *, metal: bool) -> Plan:
    """The plan of a row. Raises BadRow, also for a plan without a GPU."""
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    plan_id = row.get("id")
    if not isinstance(plan_id, str) or not plan_id.strip():
        raise BadRow("id is missing")
    name, model, said = _gpu(plan_id, row)
    one = VRAM_GB.get(model)
    total = amount(row, "gpu_vram_gb") or said[1]
    count = _count(row) or said[0]
    if count is None and total is not None and one is not None:
        count = (total / one).quantize(_DIGITS)
    if total is None and count is not None and one is not None:
        total = one * count
    if not count or not total:
        raise BadRow("how many GPUs is not known")
    ram_mib, disk = amount(row, "ram"), amount(row, "disk")
    disks = amount(row, "disk_count") if metal else None
    return Plan(
        plan_id, name, count.normalize(), total, metal,
        vcpus=amount(row, "cpu_threads" if metal else "vcpu_count") or None,
        ram_gib=(ram_mib / _MIB_PER_GIB).quantize(Decimal(1)) if ram_mib else None,
        disk_gb=disk * (disks or 1) if disk else None,
        monthly_usd=amount(row, "monthly_cost"),
        monthly_usd_preemptible=amount(row, "monthly_cost_preemptible"),
    )  # fmt: skip


def _gpu(
    plan_id: str, row: Mapping[str, Any]
) -> tuple[str, str, tuple[Decimal | None, Decimal | None]]:
    """The GPU's name and model, and what the id says: how many, and their memory in GB."""
    machine, metal = _VM_ID.match(plan_id), _METAL_ID.match(plan_id)
    count = Decimal(metal[1]) if metal else None
    total = Decimal(machine[2]) if machine else None
    told = row.get("gpu_type")
    if isinstance(told, str) and told.strip():
        words = re.split(r"[\s_-]+", told.strip().lower())
        model = next((word for word in words if word in VRAM_GB), words[-1])
        return told.strip(), model, (count, total)
    named = machine[1] if machine else metal[2] if metal else None
    if named is None:
        raise BadRow("no GPU")
    return named, named.lower(), (count, total)


def _count(row: Mapping[str, Any]) -> Decimal | None:
    """``gpu_count`` as a number or as a share ("1/8"); None where it is not there."""
    told = row.get("gpu_count")
    if isinstance(told, str) and (share := _SHARE.fullmatch(told.strip())):
        if int(share[2]) == 0:
            raise BadRow("gpu_count is not a number")
        return (Decimal(share[1]) / Decimal(share[2])).quantize(_DIGITS)
    return number(row, "gpu_count") or None
