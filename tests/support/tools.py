"""Programs that some tests need and that are no dependency: found, fetched, or the test skipped.

On Debian and its like a package is downloaded and unpacked into a cache folder; nothing is
installed. ``GPUCOST_TEST_TOOLS`` names another folder for that.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

_TIMEOUT_S = 120


def tool(name: str, *, package: str | None = None) -> Path:
    """The program *name*, of the Debian *package* if it is not installed; else skip the test."""
    found = shutil.which(name)
    if found:
        return Path(found)
    if package is None:
        pytest.skip(f"{name} is not installed")
    program = unpacked(package) / "usr" / "bin" / name
    if not os.access(program, os.X_OK):
        pytest.skip(f"{name} is not in the Debian package {package}")
    return program


def unpacked(package: str) -> Path:
    """The files of a Debian *package* under a folder; else skip the test."""
    folder, problem = _unpacked(package)
    if folder is None:
        pytest.skip(f"the Debian package {package} cannot be had: {problem}")
    return folder


@cache
def _unpacked(package: str) -> tuple[Path | None, str]:
    """The folder, or why there is none: tried once by each process."""
    missing = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    if missing:
        return None, f"{missing[0]} is not installed"
    target = _cache() / package
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{package}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of this run wait, and find it
            if not target.is_dir():
                _fetch(package, target)
    except subprocess.CalledProcessError as error:
        return None, (error.stderr or str(error)).strip()[-200:]
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return target, ""


def _cache() -> Path:
    named = os.environ.get("GPUCOST_TEST_TOOLS")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpucost-test-tools"


def _fetch(package: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{package}-") as folder:
        got, files = Path(folder), Path(folder, "files")
        # Root's apt warns when the account it fetches as cannot write here; it fetches anyway.
        _run(["apt-get", "download", "--quiet", package], got)
        [archive] = got.glob("*.deb")
        _run(["dpkg", "-x", str(archive), str(files)], got)
        files.rename(target)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
