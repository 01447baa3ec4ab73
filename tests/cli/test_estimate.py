"""``gpucost estimate`` and ``gpucost jobs``: the way to the hours, and jobs as files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker import data
from tracker.app import job_names

SHOWN = {"copies", "batch", "prefill", "prompts", "decode", "token", "speed"}

LORA = """name = "mine"
[workload]
kind = "finetune"
model = "Llama 3.1 8B"
method = "lora"
tokens = "50M"
seq_len = 2048
checkpointing = true
"""


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [make_offer("h100", "3", gpu=H100), make_offer("dear", "4", gpu=H100)]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


def _estimate(*argv: str) -> dict[str, Any]:
    answer = run("estimate", *argv, "--no-prices", "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def _of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["gpu"]: entry for entry in document["estimates"]}


def test_the_published_bert_figures() -> None:
    large = _of(_estimate("bert-large"))
    assert {gpu: (e["hours"], e["basis"], e["lower_bound"]) for gpu, e in large.items()} == {
        "H100-SXM-80GB": (4, "published", False),
        "A100-SXM-80GB": (12, "published", False),
        "RTX4090-24GB": (48, "published", True),
    }
    base = _of(_estimate("bert-base-inference", "--gpu", "A100-SXM-80GB,H100-SXM,RTX4090-24GB"))
    for gpu, rate in (("A100-SXM-80GB", 1200), ("H100-SXM-80GB", 3000), ("RTX4090-24GB", 800)):
        assert base[gpu]["basis"] == "published"
        assert base[gpu]["hours"] == pytest.approx(1e8 / rate / 3600, abs=1e-5)
        assert "buyer's guide" in base[gpu]["source"]


def test_the_way_leads_step_by_step_to_the_hours() -> None:
    entry = _of(_estimate("llama-3.1-8b-lora", "--gpu", "H100-SXM-80GB"))["H100-SXM-80GB"]
    names = [step["name"] for step in entry["steps"]]
    order = ["model", "method", "precision", "VRAM", "compute", "bandwidth", "GPUs", "runtime"]
    assert [name for name in names if name in order] == order
    assert entry["steps"][-1]["value"] == pytest.approx(entry["hours"], rel=1e-5)
    assert entry["low_hours"] < entry["hours"] < entry["high_hours"]
    assert entry["bound"] in ("compute", "memory bandwidth", "interconnect", "overhead")


@pytest.mark.usefixtures("_at_market")
def test_price_and_total_stand_at_the_end_of_the_way() -> None:
    answer = run("estimate", "llama-3.1-8b-lora", "--gpu", "H100-SXM-80GB", "-o", "json")
    [entry] = answer.json()["estimates"]
    expected = Decimal(3) * (Decimal(str(entry["hours"])) + Decimal("0.25"))
    assert Decimal(entry["total_usd"]) == pytest.approx(expected, rel=Decimal("0.00001"))
    assert (entry["provider"], entry["price_usd_per_gpu_hour"]) == ("acme", "3")
    table = run("estimate", "llama-3.1-8b-inference", "--gpu", "H100-SXM-80GB").out
    for word in ("price", "total", "per request", "per million"):
        assert f"\n  {word} " in table


def test_what_does_not_fit_says_why_and_what_would() -> None:
    asked = ("llama-3.1-70b-qlora", "--gpu", "H100-SXM-80GB,RTX3090", "--gpus", "4")
    entry = _of(_estimate(*asked))["RTX3090-24GB"]
    assert not entry["runs"]
    assert entry["need_gib"] > entry["have_gib"]
    assert entry["smallest_count"] > 8
    answer = run("estimate", "llama-3.1-70b-qlora", "--gpu", "T4", "--no-prices")
    assert (answer.code, answer.lines[2]) == (
        3, "T4-16GB does not compute in bf16; it has fp64, fp32, fp16, int8.",
    )  # fmt: skip
    asked = ("llama-3.1-70b-qlora", "--gpu", "RTX3090", "--gpus", "4", "--no-prices")
    answer = run("estimate", *asked)
    assert answer.code == 3
    assert "fits on" in answer.out
    assert "runs on none of these GPUs" in answer.complaint


def test_what_needs_several_machines_is_estimated_on_whole_ones(tmp_path: Path) -> None:
    """As ``cheapest`` would offer it: the two must not contradict each other."""
    file = tmp_path / "large.toml"
    full = LORA.replace("8B", "70B").replace('"lora"', '"full"')
    file.write_text(full.replace("seq_len = 1024", "seq_len = 8192"))
    entry = _of(_estimate(str(file), "--gpu", "H100-SXM-80GB"))["H100-SXM-80GB"]
    assert (entry["runs"], entry["gpus"] % 8, entry["gpus"] > 8) == (True, 0, True)


@pytest.mark.usefixtures("_at_market")
def test_a_service_is_told_by_the_gpus_that_it_takes() -> None:
    answer = run("estimate", "llama-3.1-8b-service", "--gpu", "H100-SXM-80GB,L4")
    assert answer.lines[0].endswith("what serves it of each GPU, the fewest first.")
    one, many = (line.split() for line in answer.lines[3:5])
    assert (one[0], one[1], many[0]) == ("H100-SXM-80GB", "1", "L4-24GB")
    assert int(many[1]) > 1
    assert "to" in many
    assert "GPUs" in many
    assert "1 copy " in answer.out
    entry = _of(run("estimate", "llama-3.1-8b-service", "--gpu", "L4", "-o", "json").json())
    [low, gpus, high] = (entry["L4-24GB"][key] for key in ("low_gpus", "gpus", "high_gpus"))
    assert (str(low), str(gpus), str(high)) == (many[3], many[1], many[5])
    assert "a machine of 1 GPU\n" in answer.out


@pytest.mark.usefixtures("_at_market")
def test_the_machines_that_are_rented_for_it_stand_beside_the_price() -> None:
    """Two GPUs of a machine of eight cost all eight: the table must not hide that."""
    lines = run("estimate", "bert-base-inference", "--gpu", "H100-SXM-80GB").lines
    assert "RENTED" in lines[2]
    assert "1 x 1" in lines[3]


def test_fp8_on_an_a100_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "fp8.toml"
    file.write_text(LORA + 'precision = "fp8"\n')
    answer = run("estimate", str(file), "--gpu", "A100-SXM-80GB,H100-SXM-80GB", "--no-prices")
    assert answer.code == 0
    assert "A100-SXM-80GB does not compute in fp8" in answer.out


def test_a_count_and_a_gpu_may_be_named() -> None:
    four = _of(_estimate("llama-3.1-8b-lora", "--gpu", "H100-SXM", "--gpus", "4"))
    assert {entry["gpus"] for entry in four.values()} == {4}
    assert "did you mean" in run("estimate", "llama-3.1-8b-lora", "--gpu", "H10").complaint
    assert run("estimate", "lama").code == 2


def test_without_a_database_the_estimate_is_given_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://u:secret@127.0.0.1:1/none")
    answer = run("estimate", "llama-3.1-8b-lora", "--gpu", "H100-SXM-80GB")
    assert answer.code == 0
    assert "No prices" in answer.out
    assert "secret" not in answer.out + answer.err


def test_jobs_are_listed_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path))
    answer = run("jobs", "list", "-o", "json")
    assert [job["job"] for job in answer.json()["jobs"]] == job_names()
    assert "bert-large" in run("jobs", "list").out
    for name in job_names():
        shown = run("jobs", "show", name)
        assert shown.code == 0, shown.err
        assert shown.out.startswith(f"{name}: ")
    document = run("jobs", "show", "llama-3.1-8b-lora", "-o", "json").json()
    assert document["workload"]["model"] == "Llama 3.1 8B"
    assert document["workload"]["tokens"] == 5e7


def test_files_are_checked_one_by_one(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(LORA)
    bad.write_text(LORA.replace("tokens", "tokns"))
    fine = run("jobs", "check", str(good))
    assert (fine.code, fine.err) == (0, "")
    assert "ok: finetune, hours on" in fine.out
    answer = run("jobs", "check", str(good), str(bad))
    assert answer.code == 2
    assert answer.complaint == "1 of 2 files cannot be used"
    assert answer.lines[1] == (
        f"{bad}: not usable: workload.tokns: unknown key; did you mean 'tokens'?"
    )


def test_a_config_json_is_found_beside_the_job_file(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
        "vocab_size": 128256, "tie_word_embeddings": True,
    }  # fmt: skip
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / "job.toml"
    file.write_text(LORA.replace("Llama 3.1 8B", "config.json"))
    entry = _of(_estimate(str(file), "--gpu", "H100-SXM-80GB"))["H100-SXM-80GB"]
    assert entry["steps"][0]["value"] == pytest.approx(1.236e9, rel=0.01)
    (folder / "config.json").write_text("{")
    assert "config.json: not JSON" in run("estimate", str(file)).complaint


@pytest.mark.usefixtures("_at_market")
def test_a_bill_that_lacks_a_part_is_no_plain_total(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(LORA.replace("[workload]", "disk_gb = 60\n[workload]"))
    lines = run("estimate", str(file), "--gpu", "H100-SXM-80GB").lines
    row = next(line for line in lines if line.startswith("H100"))
    assert ">= $" in row
    total = next(line for line in lines if line.strip().startswith("total "))
    assert ">= $" in total
    assert any("not in the total" in line and "disk price unknown" in line for line in lines)
    bound = run("estimate", "bert-large", "--gpu", "RTX4090-24GB", "--no-prices").lines
    assert any(">= 48.00" in line for line in bound)


def test_every_factor_of_a_micro_step_is_a_step() -> None:
    """The steps alone give the hours: FLOPs, peak, efficiency, overlap, software."""
    entry = _of(_estimate("llama-3.1-8b-lora", "--gpu", "H100-SXM-80GB"))["H100-SXM-80GB"]
    steps = {step["name"]: step["value"] for step in entry["steps"]}
    fastest = steps["tokens"] * steps["FLOPs"] / (steps["precision"] * 1e12)
    assert fastest < steps["compute"] < fastest / min(steps["efficiency"], steps[""]) * 1.001
    busy = steps["compute"] + steps["bandwidth"]
    together = (busy**4 + steps["overhead"] ** 4) ** 0.25
    assert together / steps["software"] == pytest.approx(steps["micro-step"], rel=0.05)
    assert steps["tokens"] / steps["micro-step"] == pytest.approx(steps["speed"], rel=1e-6)
    formulas = {step["name"]: step["formula"] for step in entry["steps"]}
    assert "fitted to" in formulas["efficiency"]
    names = [step["name"] for step in entry["steps"]]
    assert names.count("runtime") == 1


@pytest.mark.parametrize("gpus", ["H100-SXM-80GB", "L4", "A100-SXM-80GB"])
@pytest.mark.parametrize(
    "job", ["llama-3.1-8b-service", "llama-3.1-8b-inference", "llama-3.1-70b-inference"]
)
def test_the_rate_of_a_service_follows_from_the_figures_shown(job: str, gpus: str) -> None:
    """By the formulas of docs/costs.md, with the figures of the table and nothing else."""
    answer = run("estimate", job, "--gpu", gpus, "--no-prices")
    if answer.code == 3:
        pytest.skip(f"{job} runs on no {gpus} alone")
    workload = tomllib.loads(data.text(f"jobs/{job}.toml"))["workload"]
    out = workload["output_tokens"]
    shown: dict[str, Decimal] = {}
    for line in answer.lines:
        words = line.split()
        if line.startswith("  ") and words[0] in SHOWN:
            shown[words[0]] = Decimal(words[1].replace(",", ""))
    assert shown.keys() == SHOWN
    cycle = shown["prompts"] + out * shown["decode"]
    rate = shown["copies"] * shown["batch"] / cycle
    assert float(shown["speed"]) == pytest.approx(float(rate), rel=2e-3)
    token = shown["decode"] + shown["prompts"] / out
    assert float(shown["token"]) == pytest.approx(float(token), rel=2e-3)
    # Prompts that are read together start once: no dearer than each alone, and no cheaper than one.
    assert shown["prefill"] <= shown["prompts"] * Decimal("1.001")
    assert shown["prompts"] <= shown["batch"] * shown["prefill"] * Decimal("1.001")
    if limit := workload.get("tpot_seconds"):
        assert shown["token"] <= Decimal(str(limit))


def test_a_check_names_every_mistake_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        LORA.replace('"50M"', '"50x"').replace("seq_len", "seq_length")
        + '[limits]\nmarkets = ["spott"]\ndeadline_hours = -1\n'
    )
    answer = run("jobs", "check", str(file))
    assert answer.code == 2
    named = [line.split(": ")[2] for line in answer.lines]
    assert {
        "workload.tokens",
        "workload.seq_length",
        "limits.markets",
        "limits.deadline_hours",
    } <= {*named}
    assert len(named) == len(set(named))
    assert answer.complaint == "1 of 1 file cannot be used"


def test_more_gpus_than_the_hours_are_for_are_told_of() -> None:
    answer = run("estimate", "bert-large", "--gpus", "3", "--no-prices")
    told = "3 GPUs are billed for the hours that fewer take on A100, H100, RTX4090: how the job"
    assert any(line.startswith(told) for line in answer.lines)
    document = run("estimate", "bert-large", "--gpus", "3", "--no-prices", "-o", "json").json()
    assert document["remark"].startswith(told)
    assert not any("fewer take" in line for line in run("estimate", "bert-large").lines)
