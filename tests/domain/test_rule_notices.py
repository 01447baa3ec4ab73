"""What a rule tells, and what it keeps to itself: cooldown, silences, reminders, bad data."""

from __future__ import annotations

from dataclasses import replace

from tests.domain.rule_scenarios import (
    INTERVAL,
    MINUTE,
    PLAIN,
    SILENCE,
    STALE,
    START,
    evaluations,
    run,
    told,
)
from tracker.domain.rule import Kind, Phase, edited
from tracker.domain.rule.machine import late_end

HOUR = 60 * MINUTE
FIRING = "eeeeeee"  # pending at 0, fired at 6
CLEARED = "xxxxxxx"  # recovering at once, resolved 6 later


class TestNotices:
    """Cooldown, silences, reminders, the start."""

    def test_a_firing_within_the_cooldown_is_recorded_and_ends_untold(self) -> None:
        policy = replace(PLAIN, cooldown=6 * HOUR)
        _, events = run(policy, evaluations(FIRING + CLEARED + FIRING + CLEARED))
        assert told(events)[4:] == [
            "14 pending",
            "20 fired (cooldown)",
            "21 recovering",
            "27 resolved (unsent firing)",
        ]
        assert [event.firing_seq for event in events[5:]] == [events[5].seq] * 3

    def test_the_cooldown_counts_from_the_notice_and_its_end_is_free(self) -> None:
        for cooldown, notice in ((70 * MINUTE, "20 fired"), (71 * MINUTE, "20 fired (cooldown)")):
            policy = replace(PLAIN, cooldown=cooldown)
            _, events = run(policy, evaluations(FIRING + CLEARED + FIRING))
            assert told(events)[-1] == notice

    def test_a_firing_that_outlasts_the_cooldown_is_told_after_all(self) -> None:
        policy = replace(PLAIN, cooldown=2 * HOUR)
        line = FIRING + CLEARED + FIRING + "e" * 20 + CLEARED
        _, events = run(policy, evaluations(line))
        assert told(events)[5:] == [
            "20 fired (cooldown)",
            "30 still_firing",
            "41 recovering",
            "47 resolved",
        ]
        assert {event.firing_seq for event in events[5:]} == {events[5].seq}

    def test_it_is_not_told_in_the_dark_nor_while_it_recovers(self) -> None:
        policy = replace(PLAIN, cooldown=90 * MINUTE)  # over at 24
        line = FIRING + CLEARED + FIRING + "ee ... xxx e"
        assert told(run(policy, evaluations(line))[1])[5:] == [
            "20 fired (cooldown)",
            "26 recovering",
            "29 relapsed",
            "29 still_firing",
        ]

    def test_a_silence_keeps_back_and_its_end_tells_what_goes_on(self) -> None:
        _, events = run(PLAIN, evaluations("S" + FIRING + "ee s e" + CLEARED))
        assert told(events) == [
            "0 pending",
            f"6 fired ({SILENCE})",
            "9 still_firing",
            "10 recovering",
            "16 resolved",
        ]
        assert events[2].reason == "its notice had been kept back by silence 12"
        assert events[2].firing_since == events[1].at

    def test_a_silence_that_outlasts_the_firing_hides_all_of_it(self) -> None:
        _, events = run(PLAIN, evaluations("S" + FIRING + CLEARED + "s xxx"))
        assert [event for event in events if event.sent] == []
        assert told(events)[-1] == "13 resolved (unsent firing)"

    def test_a_silence_that_ends_while_it_recovers_tells_nothing(self) -> None:
        _, events = run(PLAIN, evaluations("S" + FIRING + "x s xxxxxx"))
        assert [event for event in events if event.sent] == []

    def test_the_end_of_a_silence_tells_the_end_that_it_kept_back(self) -> None:
        for later in "d", "x", "e", ".":  # it is over, whatever is seen then
            state, events = run(PLAIN, evaluations(FIRING + "S" + CLEARED + f"xx s {later}ddd"))
            assert [line for line in told(events) if "resolved" in line] == [
                f"13 resolved ({SILENCE})",
                "16 resolved",
            ]
            ended, late = (event for event in events if event.kind is Kind.RESOLVED)
            assert (late.sent, late.firing_seq, late.firing_until) == (True, 2, ended.at)
            assert (late.firing_since, late.best) == (ended.firing_since, ended.best)
            assert late.reason == "its notice had been kept back by silence 12"
            assert (late.phase_from, late.phase_to) == (Phase.OK, Phase.OK)
            assert (ended.firing_until, state.owed) == (None, None)

    def test_an_end_is_told_before_what_came_after_it(self) -> None:
        _, events = run(PLAIN, evaluations(FIRING + "S" + CLEARED + FIRING + "s e"))
        assert told(events)[3:] == [
            f"13 resolved ({SILENCE})", "14 pending", f"20 fired ({SILENCE})",
            "21 resolved", "21 still_firing",
        ]  # fmt: skip
        assert [event.firing_seq for event in events[-2:]] == [2, events[-3].seq]

    def test_no_end_is_told_late_to_those_who_want_none(self) -> None:
        policy = replace(PLAIN, send_resolved=False)
        state, events = run(policy, evaluations(FIRING + "S" + CLEARED + "s ddd"))
        assert told(events)[-1] == "13 resolved (send_resolved)"
        assert state.owed is None

    def test_what_an_edit_ends_in_a_silence_is_told_after_it(self) -> None:
        state, _ = run(PLAIN, evaluations(FIRING))
        at = START + 7 * INTERVAL
        state, (closed,) = edited(state, at, reason="removed", silence=SILENCE)
        assert (closed.kind, closed.suppressed_by) == (Kind.CLOSED, SILENCE)
        assert late_end(state, at + MINUTE, silence="silence 13") == (state, ())
        after, (late,) = late_end(state, at + HOUR)
        assert (late.kind, late.reason, late.sent) == (Kind.CLOSED, "removed", True)
        assert (late.firing_until, after.owed) == (at, None)
        assert late_end(after, at + 2 * HOUR) == (after, ())
        # The same when the rule is evaluated again, or edited once more.
        _, (stepped,) = run(PLAIN, evaluations("d", start=at + HOUR), state)
        again, (once_more,) = edited(state, at + HOUR)
        assert replace(stepped, value=None) == once_more == late
        assert again.owed is None

    def test_a_silence_after_the_notice_hides_the_end_only(self) -> None:
        _, events = run(PLAIN, evaluations(FIRING + "S ee s ee S" + CLEARED))
        assert told(events) == [
            "0 pending", "6 fired", "11 recovering", f"17 resolved ({SILENCE})",
        ]  # fmt: skip

    def test_the_end_of_a_silence_is_told_in_the_cooldown_too(self) -> None:
        policy = replace(PLAIN, cooldown=6 * HOUR)
        _, events = run(policy, evaluations(FIRING + CLEARED + "S" + FIRING + "s e"))
        assert told(events)[-2:] == [f"20 fired ({SILENCE})", "21 still_firing"]

    def test_no_end_is_told_to_those_who_want_none(self) -> None:
        policy = replace(PLAIN, send_resolved=False)
        _, events = run(policy, evaluations(FIRING + CLEARED))
        assert told(events)[-1] == "13 resolved (send_resolved)"

    def test_reminders(self) -> None:
        policy = replace(PLAIN, remind_every=HOUR)
        _, events = run(policy, evaluations(FIRING + "d" * 12 + "e" * 12 + "d"))
        assert told(events) == ["0 pending", "6 fired", "18 reminder", "30 reminder"]
        assert {event.firing_seq for event in events[1:]} == {events[1].seq}

    def test_one_reminder_after_a_night(self) -> None:
        policy = replace(PLAIN, remind_every=HOUR)
        _, events = run(policy, evaluations(FIRING + "-" * 200 + "eee"))
        assert told(events) == ["0 pending", "6 fired", "207 reminder"]

    def test_no_reminder_in_the_dark_nor_while_it_recovers_nor_of_what_was_never_told(self) -> None:
        policy = replace(PLAIN, remind_every=10 * MINUTE, keep_firing=6 * HOUR)
        _, events = run(policy, evaluations(FIRING + "......" + "xxxxxx"))
        assert told(events) == ["0 pending", "6 fired", "13 recovering"]
        hidden, _ = run(policy, evaluations("S" + FIRING))
        dark = evaluations("S eeeeee", start=START + 7 * INTERVAL)
        assert run(policy, dark, hidden)[1] == []

    def test_a_silenced_reminder_is_recorded(self) -> None:
        policy = replace(PLAIN, remind_every=10 * MINUTE)
        _, events = run(policy, evaluations(FIRING + "S eeee"))
        assert told(events)[2:] == [f"8 reminder ({SILENCE})", f"10 reminder ({SILENCE})"]

    def test_what_is_true_from_the_start_is_told_unless_it_is_the_baseline(self) -> None:
        assert told(run(PLAIN, evaluations(FIRING))[1])[-1] == "6 fired"
        baseline = replace(PLAIN, on_start="baseline")
        _, events = run(baseline, evaluations(". " + FIRING + "ee" + CLEARED + FIRING))
        assert [line for line in told(events) if "fired" in line or "resolved" in line] == [
            "7 fired (baseline)",
            "16 resolved (unsent firing)",
            "23 fired",
        ]

    def test_the_baseline_is_a_run_from_the_first_good_sample_on(self) -> None:
        baseline = replace(PLAIN, on_start="baseline")
        for line in ("e d" + FIRING, "d" + FIRING, ". x" + FIRING):
            assert told(run(baseline, evaluations(line))[1])[-1].endswith(" fired"), line
        for line in ("e . e -------------" + FIRING, "..." + FIRING, "? S" + FIRING):
            assert told(run(baseline, evaluations(line))[1])[-1].endswith("(baseline)"), line


class TestHealth:
    """Bad data is told apart from what the rule watches, after two hours."""

    def test_a_problem_is_told_once_and_so_is_its_end(self) -> None:
        _, events = run(PLAIN, evaluations("d" + "." * 60 + "ddd"))
        assert told(events) == ["25 data_problem", "61 data_ok"]
        assert events[0].reason == STALE.reason
        assert {(event.phase_from, event.phase_to) for event in events} == {(Phase.OK, Phase.OK)}

    def test_a_short_problem_is_not_told(self) -> None:
        assert run(PLAIN, evaluations("d" + "." * 24 + "d" + "." * 24 + "d"))[1] == []

    def test_one_kind_of_trouble_after_another_is_one_problem(self) -> None:
        assert told(run(PLAIN, evaluations("d ............ ????????????? d"))[1]) == [
            "25 data_problem",
            "26 data_ok",
        ]

    def test_a_rule_that_never_saw_good_data_says_so(self) -> None:
        assert told(run(PLAIN, evaluations("." * 30))[1]) == ["24 data_problem"]

    def test_a_night_asleep_is_no_bad_data(self) -> None:
        state, events = run(PLAIN, evaluations("d ... " + "-" * 100 + "." * 25))
        assert told(events) == ["128 data_problem"]  # two hours after 104
        assert state.health_since == START + INTERVAL

    def test_a_firing_survives_its_data(self) -> None:
        _, events = run(PLAIN, evaluations(FIRING + "." * 60 + "e" + CLEARED))
        assert told(events)[2:] == ["31 data_problem", "67 data_ok", "68 recovering", "74 resolved"]

    def test_silenced(self) -> None:
        _, all_of_it = run(PLAIN, evaluations("S" + "." * 30 + "d"))
        assert told(all_of_it) == [f"24 data_problem ({SILENCE})", "30 data_ok (unsent problem)"]
        _, the_end = run(PLAIN, evaluations("." * 30 + "S d"))
        assert told(the_end) == ["24 data_problem", f"30 data_ok ({SILENCE})"]

    def test_the_end_of_a_silence_tells_that_the_data_is_good_again(self) -> None:
        bad, short = "." * 30, "..."
        _, events = run(PLAIN, evaluations(bad + f"S d {short} d s {short} dd"))
        assert told(events) == ["24 data_problem", f"30 data_ok ({SILENCE})", "38 data_ok"]
        # It is bad again: that is told, and its end is the end of both.
        _, events = run(PLAIN, evaluations(bad + f"S d s {bad} dd"))
        assert told(events)[2:] == ["55 data_problem", "61 data_ok"]
        _, events = run(PLAIN, evaluations(bad + f"S d {bad} s dd"))
        assert told(events)[2:] == [f"55 data_problem ({SILENCE})", "61 data_ok"]

    def test_an_edit_does_not_forget_it(self) -> None:
        state, _ = run(PLAIN, evaluations("." * 30 + "S d"))
        state, _ = edited(state, START + 31 * INTERVAL)
        _, events = run(PLAIN, evaluations("dd", start=START + 32 * INTERVAL), state)
        assert [event.kind for event in events] == [Kind.DATA_OK]

    def test_the_end_of_a_silence_tells_a_problem_that_lasts(self) -> None:
        _, events = run(PLAIN, evaluations("S" + "." * 30 + "s .. d"))
        assert told(events) == [f"24 data_problem ({SILENCE})", "30 data_problem", "32 data_ok"]
