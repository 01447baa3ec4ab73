"""What must always hold of a rule, whatever it is fed with."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.domain.rule_oracle import Oracle
from tests.domain.rule_scenarios import MINUTE, START, Evaluation, evaluations, good, run
from tracker.domain.rule import (
    SILENT_KINDS,
    Event,
    Health,
    Kind,
    Phase,
    Policy,
    Sample,
    State,
    acknowledge,
    edited,
    replay,
    step,
)
from tracker.domain.rule.machine import late_end

D = Decimal
EDGES = [D("0.98"), D("0.98").next_plus(), D("0.98").next_minus()]
EDGES += [D("1.02"), D("1.02").next_plus(), D("1.02").next_minus()]

_minutes = st.sampled_from([0, 1, 10, 30, 60]).map(lambda n: n * MINUTE)
policies = st.builds(
    Policy,
    min_duration=_minutes,
    min_count=st.integers(1, 4),
    keep_firing=_minutes,
    cooldown=st.sampled_from([0, 45, 180]).map(lambda n: n * MINUTE),
    remind_every=st.sampled_from([None, 20 * MINUTE, 90 * MINUTE]),
    max_gap=st.sampled_from([15, 30, 60]).map(lambda n: n * MINUTE),
    health_after=st.sampled_from([0, 20, 60]).map(lambda n: n * MINUTE),
    on_start=st.sampled_from(["notify", "baseline"]),
    send_resolved=st.booleans(),
)
_values = st.sampled_from([D("0.5"), D("0.9"), D(1), D("1.1"), D(2), *EDGES])
_bad = st.builds(
    Sample,
    st.sampled_from([h for h in Health if h is not Health.GOOD]),
    st.none() | _values,
    st.just("why"),
)
_samples = st.one_of(*[_values.map(good)] * 4, _bad)
_silences = st.sampled_from([None, None, None, "silence 12"])


def traces(steps: st.SearchStrategy[timedelta]) -> st.SearchStrategy[list[Evaluation]]:
    """Stretches of like samples, for a rule waits for such; times by *steps*."""
    stretch = st.tuples(_samples, _silences, st.lists(steps, min_size=1, max_size=8))

    def laid_out(stretches: list[tuple[Sample, str | None, list[timedelta]]]) -> list[Evaluation]:
        now, found = START, []
        for sample, silence, waits in stretches:
            for wait in waits:
                now += wait
                found.append(Evaluation(now, sample, silence))
        return found

    return st.lists(stretch, min_size=1, max_size=10).map(laid_out)


FORWARD = st.sampled_from([1, 5, 5, 5, 10, 10, 15, 30, 31, 61, 200]).map(lambda n: n * MINUTE)
ANY_WAY = FORWARD | st.sampled_from(
    [timedelta(0), -MINUTE, -10 * MINUTE, timedelta(days=-400), timedelta(days=400)]
)
forward = traces(FORWARD)
any_way = traces(ANY_WAY)


@settings(max_examples=133, deadline=None)
@given(policies, forward)
def test_it_does_what_its_whole_history_asks_for(policy: Policy, trace: list[Evaluation]) -> None:
    expected = Oracle(policy, trace).answer()
    state, phases = State(), []
    said: list[tuple[int, str, str | None]] = []
    for i, one in enumerate(trace):
        state, events = step(policy, state, one.sample, one.at, silence=one.silence)
        phases.append(state.phase.value)
        said += [(i, event.kind.value, event.suppressed_by) for event in events]
    assert phases == expected.phases
    assert sorted(said, key=str) == sorted(expected.events, key=str)


@settings(deadline=None)
@given(policies, any_way)
def test_bad_data_and_a_clock_that_stands_or_goes_back_move_nothing(
    policy: Policy, trace: list[Evaluation]
) -> None:
    state, before = State(), None
    for one in trace:
        after, events = step(policy, state, one.sample, one.at, silence=one.silence)
        moved_on = before is None or one.at > before
        if one.sample.health is not Health.GOOD or not moved_on:
            of_now = {event.kind for event in events if event.firing_until is None}
            assert of_now <= {Kind.DATA_PROBLEM, Kind.DATA_OK}
            assert after.phase is state.phase
            assert after.firing_seq == state.firing_seq
            assert after.count <= state.count
            assert after.held <= state.held
        if before == one.at:
            assert (after, events) == (state, ())
        state, before = after, one.at


@settings(deadline=None)
@given(policies, any_way)
def test_no_time_lies_ahead_of_the_clock(policy: Policy, trace: list[Evaluation]) -> None:
    state = State()
    for one in trace:
        state, _ = step(policy, state, one.sample, one.at, silence=one.silence)
        firing = state.firing
        times = [
            state.since, state.held_until, state.last_good_at, state.evaluated_at,
            state.health_since, state.health_waiting_since, state.noticed_at,
            firing and firing.since, firing and firing.noticed_at,
            state.owed and state.owed.at, state.owed and state.owed.firing.since,
        ]  # fmt: skip
        assert all(at <= one.at for at in times if at)


def check_notices(events: list[Event], state: State, policy: Policy) -> None:
    """One notice for a firing at most, one end for it exactly, and one told end for a told one."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for event in events:
        if event.kind in SILENT_KINDS:
            assert event.suppressed_by is None
            assert not event.sent
    fired = [event for event in events if event.kind is Kind.FIRED]
    for i, event in enumerate(fired):
        assert event.firing_seq == event.seq
        own = [e for e in events if e.firing_seq == event.seq]
        kinds = Counter(e.kind for e in own)
        assert kinds[Kind.FIRED] == 1
        notices = [e for e in own if e.kind in (Kind.FIRED, Kind.STILL_FIRING) and e.sent]
        assert len(notices) <= 1
        ends = [e for e in own if e.kind in (Kind.RESOLVED, Kind.CLOSED)]
        goes_on = i == len(fired) - 1 and state.firing_seq == event.seq
        check_ends(event, ends, state, policy, told=bool(notices), goes_on=goes_on)
        assert ends == own[len(own) - len(ends) :]
        for end in ends:
            assert (end.suppressed_by == "unsent firing") is (not notices)
            assert end.firing_since is not None
            assert end.best is not None
            assert end.worst is not None
            assert end.best <= end.worst
        if not notices:
            assert not any(e.sent for e in own)
        if goes_on:
            assert state.notified is bool(notices)
    assert state.owed is None or not state.notified
    ended = [e for e in events if e.kind in (Kind.RESOLVED, Kind.CLOSED)]
    assert {e.firing_seq for e in ended} <= {e.seq for e in fired}


def check_ends(
    fired: Event, ends: list[Event], state: State, policy: Policy, *, told: bool, goes_on: bool
) -> None:
    """One end, and once more where a silence kept it back: as soon as that is over."""
    owed = state.owed is not None and state.owed.firing.seq == fired.seq
    assert len([e for e in ends if e.firing_until is None]) == (0 if goes_on else 1)
    wanted = bool(ends) and (policy.send_resolved or ends[0].kind is Kind.CLOSED)
    sent = [e for e in ends if e.sent]
    assert len(sent) == (1 if told and wanted and not owed else 0)
    for late in ends[1:]:
        assert late is sent[0]
        assert late.kind is ends[0].kind
        assert late.firing_until is not None
        assert late.firing_until <= min(ends[0].at, late.at)  # sooner where the clock went back
        assert ends[0].suppressed_by == "silence 12"


@settings(max_examples=66, deadline=None)
@given(policies, any_way, st.lists(st.integers(0, 80), max_size=3))
def test_every_firing_has_one_notice_at_most_and_one_end(
    policy: Policy, trace: list[Evaluation], edits: list[int]
) -> None:
    state, events = State(), list[Event]()
    for i, one in enumerate(trace):
        if i in edits:
            state, new = edited(state, one.at, silence=one.silence)
            events += new
            assert state.phase is Phase.OK
            check_notices(events, state, policy)
        state, stepped = step(policy, state, one.sample, one.at, silence=one.silence)
        events += stepped
        check_notices(events, state, policy)
        assert state.owed is None or one.silence
    last = trace[-1]
    state, new = edited(state, last.at, reason="removed", silence=last.silence)
    events += new
    check_notices(events, state, policy)
    state, new = late_end(state, last.at)
    check_notices([*events, *new], state, policy)
    assert (state.firing, state.owed) == (None, None)


@settings(deadline=None)
@given(policies, any_way)
def test_a_transition_is_told_once(policy: Policy, trace: list[Evaluation]) -> None:
    state = State()
    for one in trace:
        before = state
        state, events = step(policy, state, one.sample, one.at, silence=one.silence)
        kinds = Counter((event.kind, event.firing_seq) for event in events)
        assert set(kinds.values()) <= {1}
        moves = [event for event in events if event.phase_from is not event.phase_to]
        assert len(moves) == (1 if before.phase is not state.phase else 0)
        for move in moves:
            assert (move.phase_from, move.phase_to) == (before.phase, state.phase)


@settings(deadline=None)
@given(policies, any_way)
def test_a_restart_at_any_point_changes_nothing(policy: Policy, trace: list[Evaluation]) -> None:
    straight, expected = run(policy, trace)
    state, events = State(), list[Event]()
    for one in trace:
        state = State.from_json(json.loads(json.dumps(state.to_json())))
        state, new = step(policy, state, one.sample, one.at, silence=one.silence)
        events += new
    assert state == straight
    assert events == expected
    state, _ = acknowledge(state, trace[-1].at, "ann")
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_a_state_of_another_format_is_refused() -> None:
    data = State().to_json()
    for wrong in ({}, {**data, "format": 2}, {**data, "phase": "asleep"}, {**data, "since": 3}):
        with pytest.raises(ValueError, match=r"state|Phase"):
            State.from_json(wrong)
    del data["offers"]
    with pytest.raises(ValueError, match="cannot be read"):
        State.from_json(data)


class TestEdit:
    """A rule that was edited starts from nothing."""

    def test_a_told_firing_is_closed_with_a_notice(self) -> None:
        state, events = run(Policy(), evaluations("eeeeeee d"))
        after, (closed,) = edited(state, START + 60 * MINUTE)
        assert (closed.kind, closed.sent, closed.reason) == (Kind.CLOSED, True, "edited")
        assert closed.firing_seq == events[-1].seq
        assert (closed.phase_from, closed.phase_to) == (Phase.FIRING, Phase.OK)
        assert (closed.best, closed.worst) == (D("0.9"), D(1))
        assert (after.phase, after.firing, after.seq) == (Phase.OK, None, closed.seq)

    def test_an_untold_one_is_closed_in_silence(self) -> None:
        state, _ = run(Policy(), evaluations("S eeeeeee xx"))
        _, (closed,) = edited(state, START + 60 * MINUTE, reason="disabled")
        assert (closed.kind, closed.suppressed_by) == (Kind.CLOSED, "unsent firing")
        assert closed.phase_from is Phase.RECOVERING
        assert closed.reason == "disabled"

    def test_a_rule_that_waits_or_rests_has_nothing_to_close(self) -> None:
        pending, _ = run(Policy(), evaluations("ee"))
        assert [e.kind for e in edited(pending, START + 60 * MINUTE)[1]] == [Kind.PENDING_ENDED]
        resting, _ = run(Policy(), evaluations("dd"))
        assert edited(resting, START + 60 * MINUTE)[1] == ()

    def test_the_new_rule_is_told_whatever_the_old_one_was(self) -> None:
        state, _ = run(Policy(), evaluations("eeeeeee"))
        state, _ = edited(state, START + 31 * MINUTE)
        _, events = run(Policy(), evaluations("eeeeeee", start=START + 35 * MINUTE), state)
        assert [(e.kind, e.sent) for e in events] == [(Kind.PENDING, False), (Kind.FIRED, True)]

    def test_what_was_told_about_bad_data_is_taken_back_when_it_is_good(self) -> None:
        state, _ = run(Policy(), evaluations("." * 30))
        state, _ = edited(state, START + 151 * MINUTE)
        _, events = run(Policy(), evaluations("..d", start=START + 155 * MINUTE), state)
        assert [e.kind for e in events] == [Kind.DATA_OK]

    def test_bad_data_not_yet_told_is_timed_anew(self) -> None:
        state, _ = run(Policy(), evaluations("." * 24))
        state, _ = edited(state, START + 116 * MINUTE)
        start = START + 120 * MINUTE
        assert run(Policy(), evaluations("." * 24, start=start), state)[1] == []


class TestAcknowledge:
    """Somebody knows: no more reminders."""

    policy = Policy(remind_every=20 * MINUTE)

    def test_of_a_firing(self) -> None:
        state, _ = run(self.policy, evaluations("eeeeeee"))
        state, (event,) = acknowledge(state, START + 31 * MINUTE, "ann")
        assert (event.kind, event.sent, event.reason) == (Kind.ACKNOWLEDGED, False, "ann")
        assert event.firing_seq == state.firing_seq == event.seq - 1
        later = evaluations("e" * 20 + "x" * 7, start=START + 35 * MINUTE)
        _, events = run(self.policy, later, state)
        assert [e.kind for e in events] == [Kind.RECOVERING, Kind.RESOLVED]
        assert events[-1].sent

    def test_once(self) -> None:
        state, _ = run(self.policy, evaluations("eeeeeee x"))
        state, events = acknowledge(state, START + 36 * MINUTE, "ann")
        assert len(events) == 1
        assert acknowledge(state, START + 37 * MINUTE, "bob") == (state, ())

    def test_of_nothing(self) -> None:
        for line in ("d", "ee"):
            state, _ = run(self.policy, evaluations(line))
            assert acknowledge(state, START + 60 * MINUTE, "ann") == (state, ())

    def test_the_next_firing_is_another_one(self) -> None:
        policy = replace(self.policy, cooldown=timedelta(0))
        state, _ = run(policy, evaluations("eeeeeee"))
        state, _ = acknowledge(state, START + 31 * MINUTE, "ann")
        line = "x" * 7 + "e" * 11
        _, events = run(policy, evaluations(line, start=START + 35 * MINUTE), state)
        assert events[-1].kind is Kind.REMINDER


_points = st.lists(
    st.tuples(st.integers(0, 3000).map(lambda n: START + n * MINUTE), st.none() | _values),
    max_size=12,
)


@settings(deadline=None)
@given(policies, _points, st.sampled_from([30, 240, 5000]), st.sampled_from([5, 7, 15]))
@example(Policy(), [(START + 7 * MINUTE, D("0.9"))], 30, 5)
@example(Policy(), [(START + 5 * MINUTE, D("0.9")), (START + 5 * MINUTE, D(2))], 30, 5)
def test_a_replay_says_what_every_single_step_of_it_says(
    policy: Policy,
    points: list[tuple[datetime, Decimal | None]],
    hold_minutes: int,
    minutes: int,
) -> None:
    hold, interval, end = hold_minutes * MINUTE, minutes * MINUTE, START + 3500 * MINUTE
    state, expected, now = State(), list[Event](), START
    while now <= end:
        past = [(at, i, value) for i, (at, value) in enumerate(points) if at <= now]
        at, _, value = max(past, key=lambda point: point[:2], default=(now, 0, None))
        health = Health.NO_DATA if value is None else Health.GOOD
        sample = Sample(health, value, None)
        if now - at > hold:
            sample = Sample(Health.STALE)
        state, new = step(policy, state, sample, now)
        expected += [replace(event, reason=None) for event in new]
        now += interval
    said = replay(policy, points, interval=interval, hold=hold, start=START, end=end)
    assert [replace(event, reason=None) for event in said] == expected


@pytest.mark.parametrize("interval", [timedelta(0), -MINUTE, 61 * MINUTE])
def test_a_replay_that_could_never_end_or_fire_is_refused(interval: timedelta) -> None:
    with pytest.raises(ValueError, match="the interval must be above 0"):
        replay(Policy(), [], interval=interval, hold=MINUTE, start=START, end=START)
