"""The fits find what is there, and are not led by what is odd."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.tools.rows import COLUMNS, row
from tools.fitting import FitRow, Logs, Prior, fit
from tools.measurements import Option, options, read_rows
from tools.ratios import fit_ratios, fit_scaling


def flat(_: str) -> Prior:
    return Prior(0.0, 1.0)


def line(speed: float, **terms: tuple[str, ...]) -> FitRow:
    """A row whose log speed is the sum of its coefficients."""

    def predict(logs: Logs) -> float:
        return sum(logs.values())

    return FitRow(terms, predict, math.log(speed))


def test_common_and_particular_terms_are_told_apart() -> None:
    rows = [
        line(speed * (1 + 0.01 * (i % 3 - 1)), rate=("", f"gpu/{gpu}"))
        for gpu, speed in (("a", 2.0), ("b", 4.0), ("c", 8.0))
        for i in range(21)
    ]
    found = fit(rows, flat)
    for gpu, speed in (("a", 2.0), ("b", 4.0), ("c", 8.0)):
        total = found["rate:"] + found[f"rate:gpu/{gpu}"]
        assert math.exp(total) == pytest.approx(speed, rel=0.02)


def test_a_few_odd_rows_do_not_lead_it() -> None:
    rows = [line(2.0, rate=("",)) for _ in range(20)] + [line(200.0, rate=("",)) for _ in range(3)]
    assert math.exp(fit(rows, flat)["rate:"]) == pytest.approx(2.0, rel=0.1)


def test_what_no_row_moves_stays_at_its_prior() -> None:
    rows = [FitRow({"used": ("",), "idle": ("",)}, lambda logs: logs["used"], math.log(3.0))]
    found = fit(rows, lambda name: Prior(0.5 if name == "idle:" else 0.0, 1.0))
    assert found["idle:"] == pytest.approx(0.5)
    assert math.exp(found["used:"]) == pytest.approx(3.0, rel=0.05)


GPUS = (
    "a100-sxm-80gb", "a100-pcie-40gb", "h100-sxm-80gb", "rtx4090-pcie-24gb", "v100-sxm-16gb",
    "l40s-pcie-48gb", "t4-pcie-16gb", "rtx3090-pcie-24gb",
)  # fmt: skip


def made_up(compute: float, bandwidth: float) -> list[Option]:
    """Six configurations whose speeds follow the exponents exactly."""
    from tools.physics import figures_of

    rows = []
    for config in range(6):
        for gpu in GPUS:
            known = figures_of(gpu)
            peak = known.tflops("fp16-amp")
            assert peak is not None
            speed = (config + 1) * peak**compute * known.bandwidth_gbps**bandwidth
            name = f"config{config}"
            rows.append(row(gpu_key=gpu, config_id=name, split_group=name, value=str(speed)))
    return options(rows)


def test_exponents_are_found() -> None:
    fitted = fit_ratios(made_up(0.3, 0.6)).terms
    for of, expected in (("compute", 0.3), ("bandwidth", 0.6)):
        assert fitted[f"{of}:"] + fitted[f"{of}:group/vision_cnn"] == pytest.approx(
            expected, abs=0.05
        )
    assert max(abs(v) for name, v in fitted.items() if name.startswith("gpu:")) < 0.05


def test_an_exponent_is_never_negative() -> None:
    fitted = fit_ratios(made_up(-0.4, 1.2)).terms
    assert fitted["compute:"] + fitted["compute:group/vision_cnn"] >= -1e-4


def test_the_loss_of_working_together_is_an_exponent_of_the_count() -> None:
    rows = [
        row(
            source="lambdal/deeplearning-benchmark", gpu_key="a100-sxm-80gb", gpu_count=str(count),
            value=str(100 * count**-0.05), config_id=f"n{count}",
        )
        for count in (1, 2, 4, 8)
    ]  # fmt: skip
    exponent, measured, _ = fit_scaling(rows)["link/nvlink"]
    assert exponent == pytest.approx(0.05)
    assert measured == 3


def test_rounds_of_a_benchmark_are_configurations_of_their_own() -> None:
    both = {"source": "MLPerf Training v4.0", "config_id": "bert|n8", "metric": "time_to_train"}
    rows = [
        row(**both, gpu_key="a100-sxm-80gb", value="20", extra="ver=v4.0"),
        row(**both, gpu_key="h100-sxm-80gb", value="10", extra="ver=v4.0"),
        row(**both, gpu_key="h100-sxm-80gb", value="5", extra="ver=v4.1"),
    ]
    found = {(o.gpu, round(math.exp(-o.log_speed), 6)) for o in options(rows)}
    assert found == {("a100-sxm-80gb", 20), ("h100-sxm-80gb", 10)}


def test_flagged_rows_make_no_options_and_duplicates_make_one() -> None:
    rows = [
        row(gpu_key="a100-sxm-80gb", config_id="c", value="1"),
        row(gpu_key="a100-sxm-80gb", config_id="c", value="3"),
        row(gpu_key="a100-sxm-80gb", config_id="c", value="2"),
        row(gpu_key="h100-sxm-80gb", config_id="c", value="9"),
        row(gpu_key="t4-pcie-16gb", config_id="c", value="9", quality="suspect: odd"),
    ]
    assert [(o.gpu, round(math.exp(o.log_speed))) for o in options(rows)] == [
        ("a100-sxm-80gb", 2),
        ("h100-sxm-80gb", 9),
    ]


def test_a_file_is_read_with_its_extra_fields(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    values = dict.fromkeys(COLUMNS, "") | {"extra": "ver=v1;note", "value": "4", "gpu_count": "2"}
    file.write_text(",".join(COLUMNS) + "\n" + ",".join(values[c] for c in COLUMNS) + "\n")
    (only,) = read_rows([file])
    assert only.extra == {"ver": "v1"}
    assert only.gpus == 2
    assert not only.usable
