"""The outbox: notices on their way to channels, one row an event and channel.

A row is claimed with a lease, sent outside any transaction and then marked. Whoever dies in
between leaves a lease that runs out; the row is then sent again in the same message, under the
same id: at least once, and lost never.
"""

# Statements are put together from constants only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Engine

from tracker.store.engine import transaction

Cursor = psycopg.Cursor[Any]
Guard = Callable[[Cursor], None]

MAX_WAIT = timedelta(hours=6)  # no retry is put off for longer
MAX_LEASE = timedelta(hours=1)
MAX_GROUP = 20  # rows in one message

# The kind "test" is outside the order of its rule: it neither waits for others nor holds them up.
TEST = "test"

# Whose turn it is. A time further ahead than this program ever sets one comes from a clock that
# was turned back since, and counts as reached.
_AVAILABLE = """
    o.channel = %(channel)s
    AND (o.status = 'pending' AND (o.due_at <= %(now)s OR o.due_at > %(now)s + %(max_wait)s)
         OR o.status = 'sending'
            AND (o.lease_until <= %(now)s OR o.lease_until > %(now)s + %(max_lease)s))
    AND (o.kind = 'test' OR NOT EXISTS (
        SELECT FROM alert_outbox p
        WHERE p.channel = o.channel AND p.rule = o.rule AND p.id < o.id AND p.kind <> 'test'
          AND p.status IN ('pending', 'sending')))
"""

_CANDIDATES = (
    """SELECT o.id, o.batch, o.kind, o.created_at,
        (SELECT count(*) FROM alert_outbox b WHERE b.channel = o.channel AND b.batch = o.batch
            AND b.status IN ('pending', 'sending'))
    FROM alert_outbox o WHERE"""
    + _AVAILABLE
    + "ORDER BY o.id LIMIT 200"
)

_CLAIM = (
    "WITH picked AS (SELECT o.id FROM alert_outbox o WHERE o.id = ANY(%(ids)s) AND"
    + _AVAILABLE
    + """ORDER BY o.id FOR UPDATE OF o SKIP LOCKED)
    UPDATE alert_outbox SET status = 'sending', attempts = attempts + 1, lease_by = %(token)s,
        lease_until = %(now)s + %(lease)s, batch = %(batch)s
    FROM picked, alert_event e WHERE alert_outbox.id = picked.id AND e.id = alert_outbox.event
    RETURNING alert_outbox.id, e.event_id, alert_outbox.rule, alert_outbox.seq, alert_outbox.kind,
        alert_outbox.message - 'delivery', alert_outbox.attempts, alert_outbox.created_at,
        coalesce(alert_outbox.message #> '{delivery,told}', '[]'),
        coalesce((alert_outbox.message #>> '{delivery,unknown}')::int, 0)"""
)

# An end that waits, with what is not delivered yet of the firing that it ends.
_OVERTAKEN = """
SELECT e.id, o.id, o.kind, o.status, o.message, ev.event_id
FROM alert_outbox e
JOIN alert_outbox o ON o.channel = e.channel AND o.rule = e.rule AND o.id < e.id
    AND coalesce(o.firing_seq, o.seq) = e.firing_seq
JOIN alert_event ev ON ev.id = o.event
WHERE e.channel = %(channel)s AND e.status = 'pending' AND e.kind IN ('resolved', 'closed')
  AND o.kind IN ('fired', 'still_firing', 'reminder')
  AND (o.status = 'pending' OR o.status IN ('dead', 'dismissed') AND o.kind <> 'reminder'
       AND NOT jsonb_exists(e.message, 'merged') AND o.message #> '{delivery,told}' IS NULL)
ORDER BY e.id, o.id FOR UPDATE OF e, o SKIP LOCKED
"""

_MERGE_INTO = """
UPDATE alert_outbox SET message = message || jsonb_build_object('merged', jsonb_build_object(
    'event_ids', coalesce(message #> '{merged,event_ids}', '[]') || %(event_ids)s,
    'fired', coalesce(nullif(message #> '{merged,fired}', 'null'), %(fired)s)))
WHERE id = %(id)s
"""

_PRUNE = """
DELETE FROM alert_outbox o WHERE o.ended_at < %(before)s
  AND (o.kind NOT IN ('fired', 'still_firing', 'reminder') OR EXISTS (
    SELECT FROM alert_event e WHERE e.rule = o.rule AND e.kind IN ('resolved', 'closed')
      AND e.firing_seq = coalesce(o.firing_seq, o.seq)))
"""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One notice for one channel. ``message`` is its context as the engine wrote it; ``attempts``
    counts the one that is being made. ``told``: recipients that have it already; ``unknown``: how
    many attempts before this one had no answer, so that it may have arrived."""

    id: int
    event_id: str
    rule: str
    seq: int
    kind: str
    message: dict[str, Any]
    attempts: int
    created_at: datetime
    told: list[str]
    unknown: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows that go out in one message. ``batch`` is the message's id: that of the event, when it
    is one, and the same again however often it is tried."""

    token: str
    channel: str
    batch: str
    rows: tuple[OutboxRow, ...]

    @property
    def told(self) -> frozenset[str]:
        """Recipients that have all of it already."""
        return frozenset.intersection(*(frozenset(row.told) for row in self.rows))

    @property
    def unknown(self) -> int:
        """How many attempts before this one had no answer."""
        return max(row.unknown for row in self.rows)


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known of a message that did not get through to everybody: the recipients that have
    it, and how many of its attempts had no answer."""

    told: frozenset[str] = frozenset()
    unknown: int = 0

    def as_json(self) -> dict[str, Any]:
        """As it is kept with the row, in ``message``; without what is empty."""
        said: dict[str, Any] = {"told": sorted(self.told), "unknown": self.unknown}
        return {"delivery": {key: value for key, value in said.items() if value}}


NO_PROGRESS = Progress()


class Outbox:
    """Claims and marks. Safe to use from several threads and processes.

    *guard* is called in each claim, so that only the leader claims. What has been sent may be
    marked by who has sent it, leader or not: the lease's token fences that. Times (``now``) are
    the caller's, aware UTC. A holder's name has no blanks. Methods raise StoreError.
    """

    def __init__(self, engine: Engine, guard: Guard | None = None) -> None:
        self._engine = engine
        self._guard = guard

    def waiting(self) -> list[str]:
        """The channels that have unfinished rows, due or not."""
        with transaction(self._engine) as cursor:
            cursor.execute(
                "SELECT DISTINCT channel FROM alert_outbox"
                " WHERE status IN ('pending', 'sending') ORDER BY 1"
            )
            return [channel for (channel,) in cursor]

    def claim(
        self,
        channel: str,
        *,
        holder: str,
        now: datetime,
        lease: timedelta,
        group_wait: timedelta = timedelta(0),
        most: int = MAX_GROUP,
        event_id: str | None = None,
    ) -> Claim | None:
        """Take what goes to *channel* next, for the length of *lease*; None: nothing is due.

        1. Ends swallow what is undelivered of their firing. 2. A test goes alone and at once, a
        message that was tried before goes as it was, and new rows (the first of each rule, *most*
        at once) go together once the oldest has waited for *group_wait*. With *event_id* only that
        event is taken. 3. The rows are leased; another claimer passes over them.
        """
        values: dict[str, Any] = {
            "channel": channel,
            "now": now,
            "max_wait": MAX_WAIT,
            "max_lease": MAX_LEASE,
            "lease": min(lease, MAX_LEASE),
            "token": f"{holder} {uuid4().hex}",
        }
        with transaction(self._engine, self._guard) as cursor:
            _merge(cursor, channel, now)
            candidates = [_Candidate(*row) for row in cursor.execute(_CANDIDATES, values)]
            if event_id is not None:
                candidates = _only(cursor, candidates, event_id)
            ids, batch = _next_message(candidates, now, group_wait, most)
            if not ids:
                return None
            values |= {"ids": ids, "batch": batch or _batch_of(cursor, ids)}
            rows = [OutboxRow(*row) for row in cursor.execute(_CLAIM, values)]
            if len(rows) != len(ids):  # somebody else is at it
                cursor.connection.rollback()
                return None
        rows.sort(key=lambda row: row.id)
        return Claim(values["token"], channel, values["batch"], tuple(rows))

    def sent(self, claim: Claim, now: datetime) -> int:
        """Mark as delivered; the number of rows that were still this claim's."""
        return self._end(claim, "sent", now, None)

    def dead(
        self, claim: Claim, now: datetime, error: str, progress: Progress = NO_PROGRESS
    ) -> int:
        """Give up, for a reason that is shown until somebody retries."""
        return self._end(claim, "dead", now, error, progress)

    def retry(
        self, claim: Claim, now: datetime, due_at: datetime, error: str,
        progress: Progress = NO_PROGRESS,
    ) -> int:  # fmt: skip
        """Put back, to be tried again at *due_at* (at most MAX_WAIT from *now*)."""
        return self._mark(
            claim,
            "status = 'pending', due_at = %(due_at)s, last_error = %(error)s,"
            " message = message || %(progress)s",
            {"due_at": min(due_at, now + MAX_WAIT), "error": error,
             "progress": Jsonb(progress.as_json())},
        )  # fmt: skip

    def renew(self, claim: Claim, now: datetime, lease: timedelta) -> int:
        """Hold *claim* for *lease* from *now*; the number of rows that were still its own."""
        with transaction(self._engine) as cursor:
            cursor.execute(
                "UPDATE alert_outbox SET lease_until = %(until)s"
                " WHERE id = ANY(%(ids)s) AND status = 'sending' AND lease_by = %(token)s",
                {"ids": [row.id for row in claim.rows], "token": claim.token,
                 "until": now + min(lease, MAX_LEASE)},
            )  # fmt: skip
            return cursor.rowcount

    def release_all(self, holder: str, now: datetime) -> int:
        """Put back at once what *holder* has claimed and not marked: it ends, and the next one
        need not wait for the leases. Of these attempts nothing is known."""
        with transaction(self._engine) as cursor:
            cursor.execute(
                "UPDATE alert_outbox SET status = 'pending', due_at = %(now)s, lease_by = NULL,"
                " lease_until = NULL"
                " WHERE status = 'sending' AND split_part(lease_by, ' ', 1) = %(holder)s",
                {"holder": holder, "now": now},
            )
            return cursor.rowcount

    def _end(
        self, claim: Claim, status: str, now: datetime, error: str | None,
        progress: Progress = NO_PROGRESS,
    ) -> int:  # fmt: skip
        return self._mark(
            claim,
            "status = %(status)s, ended_at = %(now)s, last_error = %(error)s,"
            " message = message || %(progress)s",
            {"status": status, "now": now, "error": error, "progress": Jsonb(progress.as_json())},
        )

    def _mark(self, claim: Claim, assignments: str, values: dict[str, Any]) -> int:
        with transaction(self._engine) as cursor:
            cursor.execute(
                f"UPDATE alert_outbox SET lease_by = NULL, lease_until = NULL, {assignments}"
                " WHERE id = ANY(%(ids)s) AND status = 'sending' AND lease_by = %(token)s",
                {"ids": [row.id for row in claim.rows], "token": claim.token, **values},
            )
            return cursor.rowcount

    def unknown(self, known: Collection[str], now: datetime, give_up: timedelta) -> list[str]:
        """Note on rows of channels that are not *known* that they are not; the names of those.

        They wait, since a channel may come back with the next configuration, but not for longer
        than *give_up*.
        """
        with transaction(self._engine, self._guard) as cursor:
            cursor.execute(
                """
                UPDATE alert_outbox SET
                    last_error = 'no channel of this name is configured', lease_by = NULL,
                    lease_until = NULL,
                    status = CASE WHEN created_at <= %(dead)s THEN 'dead' ELSE 'pending' END,
                    ended_at = CASE WHEN created_at <= %(dead)s THEN %(now)s END
                WHERE channel <> ALL(%(known)s)
                  AND (status = 'pending' OR status = 'sending' AND lease_until <= %(now)s)
                  AND (created_at <= %(dead)s
                       OR last_error IS DISTINCT FROM 'no channel of this name is configured')
                RETURNING channel
                """,
                {"known": list(known), "now": now, "dead": now - give_up},
            )
            return sorted({channel for (channel,) in cursor})

    def prune(self, before: datetime) -> int:
        """Delete rows that ended before that; the events stay.

        So do the rows of a firing that has no end yet: they say whom to tell of it.
        """
        with transaction(self._engine, self._guard) as cursor:
            cursor.execute(_PRUNE, {"before": before})
            return cursor.rowcount


def _merge(cursor: Cursor, channel: str, now: datetime) -> None:
    """Let ends that wait swallow what is undelivered of their firings."""
    cursor.execute(_OVERTAKEN, {"channel": channel})
    ends: dict[int, list[tuple[Any, ...]]] = {}
    for end, *overtaken in cursor.fetchall():
        ends.setdefault(end, []).append(tuple(overtaken))
    for end, overtaken in ends.items():
        begun = next((message for _, kind, _, message, _ in overtaken if kind != "reminder"), None)
        cursor.execute(
            _MERGE_INTO,
            {
                "id": end,
                "event_ids": Jsonb([event_id for *_, event_id in overtaken]),
                "fired": Jsonb(begun),
            },
        )
        cursor.execute(
            "UPDATE alert_outbox SET status = 'merged', ended_at = %s WHERE id = ANY(%s)",
            (now, [row for row, _, status, *_ in overtaken if status == "pending"]),
        )


class _Candidate(NamedTuple):
    id: int
    batch: str | None
    kind: str
    created_at: datetime
    batch_rows: int  # unfinished ones


def _only(cursor: Cursor, candidates: list[_Candidate], event_id: str) -> list[_Candidate]:
    cursor.execute(
        "SELECT o.id FROM alert_outbox o JOIN alert_event e ON e.id = o.event"
        " WHERE e.event_id = %s",
        (event_id,),
    )
    wanted = {row for (row,) in cursor}
    return [candidate for candidate in candidates if candidate.id in wanted]


def _next_message(
    candidates: Sequence[_Candidate], now: datetime, group_wait: timedelta, most: int
) -> tuple[list[int], str | None]:
    """The rows of the next message and, when it was tried before, its id."""
    fresh = [c for c in candidates if c.batch is None]
    test = next((c for c in fresh if c.kind == TEST), None)
    if test is not None:
        return [test.id], None
    for first in (c for c in candidates if c.batch is not None):
        rows = [c.id for c in candidates if c.batch == first.batch]
        if len(rows) == first.batch_rows:  # else one of them has to wait for its turn
            return rows, first.batch
    # A row from the future: the clock was turned back, and there is nothing to wait for.
    waited = any(not now - group_wait < c.created_at <= now for c in fresh)
    return ([c.id for c in fresh[:most]] if waited else []), None


def _batch_of(cursor: Cursor, ids: Sequence[int]) -> str:
    """The id of a message of these rows: the event's own when there is one."""
    cursor.execute(
        "SELECT e.event_id FROM alert_outbox o JOIN alert_event e ON e.id = o.event"
        " WHERE o.id = ANY(%s) ORDER BY o.id",
        (list(ids),),
    )
    events = [event for (event,) in cursor]
    if len(events) == 1:
        return str(events[0])
    return "group-" + sha256("\n".join(events).encode()).hexdigest()[:24]
