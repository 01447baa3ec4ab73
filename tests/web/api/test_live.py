"""What is kept between questions: connections, and what filters leave of the market."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.harness import filled, polled, record
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.api.served import client
from tracker.app import live, market
from tracker.app.answers import Answers, Question
from tracker.app.live import LiveApp
from tracker.store.deadline import within
from tracker.store.engine import connect
from tracker.store.errors import DatabaseUnreachable, StoreError
from tracker.web.api import app as app_module
from tracker.web.api.app import MARK_HOLDS_S, Service


def _app(url: str, folder: Path) -> LiveApp:
    env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(folder)}
    return LiveApp(lambda: url, None, env)


def _backend(app: LiveApp) -> int:
    with app.reading() as connection:
        return connection.info.backend_pid


def test_a_connection_is_used_again_at_a_new_snapshot(database_url: str, tmp_path: Path) -> None:
    app = _app(database_url, tmp_path)
    first = _backend(app)
    record(database_url, polled("acme", [make_offer("a", "1")]))
    with app.reading() as connection:
        assert connection.info.backend_pid == first
        assert connection.execute("SELECT count(*) FROM offer_now").fetchone() == (1,)


def test_one_that_was_lost_or_rested_too_long_is_replaced(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _app(database_url, tmp_path)
    first = _backend(app)
    with connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (first,))
    second = _backend(app)
    assert second != first
    monkeypatch.setattr(live, "IDLE_S", 0.0)
    assert _backend(app) != second


@contextmanager
def _stopped(backend: int) -> Iterator[None]:
    os.kill(backend, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(backend, signal.SIGCONT)


def test_one_whose_server_hangs_is_dropped(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STATE_S", 0.3)
    monkeypatch.setattr(live, "QUESTION_S", 0.6)
    app = _app(database_url, tmp_path)
    with _stopped(_backend(app)):
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachable, match="has not answered for"):
            app.mark()
        assert time.monotonic() - began < 5
        app.mark()  # with another one
    monkeypatch.setattr(live, "STATE_S", 30)
    with (
        pytest.raises(DatabaseUnreachable, match=r"for 0\.6 s"),
        app.reading() as connection,
        _stopped(connection.info.backend_pid),
    ):
        connection.execute("SELECT 1")
    with within(connection, 0):
        time.sleep(0.05)  # a connection that is closed needs nothing of it


def test_a_database_that_hangs_is_told_to_those_who_ask(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STATE_S", 0.3)
    record(database_url, polled("acme", [make_offer("a", "2")], 9))
    with client(database_url, tmp_path) as asking:
        asking.get("/api/v1/cheapest?job=bert-large")
        with connect(database_url) as other:
            found = other.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
        with ExitStack() as stack:
            for (backend,) in found:
                stack.enter_context(_stopped(backend))
            time.sleep(MARK_HOLDS_S)  # its state is not known any more
            got = asking.ask("/api/v1/cheapest?job=bert-large")
        assert (got.status_code, got.json()["type"][-9:]) == (503, ":database")
        assert asking.ask("/api/v1/cheapest?job=bert-large").status_code == 200


def test_one_that_failed_is_not_kept(database_url: str, tmp_path: Path) -> None:
    app = _app(database_url, tmp_path)
    first = _backend(app)
    with pytest.raises(StoreError), app.reading() as connection:
        connection.execute("SELECT nothing_so_called")
    assert _backend(app) != first


def test_selections_are_kept_within_their_bound(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [make_offer(f"o{n}", "1.5", region=f"r{n}") for n in range(8)]
    with filled(database_server, polled("acme", offers)) as url:
        app = _app(url, tmp_path)
        answers = Answers(app)

        def ask(**given: object) -> object:
            return answers.cheapest(Question.of("cheapest", job="bert-large", **given)).rows[0]

        monkeypatch.setattr(market, "MOST_PREPARED", 20)
        monkeypatch.setattr(market, "_EMPTY", 0)
        for number in range(8):
            ask(region=[f"r{number}"])
        kept = app.market._prepared
        assert 0 < sum(map(len, kept.values())) <= 20
        before = list(kept.values())
        ask(region=["r7"], disk=0, setup=1)  # another job
        assert list(kept.values()) == before, "another job needs no other selection"


def test_selections_that_leave_nothing_are_bounded_too(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market, "MOST_SELECTIONS", 7)
    with filled(database_server, polled("acme", [make_offer("a", "1.5")])) as url:
        app = _app(url, tmp_path)
        for number in range(1, 30):
            Answers(app).offers(Question.of("offers", gpu=["A100"], min_vcpus=number))
            assert len(app.market._prepared) == len(app.market._weights) <= 7
        assert app.market._weight == sum(app.market._weights.values())
        monkeypatch.setattr(market, "MOST_PREPARED", 4 * market._EMPTY)
        for number in range(1, 30):
            given = {"region": [f"{n}{number}".ljust(99, "x") for n in range(18)]}
            Answers(app).offers(Question.of("offers", gpu=["A100"], **given))
        assert len(app.market._prepared) == 2, "the texts of a question weigh something"


def test_who_is_content_with_what_is_at_hand_asks_no_database(
    database_url: str, tmp_path: Path
) -> None:
    reachable = [True]

    def url() -> str:
        if not reachable[0]:
            raise StoreError("nobody asks")
        return database_url

    env = {"GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path)}
    app = LiveApp(url, None, env)

    def price() -> Decimal:
        question = Question.of("cheapest", job="bert-large", provider=["acme"])
        return Answers(app).cheapest(question).rows[0].bill.price.usd

    record(database_url, polled("acme", [make_offer("a", "2")], 9))
    before = time.monotonic()
    with app.content_with(before):
        assert price() == 2, "nothing is at hand yet"
        reachable[0] = False
        assert price() == 2
    with pytest.raises(StoreError):
        price()
    reachable[0] = True
    record(database_url, polled("acme", [make_offer("a", "3")], 8))
    with app.content_with(before):
        assert price() == 2
    with app.content_with(time.monotonic()):
        assert price() == 3, "what is at hand is older"
    record(database_url, polled("acme", [make_offer("a", "4")], 7))
    since = time.monotonic()
    app.mark()  # has what is at hand brought up to it
    assert app.market.at_hand is not None
    assert app.market.at_hand.since >= since
    with app.content_with(since):
        assert price() == 4


def test_the_state_is_read_again_before_it_is_too_old() -> None:
    begun, release, reads = threading.Event(), threading.Event(), []

    class Slowly:
        """The second reading takes for as long as the test wants."""

        def mark(self) -> int:
            reads.append(len(reads))
            if reads[-1]:
                begun.set()
                release.wait(30)
            return reads[-1]

    async def ask() -> None:
        service = Service(lambda: SimpleNamespace(app=Slowly()))  # type: ignore[arg-type,return-value]
        assert await service.mark() == 0
        assert service._marked is not None
        service._marked = service._marked[0] - MARK_HOLDS_S * 0.7, 0
        assert await asyncio.wait_for(service.mark(), 5) == 0, "while another one is read"
        assert await asyncio.to_thread(begun.wait, 30)
        service._marked = service._marked[0] - MARK_HOLDS_S, 0
        waiting = asyncio.ensure_future(service.mark())
        await asyncio.sleep(0.05)
        assert not waiting.done(), "it is too old"
        release.set()
        assert await waiting == 1

    asyncio.run(ask())


def test_nobody_waits_for_a_state_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MARK_TAKES_S", 0.2)
    release, reads = threading.Event(), []

    class Never:
        """A database that does not answer until the test wants it to."""

        def mark(self) -> int:
            reads.append(1)
            release.wait(30)
            return 7

    async def ask() -> None:
        service = Service(lambda: SimpleNamespace(app=Never()))  # type: ignore[arg-type,return-value]
        for _ in range(3):
            with pytest.raises(DatabaseUnreachable):
                await service.mark()
        assert len(reads) == 1, "one waits for it, however many ask"
        release.set()
        assert service._marking is not None
        await service._marking
        assert await service.mark() == 7

    asyncio.run(ask())
