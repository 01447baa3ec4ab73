"""gpucost db rebuild-floor and retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.harness import run
from tests.store.worlds import recording_engine, rows
from tests.support.offers import make_offer, make_poll
from tracker.store.polls import Recorder


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A price that was replaced three years ago, and has stood since."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    with recording_engine(database_url) as engine:
        recorder = Recorder(engine)
        for days, price in ((1100, "1"), (1099, "2"), (0, "2")):
            moment = datetime.now(UTC) - timedelta(days=days)
            recorder.record(make_poll(0, [make_offer("a", price)], polled_at=moment))
    return database_url


def steps(url: str) -> list[tuple[object, ...]]:
    return rows(url, "SELECT price_native, valid_from, valid_to FROM price_floor ORDER BY 2")


def test_old_spans_go_when_asked_and_the_floor_stays(url: str) -> None:
    before = steps(url)
    dry = run("db", "retention", "--dry-run")
    assert dry.code == 0
    assert "would go" in dry.out
    assert len(rows(url, "SELECT 1 FROM price_span")) == 2
    done = run("db", "retention")
    assert (done.code, "forgotten" in done.out) == (0, True)
    assert rows(url, "SELECT 1 FROM price_span") == []
    assert steps(url) == before
    assert run("db", "retention").out.startswith("nothing to forget")


def test_spans_are_kept_for_ever_if_configured(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_RETENTION__SPAN_MONTHS", "0")
    assert "for ever" in run("db", "retention").out
    assert len(rows(url, "SELECT 1 FROM price_span")) == 2


def test_the_floor_is_built_anew(url: str) -> None:
    before = steps(url)
    rows(url, "DELETE FROM price_floor")
    result = run("db", "rebuild-floor", "--source", "acme")
    assert (result.code, result.out) == (0, "3 steps of 1 price floors, from 1 sources\n")
    assert steps(url) == before


def test_a_source_that_never_told_anything_is_one_line(url: str) -> None:
    result = run("db", "rebuild-floor", "--source", "nobody")
    assert result.code == 2
    assert "'nobody'" in result.complaint
