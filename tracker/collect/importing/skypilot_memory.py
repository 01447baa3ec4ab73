"""What the memory field of a SkyPilot row means: it differs from cloud to cloud.

``MemoryInfo.SizeInMiB`` is the memory of one GPU in MiB (most clouds), of all GPUs together (Vast),
or a number of GiB in spite of its name (RunPod, Shadeform). ``TotalGpuMemoryInMiB`` is the total,
or one GPU's once more (Lambda), stands beside the list of GPUs or inside its only element
(Shadeform), and so decides nothing.
"""

from __future__ import annotations

import ast
import json
from decimal import Decimal
from typing import Any

from tracker.domain.money import parse_decimal

# Clouds whose field holds the memory of all GPUs of the machine.
_TOTAL = frozenset({"vastai"})
# No rented GPU has less than 1 GiB or more than 1 TiB: a number below is one of GiB.
_LEAST_MIB = 1024
_MAX_INFO = 10_000  # characters


def gpu_memory_mib(info: str, seller: str, name: str, gpus: Decimal) -> Decimal | None:
    """MiB of one GPU as *info* (the GpuInfo cell) tells it; None where it tells nothing usable.

    *info* is a Python literal with single quotes, JSON (Verda), empty, or a bare word (GCP's TPUs).
    """
    size = _size(info)
    if size is None or size <= 0:
        return None
    if size < _LEAST_MIB:
        size *= 1024
    if seller in _TOTAL and gpus >= 1:
        size /= gpus
    return size.to_integral_value()


def _size(info: str) -> Decimal | None:
    data = _literal(info)
    gpus = data.get("Gpus") if isinstance(data, dict) else None
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    memory = first.get("MemoryInfo") if isinstance(first, dict) else None
    size = memory.get("SizeInMiB") if isinstance(memory, dict) else None
    try:
        return parse_decimal(str(size)) if size is not None else None
    except ValueError:
        return None


def _literal(info: str) -> Any:
    text = info.strip()
    if not text.startswith("{") or len(text) > _MAX_INFO:
        return None
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
