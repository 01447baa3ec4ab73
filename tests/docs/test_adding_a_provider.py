"""docs/adding-a-provider.md, followed to the letter: a package of one's own is polled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.replayed import environment, shell
from tests.support.replay import ReplayServer, json_answer
from tracker import registry

PAGE = ROOT / "docs" / "adding-a-provider.md"

MACHINES = {
    "machines": [
        {"id": "h1", "gpu": "H100 SXM", "gpus": 8, "vram_gb": 80, "usd_per_hour": 20.4,
         "region": "north-1"},
        {"id": "a1", "gpu": "A100 PCIe", "gpus": 1, "vram_gb": 40, "usd_per_hour": 1.05},
        {"id": "free", "gpu": "A100 PCIe", "gpus": 1, "vram_gb": 40, "usd_per_hour": 0},
        {"id": "odd", "gpu": "H100 SXM"},
    ]
}  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the page's files were installed into as a package."""
    source, target = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("installed")
    for block in blocks(PAGE):
        if block.file:
            (source / block.file).write_text(block.text)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--no-index", "--disable-pip-version-check", "--target", target, "."],
        cwd=source, check=True, timeout=300,
    )  # fmt: skip
    return target


def test_a_package_with_its_own_entry_point_is_polled(
    package: Path, tmp_path: Path, database_url: str
) -> None:
    outputs = []
    with ReplayServer() as acme:
        acme.handle("GET", "/v1/machines", lambda _: json_answer(MACHINES))
        variables = {
            "GPUCOST_DATABASE_URL": database_url,
            "GPUCOST_PROVIDERS__ACME__BASE_URL": acme.url,
            "PYTHONPATH": str(package),
        }
        commands = "".join(block.text for block in blocks(PAGE) if block.run)
        for command in commands.splitlines():
            done = shell(command, tmp_path, variables)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            outputs.append(done.stdout)
        listed = shell("gpucost offers --provider acme -o json", tmp_path, variables)
        told = shell("gpucost cheapest --hours H100=4 --provider acme", tmp_path, variables)
    assert len(outputs) == 5
    recording = json.loads((tmp_path / "acme.json").read_text())
    assert (recording["provider"], len(recording["payloads"])) == ("acme", 1)
    parsed = json.loads(outputs[2])
    assert {item["reason"]: item["count"] for item in parsed["rejected"]} == {"malformed row": 2}
    rows = json.loads(listed.stdout)["rows"]
    assert {(r["gpu"], r["gpus"], r["price_usd_per_machine_hour"], r["region"]) for r in rows} == {
        ("H100-SXM-80GB", 8, "20.4", "north-1"),
        ("A100-PCIE-40GB", 1, "1.05", None),
    }
    assert "acme" in told.stdout
    # 8 GPUs at 20.40 an hour: the whole machine is billed for the 4 hours.
    assert "$81.60" in told.stdout


def test_the_example_passes_the_checks_of_this_project(package: Path, tmp_path: Path) -> None:
    module = str(package / "acme_gpucost.py")
    folder = environment(tmp_path, {"MYPYPATH": str(ROOT)})
    for command in (
        [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), module],
        [sys.executable, "-m", "ruff", "format", "--check", "--line-length", "100", module],
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, module],
    ):
        done = subprocess.run(command, cwd=tmp_path, env=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_was_not_known_before() -> None:
    assert "acme" not in registry.names()
