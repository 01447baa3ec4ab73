"""The systemd unit: valid, as closed as it can be, and in agreement with the daemon."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.support.tools import tool
from tracker.cli.daemon import END_S
from tracker.cli.exits import EXIT_USAGE
from tracker.daemon import service
from tracker.settings.service import DaemonSettings

UNIT = ROOT / "deploy" / "gpucost.service"
ACCOUNT = ROOT / "deploy" / "gpucost.sysusers.conf"

# systemd's own measure, 0 to 10. What is left is the network, which polling needs.
MOST_EXPOSED = 1.5


def settings() -> dict[str, list[str]]:
    """The unit's settings, those given several times with all their values."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def _analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("systemd-analyze"), *arguments], cwd=folder, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip


def _installed(folder: Path) -> Path:
    """The unit as it would be with its program in place."""
    program = folder / "gpucost"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = folder / "gpucost.service"
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/gpucost/bin/gpucost", str(program)))
    return unit


def test_systemd_has_nothing_to_say_about_it(tmp_path: Path) -> None:
    done = _analyze(tmp_path, "verify", str(_installed(tmp_path)))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_a_mistake(tmp_path: Path) -> None:
    unit = _installed(tmp_path)
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystm=strict"))
    assert "ProtectSystm" in _analyze(tmp_path, "verify", str(unit)).stderr


def test_it_is_hardly_exposed(tmp_path: Path) -> None:
    unit = _installed(tmp_path)
    done = _analyze(tmp_path, "security", "--offline=true", "--no-pager", str(unit))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a file")
    found = re.search(r"exposure level for gpucost\.service: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSED


def test_it_agrees_with_the_daemon() -> None:
    unit = settings()
    assert unit["Type"] == ["notify"]
    assert unit["ExecStart"] == ["/opt/gpucost/bin/gpucost daemon"]
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert unit["KillMode"] == ["mixed"]  # the embedded PostgreSQL is the daemon's to stop
    assert unit["RestartPreventExitStatus"] == [str(EXIT_USAGE)]
    # What is under way, a database that hangs, tasks and threads that do not notice: one after
    # another.
    longest = DaemonSettings().drain_seconds + service.GIVE_BACK_S + 4 * service.AT_ONCE_S + END_S
    assert float(unit["TimeoutStopSec"][0]) > longest
    assert 30 <= int(unit["WatchdogSec"][0]) <= 300


def test_what_gpucost_toml_says_counts() -> None:
    """A variable would beat the file without a word; where the data are is the unit's to say."""
    variables = " ".join(settings()["Environment"]).split()
    assert [v for v in variables if v.startswith("GPUCOST_")] == [
        "GPUCOST_DATA_DIR=/var/lib/gpucost"
    ]
    assert "GPUCOST_LOG_LEVEL" not in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def test_the_data_folder_is_the_only_one_that_it_may_write_to() -> None:
    unit = settings()
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["StateDirectory"] == ["gpucost"]
    assert unit["WorkingDirectory"] == ["/var/lib/gpucost"]
    assert "GPUCOST_DATA_DIR=/var/lib/gpucost" in unit["Environment"][0]
    assert "ReadWritePaths" not in unit
    assert "RemoveIPC" not in unit  # it would take PostgreSQL's memory away


def test_the_account_s_file_is_installed_where_its_folder_is_missing(tmp_path: Path) -> None:
    page = "\n".join(b.text for b in blocks(ROOT / "deploy" / "README.md"))
    [line] = [line for line in page.splitlines() if f"deploy/{ACCOUNT.name}" in line]
    command = line.replace("/etc/", f"{tmp_path}/etc/").split()
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    installed = tmp_path / "etc" / "sysusers.d" / "gpucost.conf"
    assert installed.read_bytes() == ACCOUNT.read_bytes()


def test_its_account_exists_where_the_page_was_followed() -> None:
    unit = settings()
    kind, name, *_ = ACCOUNT.read_text(encoding="utf-8").splitlines()[-1].split()
    assert (kind, [name], [name]) == ("u", unit["User"], unit["Group"])
    page = "\n".join(b.text for b in blocks(ROOT / "deploy" / "README.md"))
    for file in (UNIT, ACCOUNT):
        assert f"deploy/{file.name}" in page
