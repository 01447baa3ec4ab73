"""``gpucost alerts list``, ``show`` and ``eval``: how rules stand, and what they would say."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.alerting import CHEAPER, DEARER, QUICK, SHIPPED, Desk, alerts, at_desk, row
from tests.cli.harness import run
from tests.support.pg import reachable_folder

FOUR = f"""{QUICK}
[alerts.rules.cheap]
when = "price(H100) < 2.50"
min_count = 1
min_duration = "0s"
[alerts.rules.best]
when = "cheapest(H100, A100) changes"
job = "bert-large"
[alerts.rules.fresh]
when = "new offer(H100) < 5"
"""
WRONG = """
[alerts.rules.typo]
when = "cost(H100) < 40"
job = "bert-larg"
cooldwn = "6h"
"""


@pytest.fixture
def desk(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_desk(database_url, tmp_path, monkeypatch) as desk:
        yield desk


# --- list -------------------------------------------------------------------------------------


def test_a_rule_that_was_never_evaluated_says_what_to_run(desk: Desk) -> None:
    text = alerts("list")
    assert text.code == 0
    assert text.lines[1].split()[:2] == [SHIPPED, "cost(H100)"]
    assert f"{SHIPPED}: not evaluated yet; run: gpucost daemon" in text.lines
    found = row(SHIPPED)
    assert (found["status"], found["phase"], found["evaluated_at"]) == ("waiting", None, None)
    assert (found["enter"], found["exit"], found["job"]) == ("0.98", "1.02", "bert-large")


def test_list_says_how_every_kind_of_rule_stands(desk: Desk) -> None:
    desk.configure(FOUR)
    desk.prices(CHEAPER)
    desk.evaluate()
    found = {name: row(name) for name in (SHIPPED, "cheap", "best", "fresh")}
    assert [r["phase"] for r in found.values()] == ["firing", "firing", "ok", "ok"]
    assert found[SHIPPED]["value"].startswith("0.5555")
    assert found["cheap"]["value"] == "0.8"
    [cheap] = [line for line in alerts("list").lines if line.startswith("cheap ")]
    assert "  $2.00  <= $2.50  >= $2.55" in cheap, "against dollars, in dollars"
    shown = "value: $2.00; fires at $2.50 or below; clears at $2.55 or above"
    assert shown in alerts("show", "cheap").out
    assert shown in alerts("eval", "cheap", "--dry-run").out
    assert "best $2.00, worst $2.00" in alerts("show", "cheap").out
    assert (found["best"]["label"], found["best"]["exit"]) == ("H100", None)
    assert (found["fresh"]["found"], found["fresh"]["enter"]) == (1, None)
    assert all(r["health"] == "good" and r["next_at"] > r["evaluated_at"] for r in found.values())
    text = alerts("list").out
    assert "0.5556 <= 0.98 >= 1.02" in " ".join(text.split())
    assert "1 offer" in text
    assert "not evaluated" not in text


@pytest.mark.parametrize("output", ["table", "wide", "json", "csv", "ndjson"])
def test_list_has_every_format(desk: Desk, output: str) -> None:
    desk.prices(CHEAPER)
    desk.evaluate()
    answer = alerts("list", "-o", output)
    assert answer.code == 0
    assert SHIPPED in answer.out
    assert "firing" in answer.out


def test_a_wrong_rule_is_named_with_its_field_and_stops_no_other(desk: Desk) -> None:
    desk.configure(QUICK + WRONG + '[alerts.channels.hook]\ntype = "webhok"\n')
    desk.prices(CHEAPER)
    desk.evaluate()
    text = alerts("list")
    assert text.code == 0
    [job] = [line for line in text.lines if "typo.job" in line]
    assert "did you mean bert-large" in job
    [key] = [line for line in text.lines if "typo.cooldwn" in line]
    assert "did you mean cooldown?" in key
    assert any("[alerts.channels.hook]" in line and "webhook" in line for line in text.lines)
    assert (row("typo")["status"], len(row("typo")["problems"])) == ("wrong", 2)
    assert row(SHIPPED)["phase"] == "firing"


def test_bad_data_says_what_is_the_matter(desk: Desk) -> None:
    desk.prices(CHEAPER, minutes_ago=600)
    desk.evaluate()
    found = row(SHIPPED)
    assert (found["health"], found["value"], found["phase"]) == ("stale", None, "ok")
    assert any(line.startswith(f"{SHIPPED}: stale: H100: acme has not") for line in
               alerts("list").lines)  # fmt: skip


def test_an_edited_a_removed_and_a_disabled_rule_are_told_apart(desk: Desk) -> None:
    desk.configure(FOUR)
    desk.prices(CHEAPER)
    desk.evaluate()
    off = '[alerts.rules.cheap]\nwhen = "price(H100) < 2.50"\nenabled = false\n'
    desk.configure(f"[alerts.rules.{SHIPPED}]\nenter_percent = 5\n{off}")
    assert row(SHIPPED)["edited"]
    assert (row("best")["status"], row("best")["phase"]) == ("removed", "ok")
    text = alerts("list").out
    assert f"{SHIPPED}: edited since; it begins anew" in text
    assert "best: not configured any more" in text
    assert "turned off: cheap" in text
    desk.evaluate()
    assert {r["rule"] for r in alerts("list", "-o", "json").json()["rows"]} == {SHIPPED}


def test_a_daemon_that_is_not_running_is_noticed(desk: Desk) -> None:
    desk.prices(CHEAPER, minutes_ago=90)
    desk.evaluate(minutes_ago=60)
    assert "last evaluated 60 min ago: is gpucost daemon running?" in alerts("list").out
    desk.evaluate()
    assert "is gpucost daemon running?" not in alerts("list").out


# --- show -------------------------------------------------------------------------------------


def test_show_tells_where_each_key_comes_from(desk: Desk) -> None:
    document = alerts("show", SHIPPED, "-o", "json").json()
    keys = {key["key"]: (key["value"], key["from"]) for key in document["definition"]}
    assert keys["when"] == ("cost(H100) < cost(A100)", "shipped")
    assert keys["min_count"] == (1, "configuration")
    assert keys["enter_percent"] == ("2", "default")
    assert keys["cooldown"] == (6 * 3600, "default")
    assert document["state"] is None
    lines = alerts("show", SHIPPED).lines
    assert any(line.split() == ["cooldown", "6h", "default"] for line in lines)
    assert any(line.split() == ["min_duration", "0s", "configuration"] for line in lines)


def test_show_has_the_bills_the_firing_and_the_channels(desk: Desk) -> None:
    desk.prices(CHEAPER)
    desk.evaluate()
    alerts("silence", SHIPPED, "--for", "2h", "--comment", "a move", "--author", "kim")
    text = alerts("show", SHIPPED).out
    for part in (
        "firing since", "told; best 0.5556", "cooldown: no notice of another firing before",
        "$8.00", "$14.40", "acme", "silence 1 until", "a move (kim)",
        "log: log; 1 notice waiting", "gpucost cheapest bert-large --gpu H100,A100",
    ):  # fmt: skip
        assert part in text
    document = alerts("show", SHIPPED, "-o", "json").json()
    assert document["state"]["firing"]["notified"] is True
    assert document["evaluation"]["left"]["job_cost_usd"] == "8"
    [channel] = document["channel_states"]
    assert (channel["channel"], channel["pending"], channel["dead"]) == ("log", 1, 0)


@pytest.mark.parametrize("name", ["best", "fresh", "cheap"])
def test_show_leaves_out_keys_that_have_no_effect(desk: Desk, name: str) -> None:
    desk.configure(FOUR)
    document = alerts("show", name, "-o", "json").json()
    keys = {key["key"] for key in document["definition"]}
    assert {"when", "every", "min_duration", "cooldown", "channels"} <= keys
    assert ("job" in keys) == (name == "best")
    assert ("enter_percent" in keys) == (name != "fresh")
    assert ("keep_firing" in keys) == (name != "best")


# --- eval -------------------------------------------------------------------------------------


def test_eval_says_what_would_happen_and_changes_nothing(desk: Desk) -> None:
    desk.prices(CHEAPER)
    before = desk.state()
    document = alerts("eval", SHIPPED, "--dry-run", "-o", "json").json()
    assert (document["phase"], document["phase_next"], document["health"]) == (
        "ok", "firing", "good",
    )  # fmt: skip
    [event] = document["events"]
    assert (event["kind"], event["notice_on"]) == ("fired", ["log"])
    assert document["inputs"]["right"]["job_cost_usd"] == "14.4"
    text = alerts("eval", SHIPPED).out
    for part in (
        "BERT-Large training on H100 costs $8.00, 44.4 % less than on A100 ($14.40).",
        "break-even: H100 at $3.60 per GPU-hour", "phase: ok -> firing",
        "value: 0.5556; fires at 0.98 or below; clears at 1.02 or above",
        "would record: fired, a notice on log", "gpucost explain ",
    ):  # fmt: skip
        assert part in text
    assert desk.state() == before


def test_eval_says_what_was_left_out_and_what_decides_nothing(desk: Desk) -> None:
    desk.configure(f'[alerts.rules.{SHIPPED}]\nregions = ["moon-*"]\n')
    desk.prices(CHEAPER)
    text = alerts("eval", SHIPPED).out
    assert "H100: 0 of 1 offers counted; left out: 1 " in text
    assert "data: no data: H100: no offer matches" in text
    assert "it decides nothing" in text
    assert "would record: nothing" in text


def test_eval_names_the_silence_and_the_next_step_of_a_firing(desk: Desk) -> None:
    desk.prices(CHEAPER)
    alerts("silence", "h100*", "--for", "1h", "--comment", "x")
    assert "fired, its notice kept back by silence 1" in alerts("eval", SHIPPED).out
    desk.evaluate()
    desk.prices(DEARER, minutes_ago=1)
    text = alerts("eval", SHIPPED).out
    assert "phase: firing -> recovering" in text
    assert "11.1 % more than" in text


def test_eval_of_the_other_kinds(desk: Desk) -> None:
    desk.configure(FOUR)
    desk.prices(CHEAPER)
    assert "value: H100; another one takes over at 0.98 or below" in alerts("eval", "best").out
    assert "value: 1 offer" in alerts("eval", "fresh").out
    assert "would record: found, a notice on log" in alerts("eval", "fresh").out
    assert "at acme, against $2.50." in alerts("eval", "cheap").out


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "eval", "test", "ack", "history", "outbox"])
def test_an_unknown_rule_is_one_line_with_the_nearest(desk: Desk, command: str) -> None:
    desk.prices(CHEAPER)
    answer = alerts(command, "h100-cheeper-than-a100")
    assert (answer.code, answer.out) == (2, "")
    assert answer.complaint == (
        f"no rule is called 'h100-cheeper-than-a100'; did you mean {SHIPPED}?"
    )


@pytest.mark.parametrize("command", ["eval", "test"])
def test_a_rule_that_is_wrong_or_off_says_so(desk: Desk, command: str) -> None:
    desk.configure(WRONG + f"[alerts.rules.{SHIPPED}]\nenabled = false\n")
    desk.prices(CHEAPER)
    answer = alerts(command, "typo")
    assert answer.code == 2
    assert answer.complaint.startswith("alerts.rules.typo.")
    answer = alerts(command, SHIPPED)
    assert (answer.code, answer.complaint) == (
        2, f"rule {SHIPPED} is turned off (enabled = false)",
    )  # fmt: skip
    assert "turned off" in alerts("show", SHIPPED).out
    assert "wrong: cooldwn" in alerts("show", "typo").out


COMMANDS = [
    ["list"], ["show", SHIPPED], ["eval", SHIPPED], ["test", SHIPPED], ["ack", SHIPPED],
    ["silence", SHIPPED, "--for", "1h", "--comment", "x"], ["silence", "--list"],
    ["silence", "--end", "1"], ["history"], ["outbox"], ["outbox", "--retry", "all"],
]  # fmt: skip


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_a_database_that_is_down_is_exit_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        port = taken.getsockname()[1]
        url = f"postgresql://me:hunter2secret@127.0.0.1:{port}/prices"
        with at_desk(url, tmp_path, monkeypatch):
            answer = alerts(*argv)
    assert (answer.code, answer.out) == (5, "")
    assert "hunter2secret" not in answer.complaint


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_a_database_without_tables_says_how_to_make_them(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    with at_desk(empty_database_url, tmp_path, monkeypatch):
        answer = alerts(*argv)
    assert answer.code == 5
    assert "run gpucost db upgrade" in answer.complaint


def test_where_nothing_was_ever_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reachable_folder() as folder:
        monkeypatch.setenv("GPUCOST_DATA_DIR", str(folder / "data"))
        Desk("", tmp_path).configure(QUICK)
        for argv in COMMANDS:
            answer = alerts(*argv)
            if argv[0] in ("list", "show"):
                assert answer.code == 0
                assert "not evaluated yet; run: gpucost daemon" in answer.out
            else:
                assert answer.code == 3, argv
        assert not (folder / "data").exists(), "looking starts no server"


def test_a_migrated_database_that_was_never_polled_has_nothing_to_evaluate(desk: Desk) -> None:
    for command in ("eval", "test"):
        answer = alerts(command, SHIPPED)
        assert (answer.code, answer.complaint) == (
            3, "no poll recorded yet; start with: gpucost daemon",
        )  # fmt: skip


def test_every_command_has_help_and_an_unknown_one_is_a_usage_error() -> None:
    names = ("list", "show", "check", "eval", "test", "silence", "ack", "history", "outbox")
    text = run("alerts", "--help").out
    for name in names:
        assert f"\n  {name} " in text
        assert run("alerts", name, "--help").code == 0
    answer = run("alerts", "lst")
    assert answer.code == 2
    assert "lst" in answer.complaint
