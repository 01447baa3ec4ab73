"""What is rented: a share of a GPU, one, several, a whole machine, or more than one holds.

So that like is compared with like: eight GPUs on one board and eight single ones are two things,
though a GPU-hour of both is called the same.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

Kind = Literal["slice", "gpu", "gpus", "machine", "cluster"]

# GPUs on the board of an HGX or OAM machine; fewer may share it with other tenants.
BOARD_GPUS = 8
# The most that one machine holds (Google's a2-megagpu-16g); more of them are several machines.
MOST_IN_A_MACHINE = 16


def kind_of(gpu_count: Decimal, *, is_slice: bool, dedicated: bool | None) -> Kind:
    """The kind of an offer of *gpu_count* GPUs.

    ``machine`` is what the provider says nobody else is on, or a full board of GPUs; ``gpus`` are
    2 to 7 of which that is not said. ``dedicated`` None: the provider does not say.
    """
    if is_slice or gpu_count < 1:
        return "slice"
    if gpu_count > MOST_IN_A_MACHINE:
        return "cluster"
    if dedicated or gpu_count >= BOARD_GPUS:
        return "machine"
    return "gpu" if gpu_count == 1 else "gpus"
