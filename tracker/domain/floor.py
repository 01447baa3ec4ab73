"""The cheapest price of offers that are alike: a step function, and what a poll does to it.

Offers share a floor when their bills differ by nothing but the price (``FloorIdentity``), and when
they may count at the same times. The floor
is their lowest native price at every moment at which any is known; a step ends where that price
changes or is not known any more. Two offers at one price make one step.

What is open is known until a ttl after the last poll that saw it. After partial polls the offers
of a floor may cease to be known at different times: then the floor goes on with a dearer one. Such
steps are laid out ahead, so that the floor is right at moments between polls, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import NamedTuple

from tracker.domain.mig import part_of
from tracker.domain.offer import Offer, canonical


class FloorIdentity(NamedTuple):
    """What two offers have in common when they share a floor. Source and seller are slugs."""

    source: str
    seller: str
    gpu_key: str
    gpu_count: Decimal
    market: str
    tier: str
    price_unit: str
    currency: str
    price_kind: str
    billing_increment_seconds: int | None
    minimum_seconds: int | None
    commitment_hours: int | None
    commitment_unknown: bool
    disk_included_gb: Decimal | None
    disk_usd_per_gb_hour: Decimal | None
    egress_usd_per_gb: Decimal | None
    fallback: bool
    expires_at: datetime | None
    upstream: str | None = None  # who runs a resold machine: it does not count beside the same one
    part: str | None = None  # of a card that is divided: it decides the hours

    @property
    def digest(self) -> bytes:
        """16 bytes that stand for it in the store."""
        at = self.expires_at
        if at is not None:  # whatever zone it is told in
            at = at.astimezone(UTC)
        text = "\x1f".join(map(canonical, self._replace(expires_at=at)))
        return blake2b(text.encode(), digest_size=16).digest()


def identity_of(offer: Offer) -> FloorIdentity:
    """Which floor an offer counts for."""
    o, t, x = offer.listed, offer.listed.terms, offer.listed.extras
    return tuple.__new__(
        FloorIdentity,
        (
            offer.source, offer.provider, offer.gpu.key, o.gpu_count, o.market, o.tier,
            o.price.unit, o.price.currency, o.price_kind, t.billing_increment_seconds,
            t.minimum_seconds, t.commitment_hours, t.commitment_unknown, t.disk_included_gb,
            t.disk_usd_per_gb_hour, t.egress_usd_per_gb, x.fallback, x.expires_at, o.upstream,
            part_of(o.source_id) if offer.gpu.is_slice else None,
        ),
    )  # fmt: skip


class OpenStep(NamedTuple):
    """A step without an end: its price is known until a ttl after ``seen_until`` (None: after the
    source's last accepted poll). ``offer_id`` had the price when the step began."""

    offer_id: int
    native: Decimal
    valid_from: datetime
    seen_until: datetime | None


class Stair(NamedTuple):
    """A lowest price from a poll on: the offer that has it, and when it was last seen (None: by
    that poll)."""

    native: Decimal
    offer_id: int
    seen_until: datetime | None


@dataclass(slots=True)
class Settled:
    """What a poll does to one floor.

    ``ended``: steps with their ends; ``vanished``: those that never began to hold; ``written``:
    steps that are new or changed, each with an offer that has its price now; ``steps``: all that
    are open now, in order.
    """

    ended: list[tuple[OpenStep, datetime]] = field(default_factory=list)
    vanished: list[OpenStep] = field(default_factory=list)
    written: list[tuple[OpenStep, int]] = field(default_factory=list)
    steps: list[OpenStep] = field(default_factory=list)


def stairs(
    members: Mapping[int, Decimal],
    seen_until: Mapping[int, datetime],
    *,
    at: datetime,
    ttl: timedelta,
) -> list[Stair]:
    """The lowest prices from the poll at *at* on, if nothing more were heard: ever dearer ones.

    *members* are the native prices of the open offers, by id; *seen_until* says of those that
    this poll did not see when they were last seen.
    """
    fresh: Stair | None = None
    aged: list[tuple[Decimal, int, datetime]] = []
    seen_now = members
    if seen_until:
        aged = [(members[id_], id_, seen) for id_, seen in seen_until.items() if id_ in members]
        seen_now = {id_: native for id_, native in members.items() if id_ not in seen_until}
    if seen_now:
        lowest = min(seen_now.values())
        fresh = Stair(lowest, min(i for i, n in seen_now.items() if n == lowest), None)
    result: list[Stair] = []
    known_until = at
    for native in sorted({native for native, _, seen in aged if seen + ttl > at}):
        if fresh is not None and native >= fresh.native:
            break
        alive = [(i, seen) for n, i, seen in aged if n == native and seen + ttl > known_until]
        if alive:
            latest = max(seen for _, seen in alive)
            result.append(Stair(native, min(i for i, _ in alive), latest))
            known_until = latest + ttl
    return [*result, fresh] if fresh is not None else result


def settle(
    steps: Sequence[OpenStep],
    ahead: Sequence[Stair],
    *,
    at: datetime,
    last_ok_at: datetime | None,
    ttl_before: timedelta,
    ttl: timedelta,
    expires_at: datetime | None,
    rewrite: bool = False,
) -> Settled:
    """Bring a floor up to the poll at *at*.

    *steps* were open so far, *ahead* are the ``stairs`` from *at* on. *last_ok_at* is the accepted
    poll before, *ttl_before* held for what was open until now, *ttl* does from now on. *expires_at*
    ends all prices of this floor. *rewrite*: the exchange rate moved, write what goes on as well.
    """
    settled = Settled()
    going_on: OpenStep | None = None
    for step in steps:
        seen = step.seen_until or last_ok_at
        end = at if seen is None else min(seen + ttl_before, at)
        if step.valid_from >= end:
            settled.vanished.append(step)
        elif end == at and ahead and step.native == ahead[0].native:
            going_on = step
        else:
            settled.ended.append((step, end if expires_at is None else min(end, expires_at)))
    begin = at
    for stair in ahead:
        new = OpenStep(stair.offer_id, stair.native, begin, stair.seen_until)
        if going_on is not None:
            new = going_on._replace(seen_until=stair.seen_until)
        if expires_at is None or new.valid_from < expires_at:
            settled.steps.append(new)
            if new != going_on or rewrite:
                settled.written.append((new, stair.offer_id))
        going_on = None
        if stair.seen_until is not None:
            begin = stair.seen_until + ttl
    kept = {step.valid_from for step in settled.steps}
    # A step that another replaces from the same moment on is written over.
    settled.vanished = [step for step in settled.vanished if step.valid_from not in kept]
    return settled
