"""A rule of thumb by the size of a model: the memory that it takes, where nothing else is known.

    GB = 1.2 x parameters x bytes per parameter + 2 GB

Bytes per parameter: 2 for weights in 16 bits, 0.5625 in 4 bits; 16 per trained one with Adam in
mixed precision (arXiv:1910.02054), adapters being 0.6 % of the model. The fifth and the 2 GB on top
are for activations, caches and workspace: a convention of this project, too little for long
contexts and large batches. It says nothing of hours; the formulas of a described job go before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_GB = 1e9
_ROOM, _BASE_GB = 1.2, 2.0
_ADAPTERS = 0.006 * 16
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([mbt])", re.IGNORECASE)
_TIMES = {"m": 1e6, "b": 1e9, "t": 1e12}
_LEAST, _MOST = 1e6, 1e14

USES = (
    ("inference, 4-bit weights", 0.5625),
    ("inference, 16-bit weights", 2.0),
    ("QLoRA fine-tuning", 0.5625 + _ADAPTERS),
    ("LoRA fine-tuning", 2.0 + _ADAPTERS),
    ("full training with Adam", 16.0),
)
COUNTS = (1, 2, 4, 8, 16, 32, 64)


class Thumb(NamedTuple):
    """What a use takes: ``gb`` (10^9 bytes) in all, on ``gpus`` of ``gpu``.

    None: of none of the GPUs asked about 64 are enough.
    """

    use: str
    bytes_per_parameter: float
    gb: float
    gpu: str | None
    gpus: int | None


def size_of(text: str) -> float | None:
    """The parameters that ``7B`` or ``350m`` means; None: it is no size of a model."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    size = float(found[1]) * _TIMES[found[2].lower()]
    return size if _LEAST <= size <= _MOST else None


def rule_of_thumb(parameters: float, gpus: Iterable[tuple[str, float]]) -> list[Thumb]:
    """Each use of a model of so many parameters, on the fewest and then the smallest of *gpus*.

    *gpus* are keys with the GB of one. Of equal ones the first.
    """
    known = sorted(gpus, key=lambda one: one[1])
    found = []
    for use, each in USES:
        gb = _ROOM * parameters * each / _GB + _BASE_GB
        fits = ((n, key) for n in COUNTS for key, has in known if n * has >= gb)
        count, gpu = next(fits, (None, None))
        found.append(Thumb(use, each, gb, gpu, count))
    return found
