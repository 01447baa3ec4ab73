"""What the readers of the AWS price files share: a priced row, and what a file gave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, Literal

from tracker.provider import Market, ParseError, Payload, Rejected, parse_decimal

MAX_SAMPLE = 200
MAX_AGE = timedelta(days=365)
HOURS_PER_YEAR = 8760  # of a term: 365 days, as the EC2 API has them (31,536,000 seconds)


class Source(IntEnum):
    """Where a price was read; a lower one prevails where two of a kind disagree."""

    BULK = 0  # the documented list
    SMALL = 1
    ZONE = 2  # spot by availability zone, read with credentials
    SPOT = 3
    PLAN = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """A savings plan: its kind, how many years it runs, and how much of it is due at once."""

    kind: Literal["compute", "ec2"]
    years: Literal[1, 3]
    upfront: Literal["no", "partial", "all"]

    @property
    def slug(self) -> str:
        """What tells its offers from those of other plans."""
        return f"{self.kind}-savings-plan-{self.years}y-{self.upfront}-upfront"

    @property
    def hours(self) -> int:
        """The hours that are paid for, used or not."""
        return self.years * HOURS_PER_YEAR


@dataclass(frozen=True, slots=True)
class PricedRow:
    """USD per machine-hour of one instance type in one region, as one file says it.

    ``zone``: in this availability zone only. ``zone_name`` is what the account that was asked calls
    it. ``plan``: under this savings plan only.
    """

    source: Source
    region: str
    instance_type: str
    usd_per_hour: Decimal
    url: str
    zone: str | None = None
    zone_name: str | None = None
    plan: Plan | None = None

    @property
    def market(self) -> Market:
        if self.plan is not None:
            return Market.RESERVED
        spot = self.source in (Source.ZONE, Source.SPOT)
        return Market.SPOT if spot else Market.ON_DEMAND

    @property
    def key(self) -> Hashable:
        """What may have one price only."""
        return self.market, self.region, self.zone, self.instance_type, self.plan


@dataclass(slots=True)
class Reading:
    """What one file gave.

    ``regions`` are those whose on-demand prices it holds, ``zoned`` those whose spot prices it has
    zone by zone. ``problem`` says why the file is known not to hold everything.
    """

    rows: list[PricedRow] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    regions: set[str] = field(default_factory=set)
    zoned: set[str] = field(default_factory=set)
    problem: str | None = None

    def reject(self, reason: str, *sample: object) -> None:
        """Count a row out; *sample* is what there is to look at."""
        text = " ".join(str(part) for part in sample if part not in (None, ""))
        self.rejected.append(Rejected(reason, text[:MAX_SAMPLE]))

    def price(self, raw: Any, *sample: object) -> Decimal | None:
        """*raw* as a price above zero, or None with the row rejected."""
        if isinstance(raw, str) and raw.strip().upper().startswith("N/A"):
            self.reject("price is not available", *sample, raw)
            return None
        try:
            amount = parse_decimal(raw)
        except ValueError:
            self.reject("price is not a number", *sample, raw)
            return None
        if amount <= 0:
            self.reject("price is not above zero", *sample, raw)
            return None
        return amount


def too_old(published: Any, payload: Payload) -> str | None:
    """What to say of a file that a poll got and that is older than MAX_AGE; None of any other.

    AWS publishes its lists anew every few days or weeks. A copy that is left over somewhere else
    goes on answering. *published* is the file's own date; without one there is nothing to say, nor
    of a file that is parsed by hand.
    """
    try:
        moment = datetime.fromisoformat(published)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    except (TypeError, ValueError):
        return None
    if not payload.url or payload.fetched_at - moment <= MAX_AGE:
        return None
    return f"it was published on {moment:%Y-%m-%d}: too old to be used"


def mapping(value: Any, name: str) -> dict[str, Any]:
    """*value* if it is a JSON object; raises ParseError naming the field *name* otherwise."""
    if not isinstance(value, dict):
        raise ParseError(name, "missing" if value is None else "not an object")
    return value


def listing(value: Any, name: str) -> list[Any]:
    """*value* if it is a JSON array; raises ParseError naming the field *name* otherwise."""
    if not isinstance(value, list):
        raise ParseError(name, "missing" if value is None else "not an array")
    return value


def settle(reading: Reading, *, repeats_allowed: bool) -> None:
    """Leave one row for each region (or zone), type and plan of a file.

    Files whose entries may be listed twice (*repeats_allowed*) may say the same price again. Any
    other second row means that the file is not understood: none of them is taken.
    """
    by_key: dict[Hashable, list[PricedRow]] = defaultdict(list)
    for row in reading.rows:
        by_key[row.key].append(row)
    kept = []
    for rows in by_key.values():
        prices = {row.usd_per_hour for row in rows}
        if len(rows) == 1 or (repeats_allowed and len(prices) == 1):
            kept.append(rows[0])
        else:
            shown = ", ".join(str(price) for price in sorted(prices))
            reading.reject("several rows for one type in a region", *sample(rows[0])[:-1], shown)
    reading.rows = kept


def sample(row: PricedRow) -> tuple[object, ...]:
    """What there is to look at of a row that becomes no offer."""
    plan = row.plan and row.plan.slug
    return row.instance_type, row.region, row.zone, plan or row.market, row.usd_per_hour
