"""Imports: runs that can be taken up again, and what they have read so far.

What an import reads is staged in tables of its own, ``import_stage_<run>_*``, committed file by
file together with the run's position: killed at any moment, it goes on where it was. Nothing of it
is history until ``import_merge`` turns all of it into spans, in one transaction.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from tracker.domain.offer import Offer
from tracker.store import poll_log
from tracker.store.errors import StoreError
from tracker.store.schema import offer

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]

KIND = "import"
LOCK_WAIT_MS = 15_000  # a server notices within ten seconds that a client is gone
_NAMES = offer.c.keys()
IDENTITY = tuple(_NAMES[_NAMES.index("native_id") : _NAMES.index("gpu_raw")])
OFFER_COLUMNS = ("n", "key", "source", "seller", *IDENTITY, "gpu_raw", "source_url", "notes")


class ImportBusy(StoreError):
    """Another process imports into the same source."""


class StagedPrice(NamedTuple):
    """A price of the staged offer *n*, micro-USD per machine-hour; see Observation."""

    n: int
    at: datetime
    until: datetime
    exact: bool
    price_native: Decimal
    price_micro_usd: int
    fx_rate: Decimal | None
    fx_date: date | None
    valid_as_of: date | None
    expires_at: datetime | None
    fallback: bool


class StagedMoment(NamedTuple):
    """A moment of which the whole listing of *seller* is known."""

    source: str
    seller: str
    at: datetime


@dataclass(slots=True)
class Run:
    """An import as its row has it. ``done``: finished before, with the same content."""

    id: int
    source_id: int
    position: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    done: bool = False
    resumed: bool = False

    @property
    def stage(self) -> str:
        """What the names of its staging tables begin with."""
        return f"import_stage_{self.id}"


def begin(
    connection: Connection, *, format: str, source: str, digest: bytes, slug: str,
    hold_seconds: int, settled: bool, position: dict[str, Any],
) -> Run:  # fmt: skip
    """Take up the interrupted run of this *digest*, or begin one.

    *settled*: the digest stands for all content, so that a finished run need not be repeated as
    long as no other has been imported into the source since. A run of another digest that was
    interrupted is given up. The source is locked until the connection closes. Raises ImportBusy.
    """
    with connection.transaction(), connection.cursor() as cursor:
        _lock(cursor, slug)
        source_id = _source(cursor, slug, hold_seconds)
        cursor.execute(
            "SELECT id, digest, state, position, counts FROM import_run WHERE source_id = %s"
            " AND state <> 'failed' ORDER BY id DESC",
            (source_id,),
        )
        runs = cursor.fetchall()
        for id_, of, state, was, counts in runs:
            if state == "running" and of == digest:
                return Run(id_, source_id, was, counts, resumed=True)
            if state == "running":
                _give_up(cursor, Run(id_, source_id))
        finished = next((r for r in runs if r[2] == "done"), None)
        if settled and finished and finished[1] == digest:
            return Run(finished[0], source_id, finished[3], finished[4], done=True)
        cursor.execute(
            "INSERT INTO import_run (format, source, digest, source_id, started_at, state,"
            " position, counts) VALUES (%s, %s, %s, %s, clock_timestamp(), 'running', %s, '{}')"
            " RETURNING id",
            (format, source, digest, source_id, Jsonb(position)),
        )
        [(id_,)] = cursor.fetchall()
        run = Run(id_, source_id, position)
        _make_stage(cursor, run)
        return run


def _lock(cursor: Cursor, slug: str) -> None:
    """Keep others out until the connection closes; wait for one that was killed to be noticed."""
    cursor.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
    try:
        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"import {slug}",))
    except psycopg.errors.LockNotAvailable:
        raise ImportBusy(f"another import into {slug} is running; wait for its end") from None


def _source(cursor: Cursor, slug: str, hold_seconds: int) -> int:
    poll_log.make_providers(cursor, {slug}, {slug: KIND})
    cursor.execute(
        "UPDATE provider SET ttl_seconds = %s WHERE slug = %s AND kind = %s RETURNING id",
        (hold_seconds, slug, KIND),
    )
    found = cursor.fetchone()
    if found is None:
        raise StoreError(f"{slug} is a provider that is polled: an import needs another name")
    return int(found[0])


def _make_stage(cursor: Cursor, run: Run) -> None:
    kinds = ", ".join(f"{name}" for name in OFFER_COLUMNS[4:])
    cursor.execute(
        f"CREATE TABLE {run.stage}_offer AS SELECT 0 AS n, key, ''::text AS source,"
        f" ''::text AS seller, {kinds}, id, first_seen_at AS first_at, false AS had"
        " FROM offer WITH NO DATA"
    )
    cursor.execute(f"CREATE TABLE {run.stage}_odd (n integer)")
    cursor.execute(
        f"CREATE TABLE {run.stage}_price (n integer, at timestamptz, until timestamptz,"
        " exact boolean, price_native numeric, price_micro_usd bigint, fx_rate numeric,"
        " fx_date date, valid_as_of date, expires_at timestamptz, fallback boolean)"
    )
    cursor.execute(f"CREATE TABLE {run.stage}_moment (source text, seller text, at timestamptz)")


def drop_stage(cursor: Cursor, run: Run) -> None:
    """Remove the staging tables of *run*."""
    cursor.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ %s"
        " AND pg_table_is_visible(oid)",
        (f"^{run.stage}_",),
    )
    for (name,) in cursor.fetchall():
        cursor.execute(f"DROP TABLE {name}")


def start_over(connection: Connection, run: Run, position: dict[str, Any]) -> None:
    """Forget what *run* has staged: it is to be read anew, in another way."""
    with connection.transaction(), connection.cursor() as cursor:
        drop_stage(cursor, run)
        _make_stage(cursor, run)
        run.position, run.counts = dict(position), {}
        cursor.execute(
            "UPDATE import_run SET position = %s, counts = '{}' WHERE id = %s",
            (Jsonb(run.position), run.id),
        )


def _give_up(cursor: Cursor, run: Run) -> None:
    drop_stage(cursor, run)
    cursor.execute(
        "UPDATE import_run SET state = 'failed', finished_at = clock_timestamp() WHERE id = %s",
        (run.id,),
    )


def known_offers(connection: Connection, run: Run) -> dict[bytes, int]:
    """The keys of the offers staged so far, with their numbers."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(f"SELECT key, n FROM {run.stage}_offer")
        return dict(cursor)


def stage(
    connection: Connection, run: Run, *, offers: Sequence[tuple[int, Offer]],
    prices: Sequence[StagedPrice], moments: Iterable[StagedMoment],
    position: dict[str, Any], counts: dict[str, Any],
) -> None:  # fmt: skip
    """Keep what a file brought, and that it has been read, in one transaction."""
    with connection.transaction(), connection.cursor() as cursor:
        if offers:
            columns = ", ".join(OFFER_COLUMNS)
            with cursor.copy(f"COPY {run.stage}_offer ({columns}) FROM STDIN") as copy:
                for n, staged in offers:
                    copy.write_row(_offer_row(n, staged))
        if prices:
            with cursor.copy(f"COPY {run.stage}_price FROM STDIN") as copy:
                copy.write("".join(map(_price_line, prices)))
        listed = sorted(set(moments))
        if listed:
            with cursor.copy(f"COPY {run.stage}_moment FROM STDIN") as copy:
                for moment in listed:
                    copy.write_row(moment)
        cursor.execute(
            "UPDATE import_run SET position = %s, counts = %s WHERE id = %s",
            (Jsonb(position), Jsonb(counts), run.id),
        )


def _offer_row(n: int, o: Offer) -> tuple[Any, ...]:
    listed, t = o.listed, o.listed.terms
    return (
        n, o.key, o.source, o.provider, listed.source_id, o.gpu.key, o.gpu.family,
        o.gpu.form_factor, o.gpu.vram_gb, o.gpu.is_slice, listed.gpu_count, str(listed.market),
        listed.tier, str(listed.price_kind), listed.price.currency, str(listed.price.unit),
        listed.region, listed.country, listed.interconnect, listed.vcpus, listed.ram_gib,
        listed.dedicated, listed.datacenter, listed.upstream, t.billing_increment_seconds,
        t.minimum_seconds, t.commitment_hours, t.commitment_unknown, t.disk_included_gb,
        t.disk_usd_per_gb_hour, t.egress_usd_per_gb, listed.gpu_name, listed.source_url,
        list(listed.notes),
    )  # fmt: skip


def _price_line(p: StagedPrice) -> str:
    # A line of COPY's text format: only numbers and times, so that nothing needs quoting.
    return (
        f"{p.n}\t{p.at.isoformat()}\t{p.until.isoformat()}\t{'t' if p.exact else 'f'}\t"
        f"{p.price_native:f}\t{p.price_micro_usd}\t{_cell(p.fx_rate)}\t{_cell(p.fx_date)}\t"
        f"{_cell(p.valid_as_of)}\t{_cell(p.expires_at)}\t{'t' if p.fallback else 'f'}\n"
    )


def _cell(value: Decimal | date | datetime | None) -> str:
    if value is None:
        return r"\N"
    return f"{value:f}" if isinstance(value, Decimal) else value.isoformat()


_LISTED = "o.market = 'on_demand' AND NOT o.is_slice"


class Limit(NamedTuple):
    """What a seller's list price of a GPU family may not be below in the week from *monday* on,
    in micro-USD per GPU-hour."""

    gpu_family: str
    monday: date
    seller: str
    micro_usd_per_gpu: int


def lowest_by_week(connection: Connection, run: Run) -> list[Limit]:
    """Each seller's lowest list price of whole GPUs, by GPU family and week (UTC)."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.gpu_family, date_trunc('week', p.at, 'UTC')::date, o.seller,"
            f" trunc(min(p.price_micro_usd / o.gpu_count))::bigint FROM {run.stage}_price p"
            f" JOIN {run.stage}_offer o ON o.n = p.n WHERE {_LISTED} GROUP BY 1, 2, 3"
        )
        return [Limit(*row) for row in cursor]


Below = tuple[int, date, int]  # offer, day, and the limit that its price is below


def days_below(connection: Connection, run: Run, limits: Sequence[Limit]) -> list[Below]:
    """The staged offers with a price below its limit, by day."""
    if not limits:
        return []
    families, weeks, sellers, least = (list(column) for column in zip(*limits, strict=True))
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            f"""
SELECT DISTINCT p.n, (p.at AT TIME ZONE 'UTC')::date, l.least
FROM unnest(%s::text[], %s::date[], %s::text[], %s::bigint[]) AS l (family, monday, seller, least)
JOIN {run.stage}_offer o ON o.gpu_family = l.family AND o.seller = l.seller
JOIN {run.stage}_price p ON p.n = o.n AND date_trunc('week', p.at, 'UTC')::date = l.monday
WHERE {_LISTED} AND trunc(p.price_micro_usd / o.gpu_count) < l.least
""",
            (families, weeks, sellers, least),
        )
        return list(cursor)


class Withdrawn(NamedTuple):
    """Staged prices that were taken back: the offer, and how many rows."""

    seller: str
    gpu_key: str
    native_id: str
    rows: int


def withdraw(connection: Connection, run: Run, doubted: Sequence[Below]) -> list[Withdrawn]:
    """Take back the prices of (offer, day) below so many micro-USD per GPU-hour."""
    if not doubted:
        return []
    with connection.transaction(), connection.cursor() as cursor:
        numbers, days, limits = (list(column) for column in zip(*doubted, strict=True))
        cursor.execute(
            f"""
WITH d AS (SELECT * FROM unnest(%s::int[], %s::date[], %s::bigint[]) AS d (n, day, below)),
gone AS (
    DELETE FROM {run.stage}_price p USING d, {run.stage}_offer o
    WHERE p.n = d.n AND (p.at AT TIME ZONE 'UTC')::date = d.day AND o.n = p.n
      AND trunc(p.price_micro_usd / o.gpu_count) < d.below RETURNING p.n
)
SELECT o.seller, o.gpu_key, o.native_id, count(*) FROM gone JOIN {run.stage}_offer o USING (n)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""",
            (numbers, days, limits),
        )
        return [Withdrawn(*row) for row in cursor]


class ImportRow(NamedTuple):
    """A run, for people: where it came from, how far it is and what became of its rows."""

    id: int
    format: str
    source: str
    into: str
    started_at: datetime
    finished_at: datetime | None
    state: str
    counts: dict[str, Any]


def runs(connection: Connection) -> list[ImportRow]:
    """All imports, the latest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.id, r.format, r.source, p.slug, r.started_at, r.finished_at, r.state,"
            " r.counts FROM import_run r JOIN provider p ON p.id = r.source_id ORDER BY r.id DESC"
        )
        return [ImportRow(*row) for row in cursor]
