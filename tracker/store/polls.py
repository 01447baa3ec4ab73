"""Recording polls: one poll, one transaction, and only what changed is written.

The recorder remembers what is open of each source, as marks, and compares in Python;
``provider.seq`` tells whether that memory still holds. The provider's row is locked meanwhile, so
any number of daemons may record at once. A process killed at any moment leaves nothing
half-written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Engine

from tracker.domain import spans
from tracker.store import (
    floor_packs,
    floor_rows,
    partitions,
    poll_clock,
    poll_findings,
    poll_log,
    poll_rows,
)
from tracker.store.engine import transaction
from tracker.store.floor_rows import Floors, Moment
from tracker.store.poll_findings import Findings
from tracker.store.poll_log import ProviderRow
from tracker.store.poll_rows import Remembered
from tracker.store.poll_types import Poll, PollContext, Recorded
from tracker.store.schema import ACCEPTED_STATUSES

__all__ = ["Poll", "PollContext", "Recorded", "Recorder"]

Cursor = psycopg.Cursor[Any]


@dataclass(slots=True)
class _Memory:
    """What is known of a source as of ``seq``."""

    seq: int
    remembered: Remembered
    findings: Findings
    floors: Floors | None = None  # not read as long as nothing changes
    sellers: dict[str, int] = field(default_factory=dict)
    described: tuple[Any, ...] | None = None


class Recorder:
    """Records polls. One for a process; safe to use from several threads.

    *guard* is called first in each transaction, and refuses it by raising a StoreError.
    """

    def __init__(self, engine: Engine, guard: Callable[[Cursor], None] | None = None) -> None:
        self._engine = engine
        self._guard = guard
        self._memory: dict[str, _Memory] = {}
        self._months: set[datetime] = set()
        self._slugs: set[str] = set()

    def record(self, poll: Poll) -> Recorded:
        """Write *poll* in one transaction.

        1. Lock the provider's row. 2. A poll from the future fails, and one that got in before is
        undone. 3. A poll without usable prices counts as a failure, with its findings; one that is
        not newer than the last accepted is kept as late or duplicate. 4. Compare with what is open
        and write the changes. 5. Quarantine, unknown GPUs, discounts, the poll itself, answers.

        Raises StoreError; then nothing of the poll was written.
        """
        status = poll.effective_status  # compares and hashes: before the lock is taken
        memory = self._memory.pop(poll.source, None)
        self._make_providers(poll, status)
        months: set[datetime] = set()
        with transaction(self._engine, self._guard) as cursor:
            row = poll_log.lock(cursor, poll)
            if poll_clock.is_ahead(poll.polled_at, row.now):
                poll, status = poll_clock.refused(poll, row.now), "failed"
            elif row.last_ok_at is not None and poll_clock.is_ahead(row.last_ok_at, row.now):
                row, memory = poll_clock.rewind(cursor, row, poll.polled_at), None
            if status not in ACCEPTED_STATUSES:
                found = poll.quarantined or poll.released or poll.unmapped
                if found and not poll_log.is_older(poll, row):
                    memory = _current(cursor, memory, row)
                    _write_waiting(cursor, poll, row, memory)
                recorded = poll_log.refuse(cursor, poll, row, status)
            elif poll_log.is_older(poll, row):
                recorded = poll_log.set_aside(cursor, poll, row)
            else:
                memory = _current(cursor, memory, row)
                recorded = self._accept(cursor, poll, row, memory, months)
        if memory is not None:
            self._memory[poll.source] = memory
        self._months |= months
        return recorded

    def context(self, source: str) -> PollContext:
        """What the gates need to judge the next poll of *source*. Raises StoreError."""
        memory = self._memory.pop(source, None)
        with transaction(self._engine, self._guard) as cursor:
            row = poll_log.find(cursor, source)
            if row is None:
                return PollContext()
            memory = _current(cursor, memory, row)
            complete, shrunk = poll_log.earlier_counts(cursor, row)
            sizes = poll_log.sizes(cursor, row)
        self._memory[source] = memory
        findings, live = memory.findings, memory.remembered.live
        prices = findings.last_prices() | live.micro_usd
        pending = findings.pending(row.now, row.apart)
        if complete is not None:
            complete += len(findings.waiting() - live.marks.keys())
        return PollContext(
            row.last_ok_at, prices, complete, shrunk, pending, row.content_sha256,
            row.content_since, row.consecutive_failures, sizes,
        )  # fmt: skip

    def _make_providers(self, poll: Poll, status: str) -> None:
        """Make the rows of the source and its sellers in a transaction of their own.

        Made in the poll's, another's first poll of the same provider would wait for this one,
        and this one (which needs a new partition, or that other's row) perhaps for it.
        """
        slugs = {poll.source}
        if status in ACCEPTED_STATUSES:
            slugs |= poll.seen.sellers
        if slugs <= self._slugs:
            return
        with transaction(self._engine, self._guard) as cursor:
            poll_log.make_providers(cursor, slugs, {poll.source: poll.kind})
        self._slugs |= slugs

    def _accept(
        self, cursor: Cursor, poll: Poll, row: ProviderRow, memory: _Memory, months: set[datetime]
    ) -> Recorded:
        complete, at = poll.status == "complete", poll.polled_at
        known, live = memory.remembered, memory.remembered.live
        moved = spans.touched(live, poll.seen)
        poll_rows.load_natives(cursor, known, moved)
        changes = spans.diff(
            live, poll.seen, moved, polled_at=at, last_ok_at=row.last_ok_at, ttl=row.ttl,
            complete=complete, next_ttl=poll.ttl,
        )  # fmt: skip
        self._ensure_months(cursor, changes, at, months)
        if changes.opened or poll.seen.limits or live.limits:
            _ensure_sellers(cursor, memory, poll)
        after = spans.after(live, changes, poll.seen, last_ok_at=row.last_ok_at)
        _write_prices(cursor, memory, poll, row, changes, after)
        findings = _write_findings(cursor, memory, poll, row)
        _describe(cursor, memory, poll, row)
        recorded = poll_log.write_poll(
            cursor, poll_log.ACCEPT_SQL, poll, row, _accepted(poll, changes)
        )
        # Only now: whatever fails above or at the commit leaves the caller without this memory.
        memory.seq = row.seq + 1
        memory.findings = findings
        known.live = after
        for key, _ in changes.closed:
            del known.ids[key]
        return recorded

    def _ensure_months(
        self, cursor: Cursor, changes: spans.Changes, at: datetime, months: set[datetime]
    ) -> None:
        """Make the partitions of what closes now, and those of this month and the next."""
        ends = {end for _, end in changes.closed} | {end for _, end in changes.resumed}
        this = partitions.month_of(at)
        months |= {partitions.month_of(end) for end in ends} | {this, partitions.next_month(this)}
        if not months <= self._months:
            partitions.ensure(cursor, months)


def _write_prices(
    cursor: Cursor, memory: _Memory, poll: Poll, row: ProviderRow, changes: spans.Changes,
    after: spans.Live,
) -> None:  # fmt: skip
    """Write the changes to spans and to floors; the ids of offers that opened are remembered."""
    known, seen, at = memory.remembered, poll.seen, poll.polled_at
    floors, assigned = None, dict[bytes, int]()
    if floor_rows.is_built(cursor, row) and floor_rows.concerned(changes, known.live, seen):
        floors = memory.floors = memory.floors or floor_rows.load(cursor, row.id)
        assigned = floor_rows.assign(
            cursor, floors, known.ids, changes, seen, row.id, memory.sellers
        )
    known.ids |= poll_rows.write_changes(
        cursor, known, changes, seen, row.id, memory.sellers, assigned, polled_at=at,
        last_ok_at=row.last_ok_at,
    )  # fmt: skip
    if floors is not None:
        moment = Moment(at, row.last_ok_at, row.ttl, poll.ttl, row.now)
        floor_rows.maintain(
            cursor, floors, known.ids, assigned, changes, seen, known.live, after, moment
        )
    if at < partitions.month_of(row.now):
        floor_packs.throw_away(cursor, partitions.month_of(at))


def _current(cursor: Cursor, memory: _Memory | None, row: ProviderRow) -> _Memory:
    """The memory if it still holds, else what the tables say."""
    if memory is not None and memory.seq == row.seq:
        return memory
    remembered = poll_rows.load_live(cursor, row.id)
    return _Memory(row.seq, remembered, poll_findings.load_findings(cursor, row.id))


def _ensure_sellers(cursor: Cursor, memory: _Memory, poll: Poll) -> None:
    slugs = poll.seen.sellers - memory.sellers.keys()
    if not slugs:
        return
    poll_log.make_providers(cursor, slugs)
    cursor.execute("SELECT slug, id FROM provider WHERE slug = ANY (%s)", (list(slugs),))
    memory.sellers.update(cursor)


def _describe(cursor: Cursor, memory: _Memory, poll: Poll, row: ProviderRow) -> None:
    """Keep the provider's facts, when they are not those of the last poll."""
    described = (poll.kind, poll.marketplace, poll.default_tiers, dict(poll.facts))
    if described != memory.described:
        cursor.execute(
            "UPDATE provider SET kind = %s, marketplace = %s, default_tiers = %s, facts = %s"
            " WHERE id = %s",
            (poll.kind, poll.marketplace, list(poll.default_tiers), Jsonb(described[3]), row.id),
        )
        memory.described = described


def _write_waiting(cursor: Cursor, poll: Poll, row: ProviderRow, memory: _Memory) -> None:
    """The findings of a refused poll: what is held until confirmed must not wait for ever."""
    waiting = dataclasses.replace(
        poll, status="partial", accepted=(), released=(),
        quarantined=(*poll.quarantined, *poll.released),
    )  # fmt: skip
    memory.findings = _write_findings(cursor, memory, waiting, row)
    cursor.execute("UPDATE provider SET seq = seq + 1 WHERE id = %s", (row.id,))
    memory.seq = row.seq + 1


def _write_findings(cursor: Cursor, memory: _Memory, poll: Poll, row: ProviderRow) -> Findings:
    known, complete = memory.findings, poll.status == "complete"
    held = poll_findings.write_quarantine(
        cursor, known, row.id, poll.quarantined, poll.released,
        accepted=poll.seen.micro_usd, before=memory.remembered.live.micro_usd,
        polled_at=poll.polled_at, ttl=poll.ttl, complete=complete,
    )  # fmt: skip
    unmapped = poll_findings.write_unmapped(
        cursor, known.unmapped, row.id, poll.unmapped, polled_at=poll.polled_at, complete=complete
    )
    discounts = known.discounts
    if complete:
        discounts = poll_findings.write_discounts(
            cursor, discounts, row.id, poll.discounts, poll.polled_at
        )
    return Findings(held, unmapped, discounts)


def _accepted(poll: Poll, changes: spans.Changes) -> Recorded:
    return Recorded(
        poll.status, 0, offers=len(poll.seen), opened=len(changes.opened) + len(changes.resumed),
        changed=len(changes.repriced), closed=len(changes.closed) + len(changes.resumed),
        updated=len(changes.updated), unchanged=changes.unchanged,
        quarantined=len(poll.quarantined), rejected=poll_log.rejected_count(poll),
    )  # fmt: skip
