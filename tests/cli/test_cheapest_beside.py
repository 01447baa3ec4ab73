"""What stands beside a bill: energy, the price of a request and of a million tokens."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.gpu import Gpu

H100_OPEN = Gpu("H100-80GB", "H100", None, 80)  # the form factor is not stated

TRAINING = """
name = "tune"
[workload]
kind = "finetune"
model = "Llama 3.1 8B"
method = "lora"
tokens = "3000M"
seq_len = 1024
[hours.H100-SXM-80GB]
hours = 10
gpus = 8
basis = "measured"
"""
SERVICE = """
name = "serve"
[workload]
kind = "inference"
model = "Llama 3.1 8B"
input_tokens = 512
output_tokens = 128
request_rate = 0.5
service_hours = 730
"""


@pytest.fixture(autouse=True)
def _at_market(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    offers = [
        make_offer("h100", "3", gpu=H100),
        make_offer("h100x8", "16", gpu=H100, gpu_count=Decimal(8)),
        make_offer("open", "4", gpu=H100_OPEN),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield


def _rows(tmp_path: Path, text: str, *argv: str) -> dict[str, Any]:
    file = tmp_path / "job.toml"
    file.write_text(text)
    answer = run("cheapest", str(file), "-o", "json", "--all", *argv)
    assert answer.code == 0, answer.err
    return {row["offer_id"]: row for row in answer.json()["rows"]}


def test_energy_is_that_of_the_gpus_used_for_the_hours(tmp_path: Path) -> None:
    row = _rows(tmp_path, TRAINING, "--gpus", "8")["h100x8"]
    assert (row["runtime_hours"], row["basis"]) == (10, "measured")
    # docs/costs.md without the building: 700 W x 0.9 x 8 x 10 h x 1.225 / 1,000; 1.1 and 1.35
    assert (row["kwh"], row["low_kwh"], row["high_kwh"]) == (61.74, 55.44, 68.04)
    assert "0.9 of the TDP in training" in row["energy_assumptions"]
    assert row["usd_per_request"] is None


def test_a_range_of_hours_widens_that_of_the_energy(tmp_path: Path) -> None:
    row = _rows(tmp_path, TRAINING)["h100"]
    low, high = row["runtime_low_hours"], row["runtime_high_hours"]
    assert low < high
    assert row["low_kwh"] == pytest.approx(0.63 * 1.1 * low, rel=1e-4)
    assert row["high_kwh"] == pytest.approx(0.63 * 1.35 * high, rel=1e-4)


def test_a_gpu_whose_draw_is_not_known_has_no_energy(tmp_path: Path) -> None:
    row = _rows(tmp_path, TRAINING)["open"]
    assert (row["kwh"], row["low_kwh"], row["energy_assumptions"]) == (None, None, [])


def test_requests_and_tokens_share_the_bill(tmp_path: Path) -> None:
    row = _rows(tmp_path, SERVICE)["h100"]
    total, requests = Decimal(row["total_usd"]), Decimal("0.5") * 730 * 3600
    assert Decimal(row["usd_per_request"]) == Decimal(f"{total / requests:.6g}")
    million = total / (requests * 128) * 1_000_000
    assert float(row["usd_per_million_output"]) == pytest.approx(float(million), rel=1e-5)
    assert "0.6 of the TDP in decode" in row["energy_assumptions"]


def test_the_explanation_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text(SERVICE)
    lines = run("cheapest", str(tmp_path / "serve.toml"), "--explain").lines
    assert any(line.strip().startswith("energy: ") and "kWh (" in line for line in lines)
    assert any(line.strip().startswith("per request: $0.00") for line in lines)
    assert any(line.strip().startswith("per million output tokens") for line in lines)


def test_a_job_of_given_hours_has_nothing_beside_its_bill() -> None:
    rows = run("cheapest", "bert-large", "-o", "json").json()["rows"]
    assert not any("kwh" in row for row in rows)
