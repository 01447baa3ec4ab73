"""What each GPU instance type is: the table instances.csv beside this module.

AWS's price feeds do not say which GPU an instance has (the small feed and spot.json not at all,
the bulk list only a count, which was wrong at times), and names do not tell either: p5.4xlarge
has one H100 and p5.48xlarge eight. So these facts come from a table, each row with its source.
A new type needs a row there; until then its price rows are rejected by name.

Columns: ``gpu_count`` may be a fraction of a card; ``vram_gb`` is the nominal size of one whole
card; ``disk_gb`` is the instance store that comes with the machine (0: only EBS, billed apart);
an empty cell is an unknown, and an empty ``gpu_count`` means that the type is not to be priced.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

# p: training, g and gr: graphics and inference. Graviton's g is a suffix (c7g), never a prefix.
_GPU_FAMILY = re.compile(r"(?:p|gr?)\d[a-z0-9-]*\.[a-z0-9-]+\Z")


@dataclass(frozen=True, slots=True)
class InstanceType:
    """The hardware of one instance type; None is unknown."""

    name: str
    gpu: str
    form_factor: str | None
    gpu_count: Decimal | None
    vram_gb: Decimal | None
    interconnect: str | None
    network: str | None
    vcpus: Decimal | None
    ram_gib: Decimal | None
    disk_gb: Decimal | None


@cache
def instance_types() -> dict[str, InstanceType]:
    """The table by instance type."""
    text = resources.files("providers.aws").joinpath("instances.csv").read_text("utf-8")
    return {row["instance_type"]: _from_row(row) for row in csv.DictReader(text.splitlines())}


def may_have_gpu(name: str, gpu_cell: str = "") -> bool:
    """Whether an instance type is one to look at: known, GPU-like by name, or said to have GPUs.

    *gpu_cell* is the GPU column of the bulk list ("8", "0.125", "NA" or empty).
    """
    if name in instance_types() or _GPU_FAMILY.match(name):
        return True
    return bool(name) and gpu_cell.strip() not in ("", "0", "NA")


def _from_row(row: dict[str, str]) -> InstanceType:
    def number(column: str) -> Decimal | None:
        return Decimal(row[column]) if row[column] else None

    return InstanceType(
        name=row["instance_type"],
        gpu=row["gpu"],
        form_factor=row["form_factor"] or None,
        gpu_count=number("gpu_count"),
        vram_gb=number("vram_gb"),
        interconnect=row["interconnect"] or None,
        network=row["network"] or None,
        vcpus=number("vcpus"),
        ram_gib=number("ram_gib"),
        disk_gb=number("disk_gb"),
    )
