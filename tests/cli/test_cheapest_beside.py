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
from tracker.domain.terms import Market, Terms

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
        make_offer(
            "years", "2", gpu=H100, market=Market.RESERVED, terms=Terms(commitment_hours=26280)
        ),
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
    # What is read and what is written share the whole bill.
    read = Decimal(row["usd_per_million_input"]) * requests * 512 / 1_000_000
    written = Decimal(row["usd_per_million_output"]) * requests * 128 / 1_000_000
    assert float(read + written) == pytest.approx(float(total), rel=1e-5)
    assert read > 0
    assert written > 0
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


def test_a_month_of_service_is_the_bill_of_its_machines_and_says_how_busy_they_are(
    tmp_path: Path,
) -> None:
    text = SERVICE.replace("service_hours = 730", "service_hours = 10")
    row = _rows(tmp_path, text)["h100"]
    assert (row["total_usd"], row["usd_per_month"]) == ("30", "2190")  # 10 h and 730 h x $3
    # The busy hours of a request at $3 an hour are its price times the share of the time.
    busy = Decimal(str(row["utilisation"]))
    assert 0 < busy < Decimal("0.1")
    request = Decimal(row["usd_per_million_input"]) * 512 + (
        Decimal(row["usd_per_million_output"]) * 128
    )
    seconds = busy / Decimal("0.5")  # of a request: the rate is half a request a second
    assert float(request / 1_000_000 * busy) == pytest.approx(float(seconds * 3 / 3600), rel=1e-3)
    wide = run("cheapest", str(tmp_path / "job.toml"), "-o", "wide").out
    assert all(name in wide for name in ("$/REQUEST", "$/M IN", "$/M OUT", "$/MONTH", "BUSY"))


def test_a_month_of_a_commitment_of_years_is_one_of_its_months(tmp_path: Path) -> None:
    row = _rows(tmp_path, SERVICE)["years"]
    # The bill is the term's; called a month it was 36 times too dear.
    assert (row["total_usd"], row["usd_per_month"]) == ("52560", "1460")


def test_unit_prices_of_a_commitment_are_of_what_is_served_in_its_term(tmp_path: Path) -> None:
    rows = _rows(tmp_path, SERVICE)
    row = rows["years"]
    # $52,560 for 26,280 h at half a request a second; of the month asked for it was 36 times that.
    each = Decimal(52560) / (Decimal("0.5") * 26280 * 3600)
    assert Decimal(row["usd_per_request"]) == Decimal(f"{each:.6g}")
    assert row["unit_hours"] == 26280
    assert row["work_per_usd"] == pytest.approx(float(1 / each), rel=1e-5)
    read = Decimal(row["usd_per_million_input"]) * 512 / 1_000_000
    written = Decimal(row["usd_per_million_output"]) * 128 / 1_000_000
    assert float(read + written) == pytest.approx(float(each), rel=1e-5)
    month = Decimal("0.5") * 730 * 3600 * each
    assert float(month) == pytest.approx(float(row["usd_per_month"]), rel=1e-9)
    assert rows["h100"]["unit_hours"] is None
    lines = run("cheapest", str(tmp_path / "job.toml"), "--market", "reserved", "--explain").lines
    said = "unit prices: kept up for all of the 26,280 h committed to"
    assert said in [line.strip() for line in lines]


@pytest.mark.parametrize("hours", [1460, 26280, 40000])
def test_unit_prices_of_a_longer_service_are_the_same_until_the_term_is_over(
    tmp_path: Path, hours: int
) -> None:
    row = _rows(tmp_path, SERVICE.replace("hours = 730", f"hours = {hours}"))["years"]
    each = Decimal(2) / (Decimal("0.5") * 3600)
    assert Decimal(row["usd_per_request"]) == Decimal(f"{each:.6g}")
    assert row["unit_hours"] == (26280 if hours < 26280 else None)


def test_a_service_of_hours_pays_for_its_whole_commitment_and_says_so(tmp_path: Path) -> None:
    row = _rows(tmp_path, SERVICE.replace("hours = 730", "hours = 10"))["years"]
    each = Decimal(52560) / (Decimal("0.5") * 10 * 3600)
    assert Decimal(row["usd_per_request"]) == Decimal(f"{each:.6g}")
    assert row["unit_hours"] == 10
    lines = run("cheapest", str(tmp_path / "job.toml"), "--market", "reserved", "--explain").lines
    said = "unit prices: the requests of 10 h pay for all 26,280 h committed to"
    assert said in [line.strip() for line in lines]


def test_a_rate_beyond_one_machine_takes_as_many_as_stay_under_the_utilisation(
    tmp_path: Path,
) -> None:
    rate = SERVICE.replace("request_rate = 0.5", "request_rate = 120")
    full = _rows(tmp_path, rate)["h100"]
    relaxed = _rows(tmp_path, rate + "utilisation = 0.5\n")["h100"]
    assert full["machines"] > 1
    assert relaxed["machines"] >= 2 * full["machines"] - 1
    assert relaxed["utilisation"] <= 0.5 < full["utilisation"] <= 1
    assert Decimal(relaxed["usd_per_month"]) == relaxed["machines"] * 730 * 3


def test_measured_requests_pay_for_their_prompts_with_the_output(tmp_path: Path) -> None:
    text = """
name = "batch"
[workload]
kind = "inference"
model = "Llama 3.1 8B"
input_tokens = 512
output_tokens = 100
requests = "1M"
[hours.H100-SXM-80GB]
hours = 5
basis = "measured"
"""
    row = _rows(tmp_path, text, "--gpus", "1")["h100"]
    assert (row["total_usd"], row["usd_per_request"]) == ("15", "0.000015")
    assert (row["usd_per_million_input"], row["usd_per_million_output"]) == (None, "0.15")
    lines = run("cheapest", str(tmp_path / "job.toml"), "--gpus", "1", "--explain").lines
    assert any(
        line.strip() == "per million output tokens, prompts in it: $0.15" for line in lines
    )  # fmt: skip


def test_a_batch_shares_its_bill_among_the_jobs_that_it_completes(tmp_path: Path) -> None:
    text = 'name = "render"\ncompletes = 24\n[hours]\nH100 = 10\n'
    rows = _rows(tmp_path, text)
    assert (rows["h100"]["total_usd"], rows["h100"]["usd_per_completed"]) == ("30", "1.25")
    lines = run("cheapest", str(tmp_path / "job.toml"), "--explain").lines
    assert any(line.strip() == "per completed job: $1.25" for line in lines)
    header = run("cheapest", str(tmp_path / "job.toml"), "-o", "csv").lines[0]
    assert "usd_per_completed" in header.split(",")
