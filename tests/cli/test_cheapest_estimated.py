"""``gpucost cheapest`` for jobs whose hours are worked out: counts, ranges, ties, exclusions."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.harness import A100, H100, RTX4090, by_id, cheapest_document, filled, polled, run
from tests.support.catalogue import catalogue
from tests.support.estimating import Shipped
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker import data, registry
from tracker.domain import evidence
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Extras, Market, Terms

T4 = Gpu("T4-16GB", "T4", None, 16)
EIGHT = Decimal(8)


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [
        make_offer("h100", "3", gpu=H100),
        make_offer("h100-hourly", "2.5", gpu=H100, terms=Terms(billing_increment_seconds=3600)),
        make_offer("h100x8", "20", gpu=H100, gpu_count=EIGHT),
        make_offer("h100x4", "11", gpu=H100, gpu_count=Decimal(4)),
        make_offer("a100", "1.2", gpu=A100),
        make_offer("a100x8", "9", gpu=A100, gpu_count=EIGHT),
        make_offer("4090", "0.4", gpu=RTX4090),
        make_offer("t4", "0.2", gpu=T4),
        make_offer("spot", "0.5", gpu=H100, market=Market.SPOT),
        make_offer("short", "0.1", gpu=H100, extras=Extras(max_duration_hours=Decimal("0.5"))),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _built_in(name: str) -> Job:
    return job_from_text(data.text(f"jobs/{name}.toml"), catalogue(), Shipped())


def _job(path: Path, name: str, more: str) -> str:
    """A file with the built-in job *name*, and *more* behind it."""
    file = path / f"{name}.toml"
    file.write_text(data.text(f"jobs/{name}.toml") + more)
    return str(file)


def test_bills_are_those_of_the_best_count_on_every_machine() -> None:
    """Against every count tried by hand: price x (set-up + hours), each machine billed whole."""
    name = "llama-3.1-8b-qlora"
    job = _built_in(name)
    rows = by_id(cheapest_document(name, "--all")["rows"])
    machines = {"h100": (H100, 1, 3), "h100x8": (H100, 8, 20), "h100x4": (H100, 4, 11),
                "a100": (A100, 1, "1.2"), "a100x8": (A100, 8, 9)}  # fmt: skip
    for offer, (gpu, count, price) in machines.items():
        bills = []
        for gpus in (n for n in (1, 2, 4, 8) if n <= count):
            hours = evidence.find(job, gpu.key, gpus, catalogue(), count).hours
            assert isinstance(hours, RuntimeEstimate)
            bills.append(Decimal(price) * (job.setup_hours + hours.hours))
        assert Decimal(rows[offer]["total_usd"]) == pytest.approx(
            min(bills), rel=Decimal("0.000001")
        )


def test_rows_say_on_what_the_hours_rest_and_how_sure_they_are() -> None:
    document = cheapest_document("llama-3.1-8b-lora")
    for row in document["rows"]:
        assert row["basis"] == "modelled"
        assert Decimal(row["low_usd"]) <= Decimal(row["total_usd"]) <= Decimal(row["high_usd"])
        assert row["runtime_low_hours"] < row["runtime_hours"] < row["runtime_high_hours"]
        assert row["estimate_version"] == Shipped().estimator.calibration.version
    assert document["job"]["workload"] == "finetune"


def test_a_tie_is_another_gpu_whose_range_overlaps_that_of_the_best() -> None:
    rows = cheapest_document("llama-3.1-8b-lora", "--all")["rows"]
    best = rows[0]
    assert not best["tie"]
    assert any(row["tie"] for row in rows)
    for row in rows:
        same = (row["gpu"], row["gpus_used"]) == (best["gpu"], best["gpus_used"])
        overlap = Decimal(row["low_usd"]) <= Decimal(best["high_usd"])
        assert row["tie"] is (overlap and not same)


def test_the_table_shows_ranges_ties_and_what_they_mean() -> None:
    answer = run("cheapest", "llama-3.1-8b-lora")
    assert answer.code == 0, answer.err
    assert " RANGE " in answer.out
    assert "2~" in answer.out
    assert "Hours are modelled" in answer.out
    assert "~ marks a tie" in answer.out
    assert "1 on which the job cannot run" in answer.lines[-1]  # the T4 has no bf16
    given = run("cheapest", "bert-large")
    assert "RANGE" not in given.out


def test_where_it_does_not_fit_is_counted_and_one_gpu_of_eight_is_enough_elsewhere() -> None:
    document = cheapest_document("llama-3.1-8b-full", "--all")
    assert set(by_id(document["rows"])) == {"h100x8", "h100x4", "a100x8"}
    assert document["excluded"]["on which the job does not fit"] == 5  # all with one GPU
    assert all(row["gpus_used"] >= 2 for row in document["rows"])


def test_gpus_fixes_the_count() -> None:
    rows = by_id(cheapest_document("llama-3.1-8b-lora", "--gpus", "4", "--all")["rows"])
    assert {row["gpus_used"] for row in rows.values()} == {4}
    assert rows["h100x4"]["machines"] == rows["h100x8"]["machines"] == 1


def test_a_gpu_asked_for_on_which_it_cannot_run_is_explained() -> None:
    answer = run("cheapest", "llama-3.1-8b-lora", "--gpu", "H100,T4")
    assert answer.code == 0
    assert "T4: T4-16GB does not compute in bf16" in answer.out
    nowhere = run("cheapest", "llama-3.1-8b-lora", "--gpu", "T4")
    assert nowhere.code == 3
    assert "T4-16GB does not compute in bf16" in nowhere.out


def test_limits_of_the_job_hold_and_the_command_line_beats_them(tmp_path: Path) -> None:
    spot = _job(tmp_path, "llama-3.1-8b-lora", '[limits]\nmarkets = ["spot"]\n')
    assert [row["offer_id"] for row in cheapest_document(spot)["rows"]] == ["spot"]
    assert "spot" not in by_id(cheapest_document(spot, "--market", "on_demand")["rows"])
    assert "spot" not in by_id(cheapest_document("llama-3.1-8b-lora")["rows"])


def test_deadline_and_budget_leave_out_and_count(tmp_path: Path) -> None:
    everything = by_id(cheapest_document("llama-3.1-8b-lora", "--all")["rows"])
    hours = 1.5
    hurry = _job(tmp_path, "llama-3.1-8b-lora", f"[limits]\ndeadline_hours = {hours}\n")
    document = cheapest_document(hurry, "--all")
    assert document["rows"]
    assert all(row["runtime_hours"] + 0.25 <= hours for row in document["rows"])
    assert document["excluded"]["over the job's deadline"] > 0
    budget = Decimal("6")
    poor = _job(tmp_path, "llama-3.1-8b-lora", f"[limits]\nbudget_usd = {budget}\n")
    document = cheapest_document(poor, "--all")
    within = {name for name, row in everything.items() if Decimal(row["total_usd"]) <= budget}
    assert set(by_id(document["rows"])) == within
    assert document["excluded"]["over the job's budget"] == len(everything) - len(within) > 0


def test_the_counts_do_not_depend_on_how_many_rows_are_asked_for(tmp_path: Path) -> None:
    poor = _job(tmp_path, "llama-3.1-8b-lora", "[limits]\nbudget_usd = 6\ndeadline_hours = 8\n")
    few, every = cheapest_document(poor, "--top", "1"), cheapest_document(poor, "--all")
    assert few["excluded"] == every["excluded"]
    assert few["rows"][0]["offer_id"] == every["rows"][0]["offer_id"]


def test_runs_per_month_are_said(tmp_path: Path) -> None:
    nightly = _job(tmp_path, "llama-3.1-8b-lora", "[limits]\nruns_per_month = 30\n")
    document = cheapest_document(nightly)
    month = Decimal(document["rows"][0]["total_usd"]) * 30
    assert any(f"30 runs a month on #1 come to ${month:,.2f}" in r for r in document["remarks"])


def test_a_limit_on_hours_given_holds_too(tmp_path: Path) -> None:
    file = _job(tmp_path, "bert-large", "[limits]\ndeadline_hours = 5\n")
    document = cheapest_document(file)
    assert {row["gpu"] for row in document["rows"]} == {"H100-SXM-80GB"}
    assert document["excluded"]["over the job's deadline"] == 3  # two A100 and the RTX 4090


def test_a_measurement_replaces_the_model(tmp_path: Path) -> None:
    measured = _job(
        tmp_path, "llama-3.1-8b-lora", '[hours.H100-SXM-80GB]\nhours = 2\nbasis = "measured"\n'
    )
    rows = by_id(cheapest_document(measured)["rows"])
    assert (rows["h100"]["basis"], rows["h100"]["total_usd"]) == ("measured", "6.75")
    assert rows["a100"]["basis"] == "scaled"


def test_hours_typed_are_evidence_for_the_other_gpus() -> None:
    rows = by_id(cheapest_document("llama-3.1-8b-lora", "--hours", "H100=2")["rows"])
    assert rows["h100"]["basis"] == "stated"
    assert rows["a100"]["basis"] == "scaled"


def test_a_break_even_of_estimated_jobs() -> None:
    document = cheapest_document("llama-3.1-8b-lora")
    assert document["comparison"]["left"]["gpu"] == "H100-SXM-80GB"
    assert Decimal(document["comparison"]["break_even_usd_per_gpu_hour"]) > 0


def test_an_alert_rule_may_be_about_an_estimated_job(tmp_path: Path) -> None:
    rule = '[alerts.rules.lora]\nwhen = "cost(H100) < cost(A100)"\njob = "llama-3.1-8b-lora"\n'
    config = tmp_path / "gpucost.toml"
    nobody = [f"[providers.{name}]\nenabled = false\n" for name in registry.names()]
    config.write_text(rule + "".join(nobody))
    answer = run("--config", str(config), "alerts", "eval", "lora", "-o", "json")
    assert answer.code == 0, answer.err
    bills = {
        row["gpu"]: row["total_usd"]
        for row in cheapest_document("llama-3.1-8b-lora")["best_by_gpu"]
    }
    assert bills["H100-SXM-80GB"] in answer.out
    assert bills["A100-SXM-80GB"] in answer.out


def test_single_gpus_apart_are_no_machine_of_eight() -> None:
    document = cheapest_document("llama-3.1-8b-lora", "--gpus", "8", "--gpu", "H100", "--all")
    assert [row["offer_id"] for row in document["rows"]] == ["h100x8"]
    assert document["excluded"][evidence.NO_NETWORK] == 4
    assert not any("is not modelled" in remark for remark in document["remarks"])


def test_a_month_of_runs_at_a_partial_bill_is_an_at_least(tmp_path: Path) -> None:
    nightly = _job(tmp_path, "llama-3.1-8b-lora", "[limits]\nruns_per_month = 30\n")
    remarks = cheapest_document(nightly, "--disk", "60")["remarks"]
    assert any("30 runs a month on #1 come to at least $" in remark for remark in remarks)
