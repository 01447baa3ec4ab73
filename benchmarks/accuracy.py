"""How right the runtime estimator is: ratios, the cheapest option, speed, memory, ranges.

    python -m benchmarks.accuracy [FOLDER]       fits anew, each time without what it predicts
    python -m benchmarks.accuracy --rows FILE…   the shipped estimator on any file of that format

FOLDER holds the measured tables (default: ../shared/runtime beside the checkout). Rules: an option
is a GPU at a precision, pairs are of different GPUs inside a configuration, MLPerf rounds are never
mixed, the cheapest is judged over 60 draws of prices. Rows flagged as odd are left out.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import table
from tools.calibrate import CONFIGURATION_FOLDS, FOLDER, SOURCE_FOLDS
from tools.checked import BadTable, check_table, has_figures
from tools.fit_terms import Sample, sample_of
from tools.held_out import Error, HeldOut, leave_out, ratio_bands, score_all, speed_bands
from tools.measurements import MEMORY_FILE, OPEN_FILES, Option, read_rows
from tools.memory_rows import MemoryRow, read_memory
from tools.physics import figures_of
from tools.scoring import coverage, error_of, in_three, naive, ratio_score
from tools.training_rows import TrainingRow
from tracker import data
from tracker.domain.runtime.calibration import Band, Calibration
from tracker.domain.runtime.memory import headroom, serving_memory, training_memory
from tracker.domain.runtime.training import model_flops_per_token
from tracker.domain.runtime.types import Training

_MODEL_FOLDS = 10
_TRAINING = ("llm_pretrain", "llm_lora", "llm_qlora")

Line = tuple[str, ...]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--rows", nargs="+", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if arguments.rows:
        _shipped(arguments.rows)
    elif folder.is_dir():
        _left_out(folder)
    elif folder == FOLDER:  # a checkout alone has none: no mistake
        print("accuracy of the estimator: not run, the measured tables are not beside the project")
    else:
        parser.error(f"there is no folder {folder}")


def _shipped(files: Sequence[Path]) -> None:
    """Score the shipped calibration on *files*; those with a peak of memory are memory tables."""
    try:
        memory = [file for file in files if check_table(file)]
    except BadTable as error:
        raise SystemExit(f"accuracy: {error}") from None
    rows = read_rows(file for file in files if file not in memory)
    unknown = [row.gpu for row in rows if row.usable and not has_figures(row.gpu)]
    if unknown:
        names = ", ".join(sorted(set(unknown))[:5])
        print(f"left out: {len(unknown)} rows of GPUs whose figures no source gives ({names})")
    sample = sample_of(rows)
    calibration = Calibration.from_csv(data.text("efficiency.csv"))
    found = score_all(sample, calibration)
    print(f"shipped estimator, calibration {calibration.version}")
    print(table(("", "reached", "goal", "on"), _goals(found, sample, memory)))

    def band_of(error: Error) -> Band:
        case = "calibrated" if error.calibrated else "roofline"
        return calibration.band("ratio", error.group, case)

    _print_coverage("ratios", found.pairs, band_of)
    _print_coverage(
        "absolute speed", found.speeds, lambda e: calibration.band("speed", e.group, "stack")
    )
    _print_groups(found)


def _header(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline()


def _left_out(folder: Path) -> None:
    """Score by leaving out configurations, then models, then sources."""
    sample = sample_of(read_rows(folder / name for name in OPEN_FILES))
    known = leave_out(sample, "configuration", CONFIGURATION_FOLDS)
    model = leave_out(sample, "model", _MODEL_FOLDS)
    source = leave_out(sample, "source", SOURCE_FOLDS)
    ways = [("configurations", known), ("models", model), ("sources", source)]
    columns = [_goals(found, sample, [folder / MEMORY_FILE]) for _, found in ways]
    print("estimator fitted without what it predicts; median absolute errors")
    lines = [
        (row[0], row[1], columns[1][i][1], columns[2][i][1], row[2], row[3])
        for i, row in enumerate(columns[0])
    ]
    print(table(("left out:", *(name for name, _ in ways), "goal", "on"), lines))
    _print_coverage("ratios", known.pairs, _elsewhere(known.pairs, ratios=True))
    _print_coverage("absolute speed", known.speeds, _elsewhere(known.speeds, ratios=False))
    _print_groups(known)


def _elsewhere(errors: Sequence[Error], *, ratios: bool) -> Callable[[Error], Band]:
    """The range that the errors of the other folds give: no error judges its own range."""
    by_fold: dict[int, Calibration] = {}
    for fold in {error.fold for error in errors}:
        rest = [error for error in errors if error.fold != fold]
        found = ratio_bands(rest, rest) if ratios else speed_bands("stack", rest)
        by_fold[fold] = Calibration("", {}, found)

    def band_of(error: Error) -> Band:
        if ratios:
            case = "calibrated" if error.calibrated else "roofline"
            return by_fold[error.fold].band("ratio", error.group, case)
        return by_fold[error.fold].band("speed", error.group, "stack")

    return band_of


def _goals(found: HeldOut, sample: Sample, memory: Sequence[Path]) -> list[Line]:
    """The table of goals: what, reached, goal, on what."""
    lines = [
        *_ratio_lines("A100, H100, RTX 4090", found, in_three, ("10 %", "89 %")),
        *_ratio_lines("all GPUs", found, lambda _: True, ("14 %", "83 %")),
    ]
    for name, groups, goal in (
        ("LLM training tokens/s", _TRAINING, "14.5 %"),
        ("decode at batch 1", ("llm_decode_bs1",), "11 %"),
        ("serving throughput", ("llm_serving_throughput",), "9 %"),
    ):
        own = [error for error in found.speeds if error.group in groups]
        if own:
            on = f"{len(own)} rows, 80 % within {error_of(own, 0.8):.0%}"
            lines.append((name, f"{error_of(own):.1%}", goal, on))
        else:
            lines.append((name, "-", goal, "no rows"))
    lines += _memory_lines([row for file in memory for row in read_memory(file)])
    worst = _worst_mfu(sample)
    reached = "-" if worst is None else f"{worst:.3%}"
    lines.append(("FLOPs against llm-foundry's MFU", reached, "0.1 %", "worst row"))
    return lines


def _ratio_lines(
    name: str, found: HeldOut, keep: Callable[[Option], bool], goals: tuple[str, str]
) -> list[Line]:
    """Ratio error and cheapest right, beside what the peak or the bandwidth alone would say."""
    ours, peak, bandwidth = (
        ratio_score(predictions, keep)
        for predictions in (
            found.options,
            naive(found.options, "peak"),
            naive(found.options, "bandwidth"),
        )
    )
    if ours is None or peak is None or bandwidth is None:
        return [(f"{name}: ratio", "-", goals[0], "no pairs")]
    on = f"{ours.pairs} pairs of {ours.configs}; peak {peak.error:.0%}, bandwidth "
    right = f"peak {peak.cheapest:.0%}, bandwidth {bandwidth.cheapest:.0%}"
    return [
        (f"{name}: ratio", f"{ours.error:.1%}", goals[0], f"{on}{bandwidth.error:.0%}"),
        (f"{name}: cheapest right", f"{ours.cheapest:.1%}", goals[1], right),
    ]


def _memory_lines(rows: Sequence[MemoryRow]) -> list[Line]:
    """Peaks of memory against the formula, and whether anything that ran out was called a fit."""
    shaped: list[float] = []
    single: list[float] = []
    called = out = 0
    for row in rows:
        need, factor = _need(row)
        if row.peak_gib is None:
            out += 1
            called += need * factor <= figures_of(row.gpu_key).vram_gib
        elif row.gpus == 1 and not row.capacity:
            error = abs(need / row.peak_gib - 1)
            single.append(error)
            if row.known:
                shaped.append(error)
    return [
        ("peak VRAM, shapes known", _median(shaped), "10.5 %", f"{len(shaped)} rows"),
        ("peak VRAM, one GPU", _median(single), "", f"{len(single)} rows"),
        ("out of memory called a fit", str(called) if out else "-", "0", f"of {out}"),
    ]


def _median(errors: Sequence[float]) -> str:
    return f"{statistics.median(errors):.1%}" if errors else "-"


def _need(row: MemoryRow) -> tuple[float, float]:
    if isinstance(row.job, Training):
        return training_memory(row.job, row.gpus).total, headroom(row.job)
    return serving_memory(row.job, 1, row.gpus).total, headroom(row.job)


def _worst_mfu(sample: Sample) -> float | None:
    """The largest relative difference between our MFU and the one that llm-foundry prints."""
    worst = None
    for physical in sample.physical:
        measured = physical.measured
        printed = physical.row.number("mfu")
        if (
            not isinstance(measured, TrainingRow)
            or measured.job.stack != "llm-foundry"
            or not printed
        ):
            continue
        peak = figures_of(physical.row.gpu).tflops(measured.job.precision)
        if not peak:
            continue
        ours = model_flops_per_token(measured.job) * measured.tokens_per_second / peak / 1e10
        worst = max(worst or 0.0, abs(ours / printed - 1))
    return worst


def _print_coverage(name: str, errors: Sequence[Error], band_of: Callable[[Error], Band]) -> None:
    found = coverage(errors, band_of)
    if not found:
        return
    passed = sum(group.passes for group in found)
    print(f"\nranges of {name}: {passed} of {len(found)} groups hold 75 to 90 % within two errors")
    lines = [
        (
            group.group,
            str(group.configs),
            str(group.errors),
            f"{group.band:.2f}",
            f"{group.held:.0%}",
            "" if group.passes else "no",
        )
        for group in found
    ]
    print(table(("group", "configurations", "errors", "x and /", "held", "within"), lines))


def _of_family(family: str) -> Callable[[Option], bool]:
    return lambda option: option.family == family


def _print_groups(found: HeldOut) -> None:
    families = sorted({o.family for known in found.options.values() for o, _ in known})
    lines = []
    for family in families:
        score = ratio_score(found.options, _of_family(family))
        if score is not None:
            right = "-" if math.isnan(score.cheapest) else f"{score.cheapest:.0%}"
            lines.append(
                (family, str(score.configs), str(score.pairs), f"{score.error:.1%}", right)
            )
    if lines:
        print("\nratios by workload group")
        print(table(("group", "configurations", "pairs", "error", "cheapest right"), lines))


if __name__ == "__main__":
    main()
