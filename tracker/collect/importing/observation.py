"""What an import reads: prices that somebody once saw, and rows that say no price.

An observation's offer is worded as a provider words one (``ListedOffer``), save that its amount is
a placeholder: many observations share one offer, and each brings its own amount and moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from tracker.domain.offer import ListedOffer, NativePrice, PriceUnit

SAMPLE_LENGTH = 200
PLACEHOLDER = Decimal(1)


class Observation(NamedTuple):
    """One price of one offer, seen at *at* and known until *until* at the latest.

    ``offer`` holds everything but the amount. ``usd_per_unit`` is the rate of a price in another
    currency and ``fx_date`` its day; None for USD. ``exact``: *until* is the end of the price, not
    just as long as the observation holds. ``micro_usd`` (per machine-hour) is given only where the
    source has worked it out before.
    """

    at: datetime
    until: datetime
    amount: Decimal
    offer: ListedOffer
    usd_per_unit: Decimal | None = None
    fx_date: date | None = None
    exact: bool = False
    micro_usd: int | None = None
    valid_as_of: date | None = None
    expires_at: datetime | None = None
    fallback: bool = False
    source: str | None = None  # None: the source of the import
    gpu: Any = None  # a Gpu that need not be identified again
    where: str = ""  # file and line, for samples


class Refused(NamedTuple):
    """A row that is no observation: why (a short stable phrase) and what it looked like."""

    reason: str
    sample: str


# Not an error and nothing to look into: a catalogue lists machines without GPUs, too.
NO_GPU = "no GPU in this row"
OUTSIDE = "outside the dates asked for"


@dataclass(slots=True)
class Snapshot:
    """What one file, or a part of one, says.

    ``moments`` are the (seller, moment) of which it holds the whole listing: an offer that is not
    in it was not there, and whatever an earlier moment said of the seller ends.
    """

    observations: list[Observation] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    rows: int = 0
    moments: set[tuple[str, datetime]] = field(default_factory=set)

    def refuse(self, reason: str, sample: object) -> None:
        """Note a row that is no observation."""
        self.refused.append(Refused(reason, str(sample)[:SAMPLE_LENGTH]))


def placeholder(currency: str = "USD", unit: PriceUnit = PriceUnit.MACHINE_HOUR) -> NativePrice:
    """The price of an observation's offer: only its currency and unit mean something."""
    return NativePrice(PLACEHOLDER, currency, unit)


@dataclass(slots=True)
class Report:
    """What became of the rows of an import, as counted and as shown.

    ``samples`` holds the first row of each reason. ``days`` are those on which something was kept.
    """

    rows: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    sellers: Counter[str] = field(default_factory=Counter)
    gpus: Counter[str] = field(default_factory=Counter)
    days: set[str] = field(default_factory=set)
    first: datetime | None = None
    last: datetime | None = None
    absent: int = 0  # dates or files that do not exist at the source

    def refuse(self, refused: Iterable[Refused]) -> None:
        """Count refused rows, and keep the first of each reason as a sample."""
        for reason, sample in refused:
            self.refused[reason] += 1
            self.samples.setdefault(reason, sample)

    def keep(self, at: datetime, seller: str, gpu_key: str) -> None:
        """Count a row that will become history."""
        self.kept += 1
        self.sellers[seller] += 1
        self.gpus[gpu_key] += 1
        self.days.add(at.date().isoformat())
        if self.first is None or at < self.first:
            self.first = at
        if self.last is None or at > self.last:
            self.last = at

    def drop(self, reason: str, seller: str, gpu_key: str, sample: str, rows: int = 1) -> None:
        """Take back rows that were counted as kept: only the whole told that they are wrong."""
        self.kept -= rows
        for counter, name in ((self.sellers, seller), (self.gpus, gpu_key)):
            counter[name] -= rows
            if counter[name] <= 0:
                del counter[name]
        self.refused[reason] += rows
        self.samples.setdefault(reason, sample)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; ``from_json`` reads them again."""
        return {
            "rows": self.rows, "kept": self.kept, "refused": dict(self.refused),
            "samples": self.samples, "sellers": dict(self.sellers), "gpus": dict(self.gpus),
            "days": sorted(self.days), "absent": self.absent,
            "first": self.first and self.first.isoformat(),
            "last": self.last and self.last.isoformat(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """A report that an interrupted import has left."""
        return cls(
            rows=data.get("rows", 0), kept=data.get("kept", 0),
            refused=Counter(data.get("refused", {})), samples=dict(data.get("samples", {})),
            sellers=Counter(data.get("sellers", {})), gpus=Counter(data.get("gpus", {})),
            days=set(data.get("days", ())), absent=data.get("absent", 0),
            first=_moment(data.get("first")), last=_moment(data.get("last")),
        )  # fmt: skip


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
