"""``gpucost alerts backtest``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.alert import recorded
from tests.alert.world import offer
from tests.cli.alerting import CHEAPER, DEARER, SHIPPED, Desk, alerts, at_desk
from tests.cli.harness import polled, run
from tests.support.fixtures import NO_SHARED
from tests.support.pg import TestServer
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder

needs_history = pytest.mark.skipif(not recorded.OBSERVATIONS.is_file(), reason=NO_SHARED)


@pytest.fixture
def desk(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_desk(database_url, tmp_path, monkeypatch) as made:
        yield made


def test_each_notice_has_its_date_and_its_bills(desk: Desk) -> None:
    for minutes, prices in ((180, DEARER), (120, CHEAPER), (60, DEARER), (5, CHEAPER)):
        desk.prices(prices, minutes)
    answer = alerts("backtest", SHIPPED, "--since", "1d", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    document = answer.json()
    rows = [row for row in document["rows"] if row["notice"]]
    assert [row["kind"] for row in rows] == ["fired"]
    assert [row["kind"] for row in document["rows"]] == ["fired", "recovering", "relapsed"]
    fired = rows[0]
    assert (fired["left_usd"], fired["right_usd"], fired["value"]) == ("8", "14.4", "0.555556")
    assert fired["left_offer"] == "1 x H100-SXM-80GB acme"
    datetime.fromisoformat(fired["at"])
    assert document["looks"] == document["judged_looks"] == 4
    assert document["bare"]["notices"] >= document["as_is"]["notices"]
    assert document["suggestion"] is None
    before = desk.state()
    table = alerts("backtest", SHIPPED, "--since", "1d")
    assert table.code == 0
    assert "without margins and durations" in table.out
    assert "4 looks from" in table.out
    assert desk.state() == before  # nothing is written


def test_a_channel_that_is_not_set_up_stops_it_unless_left_aside(desk: Desk) -> None:
    desk.prices(CHEAPER)
    desk.configure(f'[alerts.rules.{SHIPPED}]\nchannels = ["nowhere"]\n')
    answer = alerts("backtest", SHIPPED)
    assert answer.code == 2
    assert "no channel is called 'nowhere'" in answer.complaint
    assert alerts("backtest", SHIPPED, "--channel-free").code == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nothing-such"], "no rule is called 'nothing-such'"),
        ([SHIPPED, "--since", "soon"], "--since: 'soon' is neither a length"),
        ([SHIPPED, "--since", "1d", "--until", "2d"], "no earlier than the end"),
        ([SHIPPED, "--until", "2999-01-01"], "lies in the future"),
        ([SHIPPED, "--suggest", "0"], "--suggest"),
        ([SHIPPED, "--every", "never"], "is not a duration"),
        (["stale", "--suggest", "1"], "margins mean nothing to provider(acme) stale"),
    ],
)
def test_bad_input_is_one_line(desk: Desk, argv: list[str], said: str) -> None:
    desk.configure('[alerts.rules.stale]\nwhen = "provider(acme) stale"\n')
    desk.prices(CHEAPER)
    answer = alerts("backtest", *argv)
    assert answer.code == 2
    assert said in answer.complaint


def test_no_history_is_told(desk: Desk) -> None:
    answer = alerts("backtest", SHIPPED)
    assert (answer.code, answer.out) == (3, "")
    assert "no poll is recorded in that time" in answer.complaint
    desk.prices(CHEAPER)
    little = alerts("backtest", SHIPPED, "--suggest", "1")
    assert little.code == 3
    assert "too little history to suggest" in little.complaint
    assert "fired" in little.out  # what there was to see is shown


@pytest.mark.parametrize("when", ["cheapest(H100, A100) changes", "new offer(H100) < 2.10"])
def test_other_kinds_of_rules_name_what_they_found(desk: Desk, when: str) -> None:
    job = 'job = "bert-large"\n' if when.startswith("cheapest") else ""
    desk.configure(f'[alerts.rules.r]\nwhen = "{when}"\nmin_count = 1\nmin_duration = "0s"\n{job}')
    for minutes, prices in ((180, DEARER), (120, CHEAPER), (60, CHEAPER)):
        desk.prices(prices, minutes)
    answer = alerts("backtest", "r", "--since", "1d")
    assert answer.code == 0
    assert ("A100 -> H100" if job else "1 offer") in answer.out


def test_as_a_daemon_looks_it_fires_between_polls(desk: Desk) -> None:
    desk.configure()  # the shipped margins and durations
    for minutes, prices in ((300, DEARER), (180, CHEAPER), (60, CHEAPER)):
        desk.prices(prices, minutes)
    by_polls = alerts("backtest", SHIPPED, "--since", "1d", "-o", "json").json()
    steady = alerts("backtest", SHIPPED, "--since", "1d", "--every", "5m", "-o", "json").json()
    assert by_polls["as_is"]["fired"] == 0
    assert steady["as_is"]["fired"] == 1


@needs_history
def test_margins_for_vast_as_it_was(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_server.database(migrated=True) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        recorded.record_vast(url)
        window = ("--since", "2026-02-01", "--until", "2026-06-02")
        answer = run("alerts", "backtest", SHIPPED, *window, "--suggest", "1")
        print(answer.out)
        assert (answer.code, answer.err) == (0, "")
        assert 'keep_firing = "7d"' in answer.out
        assert "after that they kept it to that: 0 notices in 16 days with data" in answer.out
        found = run("alerts", "backtest", SHIPPED, *window, "--suggest", "1", "-o", "json").json()
        suggestion = found["suggestion"]
        assert suggestion["earlier"]["notices_per_month"] <= 1
        assert found["as_is"]["notices"] < found["bare"]["notices"]
        assert _quiet_enough(desk_with(suggestion), window) <= found["as_is"]["notices"]


def desk_with(suggestion: dict[str, object]) -> str:
    """A configuration with the settings suggested."""
    return (
        f"[alerts.rules.{SHIPPED}]\nenter_percent = {suggestion['enter_percent']}\n"
        f"exit_percent = {suggestion['exit_percent']}\n"
        f'min_duration = "{suggestion["min_duration_seconds"]}s"\n'
        f'keep_firing = "{suggestion["keep_firing_seconds"]}s"\n'
    )


def _quiet_enough(configuration: str, window: tuple[str, ...]) -> int:
    Path("gpucost.toml").write_text(configuration)
    document = run("alerts", "backtest", SHIPPED, *window, "-o", "json").json()
    assert document["as_is"]["notices_per_month"] <= 1
    return int(document["as_is"]["notices"])


def test_a_month_of_polls_every_quarter_of_an_hour_is_quick(desk: Desk) -> None:
    # What costs is what changes: 700 polls of the same two prices are two evaluations.
    engine = make_engine(desk.url)
    try:
        recorder = Recorder(engine)
        for turn in range(700, 0, -1):
            offers = [offer(n, p) for n, p in (CHEAPER if turn % 100 else DEARER).items()]
            recorder.record(polled("acme", offers, 60 * turn))
    finally:
        engine.dispose()
    document = alerts("backtest", SHIPPED, "--since", "30d", "--suggest", "2", "-o", "json").json()
    assert document["looks"] == 700
    assert document["suggestion"]["earlier"]["notices_per_month"] <= 2
