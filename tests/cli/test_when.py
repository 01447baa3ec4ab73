"""``gpucost when``: wait, or go?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.alert import recorded
from tests.alert.world import offer
from tests.cli.harness import Result, ago, polled, run
from tests.support.fixtures import NO_SHARED
from tests.support.pg import TestServer
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder

needs_history = pytest.mark.skipif(not recorded.OBSERVATIONS.is_file(), reason=NO_SHARED)
JOB = ("--hours", "H100=4")
SIX_HOURS = 6 * 3600


def record_prices(url: str, prices: Sequence[str]) -> None:
    """The last of *prices* now, the others six hours apart before it."""
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        for turn, price in enumerate(prices):
            minutes = 5 + 360 * (len(prices) - 1 - turn)
            recorder.record(polled("acme", [offer("h1", price)], minutes, every_seconds=SIX_HOURS))
    finally:
        engine.dispose()


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    return database_url


def when(*argv: str) -> Result:
    return run("when", *JOB, *argv)


def test_where_it_falls_every_night_one_waits(url: str) -> None:
    record_prices(url, ["4", "4", "4", "2"] * 30 + ["4", "4"])
    answer = when("--deadline", "28h", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    document = answer.json()
    assert document["advice"] == "wait"
    assert document["now"]["job_cost_usd"] == "16"
    assert document["wait_for_usd"] == "15.84"  # 1 % less; the night brings half
    assert document["wait_seconds"] == 24 * 3600
    assert document["history"]["windows_that_do_not_overlap"] >= 25
    assert Decimal(str(document["later"]["mean"])) < 1
    latest = datetime.fromisoformat(document["latest_start"])
    assert timedelta(hours=23) < latest - datetime.now(UTC) < timedelta(hours=24)
    table = when("--deadline", "28h")
    assert "wait for 1 % less, $15.84 or below, and start at the latest at" in table.out
    assert "what prices did says nothing sure" in table.out


def test_a_price_that_does_not_move_says_go(url: str) -> None:
    record_prices(url, ["3"] * 100)
    answer = when("--deadline", "2d")
    assert answer.code == 0
    assert "go: no waiting paid in the earlier part of history; now $12.00" in answer.out
    # 56 hours: "2 d" would be a third of a day less.
    assert "it can wait for 2.3 d, until" in when("--deadline", "60h").out


def test_little_history_is_told_and_not_judged(url: str) -> None:
    record_prices(url, ["4", "2"] * 6)
    answer = when("--deadline", "1d")
    assert answer.code == 0
    assert "nobody can tell: history holds" in answer.out
    assert when("--deadline", "30d", "-o", "json").json()["advice"] == "unknown"


def test_without_a_price_now_the_past_is_shown_and_the_code_says_so(url: str) -> None:
    record_prices(url, ["4"] * 60)
    stale = f"{ago(24 * 60):%Y-%m-%d}"
    answer = when("--deadline", "1d", "--until", stale)
    assert answer.code == 0  # as of then there was one
    engine = make_engine(url)
    try:
        Recorder(engine).record(polled("acme", [offer("a1", "1")], 1, every_seconds=SIX_HOURS))
    finally:
        engine.dispose()
    gone = when("--deadline", "1d")
    assert gone.code == 4
    assert "no price is known now" in gone.complaint
    assert "at the last moment" in gone.out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--deadline", "3h"], 2, "leaves no time to wait"),
        (["--deadline", "1h"], 2, "4 h, set-up included: a deadline of 1 h leaves no time"),
        (["--deadline", "soon"], 2, "is not a duration"),
        ([], 2, "--deadline"),
        (["--deadline", "2d", "--gpu", "H1000"], 2, "H1000"),
        (["--deadline", "2d", "--since", "1d", "--until", "3d"], 2, "no earlier than the end"),
        (["--deadline", "2d", "--gpu", "A100"], 3, "no complete bill of the job is on record"),
        (["no-such-job", "--deadline", "2d"], 2, "no-such-job"),
    ],
)
def test_bad_input_is_one_line(url: str, argv: list[str], code: int, said: str) -> None:
    record_prices(url, ["4", "4"])
    answer = when(*argv)
    assert answer.code == code
    assert said in answer.complaint


@needs_history
def test_vast_as_it_was_is_too_short_for_a_fortnight_and_speaks_of_days(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_server.database(migrated=True) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        recorded.record_vast(url)
        window = ("--since", "2026-02-01", "--until", "2026-06-01T12:00Z")
        long = run("when", "bert-large", "--deadline", "14d", *window)
        print(long.out)
        assert long.code == 0
        assert "nobody can tell: history holds 7 waits of that length side by side" in long.out
        short = run("when", "bert-large", "--deadline", "3d", *window)
        print(short.out)
        document = run("when", "bert-large", "--deadline", "3d", *window, "-o", "json").json()
        assert document["advice"] == "go"
        assert document["last_moment"]["lost"] > 0
        earlier, later = document["earlier"], document["later"]  # as docs/waiting.md has them
        assert round(100 * earlier["gained"] / earlier["times"]) == 46
        assert earlier["drop_percent"] == later["drop_percent"] == 10
        assert (round(earlier["mean"], 3), round(later["mean"], 3)) == (1.028, 1.042)
        # With hindsight it is never dearer, and nobody has that.
        assert document["lowest"]["p90"] <= 1 < document["last_moment"]["p90"]
