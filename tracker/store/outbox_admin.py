"""Looking at the outbox, and what people do to what was given up: retry or dismiss it.

Reads take a connection and neither write nor commit; the others commit by themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Engine

from tracker.store.engine import transaction

Connection = psycopg.Connection[Any]


class StoredNotice(NamedTuple):
    """One row of the outbox."""

    id: int
    event_id: str
    rule: str
    seq: int
    kind: str
    channel: str
    status: str
    attempts: int
    created_at: datetime
    due_at: datetime
    lease_until: datetime | None
    ended_at: datetime | None
    last_error: str | None
    message: dict[str, Any]


def listed(
    connection: Connection,
    *,
    statuses: Collection[str] = (),
    channel: str | None = None,
    rule: str | None = None,
    limit: int = 50,
) -> list[StoredNotice]:
    """The latest rows, newest first; of these statuses (none: of all), channel and rule."""
    cursor = connection.execute(
        """
        SELECT o.id, e.event_id, o.rule, o.seq, o.kind, o.channel, o.status, o.attempts,
            o.created_at, o.due_at, o.lease_until, o.ended_at, o.last_error, o.message - 'delivery'
        FROM alert_outbox o JOIN alert_event e ON e.id = o.event
        WHERE (o.status = ANY(%(statuses)s) OR cardinality(%(statuses)s) = 0)
          AND (%(channel)s::text IS NULL OR o.channel = %(channel)s)
          AND (%(rule)s::text IS NULL OR o.rule = %(rule)s)
        ORDER BY o.id DESC LIMIT %(limit)s
        """,
        {"statuses": list(statuses), "channel": channel, "rule": rule, "limit": limit},
    )
    return [StoredNotice(*row) for row in cursor]


class ChannelCounts(NamedTuple):
    """How many rows of a channel wait, since when the oldest does, and how many were given up
    (tests apart: whoever made one was told)."""

    channel: str
    pending: int
    oldest_at: datetime | None
    dead: int


def counts(connection: Connection) -> list[ChannelCounts]:
    """For each channel with rows that are not delivered, by name."""
    cursor = connection.execute(
        """
        SELECT channel, count(*) FILTER (WHERE status <> 'dead'),
            min(created_at) FILTER (WHERE status <> 'dead'),
            count(*) FILTER (WHERE status = 'dead')
        FROM alert_outbox
        WHERE status IN ('pending', 'sending') OR status = 'dead' AND kind <> 'test'
        GROUP BY 1 ORDER BY 1
        """
    )
    return [ChannelCounts(*row) for row in cursor]


_END = """
    EXISTS (SELECT FROM alert_outbox e
        WHERE e.rule = o.rule AND e.channel = o.channel AND e.id > o.id
          AND e.kind IN ('resolved', 'closed') AND e.firing_seq = coalesce(o.firing_seq, o.seq)
          AND o.kind IN ('fired', 'still_firing', 'reminder')
          AND (e.status IN ('sending', 'sent') OR jsonb_exists(e.message, 'merged')))
"""


def retry_dead(
    engine: Engine,
    now: datetime,
    *,
    ids: Collection[int] | None = None,
    channel: str | None = None,
) -> list[int]:
    """Let rows that were given up start anew; the ids of those.

    All of them, or those of *ids* or *channel*. A firing whose end has been told stays as it is:
    its notice would come after that of its end. Recipients that have a notice do not get it
    again. Raises StoreError.
    """
    values = {"ids": None if ids is None else list(ids), "channel": channel, "now": now}
    chosen = """
        o.status = 'dead' AND (%(ids)s::bigint[] IS NULL OR o.id = ANY(%(ids)s))
        AND (%(channel)s::text IS NULL OR o.channel = %(channel)s)
    """
    with transaction(engine) as cursor:
        # Their ends too: a claim of one under way is waited for, another passes over them.
        cursor.execute(
            "SELECT FROM alert_outbox x WHERE EXISTS (SELECT FROM alert_outbox o WHERE "  # noqa: S608
            + chosen
            + "AND o.rule = x.rule AND o.channel = x.channel) AND x.status <> 'sent'"
            " ORDER BY x.id FOR UPDATE",
            values,
        )
        cursor.execute(
            # What some have goes out as it was: in a message with others they would get it again.
            "UPDATE alert_outbox o SET status = 'pending', attempts = 0,"  # noqa: S608
            " batch = CASE WHEN message #> '{delivery,told}' IS NOT NULL THEN batch END,"
            " message = message #- '{delivery,unknown}',"
            " due_at = %(now)s, created_at = %(now)s, ended_at = NULL WHERE "
            + chosen
            + "AND NOT "
            + _END
            + "RETURNING o.id",
            values,
        )
        return sorted(row for (row,) in cursor)


def dismiss_dead(
    engine: Engine, *, ids: Collection[int] | None = None, channel: str | None = None
) -> list[int]:
    """Let rows that were given up count no more, and be tried no more; the ids of those.

    All of them, or those of *ids* or *channel*. They stay listed. Raises StoreError.
    """
    with transaction(engine) as cursor:
        cursor.execute(
            "UPDATE alert_outbox SET status = 'dismissed' WHERE status = 'dead'"
            " AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s))"
            " AND (%(channel)s::text IS NULL OR channel = %(channel)s) RETURNING id",
            {"ids": None if ids is None else list(ids), "channel": channel},
        )
        return sorted(row for (row,) in cursor)
