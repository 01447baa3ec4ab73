"""``gpucost history``: how far a job's cost moves, and for what part of the time it is below."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.cli.harness import filled, run
from tests.cli.test_history import JOB, a100, h100, told
from tests.support.pg import TestServer

# Thirty hours and two more that the last price holds. The H100's price goes 2, 2.2, 2; the A100's
# stands still. At 4 h the bill of the H100 is 8 for 10 h, 8.80 for 10, 8 for 12.
DAY = 24
POLLS = [
    told(hour, h100("2.2" if 10 <= hour < 20 else "2"), a100("1")) for hour in range(30)
]  # fmt: skip


@pytest.fixture(scope="module")
def world(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, *POLLS) as url:
        yield url


@pytest.fixture(autouse=True)
def _in_world(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world)


def _ask(*more: str) -> tuple[str, ...]:
    return ("history", *JOB, "--since", "2026-03-02", "--until", "2026-03-04", *more)


def test_how_far_a_cost_moves_is_told_by_the_day_known() -> None:
    found = {one["name"]: one for one in run(*_ask("-o", "json")).json()["series"]}
    known_days = found["H100"]["known_seconds"] / 86_400
    moved = math.sqrt(2 * math.log(1.1) ** 2 / known_days)
    assert known_days == 32 / 24
    assert found["H100"]["volatility_per_day"] == pytest.approx(moved)
    assert (found["H100"]["changes"], found["A100"]["changes"]) == (2, 0)
    assert found["A100"]["volatility_per_day"] == 0
    lines = run(*_ask("-o", "wide")).lines
    rows = {line.split()[0]: line for line in lines if line.startswith(("H100 ", "A100 "))}
    assert f"{100 * moved:.1f} %/day" in rows["H100"]
    assert "0.0 %/day" in rows["A100"]


def test_under_so_much_for_what_part_of_the_time_is_of_the_time_known() -> None:
    """Of 48 hours asked for 32 are known: the gap is neither below nor above."""
    [one] = [
        s
        for s in run(*_ask("--below", "8.5", "-o", "json")).json()["series"]
        if s["name"] == "H100"
    ]
    assert one["below_seconds"] / one["known_seconds"] == pytest.approx(22 / 32)
    assert (one["median_usd"], one["p90_usd"], one["max_usd"]) == ("8", "8.8", "8.8")
    at_it = run(*_ask("--below", "8", "-o", "json")).json()["series"]
    assert [s["below_seconds"] for s in at_it if s["name"] == "H100"] == [0]  # not below itself
