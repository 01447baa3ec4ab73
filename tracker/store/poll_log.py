"""The log of polls: every attempt is a row, and its provider's row says how things stand."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tracker.domain.surge import Sizes
from tracker.store.archive import archive_payloads
from tracker.store.poll_rows import Inconsistent
from tracker.store.poll_types import Poll, Recorded
from tracker.store.status import FEWEST_POLLS, PAST_POLLS

Cursor = psycopg.Cursor[Any]

_MAX_REASONS = 50


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """The provider's row, locked."""

    id: int
    seq: int
    last_ok_at: datetime | None
    ttl_seconds: int | None
    content_sha256: bytes | None
    content_since: datetime | None
    consecutive_failures: int
    every_seconds: int | None
    now: datetime  # by the database's clock
    floor_built: bool  # whether its floors are maintained

    @property
    def ttl(self) -> timedelta:
        return timedelta(seconds=self.ttl_seconds or 0)

    @property
    def apart(self) -> timedelta:
        """The least time between two polls that confirm each other."""
        return timedelta(seconds=(self.every_seconds or 0) / 2)


_ROW_SQL = (
    "SELECT id, seq, last_ok_at, ttl_seconds, content_sha256, content_since,"
    " consecutive_failures, every_seconds, clock_timestamp(), floor_built"
    " FROM provider WHERE slug = %s"
)
_POLL_COLUMNS = (
    "provider_id", "started_at", "polled_at", "duration_ms", "status", "offers", "opened",
    "changed", "closed", "updated", "unchanged", "quarantined", "rejected", "requests", "bytes",
    "rejects", "incomplete_reason", "error", "content_sha256",
)  # fmt: skip
_POLL_SQL = (
    f"INSERT INTO poll ({', '.join(_POLL_COLUMNS)})"
    f" VALUES ({', '.join(f'%({name})s' for name in _POLL_COLUMNS)}) RETURNING id"
)
ACCEPT_SQL = f"""
WITH made AS ({_POLL_SQL})
UPDATE provider SET seq = seq + 1, last_ok_at = %(polled_at)s, last_attempt_at = %(polled_at)s,
    last_status = %(status)s, last_error = %(error)s, consecutive_failures = 0,
    every_seconds = %(every_seconds)s, ttl_seconds = %(ttl_seconds)s,
    content_sha256 = %(content_sha256)s, content_since = %(content_since)s
FROM made WHERE provider.id = %(provider_id)s RETURNING made.id
"""
_REFUSE_SQL = f"""
WITH made AS ({_POLL_SQL})
UPDATE provider SET
    last_attempt_at = greatest(least(last_attempt_at, clock_timestamp()), %(polled_at)s),
    last_status = %(status)s, last_error = %(error)s,
    every_seconds = coalesce(every_seconds, %(every_seconds)s),
    consecutive_failures = consecutive_failures + 1
FROM made WHERE provider.id = %(provider_id)s RETURNING made.id
"""


def find(cursor: Cursor, source: str, locking: str = "") -> ProviderRow | None:
    """The row of *source*, or None when it was never polled. *locking* is a locking clause."""
    cursor.execute(_ROW_SQL + locking, (source,))
    found = cursor.fetchone()
    return ProviderRow(*found) if found else None


def lock(cursor: Cursor, poll: Poll) -> ProviderRow:
    """The provider's row, made where it is missing, locked against every other recorder.

    NO KEY: rows that refer to it can still be written by others (prices of a price book).
    """
    row = find(cursor, poll.source, " FOR NO KEY UPDATE")
    if row is None:
        make_providers(cursor, {poll.source}, {poll.source: poll.kind})
        row = find(cursor, poll.source, " FOR NO KEY UPDATE")
    if row is None:
        raise Inconsistent(f"provider {poll.source} vanished while it was polled")
    return row


def make_providers(
    cursor: Cursor, slugs: Collection[str], kinds: Mapping[str, str] | None = None
) -> None:
    """Make the rows of those *slugs* that have none; of kind 'seller' unless *kinds* says more."""
    cursor.execute("SELECT slug FROM provider WHERE slug = ANY (%s)", (list(slugs),))
    missing = set(slugs) - {slug for (slug,) in cursor}
    for slug in sorted(missing):  # one order for all recorders: no two wait for each other
        cursor.execute(
            "INSERT INTO provider (slug, kind) VALUES (%s, %s) ON CONFLICT (slug) DO NOTHING",
            (slug, (kinds or {}).get(slug, "seller")),
        )


def earlier_counts(cursor: Cursor, row: ProviderRow) -> tuple[int | None, tuple[int, ...]]:
    """Offers of the last complete poll, and of the shrunk ones since the last accepted one.

    Of polls in quick succession one counts.
    """
    cursor.execute(
        "SELECT offers FROM poll WHERE provider_id = %s AND status = 'complete'"
        " ORDER BY polled_at DESC LIMIT 1",
        (row.id,),
    )
    complete = cursor.fetchone()
    cursor.execute(
        "SELECT status, offers, polled_at FROM poll WHERE provider_id = %s"
        " AND status IN ('complete', 'partial', 'shrunk') ORDER BY polled_at DESC LIMIT 100",
        (row.id,),
    )
    shrunk: list[int] = []
    counted_at = row.now
    for status, offers, polled_at in cursor:
        if status != "shrunk":
            break
        if polled_at <= counted_at - row.apart:
            shrunk.append(offers)
            counted_at = polled_at
    return complete[0] if complete else None, tuple(shrunk)


def sizes(cursor: Cursor, row: ProviderRow) -> Sizes:
    """How many offers its polls bring: usually, and the latest not in quick succession with now."""
    cursor.execute(
        "SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY offers) FROM (SELECT offers"
        " FROM poll WHERE provider_id = %s AND status = 'complete'"
        " ORDER BY polled_at DESC LIMIT %s) past",
        (row.id, PAST_POLLS),
    )
    [(polls, usual)] = cursor.fetchall()
    cursor.execute(
        "SELECT offers + quarantined FROM poll WHERE provider_id = %s AND polled_at <= %s"
        " AND status IN ('complete', 'partial', 'empty', 'shrunk') ORDER BY polled_at DESC LIMIT 1",
        (row.id, row.now - row.apart),
    )
    latest = cursor.fetchone()
    return Sizes(usual if polls >= FEWEST_POLLS else None, latest[0] if latest else None)


def refuse(cursor: Cursor, poll: Poll, row: ProviderRow, status: str) -> Recorded:
    """A poll without usable prices: the attempt and its failure are kept."""
    recorded = Recorded(
        status, 0, offers=len(poll.seen), quarantined=len(poll.quarantined),
        rejected=rejected_count(poll), reason=poll.error,
    )  # fmt: skip
    statement = _POLL_SQL if is_older(poll, row) else _REFUSE_SQL
    return write_poll(cursor, statement, poll, row, recorded)


def is_older(poll: Poll, row: ProviderRow) -> bool:
    """Whether newer prices than those of *poll* have been accepted."""
    return row.last_ok_at is not None and poll.polled_at <= row.last_ok_at


def set_aside(cursor: Cursor, poll: Poll, row: ProviderRow) -> Recorded:
    """A poll that came too late: another recorder's newer prices stand."""
    cursor.execute(
        "SELECT EXISTS (SELECT FROM poll WHERE provider_id = %s AND polled_at = %s"
        " AND status IN ('complete', 'partial'))",
        (row.id, poll.polled_at),
    )
    [(repeated,)] = cursor.fetchall()
    recorded = Recorded(
        "duplicate" if repeated else "late", 0, offers=len(poll.seen),
        quarantined=len(poll.quarantined), rejected=rejected_count(poll),
    )  # fmt: skip
    return write_poll(cursor, _POLL_SQL, poll, row, recorded)


def rejected_count(poll: Poll) -> int:
    """The rows that became no offer, those with a price that the store cannot hold included."""
    return len(poll.rejected) + len(poll.offers) - len(poll.seen)


def _rejects(poll: Poll) -> Jsonb | None:
    counts = Counter(r.reason for r in poll.rejected)
    samples = {r.reason: r.sample for r in reversed(poll.rejected)}
    rejects = {
        _clean(reason): {"count": count, "sample": _clean(samples[reason])}
        for reason, count in counts.most_common(_MAX_REASONS)
    }
    if len(poll.offers) > len(poll.seen):
        rejects["price out of range"] = {
            "count": len(poll.offers) - len(poll.seen),
            "sample": next(k for k in poll.offers if k not in poll.seen.marks).hex(),
        }
    return Jsonb(rejects) if rejects else None


def _clean(text: str | None) -> str | None:
    return text and text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def write_poll(
    cursor: Cursor, statement: str, poll: Poll, row: ProviderRow, recorded: Recorded
) -> Recorded:
    """Write the poll (and what the statement does to its provider), then its answers."""
    same = poll.content_sha256 is not None and poll.content_sha256 == row.content_sha256
    values = {name: getattr(recorded, name) for name in _POLL_COLUMNS if hasattr(recorded, name)}
    values |= {
        "provider_id": row.id, "started_at": poll.started_at, "polled_at": poll.polled_at,
        "duration_ms": poll.duration_ms, "requests": poll.requests, "bytes": poll.bytes,
        "rejects": _rejects(poll), "incomplete_reason": _clean(poll.incomplete_reason),
        "error": _clean(poll.error), "content_sha256": poll.content_sha256,
        "content_since": row.content_since if same else poll.polled_at,
        "every_seconds": poll.every_seconds, "ttl_seconds": round(poll.ttl.total_seconds()),
    }  # fmt: skip
    cursor.execute(statement, values)
    [(poll_id,)] = cursor.fetchall()
    if recorded.status not in ("late", "duplicate"):
        archive_payloads(cursor, poll_id, poll.payloads)
    return dataclasses.replace(recorded, poll_id=poll_id)
