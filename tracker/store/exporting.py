"""What the store holds, as streams of rows with named columns: offers, history, floor and polls.

The columns of ``offers`` and ``history`` hold all that a price needs to be recorded again by
``gpucost import``. Rows come through server-side cursors: an export of years is never held.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from tracker.store.stored import KNOWN_UNTIL_SQL, Connection

# text; exact: a decimal as text, of any length; money: USD to a millionth; number: a decimal of at
# most 18 digits after the point; integer; flag; time; day; list: of texts; json.
Kind = Literal["text", "exact", "money", "number", "integer", "flag", "time", "day", "list", "json"]


class Column(NamedTuple):
    """A column of an export and the SQL that gives it."""

    name: str
    kind: Kind
    sql: str


def _of(table: str, kind: Kind, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, f"{table}.{name}") for name in names)


_TERMS = (
    *_of("o", "integer", "billing_increment_seconds", "minimum_seconds", "commitment_hours"),
    *_of("o", "flag", "commitment_unknown"),
    *_of("o", "exact", "disk_included_gb", "disk_usd_per_gb_hour", "egress_usd_per_gb"),
)
_OFFER = (
    Column("source", "text", "a.slug"),
    Column("provider", "text", "b.slug"),
    *_of("o", "text", "native_id", "gpu_key", "gpu_family", "form_factor"),
    *_of("o", "integer", "vram_gb"),
    *_of("o", "flag", "is_slice"),
    *_of("o", "number", "gpu_count"),
    *_of("o", "text", "market", "tier", "price_kind", "currency", "price_unit", "region", "country",
         "interconnect"),
    *_of("o", "number", "vcpus", "ram_gib"),
    *_of("o", "flag", "dedicated", "datacenter"),
    *_of("o", "text", "upstream"),
    *_TERMS,
)  # fmt: skip
_PRICE = (
    *_of("s", "exact", "price_native"),
    Column("price_usd_per_machine_hour", "money", "s.price_micro_usd"),
    *_of("s", "exact", "fx_rate"),
    *_of("s", "day", "fx_date"),
    *_of("s", "day", "valid_as_of"),
    *_of("s", "time", "expires_at"),
    *_of("s", "flag", "fallback"),
    *_of("s", "time", "valid_from", "valid_to"),
    Column("open", "flag", "s.open"),
)
_WORDS = (
    *_of("o", "text", "gpu_raw", "source_url"),
    *_of("o", "list", "notes"),
)
HISTORY = (*_OFFER, *_PRICE, *_WORDS)
# What is known of an offer only while it is open.
OFFERS = (
    *HISTORY,
    Column("seen_at", "time", "coalesce(s.seen_until, a.last_ok_at)"),
    *_of("s", "text", "availability"),
    *_of("s", "integer", "stock_count"),
    *_of("s", "text", "stock_label"),
    *_of("s", "exact", "disk_gb", "network_down_mbps", "network_up_mbps", "reliability"),
    *_of("s", "integer", "interruption_percent_max"),
    *_of("s", "exact", "max_duration_hours"),
)
FLOOR = (
    Column("source", "text", "a.slug"),
    Column("provider", "text", "b.slug"),
    *_of("o", "text", "gpu_key", "gpu_family"),
    *_of("o", "flag", "is_slice"),
    *_of("o", "number", "gpu_count"),
    *_of("o", "text", "market", "tier", "price_unit", "currency", "price_kind"),
    *_TERMS,
    *_of("o", "text", "upstream", "part"),
    *_of("o", "flag", "fallback"),
    Column("offer", "text", "encode(f.key, 'hex')"),
    *_of("s", "exact", "price_native"),
    Column("price_usd_per_machine_hour", "money", "s.price_micro_usd"),
    *_of("s", "exact", "fx_rate"),
    *_of("s", "time", "valid_from", "valid_to"),
    Column("open", "flag", "s.open"),
)
POLLS = (
    Column("provider", "text", "a.slug"),
    *_of("s", "time", "started_at", "polled_at"),
    *_of("s", "integer", "duration_ms"),
    *_of("s", "text", "status"),
    *_of("s", "integer", "offers", "opened", "changed", "closed", "updated", "unchanged",
         "quarantined", "rejected", "requests", "bytes"),
    *_of("s", "json", "rejects"),
    *_of("s", "text", "incomplete_reason", "error"),
)  # fmt: skip
COLUMNS = {"offers": OFFERS, "history": HISTORY, "floor": FLOOR, "polls": POLLS}


class Wanted(NamedTuple):
    """What to export: None and empty mean no constraint. Texts are in small letters.

    ``since`` and ``until`` keep the rows whose time touches [since, until); none is cut.
    ``regions`` may hold * and ?.
    """

    gpu_keys: Collection[str] | None = None
    providers: Sequence[str] = ()
    regions: Sequence[str] = ()
    countries: Sequence[str] = ()
    markets: Sequence[str] = ()
    tiers: Sequence[str] = ()
    min_vram_gb: Decimal | None = None
    min_gpus: int | None = None
    min_ram_gib: Decimal | None = None
    min_vcpus: Decimal | None = None
    interconnect: str | None = None
    dedicated: bool = False
    since: datetime | None = None
    until: datetime | None = None


# Constraints that a kind of export has no column for.
NOT_KNOWN: dict[str, frozenset[str]] = {
    "offers": frozenset(),
    "history": frozenset(),
    "floor": frozenset({"regions", "countries", "min_vram_gb", "min_ram_gib", "min_vcpus",
                        "interconnect", "dedicated"}),
    "polls": frozenset({"gpu_keys", "regions", "countries", "markets", "tiers", "min_vram_gb",
                        "min_gpus", "min_ram_gib", "min_vcpus", "interconnect", "dedicated"}),
}  # fmt: skip

Row = tuple[Any, ...]


class Part(NamedTuple):
    """The rows of one month (None: not divided), in a fixed order."""

    month: str | None
    rows: Iterator[Row]


def parts(connection: Connection, kind: str, wanted: Wanted, now: datetime) -> Iterator[Part]:
    """The rows of an export of *kind* month by month, oldest first; each has to be read in turn.

    A price that is still open ends where it is known to hold, at *now* at the latest. Polls are of
    the month they were made in, prices of the month in which they end.
    """
    if kind == "offers":
        yield Part(None, _rows(connection, kind, _open_spans(), wanted, now, None))
        return
    relation = {"history": _history, "floor": _floor, "polls": _polls}[kind]()
    for month in _months(connection, kind, now):
        yield Part(f"{month:%Y-%m}", _rows(connection, kind, relation, wanted, now, month))


def _months(connection: Connection, kind: str, now: datetime) -> list[datetime]:
    first = {
        "history": "SELECT least((SELECT min(valid_to) FROM price_span),"
        " (SELECT min(valid_from) FROM offer_now))",
        "floor": "SELECT least((SELECT min(valid_to) FROM price_floor),"
        " (SELECT min(valid_from) FROM floor_now))",
        "polls": "SELECT min(polled_at) FROM poll",
    }[kind]
    last = {
        "history": "SELECT max(valid_to) FROM price_span",
        "floor": "SELECT max(valid_to) FROM price_floor",
        "polls": "SELECT max(polled_at) FROM poll",
    }[kind]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generate_series(date_trunc('month', m.first, 'UTC'),"
            " greatest(m.last, %(now)s), interval '1 month')"
            f" FROM (SELECT ({first}) AS first, ({last}) AS last) m WHERE m.first IS NOT NULL",
            {"now": now},
        )
        return [month for (month,) in cursor]


_COMMON = ("price_native", "price_micro_usd", "fx_rate", "valid_from")
_TYPED = ("fx_date", "valid_as_of", "expires_at", "fallback")
_MOVING = ("seen_until", "availability", "stock_count", "stock_label", "disk_gb",
           "network_down_mbps", "network_up_mbps", "reliability", "interruption_percent_max",
           "max_duration_hours")  # fmt: skip


def _until(end: str) -> str:
    return f"least({end}, %(now)s)"


def _open_spans() -> str:
    moving = ", ".join(f"n.{name}" for name in _MOVING)
    return f"({_open_sql(moving)})"


def _open_sql(more: str = "") -> str:
    names = ", ".join(f"n.{name}" for name in (*_COMMON, *_TYPED))
    return (
        f"SELECT n.offer_id, n.source_id, n.seller_id, {names},"
        f" {_until(KNOWN_UNTIL_SQL)} AS valid_to, true AS open{', ' if more else ''}{more}"
        " FROM offer_now n JOIN provider p ON p.id = n.source_id"
    )


def _history() -> str:
    names = ", ".join(f"n.{name}" for name in (*_COMMON, *_TYPED))
    return (
        f"(SELECT n.offer_id, n.source_id, n.seller_id, {names}, n.valid_to, false AS open"
        f" FROM price_span n UNION ALL {_open_sql()})"
    )


def _floor() -> str:
    names = ", ".join(f"n.{name}" for name in _COMMON)
    known = "coalesce(n.seen_until, p.last_ok_at) + p.ttl_seconds * interval '1 second'"
    return (
        f"(SELECT n.key_id, n.offer_id, {names}, n.valid_to, false AS open FROM price_floor n"
        f" UNION ALL SELECT n.key_id, n.offer_id, {names},"
        f" {_until(f'least({known}, k.expires_at)')}, true FROM floor_now n"
        " JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id)"
    )


def _polls() -> str:
    return "(SELECT n.*, n.polled_at AS valid_from, n.polled_at AS valid_to FROM poll n)"


_JOINS = {
    "offers": "JOIN offer o ON o.id = s.offer_id JOIN provider a ON a.id = s.source_id"
    " JOIN provider b ON b.id = s.seller_id",
    "floor": "JOIN floor_key o ON o.id = s.key_id JOIN offer f ON f.id = s.offer_id"
    " JOIN provider a ON a.id = o.source_id JOIN provider b ON b.id = o.seller_id",
    "polls": "JOIN provider a ON a.id = s.provider_id JOIN provider b ON b.id = a.id",
}
_JOINS["history"] = _JOINS["offers"]
_ORDER = {
    "offers": "s.valid_from, o.key",
    "history": "s.valid_to, s.valid_from, o.key",
    "floor": "s.valid_to, s.valid_from, o.key",
    "polls": "s.polled_at, a.slug, s.id",
}


def _rows(
    connection: Connection, kind: str, relation: str, wanted: Wanted, now: datetime,
    month: datetime | None,
) -> Iterator[Row]:  # fmt: skip
    clauses, values = _where(wanted)
    values["now"] = now
    # What an open price still holds for, and later than a poll's own clock, is nothing yet.
    clauses.append("s.valid_to > s.valid_from" if kind != "polls" else "true")
    if month is not None:
        clauses.append(
            "s.valid_to >= %(month)s AND s.valid_to < %(month)s::timestamptz + interval '1 month'"
        )
        values["month"] = month
    columns = ", ".join(f"{c.sql} AS {c.name}" for c in COLUMNS[kind])
    statement = (
        f"SELECT {columns} FROM {relation} s {_JOINS[kind]} WHERE {' AND '.join(clauses)}"
        f" ORDER BY {_ORDER[kind]}"
    )
    with connection.cursor(name="export") as cursor:
        cursor.itersize = 5_000
        cursor.execute(statement, values)
        yield from cursor


def _where(w: Wanted) -> tuple[list[str], dict[str, Any]]:
    clauses: list[str] = []
    values: dict[str, Any] = {}

    def add(clause: str, name: str, value: Any) -> None:
        clauses.append(clause)
        values[name] = value

    if w.gpu_keys is not None:
        add("o.gpu_key = ANY (%(keys)s)", "keys", sorted(w.gpu_keys))
    for column, names in (("b.slug", w.providers), ("o.market", w.markets), ("o.tier", w.tiers)):
        if names:
            add(f"{column} = ANY (%({column})s)", column, list(names))
    if w.countries:
        add("o.country = ANY (%(countries)s)", "countries", [c.upper() for c in w.countries])
    if w.regions:
        # The region, or that which it is a zone of (tracker.domain.place).
        like = "LIKE ANY (%(regions)s)"
        either = f"(lower(o.region) {like} OR split_part(lower(o.region), '/', 1) {like})"
        add(either, "regions", [_like(r) for r in w.regions])
    for column, least in (("o.vram_gb", w.min_vram_gb), ("o.gpu_count", w.min_gpus),
                          ("o.ram_gib", w.min_ram_gib), ("o.vcpus", w.min_vcpus)):  # fmt: skip
        if least is not None:
            add(f"{column} >= %({column})s", column, least)
    if w.interconnect:
        add("strpos(lower(o.interconnect), %(link)s) > 0", "link", w.interconnect.lower())
    if w.dedicated:
        clauses.append("o.dedicated")
    if w.since is not None:
        add("s.valid_to > %(since)s", "since", w.since)
    if w.until is not None:
        add("s.valid_from < %(until)s", "until", w.until)
    return clauses, values


def _like(pattern: str) -> str:
    """A pattern with * and ? as LIKE has it."""
    text = pattern.lower()
    for character in "\\%_":
        text = text.replace(character, f"\\{character}")
    return text.replace("*", "%").replace("?", "_")
