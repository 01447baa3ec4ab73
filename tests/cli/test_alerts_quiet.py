"""``gpucost alerts silence`` and ``ack``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.alerting import CHEAPER, QUICK, SHIPPED, Desk, alerts, at_desk, row

FOR = ("--for", "2h", "--comment", "maintenance")


@pytest.fixture
def desk(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_desk(database_url, tmp_path, monkeypatch) as desk:
        desk.prices(CHEAPER)
        yield desk


def _silences(*options: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = alerts("silence", "--list", *options, "-o", "json").json()[
        "rows"
    ]
    return rows


def test_a_silence_holds_notices_back_and_its_end_lets_them_go(desk: Desk) -> None:
    answer = alerts("silence", SHIPPED, *FOR, "--author", "kim")
    assert answer.code == 0
    assert answer.out.startswith("silence 1 until ")
    assert "gpucost alerts silence --end 1" in answer.out
    desk.evaluate()
    assert desk.all("SELECT count(*) FROM alert_outbox") == [(0,)]
    assert "1 silence in force: gpucost alerts silence --list" in alerts("list").out
    [found] = _silences()
    assert (found["rule"], found["author"], found["comment"]) == (SHIPPED, "kim", "maintenance")
    assert alerts("silence", "--end", "1").out == "silence 1 ended\n"
    assert _silences() == []
    [past] = _silences("--all")
    assert past["in_force"] is False
    desk.evaluate()
    kinds = desk.all("SELECT kind FROM alert_outbox")
    assert kinds == [("still_firing",)]


def test_a_silence_matches_by_pattern_job_provider_and_gpu(desk: Desk) -> None:
    for argv in (
        ["H100*"], ["*"], ["--job", "bert-large"], ["--provider", "ACME"], ["--gpu", "h100"],
        ["--gpu", "A100-SXM-80GB"], ["--gpu", "A100", "--provider", "acme"],
    ):  # fmt: skip
        made = alerts("silence", *argv, *FOR)
        assert made.code == 0, made.err
        number = made.out.split()[1]
        assert f"silenced by: silence {number}" in alerts("eval", SHIPPED).out, argv
        assert alerts("silence", "--end", number).code == 0
    for argv in (["other*"], ["--gpu", "4090"], ["--provider", "runpod"]):
        number = alerts("silence", *argv, *FOR).out.split()[1]
        assert "silenced by" not in alerts("eval", SHIPPED).out, argv
        alerts("silence", "--end", number)
    assert {s["gpu"] for s in _silences("--all")} == {None, "H100", "A100", "A100-SXM-80GB",
                                                      "RTX4090"}  # fmt: skip


@pytest.mark.parametrize(
    "spelling", ["H100-SXM", "H100_SXM", "h100 sxm", "NVIDIA H100 SXM", "H100"]
)
def test_a_gpu_is_silenced_in_every_spelling(desk: Desk, spelling: str) -> None:
    desk.configure('[alerts.rules.sxm]\nwhen = "price(H100-SXM) < 100"')
    alerts("silence", "--gpu", spelling, *FOR)
    assert "silenced by: silence 1" in alerts("eval", "sxm").out


def test_an_argument_that_is_not_utf8_is_one_line_and_exit_2(desk: Desk) -> None:
    made = alerts("silence", SHIPPED, *FOR, "--author", "\udcff")
    assert (made.code, made.err) == (2, "gpucost: an argument is not UTF-8 text\n")
    assert _silences() == []


def test_a_pattern_that_matches_no_rule_is_said(desk: Desk) -> None:
    for pattern in ("nosuch-*", "[x-z]?"):
        made = alerts("silence", pattern, *FOR)
        assert (made.code, "no rule is called " + pattern in made.out) == (0, True)
    assert "no rule is called" not in alerts("silence", "h100*", *FOR).out


def test_until_is_a_time_in_utc_and_the_author_is_the_account(desk: Desk) -> None:
    until = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    assert alerts("silence", SHIPPED, "--until", until.isoformat(), "--comment", "x").code == 0
    [found] = _silences()
    assert found["until"] == until.isoformat().replace("+00:00", "Z")
    assert found["author"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "name a rule ('*' for all of them)"),
        (list(FOR), "name a rule"),
        ([SHIPPED, "--comment", "x"], "say for how long"),
        ([SHIPPED, *FOR, "--until", "2999-01-01"], "say for how long"),
        ([SHIPPED, "--for", "2h"], "say why with --comment"),
        ([SHIPPED, "--for", "2h", "--comment", "  "], "say why with --comment"),
        ([SHIPPED, "--for", "2h", "--comment", "x" * 501], "at most 500 characters"),
        ([SHIPPED, "--for", "soon", "--comment", "x"], "is not a duration"),
        ([SHIPPED, "--for", "400d", "--comment", "x"], "a year at most"),
        ([SHIPPED, "--until", "2999-01-01", "--comment", "x"], "a year at most"),
        ([SHIPPED, "--until", "2020-01-01", "--comment", "x"], "has passed"),
        ([SHIPPED, "--until", "tomorrow", "--comment", "x"], "is not a time"),
        (["h100-cheaper", *FOR], f"did you mean {SHIPPED}?"),
        (["--job", "bert-lage", *FOR], "did you mean bert-large"),
        (["--provider", "acmee", *FOR], "did you mean acme or azure?"),
        (["--gpu", "H10", *FOR], "H10"),
        (["[", *FOR], "'[' is never closed"),
        (["h100*[a", *FOR], "'[' is never closed"),
        (["h100 *", *FOR], "' ' is in no rule's name"),
        (["--list", "--end", "1"], "not two at once"),
        ([SHIPPED, *FOR, "--list"], "not two at once"),
        (["--all"], "--all goes with --list"),
        (["--end", "one"], "--end"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_makes_no_silence(desk: Desk, argv: list[str], says: str) -> None:
    answer = alerts("silence", *argv)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.complaint
    assert desk.all("SELECT count(*) FROM alert_silence") == [(0,)]


@pytest.mark.parametrize("number", ["7", "-1", "9" * 30])
def test_a_silence_that_is_not_in_force_cannot_end(desk: Desk, number: str) -> None:
    answer = alerts("silence", "--end", number)
    assert answer.code == 3
    assert answer.complaint.startswith(f"no silence {number} is in force")


def test_lists_that_are_empty_say_so(desk: Desk) -> None:
    assert alerts("silence", "--list").out == "no silence is in force\n"
    assert alerts("silence", "--list", "--all").out == "there never was a silence\n"


def test_what_a_comment_holds_moves_no_cursor(desk: Desk) -> None:
    alerts("silence", SHIPPED, "--for", "1h", "--comment", "a\x1b[2Jb\nc")
    text = alerts("silence", "--list").out
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2


# --- ack --------------------------------------------------------------------------------------


def test_ack_is_noted_once_and_ends_the_reminders(desk: Desk) -> None:
    desk.configure(QUICK + 'remind_every = "1m"\n')
    desk.evaluate(minutes_ago=4)
    answer = alerts("ack", SHIPPED, "--author", "kim")
    assert (answer.code, answer.out) == (
        0, f"{SHIPPED}: acknowledged; no more reminders of this firing\n",
    )  # fmt: skip
    assert row(SHIPPED)["acknowledged_by"] == "kim"
    assert "acknowledged by kim" in alerts("list").out
    assert "by kim" in alerts("show", SHIPPED).out
    again = alerts("ack", SHIPPED, "--author", "sam")
    assert (again.code, again.out) == (0, f"{SHIPPED}: was acknowledged already, by kim\n")
    desk.evaluate()
    assert desk.all("SELECT kind FROM alert_outbox") == [("fired",)]
    [event, *_] = alerts("history", "-o", "json").json()["rows"]
    assert (event["kind"], event["reason"], event["notice"]) == ("acknowledged", "kim", "none")


def test_ack_of_what_does_not_fire_is_exit_3(desk: Desk) -> None:
    answer = alerts("ack", SHIPPED)
    assert (answer.code, answer.complaint) == (
        3, f"{SHIPPED} is not firing: it was not evaluated yet",
    )  # fmt: skip
    desk.configure(f'[alerts.rules.{SHIPPED}]\nmin_duration = "1h"\n')
    desk.evaluate()
    answer = alerts("ack", SHIPPED)
    assert (answer.code, answer.complaint) == (3, f"{SHIPPED} is not firing")
