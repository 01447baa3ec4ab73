"""A year of an invented market, as the spans that polls would have left. Needs numpy.

Twenty providers. Five marketplaces, polled every five minutes: an offer lives for two days on
average, changes its price every twelve hours, and comes back once. Fifteen clouds with price lists,
polled hourly: three changes a year, and some spot rows that change daily. One poll in two hundred
fails, and now and then a provider is not reached for hours; what happens between two polls is seen
at the later one, and what nobody confirmed for three intervals is a gap. In all about 20,000 live
offers, 570,000 identities and 6.5 million spans a year.

Deterministic: the same arguments give the same world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MINUTE = 60 * 1_000_000  # in microseconds, like all times here
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
YEAR = 365 * DAY
OPEN = np.iinfo(np.int64).max
END = datetime(2026, 11, 15, tzinfo=UTC)

HEADLINE = ("H100-SXM-80GB", "A100-SXM-80GB", "RTX4090-24GB")
GPUS = (*HEADLINE, *(f"GPU{n:02}-24GB" for n in range(37)))
MARKETS, TIERS = ("on_demand", "spot"), ("standard", "verified", "unverified")
COUNTS, REGIONS = (1, 2, 4, 8), tuple(f"region-{n:02}" for n in range(30))
INCREMENTS = (1, 60, 3600)  # seconds

_LIVE_ON_MARKETPLACE, _LIFE, _AWAY = 1200, 2 * DAY, 5 * DAY
_LIVE_ON_CLOUD, _SPOT, _DAILY_SPOT = 930, 0.2, 0.19


class Offers(NamedTuple):
    """Identities, by their place: places in GPUS, COUNTS, MARKETS, TIERS and REGIONS."""

    gpu: Ints
    count: Ints
    market: Ints
    tier: Ints
    region: Ints


class Spans(NamedTuple):
    """Prices in US cents of offers (by their place); ``end`` is OPEN while open."""

    offer: Ints
    start: Ints
    end: Ints
    cents: Ints


@dataclass(frozen=True)
class Provider:
    """One provider's history. ``polls`` are the moments of those that succeeded."""

    slug: str
    every: int
    increment: int
    marketplace: bool
    polls: Ints
    offers: Offers
    spans: Spans

    @property
    def now(self) -> int:
        """The last poll, from which what is open is known."""
        return int(self.polls[-1])


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def world(years: int = 1, scale: float = 1.0) -> Iterator[Provider]:
    """The providers. *scale* shrinks the number of offers of each."""
    end = micros(END)
    for number in range(20):
        dice = np.random.default_rng([20261130, number])
        yield _provider(dice, number, end - years * YEAR, end, scale)


def _provider(
    dice: np.random.Generator, number: int, start: int, end: int, scale: float
) -> Provider:
    marketplace = number < 5
    every = 5 * MINUTE if marketplace else HOUR
    polls = _polls(dice, start, end, every)
    make = _marketplace if marketplace else _cloud
    offers, spans = make(dice, polls[0], polls[-1], scale)
    seen = _as_polled(spans, polls, 3 * every)
    name = f"{'market' if marketplace else 'cloud'}-{number:02}"
    increment = INCREMENTS[number % len(INCREMENTS)]
    return Provider(name, every, increment, marketplace, polls, offers, seen)


def _polls(dice: np.random.Generator, start: int, end: int, every: int) -> Ints:
    """The moments of the polls that succeeded."""
    moments = np.arange(start + int(dice.integers(every)), end, every, dtype=np.int64)
    moments += dice.integers(0, every // 20, len(moments))
    good = dice.random(len(moments)) >= 0.005
    for outage in dice.integers(start, end, 4):
        good &= (moments < outage) | (moments > outage + dice.integers(HOUR, 12 * HOUR))
    good[-1] = True
    return moments[good]


def _identities(dice: np.random.Generator, count: int, *, marketplace: bool) -> Offers:
    weights = 1 / (10.0 + np.arange(len(GPUS)))  # the headline GPUs are the commonest
    return Offers(
        dice.choice(len(GPUS), count, p=weights / weights.sum()),
        dice.choice(len(COUNTS), count, p=(0.75, 0.05, 0.05, 0.15)),
        (dice.random(count) < _SPOT).astype(np.int64),
        1 + (dice.random(count) < 0.1) if marketplace else np.zeros(count, dtype=np.int64),
        dice.integers(0, len(REGIONS), count),
    )


def _base_cents(offers: Offers) -> NDArray[np.float64]:
    of_gpu = 30 + 300 * np.random.default_rng(7).random(len(GPUS))
    of_gpu[:3] = 320, 170, 45
    return of_gpu[offers.gpu] * np.array(COUNTS)[offers.count] * np.where(offers.market, 0.55, 1)


def _marketplace(
    dice: np.random.Generator, start: int, end: int, scale: float
) -> tuple[Offers, Spans]:
    """Offers that live twice, and change their price every twelve hours."""
    count = int(scale * _LIVE_ON_MARKETPLACE * (end - start + _LIFE) / (2 * _LIFE))
    offers = _identities(dice, count, marketplace=True)
    host = _base_cents(offers) * np.exp(dice.normal(0, 0.25, count))
    born = dice.integers(start - _LIFE, end, count)
    dies = born + dice.exponential(_LIFE, count).astype(np.int64)
    back = dies + dice.exponential(_AWAY, count).astype(np.int64)
    gone = back + dice.exponential(_LIFE, count).astype(np.int64)
    births, deaths = np.concatenate((born, back)), np.concatenate((dies, gone))
    offer = np.tile(np.arange(count), 2)
    return offers, _changing(dice, offer, births, deaths, host, np.full(len(offer), DAY // 2))


def _cloud(dice: np.random.Generator, start: int, end: int, scale: float) -> tuple[Offers, Spans]:
    """A price list: three changes a year, but for some spot rows that change daily."""
    count = max(int(scale * _LIVE_ON_CLOUD), 1)
    offers = _identities(dice, count, marketplace=False)
    base = _base_cents(offers) * np.exp(dice.normal(0.2, 0.15, count))
    daily = (offers.market == 1) & (dice.random(count) < _DAILY_SPOT / _SPOT)
    every = np.where(daily, DAY, YEAR // 3)
    always = np.full(count, start), np.full(count, end + DAY)
    return offers, _changing(dice, np.arange(count), *always, base, every)


def _changing(
    dice: np.random.Generator, offer: Ints, births: Ints, deaths: Ints,
    cents: NDArray[np.float64], every: Ints,
) -> Spans:  # fmt: skip
    """Lives cut into spans by changes that come *every* so often on average."""
    changes = dice.poisson((deaths - births) / every)
    life = np.repeat(np.arange(len(offer)), changes + 1)
    first = np.cumsum(changes + 1) - changes - 1
    at = births[life] + (dice.random(len(life)) * (deaths - births)[life]).astype(np.int64)
    at[first] = births
    at = at[np.lexsort((at, life))]
    end = np.append(at[1:], 0)
    end[first + changes] = deaths
    price = np.round(cents[offer[life]] * np.exp(dice.normal(0, 0.05, len(life))))
    return Spans(offer[life], at, end, np.maximum(price, 1).astype(np.int64))


def _as_polled(spans: Spans, polls: Ints, ttl: int) -> Spans:
    """What polls see of the *spans*: changes at the next poll, and gaps where none confirmed."""
    last = int(polls[-1])
    padded = np.append(polls, last + 1)
    start = padded[np.searchsorted(polls, spans.start)]
    end = np.where(spans.end > last, OPEN, padded[np.searchsorted(polls, spans.end)])
    wanted = (start < end) & (start <= last)
    offer, start, end, cents = spans.offer[wanted], start[wanted], end[wanted], spans.cents[wanted]
    for before in np.flatnonzero(np.diff(polls) > ttl):
        stops, resumes = polls[before] + ttl, polls[before + 1]
        across = np.flatnonzero((start < resumes) & (end >= resumes))
        again = across[end[across] > resumes]
        offer, cents = np.append(offer, offer[again]), np.append(cents, cents[again])
        start = np.append(start, np.full(len(again), resumes))
        end = np.append(end, end[again])
        end[across] = stops
    return Spans(offer, start, end, cents)
