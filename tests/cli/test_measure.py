"""``gpucost jobs measure``: a run of one's own goes before the model in every answer."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.harness import A100, H100, Result, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker import registry

JOB = "llama-3.1-8b-lora"


@pytest.fixture(autouse=True)
def _market(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    offers = [make_offer("h100", "3", gpu=H100), make_offer("a100", "1.2", gpu=A100)]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield


def _measure(*argv: str, job: str = JOB) -> Result:
    return run("jobs", "measure", job, *argv)


def test_a_measurement_holds_there_and_scales_the_others() -> None:
    before = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])
    modelled = before["h100"]["runtime_hours"]
    answer = _measure("--gpu", "H100-SXM-80GB", "--hours", str(round(modelled * 2, 3)))
    assert answer.code == 0, answer.err
    assert "version 1" in answer.out
    after = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])
    assert (after["h100"]["basis"], after["a100"]["basis"]) == ("measured", "scaled")
    assert after["a100"]["runtime_hours"] == pytest.approx(
        2 * before["a100"]["runtime_hours"], rel=1e-3
    )
    estimated = run("estimate", JOB, "--gpu", "H100-SXM-80GB", "-o", "json").json()
    assert estimated["estimates"][0]["basis"] == "measured"
    # What is typed beside it is what somebody wants to see used.
    typed = by_id(run("cheapest", JOB, "--hours", "H100=2.5", "-o", "json").json()["rows"])
    assert (typed["h100"]["basis"], typed["h100"]["runtime_hours"]) == ("stated", 2.5)


def test_a_later_one_is_the_next_version_and_holds() -> None:
    for hours, version in (("3", 1), ("2", 2)):
        answer = _measure(
            "--gpu", "H100-SXM-80GB", "--hours", hours, "--gpu-percent", "87.5", "--note", "night"
        )
        assert f"version {version}" in answer.out
    row = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])["h100"]
    assert Decimal(row["total_usd"]) == Decimal("6.75")  # (0.25 h + 2 h) x 3
    assert "version 2" in row["basis_note"]
    assert "gpu 87.5 %" in row["basis_note"]


def test_measurements_at_two_counts_both_hold() -> None:
    assert _measure("--gpu", "H100-SXM-80GB", "--hours", "3").code == 0
    assert _measure("--gpu", "H100-SXM-80GB", "--gpus", "8", "--hours", "0.5").code == 0
    one = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])["h100"]
    assert (one["basis"], one["runtime_hours"]) == ("measured", 3)
    eight = run("estimate", JOB, "--gpu", "H100-SXM-80GB", "--gpus", "8", "-o", "json").json()
    assert (eight["estimates"][0]["basis"], eight["estimates"][0]["hours"]) == ("measured", 0.5)
    shown = run("jobs", "show", JOB, "-o", "json").json()["measurements"]
    assert [one["in_force"] for one in shown] == [True, True]


def test_a_rate_is_hours_of_the_whole_job() -> None:
    assert _measure("--gpu", "H100-SXM-80GB", "--tokens-per-second", "5000").code == 0
    row = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])["h100"]
    assert row["runtime_hours"] == pytest.approx(50e6 / 5000 / 3600, abs=1e-5)


def test_jobs_of_hours_alone_are_measured_too() -> None:
    assert _measure("--gpu", "H100-SXM-80GB", "--hours", "5", job="bert-large").code == 0
    rows = by_id(run("cheapest", "bert-large", "-o", "json").json()["rows"])
    assert (rows["h100"]["basis"], rows["h100"]["total_usd"]) == ("measured", "15")
    assert rows["a100"]["basis"] == "published"


def test_what_becomes_of_the_other_gpus_is_told_as_it_is() -> None:
    scaled = _measure("--gpu", "H100-SXM-80GB", "--hours", "2")
    assert "the other GPUs are scaled from it" in scaled.out
    # A T4 has no 16-bit format that the job is modelled in: its hours carry nothing elsewhere.
    alone = _measure("--gpu", "T4", "--hours", "30")
    assert "It holds there alone: such a job is not modelled on T4-16GB" in alone.out
    hours = _measure("--gpu", "H100-SXM-80GB", "--hours", "5", job="bert-large")
    assert "It holds there alone: the job does not say what it computes" in hours.out


def test_hours_that_scale_go_before_hours_that_do_not(tmp_path: Path) -> None:
    shown = """
name = "mine"
[workload]
kind = "finetune"
model = "Llama 3.1 8B"
method = "lora"
tokens = "50M"
seq_len = 2048
checkpointing = true
[hours]
H100-SXM-80GB = 4
"""
    own, t4 = tmp_path / "mine.toml", '[hours.T4-16GB]\nhours = 30\nbasis = "measured"\n'
    own.write_text(shown)
    before = by_id(run("cheapest", str(own), "-o", "json").json()["rows"])["a100"]
    own.write_text(shown + t4)
    after = by_id(run("cheapest", str(own), "-o", "json").json()["rows"])["a100"]
    assert before["basis"] == after["basis"] == "scaled"
    assert before["runtime_hours"] == after["runtime_hours"]


def test_a_rate_that_takes_for_ever_is_refused() -> None:
    answer = _measure("--gpu", "H100-SXM-80GB", "--tokens-per-second", "1e-20")
    assert (answer.code, answer.out) == (2, "")
    assert "more than ten years" in answer.err


def test_an_alert_rule_sees_the_same_hours(tmp_path: Path) -> None:
    assert _measure("--gpu", "H100-SXM-80GB", "--hours", "5", job="bert-large").code == 0
    nobody = [f"[providers.{name}]\nenabled = false\n" for name in registry.names()]
    config = tmp_path / "gpucost.toml"
    config.write_text("".join(nobody))
    answer = run("--config", str(config), "alerts", "eval", "h100-cheaper-than-a100", "-o", "json")
    assert answer.code == 0, answer.err
    # 5 h x 3 against 12 h x 1.2
    assert float(answer.json()["value"]) == pytest.approx(15 / 14.4, rel=1e-4)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gpu", "H100-SXM-80GB"], "give --hours or one rate"),
        (["--gpu", "H100-SXM-80GB", "--hours", "2", "--tokens-per-second", "3"], "or one rate"),
        (["--gpu", "H100", "--hours", "2"], "H100 may be H100-"),
        (["--gpu", "H101", "--hours", "2"], "unknown GPU 'H101'"),
        (["--gpu", "H100-SXM-80GB", "--hours", "110"], "are these minutes?"),
        (
            ["--gpu", "H100-SXM-80GB", "--requests-per-second", "3"],
            "--requests-per-second: llama-3.1-8b-lora does not say how many requests there are; "
            "give --tokens-per-second or --samples-per-second or --hours",
        ),
        (
            ["--gpu", "H100-SXM-80GB", "--hours", "2", "--communication-percent", "5"],
            "one GPU exchanges nothing with others; say how many: --gpus",
        ),
        (["--gpu", "H100-SXM-80GB", "--hours", "2", "--gpu-percent", "130"], "0<=x<=100"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(argv: list[str], said: str) -> None:
    answer = _measure(*argv)
    assert answer.code == 2
    assert said in answer.complaint
    row = by_id(run("cheapest", JOB, "-o", "json").json()["rows"])["h100"]
    assert row["basis"] == "modelled"


SERVICE = "llama-3.1-8b-service"  # 5 requests/s, of 256 tokens out


def test_a_service_is_measured_by_what_it_does() -> None:
    refused = _measure("--gpu", "H100-SXM-80GB", "--hours", "2", job=SERVICE)
    assert refused.complaint == (
        f"--hours: {SERVICE} is a service and runs as long as it is kept up; give what it does: "
        "--requests-per-second or --tokens-per-second"
    )
    before = by_id(run("cheapest", SERVICE, "-o", "json").json()["rows"])
    assert (before["h100"]["basis"], before["h100"]["machines"]) == ("modelled", 1)
    # 2.2 requests/s: 5 of them take 3 machines, all month.
    answer = _measure("--gpu", "H100-SXM-80GB", "--requests-per-second", "2.2", job=SERVICE)
    assert "2.2 requests/s measured, version 1" in answer.out
    after = by_id(run("cheapest", SERVICE, "-o", "json").json()["rows"])
    row = after["h100"]
    assert (row["basis"], row["machines"], row["runtime_hours"]) == ("measured", 3, 730)
    assert row["total_usd"] == str(3 * 730 * 3)
    # Nothing is slowed down between them, and it is not said that it might be.
    assert "3 separate machines: the requests are divided among them" in row["notes"]
    assert after["a100"]["basis"] == "scaled"
    assert after["a100"]["machines"] > before["a100"]["machines"]
    # The same in tokens that are put out.
    answer = _measure("--gpu", "H100-SXM-80GB", "--tokens-per-second", "563.2", job=SERVICE)
    assert "2.2 requests/s measured, version 2" in answer.out
    assert by_id(run("cheapest", SERVICE, "-o", "json").json()["rows"])["h100"]["machines"] == 3
    shown = run("jobs", "show", SERVICE).out
    assert "2.2 requests/s on 1, version 2" in shown


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--tokens-per-second", "5000"],
         "--tokens-per-second: bert-large is a job of plain hours: it has no tokens; give --hours"),
        (["--samples-per-second", "5"], "it has no samples; give --hours"),
        (["--requests-per-second", "5"], "it has no requests; give --hours"),
        (["--hours", "240"],
         "--hours: 240 h on 1 x H100-SXM-80GB, where bert-large takes 4 GPU-hours on "
         "H100-SXM-80GB; are these minutes, or is this another job?"),
        (["--hours", "0.16"], "are these days"),
        (["--hours", "0.02", "--gpus", "8"], "0.02 h on 8 x H100-SXM-80GB, where"),
    ],
)  # fmt: skip
def test_a_job_of_plain_hours_takes_hours_that_may_be_its_own(argv: list[str], said: str) -> None:
    answer = _measure("--gpu", "H100-SXM-80GB", *argv, job="bert-large")
    assert answer.code == 2
    assert said in answer.complaint
    row = by_id(run("cheapest", "bert-large", "-o", "json").json()["rows"])["h100"]
    assert row["basis"] == "published"


def test_plain_hours_of_other_gpus_tell_less() -> None:
    # 12 h on an A100, 4 h on an H100, 48 h or more on RTX 4090s.
    assert _measure("--gpu", "L4", "--hours", "300", job="bert-large").code == 0
    assert _measure("--gpu", "V100-SXM-16GB", "--hours", "4000", job="bert-large").code == 2
    refused = _measure("--gpu", "L4", "--hours", "0.01", job="bert-large")
    assert "takes 4 to 48 GPU-hours on other GPUs; are these days" in refused.complaint
    # A lower bound says nothing of how long it may be.
    assert _measure("--gpu", "RTX4090-24GB", "--hours", "5000", job="bert-large").code == 0
    assert _measure("--gpu", "RTX4090-24GB", "--hours", "2", job="bert-large").code == 2


def test_few_hours_are_not_shown_as_none(tmp_path: Path) -> None:
    own = tmp_path / "short.toml"
    own.write_text('name = "short"\n[hours]\nH100 = 0.004\n')
    answer = _measure("--gpu", "H100-SXM-80GB", "--hours", "0.00456", job=str(own))
    assert "0.0046 h measured" in answer.out
