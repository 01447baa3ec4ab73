"""Values as fields of PostgreSQL's binary COPY format: a length of four bytes and the bytes.

The format is that of the manual, page "COPY"; the bytes of each type are those of its send function
(``numeric_send``, ``array_send``, ...).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy
from sqlalchemy.dialects import postgresql

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
Field = Callable[[Any], bytes]

_EPOCH, _DAY_ZERO = datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 1)
_TEXT_OID = 25
_MOST_DIGITS = 16_383  # of a numeric behind the point


def text(value: str | None) -> bytes:
    """A text. Raises ValueError for one that UTF-8 or PostgreSQL has no bytes for."""
    if value is None:
        return NULL
    if "\0" in value:
        raise ValueError("a text holds the character 0")
    return raw(value.encode())


def texts_as_fields(values: Sequence[str]) -> list[bytes]:
    """``text`` of many. Raises ValueError."""
    if "\0" in "".join(values):
        raise ValueError("a text holds the character 0")
    size = struct.Struct(">i").pack
    return [size(len(sent)) + sent for sent in map(str.encode, values)]


def raw(value: bytes) -> bytes:
    """Bytes."""
    return struct.pack(">i", len(value)) + value


def flag(value: bool | None) -> bytes:
    """A boolean."""
    return NULL if value is None else b"\0\0\0\1" + (b"\1" if value else b"\0")


def int4(value: int | None) -> bytes:
    """An integer of four bytes. Raises struct.error where it does not fit."""
    return NULL if value is None else struct.pack(">ii", 4, value)


def int8(value: int | None) -> bytes:
    """An integer of eight bytes. Raises struct.error where it does not fit."""
    return NULL if value is None else struct.pack(">iq", 8, value)


def day(value: date | None) -> bytes:
    """A date."""
    return NULL if value is None else int4((value - _DAY_ZERO).days)


def moment(value: datetime | None) -> bytes:
    """A timestamptz."""
    return NULL if value is None else int8((value - _EPOCH) // timedelta(microseconds=1))


def numeric(value: Decimal | None) -> bytes:
    """A numeric with the digits of *value*, trailing zeros included. Raises ValueError where it has
    more than PostgreSQL keeps."""
    if value is None:
        return NULL
    whole, _, fraction = f"{value.copy_abs():f}".partition(".")
    if len(fraction) > _MOST_DIGITS or len(whole) > _MOST_DIGITS:
        raise ValueError("a number of too many digits")
    digits = whole.zfill(-(-len(whole) // 4) * 4) + fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int(digits[i : i + 4]) for i in range(0, len(digits), 4)]
    weight = -(-len(whole) // 4) - 1
    while groups and not groups[0]:
        del groups[0]
        weight -= 1
    while groups and not groups[-1]:
        del groups[-1]
    sign = 0x4000 if value < 0 else 0
    head = len(groups), weight if groups else 0, sign, len(fraction)
    return raw(struct.pack(f">HhHH{len(groups)}H", *head, *groups))


def texts(values: Sequence[str]) -> bytes:
    """A text[] without nulls."""
    if not values:
        return raw(struct.pack(">iii", 0, 0, _TEXT_OID))
    return raw(struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1) + b"".join(map(text, values)))


_OF_TYPE: dict[type[Any], Field] = {
    sqlalchemy.Text: text, sqlalchemy.Integer: int4, sqlalchemy.BigInteger: int8,
    sqlalchemy.Boolean: flag, sqlalchemy.Numeric: numeric, sqlalchemy.LargeBinary: raw,
    sqlalchemy.Date: day, sqlalchemy.DateTime: moment, postgresql.ARRAY: texts,
}  # fmt: skip


def field_of(column: sqlalchemy.Column[Any]) -> Field:
    """What makes fields of values of *column*."""
    return _OF_TYPE[type(column.type)]
