"""The quarantine from poll to poll: what refused polls add, what counts, and when a row goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.worlds import recording_engine, rows, stored_history
from tests.support.offers import at, make_offer, make_poll
from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.offer import Offer
from tracker.domain.quality import Pending
from tracker.store.polls import Recorder


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


def held(offer: Offer, confirmations: int, gate: str = "jump") -> Quarantined:
    return Quarantined(offer, gate, "looks wrong", True, confirmations)


CHEAP = make_offer("a", "2")


@pytest.mark.parametrize("status", ["empty", "shrunk"])
def test_refused_polls_bring_findings_but_no_prices(
    recorder: Recorder, database_url: str, status: str
) -> None:
    other = Recorder(recorder._engine)
    recorder.record(make_poll(0, {"a": "8", "b": "1", "c": "1"}))
    before = stored_history(database_url)
    other.context("acme")
    freed = make_offer("c", "9")
    refused = make_poll(
        1, [freed], status=status, quarantined=[held(CHEAP, 1)], released=[held(freed, 3)],
        unmapped=[UnmappedGpu("GX1", "80 GB", "s", 2)],
    )  # fmt: skip
    assert recorder.record(refused).quarantined == 1
    assert stored_history(database_url) == before
    context = recorder.context("acme")
    assert context.pending == {
        (CHEAP.key, "jump"): Pending(2_000_000, 1),
        (freed.key, "jump"): Pending(9_000_000, 3),  # free only with the poll that takes it
    }
    assert context.last_price_micro_usd[CHEAP.key] == 8_000_000
    assert other.context("acme") == context, "what another recorder remembers is out of date"
    assert rows(database_url, "SELECT name FROM unmapped_gpu") == [("GX1",)]
    assert context.complete_count == 3


@pytest.mark.parametrize("status", ["failed", "empty"])
def test_refused_polls_take_nothing_away(recorder: Recorder, status: str) -> None:
    recorder.record(make_poll(0, {"b": "1"}, quarantined=[held(CHEAP, 1)]))
    recorder.record(make_poll(9, [make_offer("a", "8")], status=status))
    assert recorder.context("acme").pending == {(CHEAP.key, "jump"): Pending(2_000_000, 1)}


def test_only_polls_apart_in_time_are_due(recorder: Recorder, database_url: str) -> None:
    now = datetime.now(UTC)

    def poll(seconds_ago: float, item: Quarantined) -> None:
        moment = now - timedelta(seconds=seconds_ago)
        recorder.record(
            dataclasses.replace(
                make_poll(0, {"b": "1"}, quarantined=[item]), started_at=moment, polled_at=moment,
                every_seconds=7200,
            )
        )  # fmt: skip

    poll(3601, held(CHEAP, 1))
    [pending] = recorder.context("acme").pending.values()
    assert pending.due
    poll(600, held(CHEAP, 2))
    poll(0, dataclasses.replace(held(CHEAP, 2), counted=False))
    for context in (recorder.context("acme"), Recorder(recorder._engine).context("acme")):
        assert context.pending == {(CHEAP.key, "jump"): Pending(2_000_000, 2, due=False)}
    [(last,)] = rows(database_url, "SELECT last_seen_at FROM quarantine")
    assert last == now - timedelta(seconds=600)


def test_the_last_accepted_price_survives_another_gate_and_absences(recorder: Recorder) -> None:
    recorder.record(make_poll(0, {"a": "8", "b": "1"}))
    recorder.record(make_poll(1, {"b": "1"}, quarantined=[held(CHEAP, 1)]))
    recorder.record(make_poll(2, {"b": "1"}, quarantined=[held(CHEAP, 1, "market_outlier")]))
    recorder.record(make_poll(3, {"b": "1"}))
    context = recorder.context("acme")
    assert context.last_price_micro_usd[CHEAP.key] == 8_000_000
    assert context.pending.keys() == {(CHEAP.key, "market_outlier")}
    assert context.complete_count == 2, "one is there, one waits"
    recorder.record(make_poll(5, {"b": "1"}))
    assert recorder.context("acme").pending == {}


@pytest.mark.parametrize("gate", ["jump", "market_outlier"])
def test_a_release_ends_with_its_price(recorder: Recorder, gate: str) -> None:
    recorder.record(make_poll(0, {"a": "8"}))
    recorder.record(make_poll(1, [CHEAP], released=[held(CHEAP, 3, gate)]))
    recorder.record(make_poll(2, {"a": "2.08"}))
    assert recorder.context("acme").pending
    recorder.record(make_poll(3, {"a": "2.16"}))  # 4 % more, 8 % in all
    assert bool(recorder.context("acme").pending) == (gate == "market_outlier")
    recorder.record(make_poll(4, {"a": "2.5"}))
    assert recorder.context("acme").pending == {}


def test_a_release_outlives_one_absence_with_its_price(recorder: Recorder) -> None:
    recorder.record(make_poll(0, {"a": "8", "b": "1"}))
    both = [CHEAP, make_offer("b", "1")]
    recorder.record(make_poll(1, both, released=[held(CHEAP, 3)]))
    for minutes in range(2, 12):
        recorder.record(make_poll(minutes, both))
    recorder.record(make_poll(12, {"b": "1"}))
    assert recorder.context("acme").last_price_micro_usd[CHEAP.key] == 2_000_000
    assert recorder.context("acme").last_ok_at == at(12)
    recorder.record(make_poll(13, {"b": "1"}))
    assert recorder.context("acme").pending == {}
