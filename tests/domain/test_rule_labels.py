"""Rules that watch a label (the cheapest GPU) or a set of offers instead of a number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.rule_scenarios import INTERVAL, MINUTE, SILENCE, STALE, START
from tracker.domain.rule import (
    Event,
    Health,
    Kind,
    Phase,
    Policy,
    Sample,
    State,
    edited,
    parse,
    step,
    step_for,
)
from tracker.domain.rule.machine import Step, step_change, step_found

D = Decimal
SLOW = Policy(cooldown=timedelta(0))  # half an hour and three evaluations
QUICK = replace(SLOW, min_duration=timedelta(0), min_count=1)


def test_each_condition_has_its_step() -> None:
    assert step_for(parse("cheapest changes")) is step_change
    assert step_for(parse("new offer(H100) < 2")) is step_found
    for text in ("cost(H100) < cost(A100)", "cost(H100) drops 5% in 7d", "provider(any) stale"):
        assert step_for(parse(text)) is step


Samples = Sequence[tuple[Sample, str | None]]


def _labels(line: str) -> Samples:
    """A letter a sample, its label; ``.`` is stale; a silence goes from S to s."""
    out: list[tuple[Sample, str | None]] = []
    silence = None
    for letter in line.replace(" ", ""):
        if letter in "Ss":
            silence = SILENCE if letter == "S" else None
        else:
            out.append((STALE if letter == "." else Sample(Health.GOOD, label=letter), silence))
    return out


def _offers(line: str) -> Samples:
    """A word a sample, its letters the offers that are there (``0``: none), silenced by ``!``."""
    out: list[tuple[Sample, str | None]] = []
    for word in line.split():
        silence = SILENCE if word.startswith("!") else None
        word = word.lstrip("!")
        found = frozenset(word.replace("0", ""))
        out.append((STALE if word == "." else Sample(Health.GOOD, found=found), silence))
    return out


def _run(
    stepping: Step, policy: Policy, samples: Samples, interval: timedelta = INTERVAL
) -> tuple[State, list[str], list[Event]]:
    """The last state, the events as short lines, and whole. Restarts at every sample."""
    state, lines, events = State(), list[str](), list[Event]()
    for i, (sample, silence) in enumerate(samples):
        state = State.from_json(json.loads(json.dumps(state.to_json())))
        state, new = stepping(policy, state, sample, START + i * interval, silence=silence)
        events += new
        for event in new:
            what = "".join(sorted(event.found)) or f"{event.previous_label}>{event.label}"
            kept = f" ({event.suppressed_by})" if event.suppressed_by else ""
            lines.append(f"{i} {event.kind.value} {what}{kept}")
    return state, lines, events


class TestCheapestChanges:
    def test_the_first_label_is_no_change(self) -> None:
        for policy in (SLOW, QUICK, replace(QUICK, on_start="baseline")):
            assert _run(step_change, policy, _labels("AAAA"))[1] == []

    def test_a_change_must_hold(self) -> None:
        assert _run(step_change, SLOW, _labels("A BBBBBB A"))[1] == [
            "1 pending A>B",
            "7 pending_ended None>B",
        ]
        _, lines, events = _run(step_change, SLOW, _labels("A BBBBBBB B"))
        assert lines == ["1 pending A>B", "7 changed A>B"]
        assert [(e.phase_from, e.phase_to, e.sent) for e in events] == [
            (Phase.OK, Phase.PENDING, False),
            (Phase.PENDING, Phase.OK, True),
        ]

    def test_another_candidate_starts_anew(self) -> None:
        assert _run(step_change, SLOW, _labels("A BBBBBB CCCCCCC"))[1] == [
            "1 pending A>B",
            "7 pending A>C",
            "13 changed A>C",
        ]

    def test_bad_data_freezes(self) -> None:
        assert _run(step_change, SLOW, _labels("A BBBB ... BBBB"))[1] == [
            "1 pending A>B",
            "11 changed A>B",
        ]
        assert _run(step_change, QUICK, _labels("A ... A"))[1] == []

    def test_a_gap_restarts_waiting(self) -> None:
        samples = _labels("A BBBBBBBBB")
        assert _run(step_change, SLOW, samples, 61 * MINUTE)[1] == ["1 pending A>B"]

    def test_no_label_is_no_data(self) -> None:
        nothing = [(Sample(Health.GOOD), None)] * 30
        state, lines, _ = _run(step_change, QUICK, [*_labels("A"), *nothing])
        assert state.label == "A"
        assert lines == ["25 data_problem None>None"]

    def test_a_ratio_above_enter_is_no_change(self) -> None:
        def at(value: Decimal) -> Samples:
            return [*_labels("A"), (Sample(Health.GOOD, value, label="B"), None)]

        assert _run(step_change, QUICK, at(D("0.98")))[1] == ["1 changed A>B"]
        assert _run(step_change, QUICK, at(D("0.98").next_plus()))[1] == []

    def test_back_and_forth_within_the_cooldown_is_one_notice(self) -> None:
        policy = replace(QUICK, cooldown=60 * MINUTE)
        assert _run(step_change, policy, _labels("A BABAB BBBBBBBBB"))[1] == [
            "1 changed A>B",
            "2 changed B>A (cooldown)",
            "3 changed A>B (unsent change)",
            "4 changed B>A (cooldown)",
            "5 changed A>B (unsent change)",
        ]

    def test_what_the_cooldown_kept_back_and_still_stands_is_told_at_its_end(self) -> None:
        policy = replace(QUICK, cooldown=60 * MINUTE)
        assert _run(step_change, policy, _labels("A BCDDDDDDDDDDDDDD"))[1] == [
            "1 changed A>B",
            "2 changed B>C (cooldown)",
            "3 changed C>D (cooldown)",
            "13 changed B>D",
        ]

    def test_a_silence(self) -> None:
        assert _run(step_change, QUICK, _labels("A S BB s BB"))[1] == [
            f"1 changed A>B ({SILENCE})",
            "3 changed A>B",
        ]
        assert _run(step_change, QUICK, _labels("A S BA s AA"))[1] == [
            f"1 changed A>B ({SILENCE})",
            "2 changed B>A (unsent change)",
        ]

    def test_an_edit_takes_the_next_label_over(self) -> None:
        state, _, _ = _run(step_change, SLOW, _labels("A BB"))
        state, events = edited(state, START + 10 * MINUTE)
        assert [event.kind for event in events] == [Kind.PENDING_ENDED]
        sample = Sample(Health.GOOD, label="B")
        state, events = step_change(SLOW, state, sample, START + 15 * MINUTE)
        assert (state.label, events) == ("B", ())

    @settings(deadline=None)
    @given(st.lists(st.sampled_from("AAABBBC..Ss"), max_size=60).map("".join), st.booleans())
    def test_the_notices_are_a_chain_to_where_it_stands(self, line: str, slow: bool) -> None:
        policy = replace(SLOW if slow else QUICK, cooldown=30 * MINUTE)
        state, _, events = _run(step_change, policy, _labels(line))
        told = next((letter for letter in line if letter in "ABC"), None)
        for event in events:
            if event.kind is Kind.CHANGED and event.sent:
                assert event.previous_label == told != event.label
                told = event.label
        assert state.told_label == told
        sent = [event.at for event in events if event.kind is Kind.CHANGED and event.sent]
        gaps = [b - a for a, b in pairwise(sent)]
        assert all(gap >= policy.cooldown for gap in gaps)


class TestNewOffers:
    def test_what_is_there_at_the_start(self) -> None:
        assert _run(step_found, QUICK, _offers("ab ab"))[1] == ["0 found ab"]
        baseline = replace(QUICK, on_start="baseline")
        assert _run(step_found, baseline, _offers("ab abc"))[1] == [
            "0 found ab (baseline)",
            "1 found c",
        ]
        assert _run(step_found, baseline, _offers("0 a"))[1] == ["1 found a"]
        assert _run(step_found, baseline, _offers(". . a b"))[1] == [
            "2 found a (baseline)",
            "3 found b",
        ]

    def test_an_offer_is_told_once_while_it_is_there(self) -> None:
        _, lines, events = _run(step_found, QUICK, _offers("0 a a ab ab b"))
        assert lines == ["1 found a", "3 found b"]
        assert {event.phase_to for event in events} == {Phase.OK}

    def test_it_is_new_again_after_it_was_away_for_long_enough(self) -> None:
        away = replace(QUICK, keep_firing=15 * MINUTE)
        assert _run(step_found, away, _offers("a 0 0 a"))[1] == ["0 found a"]
        # gone from the sample at 5 on, forgotten at 15
        assert _run(step_found, away, _offers("a 0 0 0 a"))[1] == ["0 found a", "4 found a"]
        # time in the dark is not time away
        assert _run(step_found, away, _offers("a 0 . . . . 0 a"))[1] == ["0 found a"]

    def test_downtime_is_not_time_away(self) -> None:
        away = replace(QUICK, keep_firing=15 * MINUTE)
        samples = _offers("a 0 0 a")
        assert _run(step_found, away, samples, 61 * MINUTE)[1] == ["0 found a"]

    def test_it_must_hold(self) -> None:
        assert _run(step_found, SLOW, _offers("0 a a a a a a 0 a a a a a a a"))[1] == ["14 found a"]
        assert _run(step_found, SLOW, _offers("0 a a a a . . a a a a"))[1] == ["10 found a"]
        assert _run(step_found, SLOW, _offers("a " * 9), 61 * MINUTE)[1] == []

    def test_the_cooldown_gathers(self) -> None:
        policy = replace(QUICK, cooldown=20 * MINUTE)
        _, lines, events = _run(step_found, policy, _offers("0 a ab abc ac acd acd acd acd acd"))
        assert lines == [
            "1 found a",
            "2 found b (cooldown)",
            "3 found c (cooldown)",
            "5 found cd",  # b is gone again
        ]
        assert [event.sent for event in events] == [True, False, False, True]

    def test_a_silence(self) -> None:
        assert _run(step_found, QUICK, _offers("0 !a !ab b b"))[1] == [
            f"1 found a ({SILENCE})",
            f"2 found b ({SILENCE})",
            "3 found b",
        ]

    def test_a_clock_that_goes_back_finds_nothing(self) -> None:
        state, _, _ = _run(step_found, SLOW, _offers("0 a a"))
        sample = Sample(Health.GOOD, found=frozenset("ab"))
        state, events = step_found(QUICK, state, sample, START - timedelta(days=1))
        assert events == ()
        _, events = step_found(QUICK, state, sample, START - timedelta(hours=23))
        assert [event.found for event in events] == [frozenset("ab")]

    def test_what_is_gone_is_not_remembered_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tracker.domain.rule.found.MAX_AWAY", 2)
        long = replace(QUICK, keep_firing=timedelta(days=1))
        state, lines, _ = _run(step_found, long, _offers("a b c d e"))
        assert lines == [f"{i} found {key}" for i, key in enumerate("abcde")]
        assert sorted(state.offers) == ["c", "d", "e"]

    @settings(deadline=None)
    @given(
        st.lists(st.sets(st.sampled_from("abcd")).map("".join) | st.just("."), max_size=40),
        st.booleans(),
        st.sampled_from([0, 20, 60]),
    )
    def test_every_offer_that_stays_is_told_once(
        self, words: list[str], slow: bool, cooldown: int
    ) -> None:
        policy = replace(
            SLOW if slow else QUICK,
            cooldown=cooldown * MINUTE,
            keep_firing=timedelta(days=1),
            health_after=timedelta(days=1),
        )
        samples = _offers(" ".join(word or "0" for word in words))
        # long enough, at the end, for whatever still waits
        samples = [*samples, *_offers("a " * 20)]
        _, _, events = _run(step_found, policy, samples)
        told = [key for event in events if event.sent for key in sorted(event.found)]
        assert len(told) == len(set(told))
        seen = {key for sample, _ in samples for key in sample.found}
        assert "a" in told
        assert set(told) <= seen
        if not slow and not cooldown:
            assert set(told) == seen
