"""What an import has staged becomes history: spans, in one transaction or not at all.

An observation is a price from its moment until the next one of the same offer, until the next
listing of its seller that is known as a whole, or for as long as it holds: the first of these.
Where an import speaks, it replaces what earlier imports into the same source said; elsewhere theirs
stays. Imports of the same data in any pieces, twice or overlapping, come to the same spans.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from tracker.store import floor_rebuild, partitions, poll_log
from tracker.store.bulk import months as bulk_months
from tracker.store.bulk import offer_table
from tracker.store.imports import IDENTITY, KIND, Connection, Cursor, Run, drop_stage
from tracker.store.schema import price_span

_SPAN = tuple(price_span.c.keys())
_PLACE = ("offer_id", "valid_from", "valid_to")
_MANY = 1000  # rows in a month's table, for which its statistics are brought up to date
_VALUES = ("price_native", "price_micro_usd", "fx_rate", "fx_date", "valid_as_of", "expires_at",
           "fallback")  # fmt: skip


class Merged(NamedTuple):
    """What a merge did: spans written and replaced, and the sources that it touched."""

    spans: int
    replaced: int
    sources: tuple[int, ...]


def begin(connection: Connection, run: Run, doubted: Collection[int] = ()) -> bool:
    """Begin the transaction that ``merge`` ends, on a *connection* that is in none.

    It begins with the rows in ``offer`` of the months that *run* has staged by columns, less those
    of the offers with the numbers *doubted*, which may yet be taken back. Whether all of them could
    be made: where others have made some meanwhile, theirs stay. The first offers of all may be made
    by a transaction before.
    """
    _make_sellers(connection, run)
    by_columns = run.position.get("columns") is True
    all_made = by_columns and offer_table.add_first(connection, run, doubted)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute("SET LOCAL statement_timeout = 0")
        # What goes on beside it may take long.
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        if by_columns and not all_made:
            return offer_table.add(cursor, run, doubted)
    return True


def merge(
    connection: Connection, run: Run, counts: dict[str, Any], begun: bool | None = None
) -> Merged:
    """Turn what *run* has staged into spans, floors included, and finish it. One transaction, which
    ends with this; *begun*: what ``begin`` said of it, None where that was not called."""
    all_made = begin(connection, run) if begun is None else begun
    with connection.cursor() as cursor:
        by_columns = run.position.get("columns") is True
        if by_columns:
            bulk_months.settle(cursor, run, keys_are_ours=all_made)
        replaced, attached = 0, 0
        general = not by_columns or _any_prices(cursor, run)
        if general:
            replaced = _work_out(cursor, run)
        if by_columns:
            attached = bulk_months.attach(cursor, run)
        spans = attached + (_load(cursor) if general else 0)
        sources = _sources(cursor, run)
        floor_rebuild.rebuild_all(cursor, sources)
        _finish(cursor, run, counts | {"spans": spans, "replaced": replaced})
    connection.commit()
    return Merged(spans, replaced, sources)


def _work_out(cursor: Cursor, run: Run) -> int:
    """Make ``import_span`` of what is staged as single prices, and remove the spans that it
    replaces; how many."""
    _identify(cursor, run)
    _moments(cursor, run)
    _old(cursor, run)
    _steps(cursor, run)
    _rest(cursor)
    _spans(cursor)
    return _replace(cursor)


def _any_prices(cursor: Cursor, run: Run) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT FROM {run.stage}_price)")
    return cursor.fetchall() == [(True,)]


def _sources(cursor: Cursor, run: Run) -> tuple[int, ...]:
    """The sources whose floors are to be built."""
    cursor.execute(
        "SELECT id FROM provider WHERE id = %s OR slug IN"
        f" (SELECT DISTINCT source FROM {run.stage}_offer) ORDER BY id",
        (run.source_id,),
    )
    return tuple(id_ for (id_,) in cursor)


def _make_sellers(connection: Connection, run: Run) -> None:
    """The rows of sources and sellers, in a transaction of their own like the recorder's."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT source, seller FROM {run.stage}_offer")
        pairs = cursor.fetchall()
        sources, sellers = {source for source, _ in pairs}, {seller for _, seller in pairs}
        poll_log.make_providers(cursor, sources | sellers, dict.fromkeys(sources, KIND))
        cursor.execute(
            "UPDATE provider p SET ttl_seconds = m.ttl_seconds FROM provider m WHERE m.id = %s"
            " AND p.slug = ANY (%s) AND p.kind = %s AND p.ttl_seconds IS NULL",
            (run.source_id, list(sources), KIND),
        )


def _identify(cursor: Cursor, run: Run) -> None:
    """Every staged offer's row in ``offer``, made where it is missing."""
    names = ", ".join(IDENTITY)
    staged = ", ".join(f"s.{name}" for name in IDENTITY)
    cursor.execute(f"ANALYZE {run.stage}_offer (n, key, source, seller), {run.stage}_price")
    cursor.execute(
        f"""
INSERT INTO offer (key, source_id, seller_id, {names}, gpu_raw, source_url, notes, first_seen_at)
SELECT s.key, a.id, b.id, {staged}, s.gpu_raw, s.source_url, s.notes, f.at
FROM {run.stage}_offer s JOIN provider a ON a.slug = s.source JOIN provider b ON b.slug = s.seller
JOIN (SELECT n, min(at) AS at FROM {run.stage}_price GROUP BY n) f ON f.n = s.n
ON CONFLICT (key) DO NOTHING
"""
    )
    cursor.execute(
        f"""
CREATE TEMP TABLE import_ids ON COMMIT DROP AS
SELECT s.n, o.id AS offer_id, o.source_id, o.seller_id, o.gpu_key, o.market, o.tier, o.gpu_count,
    o.region FROM {run.stage}_offer s JOIN offer o ON o.key = s.key
WHERE %s OR s.n IN (SELECT n FROM {run.stage}_price)
""",
        (run.position.get("columns") is not True,),
    )
    cursor.execute("ANALYZE import_ids (n, offer_id)")


def _moments(cursor: Cursor, run: Run) -> None:
    """Every moment of which a seller's whole listing is known, with the next one.

    Those of this import, and those that earlier imports into its source have left. None for most
    sellers of a table in which an offer's absence means nothing.
    """
    cursor.execute(
        f"""
CREATE TEMP TABLE import_moment ON COMMIT DROP AS
SELECT source_id, seller_id, at, bool_or(fresh) AS fresh,
    lead(at) OVER (PARTITION BY source_id, seller_id ORDER BY at) AS next_at
FROM (
    SELECT a.id AS source_id, b.id AS seller_id, m.at, true AS fresh
    FROM {run.stage}_moment m
    JOIN provider a ON a.slug = m.source JOIN provider b ON b.slug = m.seller
    UNION ALL
    SELECT r.source_id, b.id, at::timestamptz, false FROM import_run r,
        jsonb_each(r.position -> 'moments') AS k (seller, moments),
        jsonb_array_elements_text(k.moments) AS at, provider b
    WHERE r.state = 'done' AND r.source_id = %s AND b.slug = k.seller
) told
GROUP BY source_id, seller_id, at
""",
        (run.source_id,),
    )


def _old(cursor: Cursor, run: Run) -> None:
    """What earlier imports said of these offers and sellers, within reach of this import."""
    cursor.execute(
        f"SELECT least((SELECT min(at) FROM {run.stage}_price),"
        " (SELECT min(at) FROM import_moment WHERE fresh)),"
        f" (SELECT max(until) FROM {run.stage}_price)"
    )
    [(first, last)] = cursor.fetchall()
    cursor.execute(
        f"""
CREATE TEMP TABLE import_old ON COMMIT DROP AS
WITH wanted AS (
    SELECT o.id FROM offer o WHERE EXISTS (SELECT FROM import_ids i WHERE i.offer_id = o.id)
        OR EXISTS (SELECT FROM import_moment m WHERE m.fresh AND m.source_id = o.source_id
                   AND m.seller_id = o.seller_id)
)
SELECT {", ".join(f"s.{name}" for name in _SPAN)}
FROM wanted JOIN price_span s ON s.offer_id = wanted.id
WHERE s.valid_to >= %(first)s
  AND (s.valid_from <= %(last)s OR EXISTS (SELECT FROM import_moment m WHERE m.fresh))
""",
        {"first": first or datetime.max.replace(tzinfo=UTC), "last": last or first},
    )
    cursor.execute("CREATE INDEX ON import_old (offer_id, valid_from)")
    cursor.execute("ANALYZE import_old")


def _steps(cursor: Cursor, run: Run) -> None:
    """This import's own steps. Of two prices of one offer at one moment the dearer counts; of those
    that are as dear the one that holds longest, in whatever order they came."""
    cursor.execute(
        f"""
CREATE TEMP TABLE import_point ON COMMIT DROP AS
SELECT DISTINCT ON (i.offer_id, p.at) i.offer_id, i.source_id, i.seller_id, p.at, p.until, p.exact,
    {", ".join(f"p.{name}" for name in _VALUES)}
FROM {run.stage}_price p JOIN import_ids i ON i.n = p.n
ORDER BY i.offer_id, p.at, p.price_native DESC, p.until DESC, p.fallback, p.expires_at DESC,
    p.valid_as_of DESC NULLS LAST, p.price_micro_usd DESC, p.fx_date DESC, p.fx_rate DESC
"""
    )
    # The moments at which an offer was seen: by this import, and by earlier ones for what is
    # known of them, the beginnings of their spans. A price ends where the next one begins.
    cursor.execute(
        f"""
CREATE TEMP TABLE import_step ON COMMIT DROP AS
WITH seen AS (
    SELECT offer_id, at FROM import_point UNION SELECT offer_id, valid_from FROM import_old
), followed AS (
    SELECT offer_id, at, lead(at) OVER (PARTITION BY offer_id ORDER BY at) AS next_at FROM seen
), own AS (
    SELECT offer_id, at, lead(at) OVER (PARTITION BY offer_id ORDER BY at) AS next_at
    FROM import_point
)
SELECT * FROM (
    SELECT n.offer_id, n.at AS valid_from, least(n.until, own.next_at,
        CASE WHEN NOT n.exact THEN m.next_at END, CASE WHEN NOT n.exact THEN f.next_at END
        ) AS valid_to, {", ".join(f"n.{name}" for name in _VALUES)}
    FROM import_point n
    JOIN followed f ON f.offer_id = n.offer_id AND f.at = n.at
    JOIN own ON own.offer_id = n.offer_id AND own.at = n.at
    LEFT JOIN import_moment m
        ON m.source_id = n.source_id AND m.seller_id = n.seller_id AND m.at = n.at
) step WHERE valid_to > valid_from
"""
    )
    cursor.execute("ANALYZE import_step")


def _rest(cursor: Cursor) -> None:
    """What is left of the old spans where this import does not speak."""
    cursor.execute(
        f"""
CREATE TEMP TABLE import_rest ON COMMIT DROP AS
WITH own AS (
    SELECT offer_id, range_agg(tstzrange(valid_from, valid_to)) AS told
    FROM import_step WHERE EXISTS (SELECT FROM import_old) GROUP BY offer_id
), whole AS (
    SELECT source_id, seller_id, range_agg(tstzrange(at, next_at)) AS told
    FROM import_moment WHERE fresh GROUP BY source_id, seller_id
)
SELECT o.offer_id, lower(part) AS valid_from, upper(part) AS valid_to,
    {", ".join(f"o.{name}" for name in _VALUES)}
FROM import_old o
LEFT JOIN own ON own.offer_id = o.offer_id
LEFT JOIN whole ON whole.source_id = o.source_id AND whole.seller_id = o.seller_id,
LATERAL unnest(tstzmultirange(tstzrange(o.valid_from, o.valid_to))
    - coalesce(own.told, '{{}}') - coalesce(whole.told, '{{}}')) AS part
"""
    )


def _spans(cursor: Cursor) -> None:
    """Steps that touch at the same price become one span, at the rate of the last of them."""
    cursor.execute(
        f"""
CREATE TEMP TABLE import_span ON COMMIT DROP AS
WITH step AS (
    SELECT *, coalesce(lag(valid_to) OVER o = valid_from
        AND lag(price_native) OVER o = price_native, false) AS goes_on
    FROM (SELECT * FROM import_step UNION ALL SELECT * FROM import_rest) told
    WINDOW o AS (PARTITION BY offer_id ORDER BY valid_from)
), numbered AS (
    SELECT *, count(*) FILTER (WHERE NOT goes_on) OVER o AS island,
        coalesce(lead(goes_on) OVER o, false) AS followed
    FROM step WINDOW o AS (PARTITION BY offer_id ORDER BY valid_from)
), whole AS (
    SELECT *, first_value(valid_from) OVER o AS since
    FROM numbered WINDOW o AS (PARTITION BY offer_id, island ORDER BY valid_from)
)
SELECT i.offer_id, i.source_id, i.seller_id, i.gpu_key, i.market, i.tier, i.gpu_count, i.region,
    {", ".join(f"w.{name}" for name in _VALUES)}, w.since AS valid_from, w.valid_to
FROM whole w JOIN (
    SELECT DISTINCT ON (offer_id) * FROM (
        SELECT offer_id, source_id, seller_id, gpu_key, market, tier, gpu_count, region
        FROM import_ids
        UNION ALL
        SELECT offer_id, source_id, seller_id, gpu_key, market, tier, gpu_count, region
        FROM import_old
    ) named
) i ON i.offer_id = w.offer_id
WHERE NOT w.followed
"""
    )


def _replace(cursor: Cursor) -> int:
    """Remove the old spans that are not the same any more; those that are need not be written."""
    # What is never NULL is compared so that the two can be joined by it.
    same = " AND ".join(
        f"n.{name} {'=' if name in _PLACE else 'IS NOT DISTINCT FROM'} o.{name}" for name in _SPAN
    )
    cursor.execute("ANALYZE import_span (offer_id, valid_to)")
    cursor.execute(
        f"""
WITH same AS (SELECT o.offer_id, o.valid_to FROM import_old o JOIN import_span n ON {same}),
new AS (
    DELETE FROM import_span n USING same
    WHERE n.offer_id = same.offer_id AND n.valid_to = same.valid_to
)
DELETE FROM import_old o USING same WHERE o.offer_id = same.offer_id AND o.valid_to = same.valid_to
"""
    )
    cursor.execute(
        "DELETE FROM price_span s USING import_old o"
        " WHERE s.offer_id = o.offer_id AND s.valid_to = o.valid_to"
    )
    return int(cursor.rowcount)


def _load(cursor: Cursor) -> int:
    """Write the spans, month by month: a fresh month's indexes come after its rows."""
    columns = ", ".join(_SPAN)
    cursor.execute("SELECT DISTINCT date_trunc('month', valid_to, 'UTC') FROM import_span")
    months = sorted(month for (month,) in cursor)
    fresh = partitions.missing(cursor, months)
    written = 0
    for month in months:
        start, end = month.isoformat(), partitions.next_month(month).isoformat()
        name = partitions.partition_name(month)
        if month in fresh:
            cursor.execute(f"CREATE TABLE {name} (LIKE price_span INCLUDING CONSTRAINTS)")
        cursor.execute(
            f"INSERT INTO {name} ({columns}) SELECT {columns} FROM import_span"
            " WHERE valid_to >= %s AND valid_to < %s ORDER BY gpu_key, valid_to",
            (start, end),
        )
        rows = cursor.rowcount
        written += rows
        if month in fresh:  # makes the parent's indexes
            cursor.execute(
                f"ALTER TABLE price_span ATTACH PARTITION {name}"
                f" FOR VALUES FROM ('{start}') TO ('{end}')"
            )
        if rows >= _MANY:
            # The floors are built of them next: ten times as slowly with a plan for few rows.
            cursor.execute(f"ANALYZE {name}")
    return written


def _finish(cursor: Cursor, run: Run, counts: dict[str, Any]) -> None:
    cursor.execute(f"SELECT seller, at FROM {run.stage}_moment ORDER BY seller, at")
    moments: dict[str, list[str]] = {}
    for seller, at in cursor:
        told = moments.setdefault(seller, [])
        if not told or told[-1] != at.isoformat():
            told.append(at.isoformat())
    cursor.execute(
        "UPDATE import_run SET state = 'done', finished_at = clock_timestamp(), counts = %s,"
        " position = position || %s WHERE id = %s",
        (Jsonb(counts), Jsonb({"moments": moments}), run.id),
    )
    drop_stage(cursor, run)
