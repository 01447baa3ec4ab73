"""Fields of PostgreSQL's binary COPY format: the server takes them for what they mean."""

# ruff: noqa: S608 - names of the test only
from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.pg import TestServer
from tracker.store.bulk import fields
from tracker.store.bulk.rows import COLUMNS, Pieces, Spans, encode
from tracker.store.engine import connect

KINDS = {
    "numeric": fields.numeric, "text": fields.text, "date": fields.day, "int4": fields.int4,
    "timestamptz": fields.moment, "int8": fields.int8, "bool": fields.flag, "text[]": fields.texts,
    "bytea": fields.raw,
}  # fmt: skip
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@pytest.fixture(scope="module")
def connection(database_server: TestServer) -> Iterator[psycopg.Connection[Any]]:
    with database_server.database(migrated=True) as url, connect(url, autocommit=True) as found:
        for kind in KINDS:
            name = kind.replace("[]", "s")
            found.execute(f"CREATE TEMP TABLE of_{name} (n int, told {kind}, meant {kind})")
        yield found


def check(connection: psycopg.Connection[Any], kind: str, value: Any) -> None:
    name = f"of_{kind.replace('[]', 's')}"
    connection.execute(f"TRUNCATE {name}")
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {name} (told) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(fields.HEADER + b"\0\1" + KINDS[kind](value) + fields.END)
        cursor.execute(f"UPDATE {name} SET meant = %s", (value,))
        cursor.execute(f"SELECT told::text, meant::text FROM {name}")
        [(told, meant)] = cursor.fetchall()
    assert told == meant  # of numbers the trailing zeros, too


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
    | st.decimals(allow_nan=False, allow_infinity=False, places=7, max_value=10**9, min_value=0)
)
@example(Decimal("0"))
@example(Decimal("0.000"))
@example(Decimal("1E+9"))
@example(Decimal("1E-40"))
@example(Decimal("10000"))
@example(Decimal("10000.0001"))
@example(Decimal("1.000000000000000000"))
def test_numbers(connection: psycopg.Connection[Any], value: Decimal) -> None:
    check(connection, "numeric", Decimal(f"{value:f}"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words, st.lists(words, max_size=3), st.datetimes(timezones=st.just(UTC)), st.dates())
def test_everything_else(
    connection: psycopg.Connection[Any], text: str, texts: list[str], at: datetime, day: date
) -> None:
    for kind, value in {
        "text": text, "text[]": texts, "timestamptz": at, "date": day, "bytea": text.encode(),
        "int4": -len(text), "int8": 2**62, "bool": bool(text),
    }.items():  # fmt: skip
        check(connection, kind, value)
    for kind in KINDS.keys() - {"text[]", "bytea"}:
        check(connection, kind, None)


@pytest.mark.parametrize("value", [Decimal("1e-20000"), Decimal("1e20000")])
def test_numbers_of_too_many_digits_are_refused(value: Decimal) -> None:
    with pytest.raises(ValueError, match="too many digits"):
        fields.numeric(value)


def test_a_text_that_the_server_would_refuse() -> None:
    for refuse in (fields.text, lambda text: fields.texts_as_fields(["a", text])):
        with pytest.raises(ValueError, match="character 0"):
            refuse("a\0b")


def test_rows_of_pieces_of_all_lengths(connection: psycopg.Connection[Any]) -> None:
    """Some end with bytes of zero, which NumPy takes for the end of a text."""
    tails = [fields.numeric(Decimal(n)) for n in (1, 10_000, 65_536 * 256)]
    heads = [fields.text(t) + fields.text("m") + fields.text("t") for t in ("a", "bcd", "")]
    rest = fields.NULL * 3 + fields.NULL + fields.flag(False)
    count = 500
    n = np.arange(count)
    who = fields.int4(1) + fields.int4(256)
    spans = Spans(
        n * 256,
        (Pieces([who + head for head in heads], n % 3), Pieces(tails, n % 2),
         Pieces([fields.text("region"), fields.NULL], n % 2),
         Pieces([fields.numeric(Decimal(k)) for k in range(1, 8)], n % 7), Pieces([rest], n * 0)),
        n + 1, n * 10**6, (n + 1) * 10**6, n % 5,
    )  # fmt: skip
    connection.execute("CREATE TEMP TABLE spans (LIKE price_span)")
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY spans ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(fields.HEADER)
            for line in encode(spans, n):
                copy.write(line)
            copy.write(fields.END)
        cursor.execute(
            "SELECT offer_id, source_id, seller_id, gpu_key, gpu_count, region, price_native,"
            " price_micro_usd, date_part('epoch', valid_from), date_part('epoch', valid_to)"
            " FROM spans ORDER BY offer_id"
        )
        assert cursor.fetchall() == [
            (i * 256, 1, 256, ("a", "bcd", "")[i % 3], Decimal((1, 10_000)[i % 2]),
             ("region", None)[i % 2], Decimal(i % 7 + 1), i + 1, i, i + 1)
            for i in range(count)
        ]  # fmt: skip
