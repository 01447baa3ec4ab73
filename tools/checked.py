"""Whether a file is a table of measurements in the format that is read: said in one line."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from tools.inference_rows import inference_row
from tools.measurements import row_of
from tools.memory_rows import memory_row
from tools.physics import figures_of
from tools.training_rows import training_row

SPEEDS = (
    "source", "family", "model", "params_b", "precision", "method", "seq_len", "in_len", "out_len",
    "batch", "gpu_count", "metric", "value", "mfu", "config_id", "framework", "extra", "gpu_key",
    "split_group", "quality",
)  # fmt: skip
MEMORY = (
    "source", "model", "params_b", "n_layers", "precision", "method", "lora_trainable_m", "seq_len",
    "batch", "grad_ckpt", "gpu", "gpu_count", "peak_gb", "oom", "notes",
)  # fmt: skip
_MOST_BYTES = 256 * 2**20


class BadTable(ValueError):
    """A file that is no such table. The message is one line that says what to change."""


def check_table(path: Path) -> bool:
    """Whether *path* holds peaks of memory (else speeds). Raises BadTable.

    Rows whose quality is not ok are not looked at closely: they are left out of every figure.
    """
    try:
        if path.stat().st_size > _MOST_BYTES or not path.is_file():
            raise BadTable(f"{path}: not an ordinary file of at most 256 MiB")
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines, strict=True)
            columns = tuple(reader.fieldnames or ())
            memory = "peak_gb" in columns
            needed = MEMORY if memory else SPEEDS
            if missing := [name for name in needed if name not in columns]:
                more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
                raise BadTable(f"{path}: lacks the columns {', '.join(missing[:3])}{more}")
            rows = 0
            for row in reader:
                rows += 1
                if problem := _problem(row, memory=memory):
                    raise BadTable(f"{path}, line {reader.line_num}: {problem}")
    except OSError as error:
        raise BadTable(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTable(f"{path}: not a CSV file in UTF-8 ({error})") from None
    if not rows:
        raise BadTable(f"{path}: has no rows")
    return memory


def has_figures(key: str) -> bool:
    """Whether compute and bandwidth of the GPU that tables call *key* are known."""
    try:
        figures_of(key)
    except KeyError:
        return False
    return True


def _problem(row: dict[str, str], *, memory: bool) -> str | None:
    if None in row or None in row.values():
        return "not as many values as columns"
    if not memory and not row["quality"].startswith("ok"):
        return None
    if memory and row["oom"] == "1" and not has_figures(row["gpu"]):
        key = row["gpu"][:40]
        return f"no figures are known of the GPU {key!r}; it is named like h100-sxm-80gb"
    try:
        if memory:
            memory_row(row)
            return None
        one = row_of(row)
        for name, number in (("value", float(row["value"] or 0)), ("gpu_count", one.gpus)):
            if not (math.isfinite(number) and number >= (name == "gpu_count")):
                return f"{name}: {row[name][:40]!r} cannot be"
        training_row(one)
        inference_row(one)
    except (ValueError, KeyError, ArithmeticError) as error:
        return f"cannot be read: {' '.join(str(error).split())[:120]}"
    return None
