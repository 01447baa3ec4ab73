"""Histories that are a few seconds long, of many providers, on terminals of 80 columns."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.cli.harness import H100, ago, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.report.history.told import length_text

NAMES = ("azimuth-cloud", "bear-metal", "cumulus", "databasemart", "erratic", "fathom", "gigahost")


class Terminal(io.StringIO):
    """Stdout that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def world(database_server: TestServer) -> Iterator[str]:
    """Seven providers that were asked once, half a minute ago; the last is the cheapest."""
    at = ago(0.5)
    polls = [
        polled(name, [make_offer("h", str(15 - place), source=name, gpu=H100)], started_at=at,
               polled_at=at)
        for place, name in enumerate(NAMES)
    ]  # fmt: skip
    with filled(database_server, *polls) as url:
        yield url


@pytest.fixture(autouse=True)
def _in_world(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world)


def shown(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    from tracker.cli import main

    monkeypatch.setenv("COLUMNS", str(width))
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    assert main._run(["history", "--hours", "H100=4", "--per", "provider", "--since", "7d"]) == 0
    return re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_narrow_terminal_keeps_who_is_the_cheapest_and_names_who_is_left_out(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(monkeypatch, width)
    assert not [line for line in lines if "…" in line]
    [header] = [line for line in lines if line.startswith("FROM")]
    told = " ".join(lines[lines.index(header) :])
    names = header.split()[2:]
    assert NAMES[-1] in names
    assert "CHEAPEST" in names
    left_out = set(NAMES) - set(names)
    assert all(name in told.partition("(too narrow for ")[2] for name in left_out)
    kept = [name for name in NAMES if name in names]
    assert kept == list(NAMES[len(left_out) :])  # those that never come near go first
    if width >= 140:
        assert not left_out


def test_no_share_is_told_of_the_seconds_after_the_first_poll() -> None:
    answer = run("history", "--hours", "H100=4", "--per", "provider", "--since", "7d", "-o", "json")
    document = answer.json()
    assert 0 < document["compared_seconds"] < 60
    assert "0 h" not in document["answer"]
    assert "was the cheapest for" not in document["answer"]


def test_a_number_and_its_unit_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in range(40, 120, 7):
        lines = shown(monkeypatch, width)
        for line, following in itertools.pairwise(lines):
            broken = re.search(r"[0-9]$", line) and re.match(r"(%|h|min|days|s)\b", following)
            assert not broken, (line, following)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(), "0 h"), (timedelta(microseconds=1), "1 s"), (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=60), "1 min"), (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=1), "1 h"), (timedelta(hours=1.5), "1.5 h"),
        (timedelta(days=2), "2 days"), (timedelta(days=2.25), "2.2 days"),
    ],
)  # fmt: skip
def test_a_length_above_none_is_never_0(length: timedelta, text: str) -> None:
    assert length_text(length) == text
