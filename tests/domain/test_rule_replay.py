"""Looks of the past through a rule: passing over what cannot matter changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.domain.rule import (
    Event,
    Health,
    Look,
    Policy,
    Sample,
    State,
    Watch,
    replay_looks,
    step,
)
from tracker.domain.rule import replay as at_intervals
from tracker.domain.rule.changes import step_change
from tracker.domain.rule.found import step_found
from tracker.domain.rule.machine import Step

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NOTHING = timedelta(0)
POLICY = Policy(cooldown=timedelta(hours=1))

BAD = Sample(Health.STALE, reason="stale")
NUMBERS = [Sample(Health.GOOD, Decimal(v)) for v in ("0.9", "0.98", "1", "1.02", "1.2")]
LABELS = [Sample(Health.GOOD, label=name) for name in ("H100", "A100")]
FOUND = [Sample(Health.GOOD, found=frozenset(keys)) for keys in ("", "a", "ab", "c")]

policies = st.builds(
    replace, st.just(POLICY),
    min_duration=st.sampled_from([NOTHING, 20 * MINUTE]), min_count=st.sampled_from([1, 3]),
    keep_firing=st.sampled_from([NOTHING, 20 * MINUTE]),
    cooldown=st.sampled_from([NOTHING, 90 * MINUTE]),
    remind_every=st.sampled_from([None, 60 * MINUTE]),
    health_after=st.sampled_from([NOTHING, 30 * MINUTE]),
)  # fmt: skip
gaps = st.lists(st.sampled_from([1, 5, 5, 30, 90]), min_size=1, max_size=60)


def one_by_one(
    policy: Policy, looks: Sequence[Look], seen: Sequence[Sample], by: Step
) -> list[Event]:
    state, events = State(), list[Event]()
    for look, sample in zip(looks, seen, strict=True):
        paced = replace(policy, max_gap=max(policy.max_gap, look.max_gap))
        state, new = by(paced, state, sample, look.at)
        events += new
    return events


@settings(max_examples=30)
@pytest.mark.parametrize(
    ("samples", "by"),
    [([*NUMBERS, BAD], step), ([*LABELS, BAD], step_change), ([*FOUND, BAD], step_found)],
    ids=["a number", "a label", "offers"],
)
@given(data=st.data(), policy=policies, apart=gaps)
def test_passing_over_looks_leads_to_the_same_events(
    samples: list[Sample], by: Step, data: st.DataObject, policy: Policy, apart: list[int]
) -> None:
    runs = data.draw(
        st.lists(st.tuples(st.sampled_from(samples), st.integers(1, 12)), min_size=1, max_size=12)
    )
    seen = [sample for sample, times in runs for _ in range(times)]
    passed = accumulate(apart[i % len(apart)] for i in range(len(seen)))
    pace = data.draw(st.sampled_from([NOTHING, 100 * MINUTE]))
    looks = [Look(START + minutes * MINUTE, pace) for minutes in passed]
    found = list(replay_looks(policy, Watch(looks, seen), lambda one, _: one, by=by))
    assert found == one_by_one(policy, looks, seen, by)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=20))
def test_looks_at_an_interval_are_the_replay_at_that_interval(samples: list[Sample]) -> None:
    hour, end = timedelta(hours=1), START + timedelta(hours=len(samples))
    points = [(START + i * hour, sample.value) for i, sample in enumerate(samples)]
    every = 10 * MINUTE
    usual = at_intervals(POLICY, points, interval=every, hold=hour, start=START, end=end - every)
    looks = [Look(START + i * every, NOTHING) for i in range(len(samples) * 6)]
    watch = Watch(looks, [samples[i // 6] for i in range(len(looks))])
    assert list(replay_looks(POLICY, watch, lambda one, _: one)) == usual


@pytest.mark.parametrize("minutes", [(0,), (0, 0), (5, 0)])
def test_looks_rise_and_each_saw_something(minutes: tuple[int, ...]) -> None:
    looks = [Look(START + m * MINUTE, NOTHING) for m in minutes]
    with pytest.raises(ValueError, match="looks must rise"):
        Watch(looks, NUMBERS[:2])
