"""What is kept between questions: connections, and what filters leave of the market."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import filled, polled, record
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.app import live, market
from tracker.app.answers import Answers, Question
from tracker.app.live import LiveApp
from tracker.store.engine import connect
from tracker.store.errors import StoreError


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
        for number in range(8):
            ask(region=[f"r{number}"])
        kept = app.market._prepared
        assert 0 < sum(map(len, kept.values())) <= 20
        before = list(kept.values())
        ask(region=["r7"], disk=0, setup=1)  # another job
        assert list(kept.values()) == before, "another job needs no other selection"
