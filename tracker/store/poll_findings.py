"""What a poll found beside prices: quarantined offers, unknown GPU names, discounts.

Three small tables of current state. What they hold of a source is remembered between polls, so
that a poll without findings writes nothing and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Discount
from tracker.domain.quality import RELEASABLE, Gate, Pending, same_price
from tracker.store.arrays import Batch
from tracker.store.poll_types import MAX_MICRO_USD
from tracker.store.schema import discount, quarantine, unmapped_gpu
from tracker.store.status import to_discount

Cursor = psycopg.Cursor[Any]
GateKey = tuple[bytes, str]  # offer key, gate

_QUARANTINE = Batch([c for c in quarantine.c if c.name != "source_id"])
_QUARANTINE_SQL = (
    _QUARANTINE.insert("quarantine", source_id="%s::int4")
    + " ON CONFLICT (source_id, offer_key, gate) DO UPDATE SET "
    + ", ".join(
        f"{name} = excluded.{name}"
        for name in ("price_micro_usd", "accepted_micro_usd", "reason", "releasable",
                     "confirmations", "last_seen_at", "released_at", "source_url")
    )
)  # fmt: skip
_UNMAPPED = Batch([c for c in unmapped_gpu.c if c.name != "source_id"])
_UNMAPPED_SQL = (
    _UNMAPPED.insert("unmapped_gpu", source_id="%s::int4")
    + " ON CONFLICT (source_id, name) DO UPDATE SET vram_text = excluded.vram_text,"
    " sample = excluded.sample, rows_last_poll = excluded.rows_last_poll,"
    " last_seen_at = excluded.last_seen_at"
)
_DISCOUNT = Batch([c for c in discount.c if c.name not in ("id", "source_id", "ended_at")])
_END_DISCOUNT_SQL = (
    "UPDATE discount SET ended_at = %s"  # noqa: S608 - names of the schema only
    " WHERE source_id = %s AND ended_at IS NULL AND "
    + " AND ".join(
        f"{name} IS NOT DISTINCT FROM %s"
        for name in ("provider", "percent", "valid_as_of", "expires_at", "gpu", "market", "note")
    )
)
_DISCOUNT_SQL = _DISCOUNT.insert("discount", source_id="%s::int4")


@dataclass(frozen=True, slots=True)
class HeldPrice:
    """A quarantined price as the gates know it, and the accepted one that was open before.

    ``counted_at``: the poll that was the last to count as a confirmation.
    """

    pending: Pending
    accepted_micro_usd: int | None
    counted_at: datetime


@dataclass(slots=True)
class Findings:
    """What the three tables hold of one source."""

    held: dict[GateKey, HeldPrice] = field(default_factory=dict)
    unmapped: set[str] = field(default_factory=set)
    discounts: frozenset[Discount] = frozenset()

    def pending(self, now: datetime, apart: timedelta) -> dict[GateKey, Pending]:
        """What the gates must know; a poll counts if the last that did is *apart* from *now*."""
        return {
            gate_key: replace(h.pending, due=h.counted_at + apart <= now)
            for gate_key, h in self.held.items()
        }

    def last_prices(self) -> dict[bytes, int]:
        """The last accepted prices (micro-USD) of offers that may no longer be open."""
        prices: dict[bytes, int] = {}
        for (key, _), h in sorted(self.held.items(), key=lambda item: not item[1].pending.released):
            price = h.pending.price_micro_usd if h.pending.released else h.accepted_micro_usd
            if price is not None:
                prices[key] = price
        return prices

    def waiting(self) -> set[bytes]:
        """The offers that are held until later polls confirm them."""
        return {
            key for (key, gate), h in self.held.items()
            if gate in RELEASABLE and not h.pending.released
        }  # fmt: skip


def load_findings(cursor: Cursor, source_id: int) -> Findings:
    """Read what is known of a source."""
    cursor.execute(
        "SELECT offer_key, gate, accepted_micro_usd, last_seen_at, price_micro_usd, confirmations,"
        " released_at IS NOT NULL FROM quarantine WHERE source_id = %s",
        (source_id,),
    )
    held = {(key, gate): HeldPrice(Pending(*rest), was, at) for key, gate, was, at, *rest in cursor}
    cursor.execute("SELECT name FROM unmapped_gpu WHERE source_id = %s", (source_id,))
    unmapped = {name for (name,) in cursor}
    cursor.execute(
        "SELECT provider, percent, valid_as_of, expires_at, gpu, market, note"
        " FROM discount WHERE source_id = %s AND ended_at IS NULL",
        (source_id,),
    )
    return Findings(held, unmapped, frozenset(map(to_discount, cursor)))


def write_quarantine(
    cursor: Cursor,
    known: Findings,
    source_id: int,
    held: Iterable[Quarantined],
    released: Iterable[Quarantined],
    *,
    accepted: Mapping[bytes, int],
    before: Mapping[bytes, int],
    polled_at: datetime,
    ttl: timedelta,
    complete: bool,
) -> dict[GateKey, HeldPrice]:
    """Bring the quarantine up to date and return what it holds then.

    *accepted* are the prices (micro-USD) that were taken, *before* those that were open.
    ``last_seen_at`` moves with the polls that count as confirmations: of those in quick
    succession with one.
    """
    entries: dict[GateKey, tuple[Quarantined, bool]] = {}
    for items, free in ((held, False), (released, True)):
        for item in items:
            gate_key = (item.offer.key, str(item.gate))
            other = entries.get(gate_key)
            # Two prices for one offer: the row shows the lower, which is why it is held.
            if other is None or item.offer.price < other[0].offer.price:
                entries[gate_key] = (item, free)
    after = dict(known.held)
    seen = {key for key, _ in entries}
    gone = [
        gate_key
        for gate_key, row in known.held.items()
        if gate_key not in entries
        and (
            _is_settled(gate_key, row, accepted, before, seen)
            if gate_key[0] in seen or gate_key[0] in accepted
            else complete and gate_key[0] not in before and row.counted_at + ttl <= polled_at
        )
    ]
    if gone:
        cursor.execute(
            "DELETE FROM quarantine WHERE source_id = %s AND (offer_key, gate) IN"
            " (SELECT * FROM unnest(%s::bytea[], %s::text[]))",
            (source_id, [key for key, _ in gone], [gate for _, gate in gone]),
        )
        for gate_key in gone:
            del after[gate_key]
    if entries:
        last = known.last_prices()
        for gate_key, (item, free) in entries.items():
            old = known.held.get(gate_key)
            after[gate_key] = HeldPrice(
                Pending(_storable(item), item.confirmations, free),
                before.get(gate_key[0], last.get(gate_key[0])),
                polled_at if item.counted or old is None else old.counted_at,
            )
        rows = [_row(key, entry[0], after[key], polled_at) for key, entry in entries.items()]
        cursor.execute(_QUARANTINE_SQL, [source_id, *_QUARANTINE.parameters(rows)])
    return after


def _is_settled(
    gate_key: GateKey,
    row: HeldPrice,
    accepted: Mapping[bytes, int],
    before: Mapping[bytes, int],
    seen: set[bytes],
) -> bool:
    """Whether a row of an offer that the poll saw has done its work.

    One that is held is over when its offer passes the gate. One that was released holds for the
    price that it was released for; a bargain may drift, a jump has become the price by now.
    """
    key, gate = gate_key
    if not row.pending.released or key in seen or key not in accepted:
        return True
    anchor = row.pending.price_micro_usd
    if gate != Gate.JUMP:
        anchor = before.get(key, anchor)
    return not same_price(accepted[key], anchor)


def _storable(item: Quarantined) -> int:
    return min(to_micro_usd(item.offer.price.usd), MAX_MICRO_USD)


def _row(gate_key: GateKey, item: Quarantined, state: HeldPrice, at: datetime) -> tuple[Any, ...]:
    offer, x = item.offer, item.offer.listed
    price, released_at = state.pending.price_micro_usd, at if state.pending.released else None
    return (
        *gate_key, offer.provider, x.source_id, offer.gpu.key, x.gpu_name, x.gpu_count, x.market,
        x.tier, x.region, x.source_url, price, state.accepted_micro_usd,
        item.reason, item.releasable, item.confirmations, at, state.counted_at, released_at,
    )  # fmt: skip


def write_unmapped(
    cursor: Cursor,
    known: set[str],
    source_id: int,
    unmapped: Sequence[UnmappedGpu],
    *,
    polled_at: datetime,
    complete: bool,
) -> set[str]:
    """Bring the unknown GPU names up to date and return those that are listed then."""
    found = {gpu.name: gpu for gpu in unmapped}
    gone = known - found.keys() if complete else set()
    if gone:
        cursor.execute(
            "DELETE FROM unmapped_gpu WHERE source_id = %s AND name = ANY (%s)",
            (source_id, list(gone)),
        )
    if found:
        rows = [
            (gpu.name, gpu.vram, gpu.sample, gpu.rows, polled_at, polled_at)
            for gpu in found.values()
        ]
        cursor.execute(_UNMAPPED_SQL, [source_id, *_UNMAPPED.parameters(rows)])
    return (known - gone) | found.keys()


def write_discounts(
    cursor: Cursor, known: frozenset[Discount], source_id: int, discounts: Iterable[Discount],
    polled_at: datetime,
) -> frozenset[Discount]:  # fmt: skip
    """End the discounts of a source that *discounts* have no more, and begin those that are new."""
    wanted = frozenset(discounts)
    for d in known - wanted:
        cursor.execute(_END_DISCOUNT_SQL, (polled_at, source_id, *_discount_row(d)))
    if wanted - known:
        rows = [
            (*_discount_row(d), polled_at)
            for d in sorted(wanted - known, key=lambda d: (d.provider, d.gpu or "", d.market or ""))
        ]
        cursor.execute(_DISCOUNT_SQL, [source_id, *_DISCOUNT.parameters(rows)])
    return wanted


def _discount_row(d: Discount) -> tuple[Any, ...]:
    return d.provider, d.percent, d.valid_as_of, d.expires_at, d.gpu, d.market, d.note
