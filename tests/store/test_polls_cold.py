"""A recorder that has just been started writes what one that remembers would have written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.worlds import recording_engine, rows, stored_history
from tests.support.offers import at, make_offer, make_poll
from tracker.domain import spans
from tracker.domain.findings import Quarantined
from tracker.domain.offer import Availability, Extras, Offer
from tracker.store.polls import Poll, PollContext, Recorded, Recorder

_worlds = itertools.count()


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


@dataclass(frozen=True)
class Look:
    """How an offer looks in one poll."""

    name: str
    price: str
    currency: str
    rate: str
    stock: int | None
    label: str | None
    disk: str | None
    flags: tuple[str, ...]


LOOKS = st.builds(
    Look,
    name=st.sampled_from("abcd"),
    price=st.sampled_from(["1", "1.0", "1.50", "1.5", "0.0000004"]),
    currency=st.sampled_from(["USD", "USD", "EUR"]),
    rate=st.sampled_from(["1.1", "1.10", "1.2"]),
    stock=st.none() | st.integers(0, 1),
    label=st.none() | st.sampled_from(["", "None", "a\0", "\x1f", "\ud800"]),
    disk=st.none() | st.sampled_from(["0", "10", "10.0", "1E+1"]),
    flags=st.sampled_from([(), ("odd",)]),
)
STEPS = st.tuples(
    st.sampled_from([0.5, 1, 1, 1, 2, 3, 5]),  # minutes since the step before
    st.sampled_from(["complete"] * 3 + ["partial"] * 2 + ["shrunk"]),
    st.lists(LOOKS, max_size=5),
    st.lists(LOOKS, max_size=1),  # held by a gate
)
Step = tuple[float, str, list[Look], list[Look]]


def offer_of(look: Look, source: str) -> Offer:
    return make_offer(
        look.name, look.price, source=source, currency=look.currency, fx_rate=look.rate,
        flags=look.flags, extras=Extras(
            Availability.YES, look.stock, look.label,
            None if look.disk is None else Decimal(look.disk),
        ),
    )  # fmt: skip


def poll_of(step: Step, minutes: float, source: str) -> Poll:
    _, status, accepted, held = step
    return make_poll(
        minutes, [offer_of(look, source) for look in accepted], source=source, status=status,
        quarantined=[Quarantined(offer_of(x, source), "jump", "odd", True, 1) for x in held],
    )  # fmt: skip


def play(warm: Recorder, source: str, world: list[Step], *, cold: bool) -> list[Any]:
    """Record a world and return all that was said of it: contexts and outcomes, without ids."""
    said: list[PollContext | Recorded] = []
    now = 0.0
    for number, step in enumerate(world):
        now += step[0]
        recorder = Recorder(warm._engine) if cold else warm
        if number % 2:  # as a collector does: what the gates must know comes first
            context = recorder.context(source)
            said.append(replace(context, pending={}, last_price_micro_usd={}))
            names = {
                offer_of(look, source).key: (look.name, look.currency)
                for _, _, *both in world for looks in both for look in looks
            }  # fmt: skip
            said.append({names[k]: p for k, p in context.last_price_micro_usd.items()})
            said.append({(names[k], gate): p for (k, gate), p in context.pending.items()})
        said.append(replace(recorder.record(poll_of(step, now, source)), poll_id=0))
    return said


_ROWS = """
SELECT to_jsonb(n) - '{offer_id,key,source_id,seller_id,floor_id}'::text[] FROM offer_now n
JOIN provider p ON p.id = n.source_id WHERE p.slug = %s ORDER BY n.native_id, n.currency
"""


def open_rows(url: str, source: str) -> list[tuple[Any, ...]]:
    return rows(url, _ROWS, (source,))


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=st.lists(STEPS, max_size=7))
def test_cold_recorders_write_what_a_warm_one_does(
    database_url: str, recorder: Recorder, world: list[Step]
) -> None:
    number = next(_worlds)
    warm, cold = f"warm{number}", f"cold{number}"
    assert play(recorder, cold, world, cold=True) == play(recorder, warm, world, cold=False)
    assert open_rows(database_url, cold) == open_rows(database_url, warm)
    assert stored_history(database_url, cold) == stored_history(database_url, warm)


def states(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "SELECT native_id, mark, price_native, xmin::text FROM offer_now ORDER BY 1")


@pytest.mark.parametrize("ask_first", [True, False])
def test_marks_of_an_older_version_cost_one_update_and_no_span(
    recorder: Recorder, database_url: str, *, ask_first: bool
) -> None:
    poll = {"a": "1", "b": "2", "c": "3"}
    recorder.record(make_poll(0, poll))
    before = states(database_url)
    rows(database_url, "UPDATE offer_now SET mark = 'of older' WHERE native_id <> 'c'")
    cold = Recorder(recorder._engine)
    if ask_first:
        assert len(cold.context("acme").last_price_micro_usd) == 3
    recorded = cold.record(make_poll(1, poll | {"b": "2.5"}))
    assert (recorded.changed, recorded.updated, recorded.unchanged) == (1, 1, 1)
    assert [row[0] for row in rows(database_url, "SELECT price_native FROM price_span")] == [2]
    healed = states(database_url)
    assert [row[1] == old[1] for row, old in zip(healed, before, strict=True)] == [
        True, False, True
    ]  # fmt: skip
    again = Recorder(recorder._engine).record(make_poll(2, poll | {"b": "2.5"}))
    assert again.unchanged == 3
    assert states(database_url) == healed


def test_another_version_of_marks_changes_no_history(
    recorder: Recorder, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.record(make_poll(0, {"a": "1", "b": "2"}))
    before = stored_history(database_url)
    monkeypatch.setattr(spans, "_MARK_VERSION", "another")
    for daemon in (recorder, Recorder(recorder._engine)):
        recorded = daemon.record(make_poll(1 if daemon is recorder else 2, {"a": "1", "b": "2"}))
        assert recorded.updated == (2 if daemon is recorder else 0)
        assert recorded.changed == recorded.opened == recorded.closed == 0
    after = stored_history(database_url)
    assert {
        name: [(start, price) for start, _, price in known] for name, known in after.items()
    } == {name: [(start, price) for start, _, price in known] for name, known in before.items()}


def test_a_cold_recorder_knows_what_partial_polls_missed(
    recorder: Recorder, database_url: str
) -> None:
    recorder.record(make_poll(0, {"a": "1", "b": "1"}))
    recorder.record(make_poll(1, {"a": "1"}, status="partial"))
    seen_until = "SELECT native_id, seen_until FROM offer_now ORDER BY 1"
    assert rows(database_url, seen_until) == [("a", None), ("b", at(0))]
    Recorder(recorder._engine).record(make_poll(2, {"a": "1", "b": "1"}, status="partial"))
    assert rows(database_url, seen_until) == [("a", None), ("b", None)]


def test_words_that_the_store_cannot_hold_are_no_change(recorder: Recorder) -> None:
    offers = [make_offer("a", "1", extras=Extras(stock_label="\0\ud800", valid_as_of=date.min))]
    recorder.record(make_poll(0, offers))
    assert Recorder(recorder._engine).record(make_poll(1, offers)).unchanged == 1
