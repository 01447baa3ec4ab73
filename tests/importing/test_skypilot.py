"""SkyPilot's catalogues: a file as of a moment, a folder, and the history of a repository."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.importing.worlds import dry, imported, spans
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect.importing import skypilot

EXAMPLES = SHARED / "history" / "skypilot"
HEADER = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice"
)
INFO = "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\""
SXM = (
    "gpu_1x_h100_sxm5,H100,1.0,26.0,225.0,{usd},us-east-1,"
    + INFO.replace("{", "{{").replace("}", "}}")
    + ","
)


def catalogue(usd: str) -> str:
    return "\n".join([HEADER, SXM.format(usd=usd)]) + "\n"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("catalogs/v8/aws/vms.csv", ("aws", 8)), ("gcp_v8_vms.sample.csv", ("gcp", 8)),
        ("/x/fluidstack_v5_vms.csv", ("fluidstack", 5)), ("lambda/vms.csv", ("lambda", 0)),
        ("runpod.csv", ("runpod", 0)), ("catalogs/v8/aws/images.csv", ("images", 0)),
        ("README.md", None),
    ],
)  # fmt: skip
def test_a_path_says_the_cloud(path: str, expected: tuple[str, int] | None) -> None:
    assert skypilot.whose(path) == expected


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason=NO_SHARED)
def test_real_rows_of_seven_clouds() -> None:
    report = dry("skypilot", EXAMPLES, at=datetime(2026, 8, 1, tzinfo=UTC)).report
    assert report.rows == 69
    assert report.sellers == {
        "fluidstack": 10, "gcp": 2, "lambda": 8, "runpod": 5, "vastai": 17, "verda": 10,
    }  # fmt: skip
    assert report.refused[skypilot.SAME_AS_LIST] == 5
    assert not [reason for reason in report.refused if reason.startswith("held")]
    assert report.gpus["RTX4090-48GB"] == 1


def git(folder: Path, *arguments: str, at: str = "2026-06-01T00:00:00Z") -> None:
    environment = {"GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at, "HOME": str(folder),
                   "PATH": "/usr/bin:/bin:/usr/local/bin"}  # fmt: skip
    for name in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{name}_NAME": "a", f"GIT_{name}_EMAIL": "a@example.org"}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=environment)


def commit(folder: Path, files: dict[str, str], at: str) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "catalogue", at=at)


def test_the_history_of_a_repository(database_url: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    old, new = "catalogs/v7/lambda/vms.csv", "catalogs/v8/lambda/vms.csv"
    commit(tmp_path, {old: catalogue("3.00")}, "2026-06-01T12:00:00+02:00")
    commit(tmp_path, {"README.md": "x"}, "2026-06-02T00:00:00Z")
    # From here on two layouts are written side by side: the newer one counts.
    commit(tmp_path, {old: catalogue("3.10"), new: catalogue("3.20")}, "2026-06-03T00:00:00Z")
    commit(tmp_path, {old: catalogue("3.30")}, "2026-06-04T00:00:00Z")
    commit(tmp_path, {new: HEADER + "\n"}, "2026-06-05T00:00:00Z")
    commit(tmp_path, {new: catalogue("3.20")}, "2026-06-06T00:00:00Z")
    outcome = imported(database_url, "skypilot", tmp_path)
    assert [
        (usd, f"{start:%d %H}", f"{end:%d}") for *_, usd, start, end in spans(database_url)
    ] == [
        (Decimal("3"), "01 10", "03"),
        (Decimal("3.2"), "03 00", "14"),  # an empty file is a broken one, not the end of all offers
    ]
    assert outcome.report.rows == 3
    assert imported(database_url, "skypilot", tmp_path).repeated


def test_a_file_counts_as_of_the_moment_given(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "lambda.csv").write_text(catalogue("3.00"))
    imported(database_url, "skypilot", tmp_path / "lambda.csv", at=datetime(2026, 6, 1, tzinfo=UTC))
    [(*_, start, end)] = spans(database_url)
    assert (start.day, end.day) == (1, 9)
