"""``gpucost alerts test``, ``history`` and ``outbox``: notices, sent and not sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.alerting import CHEAPER, DEARER, QUICK, SHIPPED, Desk, alerts, at_desk
from tests.support.hook import TOKEN, Hook
from tracker.alert.deliver import Deliverer
from tracker.app import App
from tracker.cli.alerts import trying
from tracker.store.engine import connect, make_engine
from tracker.store.leader import Leadership

SIGNING = "s1gningSecretOfTheHook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as hook:
        yield hook


@pytest.fixture
def desk(
    database_url: str, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    with at_desk(database_url, tmp_path, monkeypatch) as desk:
        desk.configure(
            "[alerts]\nallow_private_targets = true\n"
            f'{QUICK}channels = ["log", "hook"]\nkeep_firing = "0s"\n'
            f'[alerts.channels.hook]\ntype = "webhook"\nurl = "{hook.address}"\n'
            f'secret = "{SIGNING}"\n'
        )
        desk.prices(CHEAPER)
        yield desk


@contextmanager
def leading(url: str, *, delivers: bool = True) -> Iterator[Leadership]:
    """What a daemon on the database does while it leads."""
    app, engine = App(), make_engine(url)
    leadership = Leadership(url, "elsewhere:1")
    assert leadership.acquire()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()
    deliverer = Deliverer(engine, app.channels[0], redactor=app.redactor, guard=leadership.guard)
    thread = threading.Thread(target=lambda: loop.run_until_complete(deliverer.run(stop)))
    if delivers:
        thread.start()
    try:
        yield leadership
    finally:
        loop.call_soon_threadsafe(stop.set)
        if delivers:
            thread.join(30)
        loop.close()
        leadership.release()
        engine.dispose()


# --- test -------------------------------------------------------------------------------------


def test_a_test_arrives_marked_and_moves_nothing(desk: Desk, hook: Hook) -> None:
    desk.evaluate()
    rule = desk.all("SELECT t::text FROM alert_rule t")
    answer = alerts("test", SHIPPED, "--channel", "hook", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    document = answer.json()
    [row] = document["rows"]
    assert (row["channel"], row["type"], row["result"], row["error"]) == (
        "hook", "webhook", "sent", None,
    )  # fmt: skip
    [body] = hook.bodies
    assert hook.ids == [document["event_id"]]
    assert (body["events"][0]["kind"], body["events"][0]["rule"]) == ("test", SHIPPED)
    assert "TEST" in str(body)
    assert desk.all("SELECT t::text FROM alert_rule t") == rule
    assert desk.all("SELECT count(*) FROM alert_outbox WHERE status = 'pending'") == [(2,)]


def test_it_works_before_the_first_evaluation_and_on_all_channels(desk: Desk, hook: Hook) -> None:
    answer = alerts("test", SHIPPED)
    assert answer.code == 0
    assert [line.split()[:3] for line in answer.lines[1:3]] == [
        ["log", "log", "sent"], ["hook", "webhook", "sent"],
    ]  # fmt: skip
    assert "TEST of rule h100-cheaper-than-a100" in answer.err, "the log channel's own line"
    assert len(hook.requests) == 1
    assert desk.all("SELECT count(*) FROM alert_rule") == [(0,)]


def test_a_channel_that_fails_is_named_and_the_code_is_7(desk: Desk, hook: Hook) -> None:
    hook.say(500, body=f"no such hook {TOKEN}".encode())
    answer = alerts("test", SHIPPED)
    assert answer.code == 7
    assert any(line.startswith("hook") and "failed" in line and "500" in line
               for line in answer.lines)  # fmt: skip
    assert any(line.startswith("log ") and "sent" in line for line in answer.lines)
    assert answer.err.endswith("gpucost: the test did not get through on hook\n")
    assert "given up" not in answer.err
    assert TOKEN not in answer.out + answer.err
    assert SIGNING not in answer.out + answer.err
    assert len(hook.requests) == 1, "a test is not tried again"


def test_a_channel_that_cannot_be_used_fails_without_stopping_the_others(
    desk: Desk, hook: Hook
) -> None:
    desk.configure(
        f'[alerts]\nallow_private_targets = true\n{QUICK}channels = ["bad", "hook"]\n'
        f'[alerts.channels.hook]\ntype = "webhook"\nurl = "{hook.address}"\n'
        '[alerts.channels.bad]\ntype = "smtp"\nhost = "mail.example"\n'
    )
    answer = alerts("test", SHIPPED, "-o", "json")
    assert answer.code == 7
    assert [row["result"] for row in answer.json()["rows"]] == ["not usable", "sent"]
    assert answer.complaint == "the test did not get through on bad"
    answer = alerts("test", SHIPPED, "--channel", "bad")
    assert answer.code == 7
    assert len(hook.requests) == 1


def test_an_unknown_channel_is_one_line_with_the_nearest(desk: Desk, hook: Hook) -> None:
    before = desk.state()
    answer = alerts("test", SHIPPED, "--channel", "hok")
    assert (answer.code, answer.complaint) == (
        2, "no channel is called 'hok'; did you mean hook?",
    )  # fmt: skip
    assert desk.state() == before
    assert hook.requests == []


def test_while_a_daemon_leads_it_sends_the_test(desk: Desk, hook: Hook) -> None:
    with leading(desk.url):
        answer = alerts("test", SHIPPED, "--channel", "hook")
    assert answer.code == 0
    assert answer.err == "a daemon leads: it sends the test\n"
    assert len(hook.requests) == 1


def test_a_daemon_that_goes_away_meanwhile_is_stood_in_for(
    desk: Desk, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading(desk.url, delivers=False) as leadership:
        monkeypatch.setattr(trying.time, "sleep", lambda _: leadership.release())
        answer = alerts("test", SHIPPED, "--channel", "hook")
    assert answer.code == 0
    assert len(hook.requests) == 1


def test_a_daemon_that_does_not_send_is_not_waited_for_for_ever(
    desk: Desk, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trying, "PATIENCE_S", 0.5)
    with leading(desk.url, delivers=False):
        answer = alerts("test", SHIPPED, "--channel", "hook", "-o", "json")
    assert answer.code == 7
    [row] = answer.json()["rows"]
    assert row["result"] == "waiting"
    assert "gpucost alerts outbox" in row["error"]
    assert hook.requests == []


def test_a_daemon_that_does_not_know_the_channel_says_so(desk: Desk, hook: Hook) -> None:
    known = (desk.folder / "gpucost.toml").read_text()
    with leading(desk.url):
        (desk.folder / "gpucost.toml").write_text(
            f'{known}\n[alerts.channels.new]\ntype = "webhook"\nurl = "{hook.address}"\n'
        )
        answer = alerts("test", SHIPPED, "--channel", "new", "-o", "json")
    assert answer.code == 7
    error = answer.json()["rows"][0]["error"]
    assert "no channel of this name is configured in the daemon that leads" in error
    assert "SIGHUP" in error
    assert answer.err.endswith("gpucost: the test still waits on new\n")


# --- history ----------------------------------------------------------------------------------


def _fire_and_clear(desk: Desk) -> None:
    desk.evaluate(minutes_ago=4)
    desk.prices(DEARER, minutes_ago=3)
    desk.evaluate(minutes_ago=2)


def test_history_has_every_transition_with_its_inputs(desk: Desk) -> None:
    _fire_and_clear(desk)
    document = alerts("history", SHIPPED, "-o", "json").json()
    rows = document["rows"]
    assert [(r["kind"], r["notice"], r["firing_seq"]) for r in rows] == [
        ("resolved", "yes", 1), ("fired", "yes", 1),
    ]  # fmt: skip
    assert rows[1]["inputs"]["left"]["job_cost_usd"] == "8"
    assert (rows[1]["value"], rows[1]["phase_to"]) == ("0.555556", "firing")
    lines = alerts("history").lines
    assert [line.split()[2:5] for line in lines[1:]] == [
        [SHIPPED, "resolved", "1.1111"], [SHIPPED, "fired", "0.5556"],
    ]  # fmt: skip
    for output in ("wide", "csv", "ndjson"):
        assert "resolved" in alerts("history", "-o", output).out


def test_history_says_what_kept_a_notice_back(desk: Desk) -> None:
    alerts("silence", "*", "--for", "1h", "--comment", "quiet")
    desk.evaluate()
    [row] = alerts("history", "-o", "json").json()["rows"]
    assert (row["kind"], row["notice"], row["suppressed_by"]) == ("fired", "kept_back", "silence 1")
    assert "kept back: silence 1" in alerts("history").out


def test_history_is_bounded_and_says_so(desk: Desk) -> None:
    _fire_and_clear(desk)
    lines = alerts("history", "--limit", "1").lines
    assert (len(lines), lines[-1]) == (3, "the latest 1; --limit shows more")
    assert alerts("history", "--since", "3m", "-o", "json").json()["rows"][0]["kind"] == "resolved"
    assert alerts("history", "--since", "1s").out.startswith("nothing happened since ")
    assert alerts("history", "--since", "36500d").code == 0
    assert "too long" in alerts("history", "--since", "36526d").complaint


def test_the_history_of_a_rule_outlives_it(desk: Desk) -> None:
    desk.configure(QUICK + '[alerts.rules.mine]\nwhen = "price(H100) < 9"\nmin_count = 1\n'
                   'min_duration = "0s"\n')  # fmt: skip
    desk.evaluate(minutes_ago=1)
    desk.configure(QUICK)
    desk.evaluate()
    kinds = [r["kind"] for r in alerts("history", "mine", "-o", "json").json()["rows"]]
    assert kinds == ["closed", "fired"]
    assert alerts("show", "mine").code == 0
    assert alerts("eval", "mine").complaint.startswith("no rule is called 'mine'")


# --- outbox -----------------------------------------------------------------------------------


def test_what_is_given_up_is_shown_and_tried_again(desk: Desk, hook: Hook) -> None:
    hook.say(500)
    assert alerts("test", SHIPPED).code == 7
    [dead] = alerts("outbox", "--dead", "-o", "json").json()["rows"]
    assert (dead["channel"], dead["status"], dead["attempts"]) == ("hook", "dead", 1)
    assert "HTTP 500" in dead["last_error"]
    assert "given up" not in alerts("list").out, "who made a test was told"
    answer = alerts("outbox", "--retry", str(dead["id"]))
    assert (answer.code, answer.out) == (
        0, f"to be tried again: {dead['id']}; the daemon sends them\n",
    )  # fmt: skip
    [waiting] = alerts("outbox", "--waiting", "-o", "json").json()["rows"]
    assert (waiting["id"], waiting["status"]) == (dead["id"], "pending")
    assert alerts("outbox", "--dead").out == "no notice\n"


def test_a_notice_that_was_given_up_is_dismissed(desk: Desk, hook: Hook) -> None:
    desk.evaluate()
    with connect(desk.url) as connection:
        connection.execute(
            "UPDATE alert_outbox SET status = 'dead', ended_at = now() WHERE channel = 'hook'"
        )
    assert "1 notice given up" in alerts("list").out
    [dead] = alerts("outbox", "--dead", "-o", "json").json()["rows"]
    answer = alerts("outbox", "--dismiss", f"{dead['id']},{dead['id'] + 1000}")
    assert (answer.code, answer.out) == (3, f"counts no more: {dead['id']}\n")
    assert answer.complaint == f"not given up: {dead['id'] + 1000}"
    assert "given up" not in alerts("list").out
    assert alerts("outbox", "--dead").out == "no notice\n"
    [kept] = alerts("outbox", "--channel", "hook", "-o", "json").json()["rows"]
    assert (kept["id"], kept["status"]) == (dead["id"], "dismissed")
    assert alerts("outbox", "--retry", "all").code == 3


def test_outbox_is_told_apart_by_rule_channel_and_status(desk: Desk, hook: Hook) -> None:
    desk.evaluate()
    alerts("test", SHIPPED, "--channel", "hook")
    lines = alerts("outbox").lines
    assert [line.split()[1:5] for line in lines[1:]] == [
        [SHIPPED, "test", "hook", "sent"], [SHIPPED, "fired", "hook", "pending"],
        [SHIPPED, "fired", "log", "pending"],
    ]  # fmt: skip
    assert len(alerts("outbox", SHIPPED, "--channel", "log", "-o", "ndjson").lines) == 1
    assert len(alerts("outbox", "--limit", "2", "-o", "csv").lines) == 3
    assert alerts("outbox", "--limit", "2").lines[-1] == "the latest 2; --limit shows more"


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--retry", "7"], 3, "not given up, or its end was told: 7"),
        (["--retry", "all"], 3, "no notice was given up that can be retried"),
        (["--retry", "all", "--channel", "hook"], 3, "no notice was given up"),
        (["--retry", "x"], 2, "'x' is neither an id nor all"),
        (["--retry", "-1"], 2, "is neither an id nor all"),
        (["--retry", "9" * 40], 2, "is neither an id nor all"),
        (["--retry", "all,7"], 2, "name no ids beside it"),
        (["--retry", "7", "--channel", "hook"], 2, "--channel goes with --retry all"),
        (["--retry", "7", "--dead"], 2, "--retry takes ids"),
        (["--dismiss", "7"], 3, "not given up: 7"),
        (["--dismiss", "all"], 3, "no notice was given up"),
        (["--dismiss", "x"], 2, "--dismiss: 'x' is neither an id nor all"),
        (["--dismiss", "7", "--retry", "8"], 2, "exclude each other"),
        (["--dead", "--waiting"], 2, "exclude each other"),
        (["--limit", "0"], 2, "--limit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_retried_is_said(desk: Desk, argv: list[str], code: int, says: str) -> None:
    answer = alerts("outbox", *argv)
    assert (answer.code, answer.out) == (code, "")
    assert says in answer.complaint


# --- secrets ----------------------------------------------------------------------------------


def test_no_command_shows_a_secret_that_a_server_sends_back(desk: Desk, hook: Hook) -> None:
    desk.evaluate()
    said = ""
    for status in (500, 401, 302):
        hook.say(status, body=f"{hook.address} {TOKEN} {SIGNING}".encode(), location=hook.address)
        answer = alerts("test", SHIPPED)
        assert answer.code == 7
        said += answer.out + answer.err
    for argv in (
        ["list"], ["show", SHIPPED], ["check"], ["eval", SHIPPED], ["history"], ["outbox"],
        ["outbox", "--dead"],
    ):  # fmt: skip
        for output in ("table", "json"):
            answer = alerts(*argv, "-o", output)
            assert answer.code == 0
            said += answer.out + answer.err
    kept = repr(desk.state())
    for secret in (TOKEN, SIGNING, hook.address):
        assert secret not in said
        assert secret not in kept
    assert "HTTP 401" in said
