"""The archive of answers: whole, once, and no longer than wanted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg
import pytest

from tests.store.worlds import recording_engine, rows
from tests.support.offers import at, make_poll
from tracker.provider import Payload
from tracker.store import archive
from tracker.store.engine import connect
from tracker.store.polls import Recorder


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database_url) as opened:
        yield opened


def answer(body: bytes, minutes: float = 0, url: str = "https://api.example/x") -> Payload:
    return Payload(url, body, at(minutes), "POST", b'{"n": 8}', 200, {"etag": 'W/"1"'})


LONG = b'{"price": 1.25}' * 1000


def test_answers_come_back_word_for_word(
    recorder: Recorder, connection: psycopg.Connection[Any], database_url: str
) -> None:
    payloads = [answer(LONG), answer(b"\x00\xff"), answer(b"")]
    recorded = recorder.record(make_poll(0, {"a": "1"}, payloads=payloads))
    assert archive.payloads_of_poll(connection, recorded.poll_id) == payloads
    [(largest,)] = rows(database_url, "SELECT max(octet_length(body)) FROM payload_body")
    assert largest < len(LONG) / 10


def test_repeated_bodies_are_kept_once(recorder: Recorder, database_url: str) -> None:
    for minutes in range(3):
        payloads = [answer(LONG, minutes), answer(LONG, minutes, "https://api.example/y")]
        recorder.record(make_poll(minutes, {"a": "1"}, payloads=payloads))
    assert rows(database_url, "SELECT count(*) FROM payload") == [(6,)]
    assert rows(database_url, "SELECT count(*) FROM payload_body") == [(1,)]


def test_failed_polls_keep_their_answers_and_refused_ones_do_not(
    recorder: Recorder, connection: psycopg.Connection[Any]
) -> None:
    broken = make_poll(1, status="failed", payloads=[answer(b"<html>")])
    assert archive.payloads_of_poll(connection, recorder.record(broken).poll_id)
    recorder.record(make_poll(2, {"a": "1"}))
    late = recorder.record(make_poll(1.5, {"a": "1"}, payloads=[answer(b"late")]))
    assert late.status == "late"
    connection.rollback()
    assert archive.payloads_of_poll(connection, late.poll_id) == []


def test_retention_spares_the_answers_behind_current_prices(
    recorder: Recorder, connection: psycopg.Connection[Any], database_url: str
) -> None:
    def poll(minutes: float, body: bytes, **fields: Any) -> int:
        payloads = [answer(body, minutes)]
        return recorder.record(make_poll(minutes, {"a": "1"}, payloads=payloads, **fields)).poll_id

    old, shared = poll(0, b"old"), poll(1, b"shared")
    current = poll(2, b"current")
    failed = poll(2.5, b"failed", status="failed")
    fresh = poll(100, b"shared", source="other")
    archive.remember_answer(connection, "k", body=b"old", stored_at=at(50))
    archive.remember_answer(connection, "of a page long gone", body=b"page", stored_at=at(49))
    connection.commit()

    assert archive.delete_payloads_before(connection, at(50)) == archive.Deleted(3, 2, 1)
    connection.commit()
    kept = {i for i in (old, shared, current, failed, fresh)
            if archive.payloads_of_poll(connection, i)}  # fmt: skip
    assert kept == {current, fresh}
    bodies = {bytes(body) for (body,) in rows(database_url, "SELECT body FROM payload_body")}
    assert bodies == {b"old", b"shared", b"current"}  # "old" still serves conditional requests
    assert archive.cached_answer(connection, "of a page long gone") is None
    assert archive.delete_payloads_before(connection, at(50)) == archive.Deleted(0, 0)


def test_retention_waits_for_no_poll_and_breaks_none(
    recorder: Recorder, connection: psycopg.Connection[Any], database_url: str
) -> None:
    recorder.record(make_poll(0, {"a": "1"}, payloads=[answer(b"one")]))
    recorder.record(make_poll(1, {"a": "1"}, payloads=[answer(b"two")]))
    with connect(database_url) as polling, polling.cursor() as cursor:
        archive._store_bodies(cursor, [b"one"])  # a poll about to refer to it again
        assert archive.delete_payloads_before(connection, at(1)) == archive.Deleted(1, 0)
        polling.rollback()
    assert archive.delete_payloads_before(connection, at(1)) == archive.Deleted(0, 1)


@pytest.mark.parametrize("key", ["https://x/y", "https://x/?" + "a" * 5000])
def test_conditional_requests(connection: psycopg.Connection[Any], key: str) -> None:
    assert archive.cached_answer(connection, key) is None
    for number, body in enumerate((LONG, b"short", b"")):
        archive.remember_answer(
            connection, key, body=body, stored_at=at(number), etag=f'"{number}"',
            last_modified="Mon", headers={"content-type": "text/csv"},
        )  # fmt: skip
        moment: datetime = at(number)
        assert archive.cached_answer(connection, key) == archive.CachedAnswer(
            f'"{number}"', "Mon", {"content-type": "text/csv"}, body, moment
        )
    assert archive.forget_answers(connection, ["other"]) == 0
    assert archive.forget_answers(connection, [key]) == 1
    archive.remember_answer(connection, key, body=b"", stored_at=at(0))
    assert archive.forget_answers(connection) == 1
