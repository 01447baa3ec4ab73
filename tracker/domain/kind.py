"""What is rented: a share of a GPU, one, several, a whole machine, or more than one holds.

So that like is compared with like: eight GPUs on one board and eight single ones are two things,
though a GPU-hour of both is called the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, get_args

Kind = Literal["slice", "gpu", "gpus", "machine", "cluster"]
KINDS: tuple[Kind, ...] = get_args(Kind)

KIND_TEXTS: Mapping[Kind, str] = MappingProxyType({
    "slice": "a share of a GPU",
    "gpu": "one GPU",
    "gpus": "several GPUs of a machine that others may be on",
    "machine": "a whole machine",
    "cluster": "several machines",
})  # fmt: skip

# GPUs on the board of an HGX or OAM machine; fewer may share it with other tenants.
BOARD_GPUS = 8
# The most that one machine holds (Google's a2-megagpu-16g); more of them are several machines.
MOST_IN_A_MACHINE = 16
# Boards are of 8; of these GPUs NVIDIA joined two in one machine (HGX-2, HGX A100 with 16 GPUs).
_BOARDS = frozenset({"SXM", "OAM"})
_TWO_BOARDS = frozenset({"A100", "V100"})


def kind_of(
    gpu_count: Decimal, *, is_slice: bool, dedicated: bool | None,
    family: str | None = None, form_factor: str | None = None,
) -> Kind:  # fmt: skip
    """The kind of an offer of *gpu_count* GPUs.

    ``machine`` is what the provider says nobody else is on, or a full board of GPUs; ``gpus`` are
    2 to 7 of which that is not said. ``dedicated`` None: the provider does not say. *family* and
    *form_factor* are those of the GPU, where known: more than one board of them is a cluster.
    """
    if is_slice or gpu_count < 1:
        return "slice"
    one_board = form_factor in _BOARDS and family not in _TWO_BOARDS
    if gpu_count > (BOARD_GPUS if one_board else MOST_IN_A_MACHINE):
        return "cluster"
    if dedicated or gpu_count >= BOARD_GPUS:
        return "machine"
    return "gpu" if gpu_count == 1 else "gpus"
