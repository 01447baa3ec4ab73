"""Two other ways to record the same poll into the same tables, to measure gpucost's against."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import psycopg
from sqlalchemy import Engine, select
from sqlalchemy.orm import DeclarativeBase, Session

from tracker.domain.offer import Offer
from tracker.domain.spans import moving
from tracker.store import poll_rows, schema

MOVING = [c.name for c in poll_rows.MOVING]
_SPAN = [c.name for c in schema.price_span.c if c.name != "valid_to"]


class _Base(DeclarativeBase):
    metadata = schema.metadata


class _OfferNow(_Base):
    __table__ = schema.offer_now


class _Offer(_Base):
    __table__ = schema.offer


class _Span(_Base):
    __table__ = schema.price_span


class _Poll(_Base):
    __table__ = schema.poll


def orm_per_row(engine: Engine, source_id: int, offers: Sequence[Offer], at: datetime) -> None:
    """SQLAlchemy's ORM: look each offer up, compare, change the object, flush in the end.

    Offers that are new or gone are left out: the benchmark has none where this is used.
    """
    with Session(engine) as session:
        for offer in offers:
            row = session.scalars(
                select(_OfferNow)
                .join(_Offer, _Offer.id == _OfferNow.offer_id)
                .where(_Offer.key == offer.key)
            ).one()
            state = moving(offer)
            if row.price_native != state.native:
                session.add(_Span(**{name: getattr(row, name) for name in _SPAN}, valid_to=at))
                row.valid_from = at
            for name, value in zip(MOVING, state, strict=True):
                if getattr(row, name) != value:
                    setattr(row, name, value)
        session.add(
            _Poll(provider_id=source_id, started_at=at, polled_at=at, duration_ms=0,
                  status="complete", offers=len(offers))
        )  # fmt: skip
        session.commit()


_TEMPORARY = (
    "CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS"
    f" SELECT key, {', '.join(MOVING)} FROM offer_now LIMIT 0"
)
_CLOSE = (
    f"INSERT INTO price_span ({', '.join(_SPAN)}, valid_to)"
    f" SELECT {', '.join(f'n.{name}' for name in _SPAN)}, %(at)s FROM offer_now n"
    " LEFT JOIN incoming i ON i.key = n.key"
    " WHERE n.source_id = %(source)s AND (i.key IS NULL OR i.price_native <> n.price_native)"
)
_DELETE = (
    "DELETE FROM offer_now n WHERE n.source_id = %(source)s"
    " AND NOT EXISTS (SELECT FROM incoming i WHERE i.key = n.key)"
)
_UPDATE = (
    f"UPDATE offer_now n SET {', '.join(f'{m} = i.{m}' for m in MOVING)}, valid_from ="
    " CASE WHEN i.price_native <> n.price_native THEN %(at)s ELSE n.valid_from END"
    " FROM incoming i WHERE n.source_id = %(source)s AND i.key = n.key"
    f" AND ({', '.join(f'n.{m}' for m in MOVING)})"
    f" IS DISTINCT FROM ({', '.join(f'i.{m}' for m in MOVING)})"
)
_NEW = "SELECT count(*) FROM incoming i LEFT JOIN offer o ON o.key = i.key WHERE o.id IS NULL"
_POLL = (
    "INSERT INTO poll (provider_id, started_at, polled_at, duration_ms, status, offers)"
    " VALUES (%(source)s, %(at)s, %(at)s, 0, 'complete', %(offers)s)"
)


def copy_and_sql_diff(
    connection: psycopg.Connection[object], source_id: int, offers: Sequence[Offer], at: datetime
) -> None:
    """COPY the whole poll into a temporary table and let the server find the differences."""
    values = {"source": source_id, "at": at, "offers": len(offers)}
    with connection.cursor() as cursor:
        cursor.execute(_TEMPORARY)
        with cursor.copy(f"COPY incoming (key, {', '.join(MOVING)}) FROM STDIN") as copy:
            for offer in offers:
                copy.write_row((offer.key, *moving(offer)))
        cursor.execute("ANALYZE incoming")
        for statement in (_CLOSE, _DELETE, _UPDATE, _NEW, _POLL):
            cursor.execute(statement, values)
    connection.commit()
