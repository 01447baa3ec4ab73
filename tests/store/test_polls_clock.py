"""A machine whose clock was ahead: its polls are refused, and those that got in are undone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.worlds import recording_engine, rows, stored_history
from tests.support.offers import make_offer, make_poll
from tracker.domain.findings import Quarantined
from tracker.store import poll_clock
from tracker.store.polls import Poll, Recorder

MINUTE = timedelta(minutes=1)
YEAR = timedelta(days=365)


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def poll(moment: datetime, prices: dict[str, str], **fields: object) -> Poll:
    """A poll at *moment*; prices are known for 30 minutes."""
    made = make_poll(0, prices)
    return dataclasses.replace(
        made, started_at=moment, polled_at=moment, every_seconds=600, **fields  # type: ignore[arg-type]
    )  # fmt: skip


def poison(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, *polls: Poll) -> None:
    """Record *polls* as a database would have whose own clock was ahead as well."""
    with monkeypatch.context() as patch:
        patch.setattr(poll_clock, "is_ahead", lambda moment, now: False)
        for one in polls:
            assert recorder.record(one).status in ("complete", "partial")


def test_a_poll_from_the_future_fails_and_says_why(
    recorder: Recorder, database_url: str, now: datetime
) -> None:
    recorder.record(poll(now - MINUTE, {"a": "1"}))
    before = stored_history(database_url)
    recorded = recorder.record(poll(now + YEAR, {"a": "2"}))
    assert recorded.status == "failed"
    assert "clock of this machine is ahead of the database's by 36" in (recorded.reason or "")
    [(error, attempt)] = rows(database_url, "SELECT last_error, last_attempt_at FROM provider")
    assert error == recorded.reason
    assert attempt < now + timedelta(hours=1)
    assert stored_history(database_url) == before
    assert recorder.record(poll(now, {"a": "2"})).changed == 1


def test_a_little_ahead_is_how_clocks_are(recorder: Recorder, now: datetime) -> None:
    assert recorder.record(poll(now + 9 * MINUTE, {"a": "1"})).status == "complete"
    assert recorder.record(poll(now, {"a": "1"})).status == "late"


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("ahead", [20 * MINUTE, YEAR])
def test_what_came_from_the_future_is_undone(
    recorder: Recorder, database_url: str, now: datetime, monkeypatch: pytest.MonkeyPatch,
    ahead: timedelta, warm: bool,
) -> None:  # fmt: skip
    start, middle = now - 20 * MINUTE, now - 10 * MINUTE
    recorder.record(poll(start, {"a": "1", "b": "5", "c": "7"}))
    recorder.record(poll(middle, {"a": "2", "b": "5", "c": "7"}))
    held = Quarantined(make_offer("z", "9"), "jump", "leapt", True, 1)
    poison(
        recorder, monkeypatch,
        poll(now + ahead, {"a": "3", "b": "5", "new": "4"}, quarantined=(held,)),
        poll(now + ahead + MINUTE, {"a": "4", "new": "4"}, status="partial"),
    )  # fmt: skip
    reader = recorder if warm else Recorder(recorder._engine)
    recorded = reader.record(poll(now, {"a": "2", "b": "6"}))
    assert recorded.status == "complete"
    end = now + 30 * MINUTE
    a, b, c = (
        [(t0, t1, int(usd)) for t0, t1, usd in stored_history(database_url)[name]] for name in "abc"
    )
    assert a == [(start, middle, 1), (middle, now, 2), (now, end, 2)]
    assert [span[2] for span in b] == [5, 6]
    assert b[-1] == (now, end, 6)
    assert c == [(start, now, 7)]
    assert "new" not in stored_history(database_url)
    assert rows(database_url, "SELECT last_ok_at FROM provider") == [(now,)]
    assert rows(database_url, "SELECT status FROM poll ORDER BY id") == [
        ("complete",), ("complete",), ("late",), ("late",), ("complete",)
    ]  # fmt: skip
    assert rows(database_url, "SELECT last_seen_at FROM quarantine") == [(now,)]
    assert reader.context("acme").complete_count == 3
    assert reader.record(poll(now + MINUTE, {"a": "2", "b": "6"})).unchanged == 2


def test_a_true_poll_that_is_late_undoes_nothing(
    recorder: Recorder, database_url: str, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.record(poll(now - MINUTE, {"a": "1"}))
    poison(recorder, monkeypatch, poll(now + YEAR, {"a": "3"}))
    assert recorder.record(poll(now - 2 * MINUTE, {"a": "2"})).status == "late"
    failed = recorder.record(poll(now, {}, status="failed", error="down"))
    assert failed.status == "failed"
    assert rows(database_url, "SELECT last_ok_at FROM provider") == [(now - MINUTE,)]
    assert recorder.record(poll(now + MINUTE, {"a": "2"})).status == "complete"


def test_a_source_that_only_knew_the_future_starts_anew(
    recorder: Recorder, database_url: str, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = [poll(now + YEAR + n * MINUTE, {"a": str(3 + n)}) for n in range(2)]
    poison(recorder, monkeypatch, *future)
    assert recorder.record(poll(now, {"a": "2"})).opened == 1
    assert [span[2] for span in stored_history(database_url)["a"]] == [2]
