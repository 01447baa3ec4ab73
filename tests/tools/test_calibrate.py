"""The shipped calibration is what the script writes, and as right as it says."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import accuracy
from tests.support.fixtures import ROOT, SHARED
from tests.tools.rows import COLUMNS
from tools.calibrate import CONFIGURATION_FOLDS, calibrate, version_of, write
from tools.fit_terms import Sample, fit_terms, sample_of
from tools.held_out import Error, bands, leave_out
from tools.measurements import MEMORY_FILE, OPEN_FILES, read_rows
from tools.memory_rows import read_memory
from tools.physics import figures_of
from tools.scoring import coverage, error_of, in_three, ratio_score
from tools.training_rows import TrainingRow
from tracker import data
from tracker.domain.runtime.calibration import TRAINING_GROUPS, Band, Calibration
from tracker.domain.runtime.memory import headroom, serving_memory, training_memory
from tracker.domain.runtime.training import model_flops_per_token
from tracker.domain.runtime.types import Training

TABLES = SHARED / "runtime"
with_tables = pytest.mark.skipif(
    not TABLES.is_dir(), reason="the measured tables are not beside this checkout"
)


@functools.cache
def sample() -> Sample:
    return sample_of(read_rows(TABLES / name for name in OPEN_FILES))


@with_tables
def test_the_shipped_coefficients_are_what_the_fit_finds() -> None:
    shipped = Calibration.from_csv(data.text("efficiency.csv"))
    assert shipped.version == version_of(TABLES)
    found = fit_terms(sample())
    kept = {name for name, term in found.items() if term.rows or term.log}
    assert kept == set(shipped.terms)
    for name in kept:
        # Other releases of numpy may round otherwise.
        assert shipped.terms[name].log == pytest.approx(found[name].log, abs=2e-3), name
        assert shipped.terms[name].rows == found[name].rows
        assert shipped.terms[name].groups == found[name].groups


@pytest.mark.e2e
@with_tables
def test_the_whole_file_is_what_the_script_writes() -> None:
    written = write(calibrate(sample(), version_of(TABLES)), sample())
    assert written == data.text("efficiency.csv")


@with_tables
def test_flops_reproduce_the_utilisation_that_llm_foundry_prints() -> None:
    checked = 0
    for physical in sample().physical:
        measured, printed = physical.measured, physical.row.number("mfu")
        if not isinstance(measured, TrainingRow) or measured.job.stack != "llm-foundry":
            continue
        assert printed
        peak = figures_of(physical.row.gpu).tflops(measured.job.precision)
        assert peak
        ours = model_flops_per_token(measured.job) * measured.tokens_per_second / peak / 1e10
        assert ours == pytest.approx(printed, rel=1e-3), physical.row.fields
        checked += 1
    assert checked > 100


@with_tables
def test_what_ran_out_of_memory_is_never_called_a_fit() -> None:
    out = [row for row in read_memory(TABLES / MEMORY_FILE) if row.peak_gib is None]
    assert len(out) >= 6
    for row in out:
        if isinstance(row.job, Training):
            need = training_memory(row.job, row.gpus).total
        else:
            need = serving_memory(row.job, 1, row.gpus).total
        assert need * headroom(row.job) > figures_of(row.gpu_key).vram_gib, row


def error(group: str, config: int, log: float) -> Error:
    return Error(group, f"{group}{config}", log, fold=0, calibrated=True)


def test_a_small_group_takes_the_pooled_range() -> None:
    large = [error("large", i, 0.01 * i) for i in range(1, 41)]
    small = [error("small", i, 1.0) for i in range(3)]
    found = bands("speed", "stack", [*large, *small])
    assert set(found) == {"speed:large:stack", "speed:pooled:stack"}
    assert found["speed:large:stack"].factor == pytest.approx(math.exp(0.33))
    assert found["speed:pooled:stack"].factor == pytest.approx(math.e)
    assert found["speed:large:stack"].groups == 40


def test_a_range_that_holds_too_much_or_too_little_does_not_pass() -> None:
    errors = [error("g", i, 0.01 * i) for i in range(1, 101)]
    for factor, passes in ((0.5, False), (0.82, True), (1.01, False)):
        (found,) = coverage(errors, lambda _, factor=factor: Band(math.exp(factor), 0, 0))  # type: ignore[misc]
        assert found.passes is passes
        assert found.held == pytest.approx(min(1.0, math.floor(100 * factor + 1e-9) / 100))


def _file(path: Path, speeds: dict[str, float]) -> Path:
    lines = [",".join(COLUMNS)]
    for gpu, speed in speeds.items():
        fields = dict.fromkeys(COLUMNS, "") | {
            "source": "somebody", "family": "vision_cnn", "model": "a new network",
            "precision": "fp16-amp", "metric": "train_throughput_per_gpu", "value": str(speed),
            "config_id": "mine", "split_group": "mine", "gpu_key": gpu, "gpu_count": "1",
            "quality": "ok",
        }  # fmt: skip
        lines.append(",".join(fields[column] for column in COLUMNS))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_anyone_can_score_the_shipped_estimator_on_rows_of_their_own(tmp_path: Path) -> None:
    rows = _file(
        tmp_path / "mine.csv",
        {"a100-sxm-80gb": 100, "h100-sxm-80gb": 175, "rtx4090-pcie-24gb": 65, "unknown-gpu": 1},
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy", "--rows", str(rows)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "6 pairs of 1" in done.stdout
    assert "left out: 1 rows of GPUs whose figures no source gives (unknown-gpu)" in done.stdout
    assert "calibration" in done.stdout
    assert "no rows" in done.stdout


@pytest.mark.e2e
@with_tables
def test_the_goals_are_reached_by_leaving_configurations_out() -> None:
    found = leave_out(sample(), "configuration", CONFIGURATION_FOLDS)
    three = ratio_score(found.options, in_three)
    every = ratio_score(found.options, lambda _: True)
    assert three is not None
    assert every is not None
    assert three.error <= 0.10
    assert three.cheapest >= 0.89
    assert every.error <= 0.14
    assert every.cheapest >= 0.83
    for groups, goal in (
        (TRAINING_GROUPS, 0.145),
        ({"llm_decode_bs1"}, 0.11),
        ({"llm_serving_throughput"}, 0.09),
    ):
        assert error_of([error for error in found.speeds if error.group in groups]) <= goal, groups


def test_accuracy_says_where_the_measured_tables_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    monkeypatch.setattr("sys.argv", ["accuracy", str(missing)])
    with pytest.raises(SystemExit, match="2"):
        accuracy.main()
    assert f"there is no folder {missing}" in capsys.readouterr().err
    monkeypatch.setattr(accuracy, "FOLDER", missing)
    monkeypatch.setattr("sys.argv", ["accuracy"])
    accuracy.main()
    assert "not run, the measured tables are not beside the project" in capsys.readouterr().out
