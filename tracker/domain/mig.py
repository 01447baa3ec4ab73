"""Which part of a card an offer is, where its own id names a MIG profile such as ``1g.10gb``.

A profile says how many of a card's compute slices and how many GB of its memory one gets (NVIDIA
MIG User Guide, "Partitioning").
"""

from __future__ import annotations

import re

_PROFILE = re.compile(r"(?<![0-9])([1-7])g\.([0-9]{1,3})gb(?![a-z0-9])", re.ASCII | re.IGNORECASE)


def profile_of(native_id: str) -> tuple[int, int] | None:
    """The compute slices (1 to 7) and the GB that *native_id* names; None where it names none."""
    found = _PROFILE.search(native_id)
    return None if found is None else (int(found[1]), int(found[2]))


def part_of(native_id: str) -> str | None:
    """The profile in one spelling, whatever else the id says."""
    profile = profile_of(native_id)
    return None if profile is None else f"{profile[0]}g.{profile[1]}gb"
