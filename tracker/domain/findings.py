"""What a poll found beside prices: offers held back, and GPU names that nobody knows."""

from __future__ import annotations

from dataclasses import dataclass

from tracker.domain.offer import Offer


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An offer that a quality gate keeps out of history, and why.

    ``confirmations`` counts the polls in a row that saw this price; this one is among them if
    ``counted`` (it came long enough after the one counted before). ``releasable`` tells whether
    confirmations can free it.
    """

    offer: Offer
    gate: str
    reason: str
    releasable: bool
    confirmations: int
    counted: bool = True


@dataclass(frozen=True, slots=True)
class UnmappedGpu:
    """A GPU name that the catalogue does not know, with what the provider says of its memory.

    ``sample`` is one of the *rows* that carry it, for a person to look at.
    """

    name: str
    vram: str
    sample: str
    rows: int
