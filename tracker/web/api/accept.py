"""Which format a client accepts (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WEIGHT = re.compile(r"q=([01](?:\.\d{0,3})?)")


def accepted(accept: str, kinds: Mapping[str, str]) -> str | None:
    """The format to answer in: of *kinds*, media types by format, the one with the highest weight;
    of the same weight the one that is named first. None where none is accepted.

    A range that says more goes before one that says less: ``text/csv;q=0, */*`` is anything but
    CSV. ``*/*`` means the first format.
    """
    ranges: dict[str, tuple[float, int]] = {}
    for place, part in enumerate(accept.split(",") if accept.strip() else ["*/*"]):
        kind, *options = (piece.strip().lower() for piece in part.split(";"))
        weights = [float(found[1]) for one in options if (found := _WEIGHT.fullmatch(one))]
        ranges[kind] = (weights[-1] if weights else 1.0, place)
    best: tuple[float, int] | None = None
    chosen = None
    for form, kind in kinds.items():
        name = kind.partition(";")[0]
        every = (name, f"{name.partition('/')[0]}/*", "*/*")
        weight, place = next((ranges[one] for one in every if one in ranges), (0.0, 0))
        if weight > 0 and (best is None or (weight, -place) > best):
            best, chosen = (weight, -place), form
    return chosen
