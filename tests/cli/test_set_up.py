"""What is downloaded before a job starts is billed, by each offer's bandwidth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.job import JobError
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Extras, Market, Terms

JOB = """
name = "tune"
setup_hours = 0.025
[hours]
H100 = 4
A100 = 12
[download]
image_gb = 8
weights_gb = 14
data_gb = 23
"""
FAST, SLOW = (Extras(network_down_mbps=Decimal(mbps)) for mbps in (800, 20))


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [
        make_offer("fast", "3", gpu=H100, extras=FAST),
        make_offer("slow", "2.9", gpu=H100, extras=SLOW),
        make_offer("nothing", "1", gpu=H100, extras=Extras(network_down_mbps=Decimal(0))),
        make_offer("unknown", "1", gpu=H100),
        make_offer(
            "hourly", "1", gpu=A100, extras=FAST, terms=Terms(billing_increment_seconds=3600)
        ),
        make_offer("spot", "1", gpu=H100, extras=FAST, market=Market.SPOT),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _rows(tmp_path: Path, text: str = JOB, *argv: str) -> dict[str, dict[str, Any]]:
    (tmp_path / "job.toml").write_text(text)
    answer = run("cheapest", str(tmp_path / "job.toml"), "-o", "json", "--all", *argv)
    assert answer.code == 0, answer.err
    return by_id(answer.json()["rows"])


def test_the_bill_has_a_line_for_it(tmp_path: Path) -> None:
    rows = _rows(tmp_path)
    # docs/costs.md: 0.025 h + 45 GB at 800 Mbit/s = 0.15 h
    fast = rows["fast"]
    assert (fast["total_usd"], fast["done_hours"], fast["runtime_hours"]) == ("12.45", 4.15, 4)
    [line] = [line for line in fast["bill"] if line["kind"] == "setup"]
    assert line["amount_usd"] == "0.45"
    assert line["label"] == "machine, set-up with 45 GB at 800 Mbit/s"
    assert rows["slow"]["done_hours"] == 9.025  # 5 h of download
    assert rows["hourly"]["billed_hours"] == 13


@pytest.mark.parametrize("offer", ["unknown", "nothing"])
def test_where_nobody_knows_the_bandwidth_the_bill_is_an_at_least_and_never_leads(
    tmp_path: Path, offer: str
) -> None:
    row = _rows(tmp_path)[offer]
    assert (row["total_usd"], row["at_least_usd"]) == (None, "4.025")
    assert row["partial"] == ["set-up time unknown"]
    assert any("45 GB take an unknown time" in note for note in row["notes"])
    assert row["rank"] == {"nothing": 4, "unknown": 5}[offer]


def test_a_bandwidth_may_be_assumed_and_is_then_named(tmp_path: Path) -> None:
    rows = _rows(tmp_path, JOB + "assumed_mbps = 400\n")
    assert rows["unknown"]["total_usd"] == "4.275"  # 0.025 h + 0.25 h
    assert rows["fast"]["total_usd"] == "12.45"
    assert any("400 Mbit/s assumed" in note for note in rows["unknown"]["notes"])
    # The command line goes before the file.
    rows = _rows(tmp_path, JOB + "assumed_mbps = 400\n", "--assume-network", "800")
    assert rows["unknown"]["total_usd"] == "4.15"
    assert _rows(tmp_path, JOB, "--download", "0")["unknown"]["total_usd"] == "4.025"
    assert _rows(tmp_path, JOB, "--download", "90")["fast"]["done_hours"] == 4.275


def test_an_offer_that_is_too_slow_for_the_deadline_is_left_out(tmp_path: Path) -> None:
    text = JOB + "[limits]\ndeadline_hours = 9\n"
    assert set(_rows(tmp_path, text)) == {"fast", "nothing", "unknown"}


def test_interruptions_download_it_once_more(tmp_path: Path) -> None:
    text = JOB + "[spot]\ninterruptions_per_hour = 0.01\n"
    row = _rows(tmp_path, text, "--market", "spot")["spot"]
    assert row["wall_hours"] > 4.15
    assert row["done_hours"] == row["wall_hours"]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("image = 8", "download.image: unknown key; did you mean 'image_gb'?"),
        ("assumed_mbps = 100", "download: nothing is downloaded; give image_gb or weights_gb"),
        ("data_gb = -1", "download.data_gb: -1 is not between 0 and 1000000"),
        ("data_gb = 1\nassumed_mbps = 0", "download.assumed_mbps: 0 is not above 0"),
        (
            "data_gb = 1000\nassumed_mbps = 1e-9",
            "download.assumed_mbps: 1000 GB at 1e-9 Mbit/s take 2.22e+12 h, more than ten years",
        ),
        ("data_gb = nan", "download.data_gb: not a finite number: NaN"),
    ],
)
def test_tables_that_cannot_be_are_refused(table: str, complaint: str) -> None:
    with pytest.raises(JobError, match="^" + re.escape(complaint)):
        job_from_text(f'name = "x"\n[hours]\nA100 = 1\n[download]\n{table}\n')


def test_a_bandwidth_for_nothing_is_refused() -> None:
    answer = run("cheapest", "bert-large", "--assume-network", "100")
    assert answer.code == 2
    assert "nothing is downloaded; give --download GB" in answer.complaint


def test_a_bandwidth_that_takes_years_is_refused() -> None:
    answer = run("cheapest", "bert-large", "--download", "1000", "--assume-network", "1e-20")
    assert answer.code == 2
    assert "--assume-network: 1000 GB at 1e-20 Mbit/s take" in answer.complaint


def test_a_job_without_a_name_is_none() -> None:
    for argv in (("cheapest", ""), ("month", "=5")):
        answer = run(*argv)
        assert answer.code == 2
        assert "no job is named" in answer.complaint


def test_set_up_beyond_a_month_is_refused() -> None:
    answer = run("cheapest", "bert-large", "--setup", "1e9")
    assert answer.code == 2
    assert "'1e9' must be 0 or more and at most 720" in answer.complaint
