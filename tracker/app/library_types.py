"""What Python gets for an answer: a few plain, frozen classes that stay as they are.

Money is ``Decimal`` in USD, a time is in UTC, a length of time is a ``timedelta``. What is not
known is None, never 0. A field may be added in a later version; none is taken away or changes its
meaning within a major one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypedDict


class GpucostError(Exception):
    """What gpucost refuses or cannot do: one line that says what to do."""


class BadQuestion(GpucostError):
    """The question makes no sense: a parameter, a job, a GPU or a provider that nobody knows."""


class Unavailable(GpucostError):
    """There is nothing to answer from: no database, one of another version, nothing recorded."""


Words = str | Sequence[str]
Amount = Decimal | int | str  # never float: 0.1 is not a tenth
Moment = datetime | str


class Filters(TypedDict, total=False):
    """What may be asked of offers: the command line's filters, ``_`` in the place of ``-``."""

    gpu: Words
    provider: Words
    region: Words
    country: Words
    market: Words
    tier: Words
    min_vram: Amount
    gpus: int
    min_ram: Amount
    min_vcpus: Amount
    min_disk: Amount
    min_network: Amount
    interconnect: str
    kind: Words
    dedicated: bool
    ecc: bool
    available: bool
    max_age: str
    include_stale: bool
    as_of: Moment


class Asked(Filters, total=False):
    """Filters, and what is changed of a job."""

    hours: Mapping[str, Amount]
    disk: Amount
    egress: Amount
    setup: Amount
    deadline: Amount
    download: Amount
    assume_network: Amount


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run the job: an offer, the hours on it, and the bill of the whole job.

    ``total_usd`` is None where ``partial`` names something whose price nobody states; the bill is
    then at least ``at_least_usd``. With ``lower_bound`` the hours, and so the bill, are at least
    those. ``low_usd`` and ``high_usd`` are the bill at both ends of the hours.
    """

    rank: int
    offer: str  # the id that ``gpucost explain`` takes
    gpu: str
    gpus_per_machine: Decimal
    machines: int
    provider: str
    source: str  # whose word the price is
    region: str | None
    tier: str
    market: str
    total_usd: Decimal | None
    at_least_usd: Decimal
    partial: tuple[str, ...]
    lower_bound: bool
    low_usd: Decimal | None
    high_usd: Decimal | None
    price_usd_per_gpu_hour: Decimal
    price_usd_per_machine_hour: Decimal
    runtime_hours: Decimal
    billed_hours: Decimal
    done_hours: Decimal
    basis: str  # what the hours rest on
    seen_at: datetime | None  # None: a price of the past, and nobody knows when
    age: timedelta | None
    stale: bool


@dataclass(frozen=True, slots=True)
class Cheapest:
    """Ways to run a job, the best first, and what was left out, counted by reason."""

    as_of: datetime
    answer: str | None
    ways: tuple[Way, ...]
    considered: int
    excluded: Mapping[str, int]
    remarks: tuple[str, ...]
    only_stale: bool


@dataclass(frozen=True, slots=True)
class Point:
    """A bucket [start, end). ``usd`` is None where no complete bill was known at all."""

    start: datetime
    end: datetime
    usd: Decimal | None
    low_usd: Decimal | None
    high_usd: Decimal | None
    known: timedelta
    gpu: str | None
    provider: str | None
    basis: str | None
    source: str | None  # whose word the price is
    valid_as_of: date | None  # the day a person read it; None: a program did


@dataclass(frozen=True, slots=True)
class Series:
    """One GPU's or one provider's. The figures are over the time that a bill was known for."""

    name: str
    points: tuple[Point, ...]
    now_usd: Decimal | None
    min_usd: Decimal | None
    median_usd: Decimal | None
    max_usd: Decimal | None
    known: timedelta


@dataclass(frozen=True, slots=True)
class History:
    """What the cheapest way to run a job cost over time; ``overall`` is the cheapest of all."""

    as_of: datetime
    answer: str | None
    since: datetime
    until: datetime
    series: tuple[Series, ...]
    overall: Series
    begins_at: datetime | None
    excluded: Mapping[str, int]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A job on one kind of GPU; ``reason`` says why where it does not run, and has no hours."""

    gpu: str
    gpus: int
    hours: Decimal | None
    low_hours: Decimal | None
    high_hours: Decimal | None
    lower_bound: bool
    basis: str | None
    source: str | None
    reason: str | None
    cheapest: Way | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two GPUs for a job. ``winner`` is left, right, tie or unknown; None: a side has no offer.

    The break-even is the price of the left one at which both bills are the same; None where no
    price would do, or (``break_even_unknown``) nobody knows it.
    """

    as_of: datetime
    answer: str | None
    winner: str | None
    left: Way | None
    right: Way | None
    break_even_usd_per_gpu_hour: Decimal | None
    break_even_unknown: bool
    unknown: tuple[str, ...]
    remarks: tuple[str, ...]
