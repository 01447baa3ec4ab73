"""The transition table of a rule, row by row, and its edges."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tests.domain.rule_scenarios import (
    INTERVAL,
    MINUTE,
    PLAIN,
    STALE,
    START,
    evaluations,
    good,
    run,
    told,
)
from tracker.domain.rule import Health, Kind, Phase, Policy, Sample, State, step
from tracker.domain.rule.machine import TABLE, Zone, zone_of

D = Decimal
HOUR = 60 * MINUTE
FIRING = "eeeeeee"  # pending at 0, fired at 6
CLEARED = "xxxxxxx"  # recovering at once, resolved 6 later


def _phases(policy: Policy, line: str) -> str:
    """The phase after each sample of *line*, by its first letter (O, P, F, R)."""
    state, phases = State(), ""
    for one in evaluations(line):
        state, _ = step(policy, state, one.sample, one.at, silence=one.silence)
        phases += state.phase.name[0]
    return phases


def test_the_table_has_a_row_for_every_case() -> None:
    assert set(TABLE) == {(phase, zone) for phase in Phase for zone in Zone}
    for (phase, zone), row in TABLE.items():
        assert (row.says is None) is (row.to is phase), (phase, zone)
        assert zone is not Zone.FROZEN or row == (phase, None, None)


# Every row twice: what happens at once, and what comes of it when its time is over.
@pytest.mark.parametrize(
    ("line", "phases", "events"),
    [
        # OK
        ("d e", "OP", ["1 pending"]),
        ("d eeeeeee", "OPPPPPPF", ["1 pending", "7 fired"]),
        ("d d", "OO", []),
        ("x d x", "OOO", []),
        ("x x", "OO", []),
        ("d . ?", "OOO", []),
        # PENDING
        ("e e", "PP", ["0 pending"]),
        ("e d", "PO", ["0 pending", "1 pending_ended"]),
        ("e x", "PO", ["0 pending", "1 pending_ended"]),
        ("e .", "PP", ["0 pending"]),
        ("e ?", "PP", ["0 pending"]),
        ("eeeeee d eeeeeee", "PPPPPPOPPPPPPF",
         ["0 pending", "6 pending_ended", "7 pending", "13 fired"]),
        # FIRING
        (FIRING + "e", "PPPPPPFF", ["0 pending", "6 fired"]),
        (FIRING + "d", "PPPPPPFF", ["0 pending", "6 fired"]),
        (FIRING + "dddddddddd", "PPPPPPF" + 10 * "F", ["0 pending", "6 fired"]),
        (FIRING + "x", "PPPPPPFR", ["0 pending", "6 fired", "7 recovering"]),
        (FIRING + ".", "PPPPPPFF", ["0 pending", "6 fired"]),
        (FIRING + "?", "PPPPPPFF", ["0 pending", "6 fired"]),
        # RECOVERING
        (FIRING + "xx", "PPPPPPFRR", ["0 pending", "6 fired", "7 recovering"]),
        (FIRING + CLEARED, "PPPPPPFRRRRRRO",
         ["0 pending", "6 fired", "7 recovering", "13 resolved"]),
        (FIRING + "xxxxxx d", "PPPPPPFRRRRRRF",
         ["0 pending", "6 fired", "7 recovering", "13 relapsed"]),
        (FIRING + "xxxxxx e", "PPPPPPFRRRRRRF",
         ["0 pending", "6 fired", "7 recovering", "13 relapsed"]),
        (FIRING + "x.", "PPPPPPFRR", ["0 pending", "6 fired", "7 recovering"]),
        (FIRING + "x?", "PPPPPPFRR", ["0 pending", "6 fired", "7 recovering"]),
        (FIRING + "xxx d xxxxxxx", "PPPPPPFRRRFRRRRRRO",
         ["0 pending", "6 fired", "7 recovering", "10 relapsed", "11 recovering", "17 resolved"]),
        # and once more: a rule that has cleared fires again
        (FIRING + CLEARED + FIRING, "PPPPPPFRRRRRROPPPPPPF",
         ["0 pending", "6 fired", "7 recovering", "13 resolved", "14 pending", "20 fired"]),
    ],
)  # fmt: skip
def test_a_row_of_the_table(line: str, phases: str, events: list[str]) -> None:
    assert _phases(PLAIN, line) == phases
    assert told(run(PLAIN, evaluations(line))[1]) == events


def test_nothing_but_a_firing_and_its_end_is_sent() -> None:
    _, events = run(PLAIN, evaluations("e d " + FIRING + "xx e" + CLEARED))
    assert [event.kind for event in events if event.sent] == [Kind.FIRED, Kind.RESOLVED]


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        (D("0.98").next_minus(), Zone.ENTER),
        (D("0.98"), Zone.ENTER),
        (D("0.9800"), Zone.ENTER),
        (D("0.98").next_plus(), Zone.BETWEEN),
        (D("1.02").next_minus(), Zone.BETWEEN),
        (D("1.02"), Zone.EXIT),
        (D("1.02").next_plus(), Zone.EXIT),
    ],
)
def test_both_edges_belong_to_their_side(value: Decimal, zone: Zone) -> None:
    policy = replace(PLAIN, min_duration=timedelta(0), min_count=1, keep_firing=timedelta(0))
    assert zone_of(policy, value) is zone
    state, fired = step(policy, State(), good(value), START)
    assert (state.phase is Phase.FIRING) is (zone is Zone.ENTER)
    assert [event.kind for event in fired] == ([Kind.FIRED] if zone is Zone.ENTER else [])
    firing, _ = step(policy, State(), good("0.5"), START)
    _, cleared = step(policy, firing, good(value), START + INTERVAL)
    assert [event.kind for event in cleared] == ([Kind.RESOLVED] if zone is Zone.EXIT else [])


class TestWaiting:
    """Duration and count to fire, duration to clear."""

    def test_the_duration_is_over_at_its_very_end(self) -> None:
        second = timedelta(seconds=1)
        for late, fires in ((-second, False), (timedelta(0), True), (second, True)):
            state = run(PLAIN, evaluations("eee"))[0]
            _, events = step(PLAIN, state, good("0.9"), START + 30 * MINUTE + late)
            assert [event.kind for event in events] == ([Kind.FIRED] if fires else [])

    def test_a_count_alone_does_not_fire(self) -> None:
        state = State()
        for i in range(100):
            state, events = step(PLAIN, state, good("0.9"), START + i * timedelta(seconds=18))
            assert state.phase is Phase.PENDING, events
        assert state.count == 100

    def test_a_duration_alone_does_not_fire(self) -> None:
        assert _phases(PLAIN, "e-----e-e") == "PPF"

    def test_no_waiting_at_all_leads_to_firing_and_back_at_once(self) -> None:
        at_once = replace(PLAIN, min_duration=timedelta(0), min_count=1, keep_firing=timedelta(0))
        _, events = run(at_once, evaluations("exex"))
        assert told(events) == ["0 fired", "1 resolved", "2 fired", "3 resolved"]
        assert [(event.phase_from, event.phase_to) for event in events[:2]] == [
            (Phase.OK, Phase.FIRING),
            (Phase.FIRING, Phase.OK),
        ]

    def test_clearing_needs_its_duration_only(self) -> None:
        policy = replace(PLAIN, min_count=50)
        firing = run(replace(PLAIN, min_count=1), evaluations(FIRING))[0]
        clear = evaluations("x-----x", start=START + 7 * INTERVAL)
        assert told(run(policy, clear, firing)[1]) == ["7 recovering", "13 resolved"]


class TestFrozen:
    """What is not GOOD neither advances nor resets."""

    @pytest.mark.parametrize("health", [h for h in Health if h is not Health.GOOD])
    @pytest.mark.parametrize("value", [None, D("0.5"), D(2)])
    @pytest.mark.parametrize("before", ["d", "eee", FIRING, FIRING + "xxx"])
    def test_no_phase_moves(self, health: Health, value: Decimal | None, before: str) -> None:
        state, _ = run(PLAIN, evaluations(before))
        start = state
        for i in range(20):
            assert state.evaluated_at is not None
            state, events = step(
                PLAIN, state, Sample(health, value, "why"), state.evaluated_at + INTERVAL
            )
            assert state.health is health, i
            assert events == ()
        assert (state.phase, state.since, state.count, state.held, state.firing) == (
            start.phase, start.since, start.count, start.held, start.firing,
        )  # fmt: skip

    def test_waiting_goes_on_where_it_was(self) -> None:
        # 15 minutes before (0 to 3), none around the stale samples, 15 after (7 to 10).
        assert told(run(PLAIN, evaluations("eeee ... eeee"))[1]) == ["0 pending", "10 fired"]

    def test_the_time_around_a_bad_sample_does_not_count(self) -> None:
        # Every second sample is stale: no two good ones follow one another.
        assert told(run(PLAIN, evaluations("e." * 30))[1]) == ["0 pending"]

    def test_recovering_goes_on_where_it_was(self) -> None:
        _, events = run(PLAIN, evaluations(FIRING + "xxxx .. xxxx"))
        assert told(events) == ["0 pending", "6 fired", "7 recovering", "16 resolved"]

    def test_what_is_no_ratio_is_no_good_sample(self) -> None:
        pending, _ = run(PLAIN, evaluations("eeeeee"))
        for value in (None, D("NaN"), D("sNaN"), D("Infinity"), D("-Infinity"), D(0), D(-1)):
            state, events = step(PLAIN, pending, Sample(Health.GOOD, value), START + 30 * MINUTE)
            assert (state.phase, events) == (Phase.PENDING, ())
            assert state.health in (Health.ERROR, Health.SUSPECT)
            assert state.health_reason is not None


class TestGaps:
    """After more than an hour without a good sample, waiting starts anew."""

    def test_a_gap_restarts_pending(self) -> None:
        _, events = run(PLAIN, evaluations("eeeeee ------------ eeeeeee"))
        assert told(events) == ["0 pending", "18 pending", "24 fired"]
        assert events[1].reason == "waiting starts anew: no good data for 1:05:00"

    def test_an_hour_to_the_second_is_no_gap(self) -> None:
        assert told(run(PLAIN, evaluations("e ----------- ee"))[1]) == ["0 pending", "13 fired"]

    def test_bad_data_for_longer_than_that_is_a_gap_too(self) -> None:
        _, events = run(PLAIN, evaluations("eeeeee ............ eeeeeee"))
        assert told(events) == ["0 pending", "18 pending", "24 fired"]

    def test_a_gap_restarts_recovering(self) -> None:
        _, events = run(PLAIN, evaluations(FIRING + "xxxxxx ------------ xxxxxxx"))
        assert told(events) == [
            "0 pending", "6 fired", "7 recovering", "25 recovering", "31 resolved",
        ]  # fmt: skip

    def test_after_a_gap_pending_may_end_as_well(self) -> None:
        _, events = run(PLAIN, evaluations("eeee ------------ d"))
        assert told(events) == ["0 pending", "16 pending_ended"]

    def test_a_firing_outlives_any_downtime(self) -> None:
        year = evaluations("ed" + FIRING, start=START + timedelta(days=365))
        firing, _ = run(PLAIN, evaluations(FIRING))
        assert run(PLAIN, year, firing)[1] == []


class TestClock:
    """A clock that jumps neither fires nor resolves nor crashes, and does no lasting harm."""

    @pytest.mark.parametrize("back", [timedelta(microseconds=1), 10 * MINUTE, timedelta(days=400)])
    @pytest.mark.parametrize("value", ["0.9", "1", "1.1"])
    def test_back(self, back: timedelta, value: str) -> None:
        at_once = replace(PLAIN, min_duration=timedelta(0), min_count=1, keep_firing=timedelta(0))
        for before in ("d", "eeeeee", FIRING, FIRING + "xxxxxx"):
            state, _ = run(PLAIN, evaluations(before))
            assert state.evaluated_at is not None
            moved, events = step(at_once, state, good(value), state.evaluated_at - back)
            assert events == ()
            assert moved.phase is state.phase
            assert moved.evaluated_at == state.evaluated_at - back

    def test_a_small_step_back_costs_the_time_around_it(self) -> None:
        state, _ = run(PLAIN, evaluations("eeee"))
        again = evaluations("eeeee", start=START + 14 * MINUTE)
        assert told(run(PLAIN, again, state)[1], start=START + 14 * MINUTE) == ["4 fired"]

    def test_a_big_step_back_restarts_waiting(self) -> None:
        state, _ = run(PLAIN, evaluations("eeeeee"))
        start = START - timedelta(days=1)
        _, events = run(PLAIN, evaluations("eeeeeeeee", start=start), state)
        assert told(events, start=start) == ["7 fired"]

    def test_a_wrong_year_for_a_moment_does_no_lasting_harm(self) -> None:
        policy = replace(PLAIN, cooldown=2 * HOUR, remind_every=HOUR)
        far = evaluations("e" * 8, start=START + timedelta(days=3650))
        state, events = run(policy, far)
        assert state.phase is Phase.FIRING
        _, events = run(policy, evaluations("e" * 14 + CLEARED + FIRING + "e" * 6), state)
        assert told(events) == [
            "12 reminder", "14 recovering", "20 resolved", "21 pending", "27 fired",
        ]  # fmt: skip

    def test_a_jump_ahead_is_a_gap(self) -> None:
        state, _ = run(PLAIN, evaluations("eeeeee"))
        later = START + timedelta(days=3650)
        _, events = run(PLAIN, evaluations("eeeeeee", start=later), state)
        assert told(events, start=later) == ["0 pending", "6 fired"]

    def test_the_same_moment_counts_once(self) -> None:
        policy = replace(PLAIN, min_duration=timedelta(0))
        state, _ = run(policy, evaluations("ee"))
        for sample in (good("0.9"), good("1.1"), STALE):
            assert step(policy, state, sample, START + INTERVAL) == (state, ())

    @pytest.mark.parametrize("back", [timedelta(0), MINUTE, timedelta(days=400)])
    def test_no_notice_either(self, back: timedelta) -> None:
        reminding = replace(PLAIN, remind_every=MINUTE)
        for line, policy in (("S" + FIRING, PLAIN), ("S" + FIRING, reminding), (FIRING, reminding)):
            state, _ = run(policy, evaluations(line))
            assert state.evaluated_at is not None
            moved, events = step(policy, state, good("0.1"), state.evaluated_at - back)
            assert events == ()
            assert moved.firing is not None
            assert moved.firing.best == D("0.9")

    def test_a_time_without_a_zone_is_refused_and_any_zone_is_the_same(self) -> None:
        with pytest.raises(ValueError, match="aware"):
            step(PLAIN, State(), good("1"), datetime(2026, 3, 1))  # noqa: DTZ001
        there = START.astimezone(timezone(timedelta(hours=-7)))
        assert step(PLAIN, State(), good("1"), there) == step(PLAIN, State(), good("1"), START)


def test_what_an_event_tells_of_its_firing() -> None:
    trace = evaluations(FIRING + "eeee" + CLEARED)
    values = ["0.9"] * 7 + ["0.7", "0.95", "1.019", "0.8"] + ["1.5"] * 7
    trace = [replace(one, sample=good(v)) for one, v in zip(trace, values, strict=True)]
    fired, recovering, resolved = run(PLAIN, trace)[1][1:]
    assert (fired.firing_seq, fired.value, fired.firing_since) == (2, D("0.9"), fired.at)
    assert (resolved.best, resolved.worst, resolved.value) == (D("0.7"), D("1.019"), D("1.5"))
    assert resolved.firing_since == fired.at
    assert [event.seq for event in (fired, recovering, resolved)] == [2, 3, 4]
