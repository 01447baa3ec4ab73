"""Fit the estimator to the measured tables and write tracker/data/efficiency.csv.

    python -m tools.calibrate [FOLDER]

FOLDER holds the tables (default: ../shared/runtime beside the checkout). Takes some minutes;
the same rows give the same file. Ranges come from fits that had not seen what they were judged on.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from pathlib import Path

from tools.fit_terms import Sample, fit_terms, sample_of
from tools.held_out import leave_out, ratio_bands, speed_bands
from tools.measurements import OPEN_FILES, read_rows
from tracker import data
from tracker.domain.runtime.calibration import COLUMNS, Band, Calibration

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "runtime"
TARGET = Path(data.__file__).with_name("efficiency.csv")
CONFIGURATION_FOLDS = 12
SOURCE_FOLDS = 8
GPU_FOLDS = 8


def calibrate(sample: Sample, version: str) -> Calibration:
    """The terms fitted to everything, and the ranges from leaving out."""
    terms = fit_terms(sample)
    return Calibration(version, terms, ranges(sample))


def ranges(sample: Sample) -> dict[str, Band]:
    """The range of each workload group, by what was known of software and GPU."""
    known = leave_out(sample, "configuration", CONFIGURATION_FOLDS)
    source = leave_out(sample, "source", SOURCE_FOLDS)
    gpu = leave_out(sample, "GPU", GPU_FOLDS)
    speeds = speed_bands("stack", known.speeds)
    for case, errors in (("level", source.speeds), ("roofline", gpu.speeds)):
        for name, band in speed_bands(case, errors).items():
            least = speeds.get(name.replace(f":{case}", ":stack"), band)
            speeds[name] = band if band.factor >= least.factor else least
    return {
        **speeds,
        **ratio_bands(known.pairs, gpu.pairs),
    }


def write(calibration: Calibration, sample: Sample) -> str:
    """The file: where it comes from, then a line for each term and each range."""
    sources = Counter(row.source for row in sample.rows)
    lines = [
        "# Coefficients of the runtime estimator (tracker/domain/runtime/calibration.py reads it).",
        "# Written by tools/calibrate.py from public measurements; do not edit.",
        f"# version: {calibration.version}",
        "# Factors and slopes as logarithms; ranges as factors. rows, groups: measurements and",
        "# configurations behind a line. MLPerf-derived: not verified by MLCommons Association.",
        *(f"# source: {source} ({count} rows)" for source, count in sorted(sources.items())),
        ",".join(COLUMNS),
    ]
    for name, term in sorted(calibration.terms.items()):
        model, coefficient, scope = name.split(":", 2)
        if term.rows or term.log:
            lines.append(
                f"{model},{coefficient},{scope},{_number(term.log)},{term.rows},{term.groups}"
            )
    for name, band in sorted(calibration.bands.items()):
        kind, group, case = name.split(":", 2)
        lines.append(f"band-{kind},{group},{case},{band.factor:.3f},{band.rows},{band.groups}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"


def version_of(folder: Path) -> str:
    """The tables' own fingerprint: the same rows, the same version."""
    digest = hashlib.sha256()
    for name in OPEN_FILES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:10]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    sample = sample_of(read_rows(folder / name for name in OPEN_FILES))
    TARGET.write_text(write(calibrate(sample, version_of(folder)), sample), encoding="utf-8")


if __name__ == "__main__":
    main()
