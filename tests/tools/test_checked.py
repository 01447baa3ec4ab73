"""A file of measurements that cannot be scored is told in one line; one that can is scored."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fixtures import ROOT, SHARED
from tests.tools.rows import COLUMNS
from tools.checked import MEMORY, BadTable, check_table

GOOD = {
    "source": "mine", "family": "vision_cnn", "precision": "fp16-amp", "gpu_count": "1",
    "metric": "train_throughput", "value": "100", "config_id": "c", "gpu_key": "h100-sxm-80gb",
    "split_group": "c", "quality": "ok", "model": "resnet50",
}  # fmt: skip
PEAK = {
    "source": "mine", "model": "llama-2-7b", "params_b": "7", "precision": "bf16", "method": "lora",
    "seq_len": "2048", "batch": "1", "gpu_count": "1", "peak_gb": "20", "gpu": "h100-sxm-80gb",
}  # fmt: skip


def table(folder: Path, *rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    file = folder / "mine.csv"
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return file


def test_both_kinds_are_told_apart(tmp_path: Path) -> None:
    assert check_table(table(tmp_path, GOOD)) is False
    assert check_table(table(tmp_path, PEAK, columns=MEMORY)) is True
    # Odd rows are left out of every figure, whatever is in them.
    odd = GOOD | {"value": "much", "gpu_key": "?", "quality": "flagged: unequal settings"}
    assert check_table(table(tmp_path, GOOD, odd)) is False


@pytest.mark.skipif(not SHARED.is_dir(), reason="the measured tables are not beside this checkout")
def test_the_public_tables_can_be_scored() -> None:
    files = sorted((SHARED / "runtime").glob("measured_*.csv"))
    assert [check_table(file) for file in files] == ["memory" in file.name for file in files]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": "much"}, "line 3: cannot be read: could not convert string to float: 'much'"),
        ({"value": "nan"}, "line 3: value: 'nan' cannot be"),
        ({"value": "-1"}, "line 3: value: '-1' cannot be"),
        ({"gpu_count": "0"}, "line 3: gpu_count: '0' cannot be"),
    ],
)
def test_a_row_that_cannot_be_is_named(tmp_path: Path, change: dict[str, str], said: str) -> None:
    with pytest.raises(BadTable) as caught:
        check_table(table(tmp_path, GOOD, GOOD | change))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"params_b": ""}, "line 2: cannot be read"),
        ({"method": "guess"}, "'guess' is not a valid Method"),
        ({"oom": "1", "gpu": "h1000"}, "no figures are known of the GPU 'h1000'"),
    ],
)
def test_a_peak_that_cannot_be_is_named(tmp_path: Path, change: dict[str, str], said: str) -> None:
    with pytest.raises(BadTable) as caught:
        check_table(table(tmp_path, PEAK | change, columns=MEMORY))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "lacks the columns source, family, model and 17 more"),
        (b"hello\n1\n", "lacks the columns"),
        (b"\xff\xfe\x00", "not a CSV file in UTF-8"),
        (",".join(COLUMNS).encode(), "has no rows"),
        (",".join(COLUMNS).encode() + b"\na,b\n", "line 2: not as many values as columns"),
        (",".join(MEMORY).encode() + b"\na,b\n", "line 2: not as many values as columns"),
    ],
)
def test_what_is_no_such_table_is_said_so(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(content)
    with pytest.raises(BadTable) as caught:
        check_table(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadTable, match="not an ordinary file"):
        check_table(tmp_path)
    with pytest.raises(BadTable, match="cannot be read"):
        check_table(tmp_path / "nothing.csv")


def test_the_script_prints_the_line_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy", "--rows", str(tmp_path / "nothing.csv")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("accuracy: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
