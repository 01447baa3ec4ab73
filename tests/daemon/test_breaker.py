"""When a provider is due: examples of each kind of end, and what holds for every history."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.daemon import breaker
from tracker.daemon.breaker import (
    JITTER,
    LONGEST_PROBE,
    LONGEST_WAIT,
    OPEN_AFTER,
    Attempt,
    Pace,
    Standing,
    Verdict,
    after,
    begun,
    first,
    resumed,
    verdict_of,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PACE = Pace(timedelta(hours=1), timedelta(minutes=5))


def attempt(verdict: Verdict, *, retry_after: timedelta | None = None) -> Attempt:
    return Attempt(NOW, verdict, "why", retry_after)


def end(standing: Standing, attempt: Attempt, pace: Pace = PACE, now: datetime = NOW) -> Standing:
    return after(standing, attempt, pace, now, random.Random(1))  # noqa: S311


def failing(times: int, verdict: Verdict = "failed", pace: Pace = PACE) -> Standing:
    standing = Standing(NOW)
    for _ in range(times):
        standing = end(standing, attempt(verdict), pace)
    return standing


@pytest.mark.parametrize(
    ("status", "http_status", "verdict"),
    [
        ("complete", None, "ok"),
        ("partial", None, "ok"),
        ("late", None, "ok"),
        ("duplicate", None, "ok"),
        ("empty", None, "unusable"),
        ("shrunk", None, "unusable"),
        ("failed", None, "failed"),
        ("failed", 500, "failed"),
        ("failed", 429, "failed"),
        ("failed", 401, "credential"),
        ("failed", 403, "credential"),
    ],
)
def test_what_a_poll_s_end_means(status: str, http_status: int | None, verdict: str) -> None:
    assert verdict_of(status, http_status) == verdict


def test_a_good_poll_forgets_all_failures() -> None:
    standing = end(failing(7), attempt("ok"))
    assert (standing.failures, standing.breaker, standing.outage_since) == (0, "closed", None)
    assert standing.reason is None


def test_failures_are_retried_sooner_at_first_and_then_ever_later() -> None:
    waits = [failing(n).next_due_at - NOW for n in range(1, OPEN_AFTER)]
    assert waits[0] == PACE.at_least
    assert max(waits) <= PACE.every
    assert all(a <= b * 2 for a, b in pairwise(waits))


def test_a_provider_of_few_polls_that_was_not_reached_is_asked_again_within_minutes() -> None:
    slow = Pace(timedelta(hours=4), timedelta(hours=4))
    away = replace(attempt("failed"), reached=False)
    standing, waits = Standing(NOW), []
    for _ in range(12):
        standing = end(standing, away, slow)
        waits.append(standing.next_due_at - NOW)
    assert waits[0] == breaker.UNREACHED_FLOOR == 5 * MINUTE
    assert all(wait <= 20 * MINUTE for wait in waits[:3])  # and then ever more seldom
    assert waits[11] >= slow.every
    # It has been reached, and what it answers is wrong: its floor holds.
    assert end(Standing(NOW), attempt("failed"), slow).next_due_at == NOW + slow.at_least
    asked = replace(away, retry_after=timedelta(hours=2))
    assert end(Standing(NOW), asked, slow).next_due_at >= NOW + timedelta(hours=2)


def test_the_breaker_opens_after_five_failures_and_probes_slowly() -> None:
    assert failing(OPEN_AFTER - 1).breaker == "closed"
    opened = failing(OPEN_AFTER)
    assert opened.breaker == "open"
    assert opened.next_due_at - NOW > PACE.every
    assert failing(50).next_due_at - NOW <= LONGEST_PROBE * (1 + JITTER)


def test_a_probe_is_half_open_and_then_open_or_closed() -> None:
    probing = begun(failing(OPEN_AFTER), PACE, NOW)
    assert probing.breaker == "half_open"
    assert end(probing, attempt("failed")).breaker == "open"
    assert end(probing, attempt("ok")).breaker == "closed"


def test_a_refused_credential_opens_at_once_and_says_so() -> None:
    standing = failing(1, "credential")
    assert standing.breaker == "open"
    assert standing.credential
    assert standing.reason == "credential refused: why"
    assert standing.next_due_at - NOW > LONGEST_PROBE * (1 - 2 * JITTER)


def test_a_refused_credential_is_tried_again_by_the_next_daemon() -> None:
    standing = failing(1, "credential")
    assert resumed(standing, PACE, NOW + 2 * MINUTE, updated_at=NOW).next_due_at == NOW + 5 * MINUTE
    late = NOW + timedelta(hours=1)
    assert resumed(standing, PACE, late, updated_at=NOW).next_due_at == late


def test_an_answer_that_is_not_believed_neither_hurries_nor_opens() -> None:
    standing = failing(20, "unusable")
    assert (standing.breaker, standing.failures) == ("closed", 20)
    assert PACE.every * (1 - JITTER) <= standing.next_due_at - NOW <= PACE.every * (1 + JITTER)


def test_an_outage_keeps_its_beginning() -> None:
    later = replace(attempt("failed"), began_at=NOW + timedelta(hours=1))
    assert end(failing(3), later).outage_since == NOW


def test_a_wait_that_is_asked_for_is_kept_but_not_for_ever() -> None:
    hours = timedelta(hours=3)
    due = end(Standing(NOW), attempt("failed", retry_after=hours))
    assert due.next_due_at >= NOW + hours
    ages = attempt("failed", retry_after=timedelta(days=400))
    due = end(Standing(NOW), ages)
    assert due.next_due_at == NOW + LONGEST_WAIT


def test_a_long_poll_does_not_make_the_next_one_due_in_the_past() -> None:
    ended = NOW + timedelta(hours=5)
    assert end(Standing(NOW), attempt("ok"), now=ended).next_due_at == ended


def test_first_polls_are_spread_and_the_same_at_every_start() -> None:
    dues = {name: first(name, PACE, NOW).next_due_at for name in ("aws", "azure", "vastai")}
    assert len(set(dues.values())) == 3
    assert all(NOW <= due <= NOW + breaker.FIRST_SPREAD for due in dues.values())
    assert dues["aws"] == first("aws", PACE, NOW).next_due_at


def test_what_is_overdue_stays_overdue() -> None:
    long_ago = Standing(NOW - timedelta(days=3))
    assert resumed(long_ago, PACE, NOW, updated_at=NOW) == long_ago


def test_a_due_time_of_a_wrong_clock_is_cut() -> None:
    wrong = Standing(NOW + timedelta(days=3000))
    due = resumed(wrong, PACE, NOW, updated_at=NOW).next_due_at
    assert due <= NOW + PACE.every * (1 + JITTER)


def test_a_daemon_that_died_while_probing_leaves_the_breaker_open() -> None:
    probing = begun(failing(OPEN_AFTER), PACE, NOW)
    assert resumed(probing, PACE, NOW, updated_at=NOW).breaker == "open"


@pytest.mark.parametrize(("every", "at_least"), [(0, 0), (10, 20), (10, -1)])
def test_a_pace_that_contradicts_itself(every: int, at_least: int) -> None:
    with pytest.raises(ValueError, match="interval"):
        Pace(every * MINUTE, at_least * MINUTE)


# -- for every history ---------------------------------------------------------------------------

seconds = st.integers(1, 366 * 24 * 3600)
paces = st.builds(
    lambda a, b: Pace(timedelta(seconds=max(a, b)), timedelta(seconds=min(a, b))), seconds, seconds
)
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(["ok", "unusable", "failed", "credential"])
waits = st.none() | st.integers(0, 10**7).map(lambda s: timedelta(seconds=s))
histories = st.lists(
    st.tuples(verdicts, waits, st.integers(0, 4000), st.booleans()), min_size=1, max_size=40
)  # verdict, Retry-After, seconds that the poll took, whether anything was answered


@given(paces, histories, st.randoms(use_true_random=False))
def test_no_history_hammers_or_forgets_a_provider(
    pace: Pace, history: list[tuple[Verdict, timedelta | None, int, bool]], rng: random.Random
) -> None:
    standing, now = first("acme", pace, NOW), NOW
    for verdict, retry_after, took, reached in history:
        began = max(now, standing.next_due_at)
        probing = begun(standing, pace, began)
        assert probing.next_due_at == began + pace.at_least  # should the process die here
        now = began + timedelta(seconds=took)
        ended = Attempt(began, verdict, "why", retry_after, reached)
        before, standing = standing, after(probing, ended, pace, now, rng)
        # Never sooner than allowed …
        floor = pace.at_least
        if verdict == "failed" and not reached:
            floor = min(floor, breaker.UNREACHED_FLOOR)
        assert standing.next_due_at >= max(now, began + floor)
        if verdict != "ok" and retry_after is not None:
            assert standing.next_due_at >= now + min(retry_after, LONGEST_WAIT)
        # … and never lost.
        longest = max(pace.every, LONGEST_PROBE, LONGEST_WAIT) * (1 + JITTER)
        assert standing.next_due_at <= max(now, began) + longest
        if verdict == "ok":
            assert standing.next_due_at <= max(now, began + pace.every * (1 + JITTER),
                                               began + pace.at_least)  # fmt: skip
            assert standing == Standing(standing.next_due_at)
        else:
            assert standing.failures == before.failures + 1
            assert standing.outage_since == (before.outage_since or began)
        assert (standing.breaker == "open") == (
            verdict == "credential" or (verdict == "failed" and standing.failures >= OPEN_AFTER)
        )
        # A restart at any moment changes nothing, but for a key that may have been replaced.
        again = resumed(standing, pace, now, updated_at=now)
        if standing.credential:
            assert now <= again.next_due_at <= standing.next_due_at
        else:
            assert again == standing


@given(
    paces,
    st.integers(-20_000, 100_000).map(lambda days: NOW + timedelta(days=days)),
    st.integers(0, 100),
)
def test_whatever_the_table_says_a_provider_is_polled_again(
    pace: Pace, due: datetime, failures: int
) -> None:
    kept = Standing(due, failures, "open" if failures else "closed", NOW if failures else None)
    latest = NOW + max(pace.every, LONGEST_PROBE, LONGEST_WAIT) * (1 + JITTER)
    assert resumed(kept, pace, NOW, updated_at=NOW).next_due_at <= latest
