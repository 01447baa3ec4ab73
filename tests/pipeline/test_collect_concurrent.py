"""Providers polled side by side for the first time, on a database that has never seen a poll."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import psycopg
import pytest

from tests.support.offers import make_offer, make_poll
from tracker.store import partitions
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder


def test_the_first_poll_of_a_seller_and_of_a_book_that_lists_it(
    monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """Both need the month's partition; the book also needs the row that the seller's poll made."""
    both, made = threading.Barrier(2, timeout=20), threading.Event()
    ensure = partitions.ensure

    def in_turn(cursor: psycopg.Cursor[Any], months: Iterable[datetime]) -> None:
        both.wait()
        if threading.current_thread().name == "acme":
            made.wait(20)
        ensure(cursor, months)
        made.set()

    monkeypatch.setattr(partitions, "ensure", in_turn)
    engine = make_engine(database_url)
    recorder = Recorder(engine)
    polls = {
        "acme": make_poll(0, {"a": "1"}, source="acme"),
        "book": make_poll(0, [make_offer("a", "2", source="book", seller="acme")], source="book"),
    }

    def record(name: str) -> str:
        threading.current_thread().name = name
        return recorder.record(polls[name]).status

    try:
        with ThreadPoolExecutor() as pool:
            assert list(pool.map(record, polls)) == ["complete", "complete"]
    finally:
        engine.dispose()
