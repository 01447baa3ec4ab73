"""A provider against its own past, and what its set-up lacks: ``providers`` and ``doctor``."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import ago, polled, record, run
from tests.support.offers import make_offer
from tracker.store.engine import make_engine
from tracker.store.polls import Poll
from tracker.store.schedule import Schedule, StoredStanding

DAY = 24 * 60


def test_what_is_due_next_is_what_the_daemon_has_set(url: str) -> None:
    last = ago(50)
    record(url, _poll(1, 50))
    hourly = _row()["next_due_at"]
    assert abs(datetime.fromisoformat(hourly) - last - timedelta(hours=1)) < timedelta(minutes=1)
    record(url, polled("shadeform", (), 2, status="failed", error="HTTP 503"))
    soon = ago(-5)
    engine = make_engine(url)
    try:
        for name, moment in (("vastai", ago(70)), ("shadeform", soon)):
            standing = StoredStanding(name, moment, 1, "closed", None, None, ago(2))
            Schedule(engine).save(standing)
    finally:
        engine.dispose()
    assert _row()["next_due_at"] == hourly, "what was set before the last poll is over"
    due = datetime.fromisoformat(_row("shadeform")["next_due_at"])
    assert abs(due - soon) < timedelta(seconds=1), "never answered, and asked again all the same"


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    return database_url


def _poll(offers: int, minutes_ago: float, **fields: Any) -> Poll:
    found = [make_offer(f"o{n}", "2.00", source="vastai") for n in range(offers)]
    return polled("vastai", found, minutes_ago, **fields)


def _row(name: str = "vastai") -> dict[str, Any]:
    rows = run("providers", "-o", "json").json()["rows"]
    return next(dict(row) for row in rows if row["provider"] == name)


def _line(name: str = "vastai") -> str:
    lines = run("providers", "-o", "wide").lines
    return next(line for line in lines if line.startswith(name))


def test_coverage_is_against_the_median_of_its_own_past(url: str) -> None:
    record(url, *(_poll(n, 300 - at) for at, n in enumerate((4, 9, 5, 5))))
    record(url, _poll(3, 5))
    row = _row()
    # The median of 4, 5, 5, 9 is 5, and its latest poll brought 3.
    assert (row["usual_offers"], row["coverage"], row["reachable"]) == (5, "0.6", True)
    assert "60% of its usual offers" in _line()
    assert "with 3 offers where 5 are usual" in run("doctor").out


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_short_past_shows_no_habit(url: str, before: int) -> None:
    record(url, *(_poll(5, 300 - at) for at in range(before)))
    record(url, _poll(3, 5))
    assert (_row()["usual_offers"], _row()["coverage"]) == (None, None)
    assert "usual offers" not in _line()


def test_partial_and_failed_polls_make_no_habit(url: str) -> None:
    record(url, *(_poll(5, 300 - at) for at in range(3)))
    record(url, *(_poll(1, 200 - at, status="partial") for at in range(5)))
    row = _row()
    assert (row["usual_offers"], row["coverage"]) == (5, "0.2")  # the latest one is partial


@pytest.mark.parametrize(("days", "retired"), [(29, False), (31, True)])
def test_who_has_been_silent_for_a_month_is_retired(url: str, days: int, retired: bool) -> None:
    record(url, _poll(3, days * DAY))
    row = _row()
    assert (row["stale"], row["retired"]) == (True, retired)
    assert (", retired" in _line()) is retired
    assert ("retired: no good poll since" in run("doctor").out) is retired


def test_after_how_many_days_is_a_setting(url: str, tmp_path: Path) -> None:
    record(url, _poll(3, 10 * DAY))
    assert not _row()["retired"]
    (tmp_path / "gpucost.toml").write_text("[quality]\nretired_after_days = 7\n")
    assert _row()["retired"]


def test_a_set_up_is_told_without_a_poll_and_without_its_key(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(url, _poll(1, 5))
    needs = _row("primeintellect")
    assert (needs["configured"], needs["key"], needs["key_set"]) == (False, "required", False)
    assert needs["problem"] == "not configured: set PRIME_API_KEY to its API key"
    assert "not configured" in _line("primeintellect")
    assert (_row("shadeform")["configured"], _row("azure")["key"]) == (False, "none")
    optional = _row("gcp")
    assert (optional["configured"], optional["key_set"]) == (True, False)
    assert optional["key_adds"].startswith("Google's own catalogue")

    monkeypatch.setenv("PRIME_API_KEY", "planted-secret")
    monkeypatch.setenv("GCP_API_KEY", "planted-secret")
    assert (_row("primeintellect")["configured"], _row("gcp")["key_set"]) == (True, True)
    for command in (("providers", "-o", "json"), ("providers", "-o", "wide"), ("doctor",)):
        assert "planted-secret" not in run(*command).out
