"""One poll of every provider there is, each on a server that replays its fixture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import all_clouds, clouds
from tests.support.all_clouds import Cloud
from tests.support.command import Cli
from tests.support.fixtures import ROOT
from tests.support.pg import TestServer
from tests.support.providers import OURS
from tracker.collect import exchange
from tracker.http import factory
from tracker.http.gate import HostGate
from tracker.report.filters import RESOLD


@pytest.fixture(scope="module")
def polled(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cli, list[Cloud], dict[str, dict[str, Any]]]]:
    """gpucost after one poll of everything, the clouds, and the outcome of each."""
    with (
        pytest.MonkeyPatch.context() as patch,
        all_clouds.running() as (found, variables),
        database_server.database(migrated=True) as url,
    ):
        patch.setattr(factory, "make_gate", lambda provider, settings: HostGate())
        patch.setattr(exchange, "fetch_rates", all_clouds.fetch_rates)
        cli = Cli(patch, tmp_path_factory.mktemp("home"))
        cli.environment = {**variables, "GPUCOST_DATABASE_URL": url}
        yield cli, found, clouds.poll(cli)


Polled = tuple[Cli, list[Cloud], dict[str, dict[str, Any]]]


def test_every_provider_gives_what_its_fixture_expects(polled: Polled) -> None:
    cli, found, outcomes = polled
    assert clouds.statuses(outcomes) == dict.fromkeys(OURS, "complete")
    url = cli.environment["GPUCOST_DATABASE_URL"]
    for cloud in found:
        outcome, expected = outcomes[cloud.name], cloud.case.expected()
        if cloud.name == "pricebook":  # reads the shipped book, whatever is in the fixture
            assert outcome["offers"] > 0
            continue
        kept, rows = clouds.recorded_rows(url, cloud.case), clouds.expected_rows(cloud.case)
        assert kept == rows, cloud.name
        assert outcome["offers"] == len(rows), cloud.name
        assert outcome["rejected"] == expected["rejected"], cloud.name


def test_nobody_was_asked_for_what_is_not_there(polled: Polled) -> None:
    _, found, _ = polled
    for cloud in found:
        assert bool(cloud.server.requests) == (cloud.name != "pricebook"), cloud.name
        for request in cloud.server.requests:
            assert cloud.server.answer(request).status == 200, (cloud.name, request.path)


def test_each_is_shown_with_its_age_its_offers_and_its_rejects(polled: Polled) -> None:
    cli, _, outcomes = polled
    shown = {row["provider"]: row for row in cli("providers", "-o", "json").json()["rows"]}
    for name in OURS:
        row, outcome = shown[name], outcomes[name]
        assert row["last_status"] == "complete"
        assert 0 <= row["age_seconds"] < 600
        assert not row["stale"]
        assert row["offers"] == outcome["offers"]
        assert row["rejected"] == sum(outcome["rejected"].values())
    lines = cli("providers", "-o", "wide").lines
    for name in OURS:
        (line,) = (line for line in lines if line.split()[:1] == [name])
        assert "complete" in line
        assert f"{outcomes[name]['offers']:,}" in line.split()
    for name, outcome in outcomes.items():
        for reason, number in outcome["rejected"].items():
            rows = "1 row" if number == 1 else f"{number:,} rows"
            assert f"{name}: {rows} rejected: {reason}" in lines


def test_what_resellers_list_too_is_counted_once(polled: Polled) -> None:
    cli, _, _ = polled
    asked = ("offers", "--market", "any", "--tier", "any", "--all", "-o", "json")
    document = cli(*asked).json()
    assert document["excluded"][RESOLD] > 0
    own = {
        (row["provider"], row["gpu"], row["gpus"], row["market"])
        for row in document["rows"]
        if row["upstream"] is None
    }
    for row in document["rows"]:
        assert (row["upstream"], row["gpu"], row["gpus"], row["market"]) not in own
    of_reseller = cli(*asked, "--provider", "primeintellect").json()
    assert RESOLD not in of_reseller["excluded"]
    assert {row["upstream"] for row in of_reseller["rows"]} > {"runpod"}


def test_the_same_answers_again_change_nothing(polled: Polled) -> None:
    cli, _, first = polled
    again = clouds.poll(cli)
    assert clouds.statuses(again) == dict.fromkeys(OURS, "complete")
    assert {(o["opened"], o["changed"], o["closed"]) for o in again.values()} == {(0, 0, 0)}
    assert {n: o["offers"] for n, o in again.items()} == {n: o["offers"] for n, o in first.items()}


@pytest.mark.e2e
def test_the_benchmark_of_a_poll_of_everything_tells_time_and_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.poll_all", "--runs", "2"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{len(OURS)} providers, ")
    assert [line.split()[-3:] for line in lines[1:2]] == [["s", "peak", "MiB"]]
    assert all(float(figure) > 0 for line in lines[2:] for figure in line.split()[-3:])
    assert len(lines) == 4
