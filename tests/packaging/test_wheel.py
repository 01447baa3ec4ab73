"""The built package: what is in it, and that it works away from the checkout."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path

import psycopg
import pytest

from tracker import __version__
from tracker.cli.main import COMMANDS
from tracker.store import migrate

ROOT = Path(__file__).resolve().parents[2]
INFO = f"gpucost-{__version__}.dist-info"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(
        *PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "--wheel-dir", str(folder), str(ROOT),
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    _run(*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(wheel))
    return folder


def _run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _files(folder: str) -> set[str]:
    """What git would list of *folder*, but without asking git: an archive has none."""
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_everything_of_the_program_is_in_the_wheel(names: set[str]) -> None:
    wanted = _files("tracker") | _files("providers") | _files("gpucost")
    wanted |= {f"tracker/_{name}" for name in _files("migrations")}
    assert {name for name in names if not name.startswith(INFO)} == wanted
    assert {
        "tracker/py.typed", "providers/py.typed", "gpucost/py.typed", "tracker/_migrations/env.py",
        "tracker/data/gpus.toml", "tracker/data/jobs/bert-large.toml",
    } <= names  # fmt: skip
    assert any(name.startswith("tracker/_migrations/versions/0001") for name in names)
    assert any(name.startswith("tracker/data/pricebook/") for name in names)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())
        licence = archive.read(f"{INFO}/licenses/LICENSE").decode()
        entry_points = configparser.ConfigParser()
        entry_points.read_string(archive.read(f"{INFO}/entry_points.txt").decode())
    assert (metadata["Name"], metadata["Version"]) == ("gpucost", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "# gpucost" in metadata.get_payload()
    assert licence == (ROOT / "LICENSE").read_text()
    assert dict(entry_points["console_scripts"]) == {"gpucost": "tracker.cli.main:main"}
    modules = {path.stem for path in (ROOT / "providers").glob("[!_]*") if path.name != "py.typed"}
    # By module: `lambda` is a word of Python, so its module has another name.
    named = dict(entry_points["gpucost.providers"])
    assert sorted(named.values()) == sorted(f"providers.{module}:provider" for module in modules)


def test_a_wheel_from_the_source_archive_is_the_same(names: set[str], tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"
    archive = _run(sys.executable, "-c", build, str(tmp_path), cwd=ROOT).split()[-1]
    with tarfile.open(tmp_path / archive) as tar:
        # Python before 3.11.4 knows no filters; later ones want one named.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tmp_path)  # noqa: S202 - our own archive
    (source,) = tmp_path.glob("gpucost-*/")
    assert (source / "tests" / "conftest.py").is_file()
    build = build.replace("build_sdist", "build_wheel")
    built = _run(sys.executable, "-c", build, str(tmp_path), cwd=source).split()[-1]
    with zipfile.ZipFile(tmp_path / built) as again:
        assert set(again.namelist()) == names


def test_the_installed_wheel_makes_a_database(
    installed: Path, tmp_path: Path, empty_database_url: str
) -> None:
    # -S: no .pth file is read, so the checkout that this environment points to is not on the path.
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(installed), *sorted(libraries)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GPUCOST_DATABASE_URL": empty_database_url,
    }

    def gpucost(*arguments: str) -> str:
        program = str(installed / "bin" / "gpucost")
        return _run(sys.executable, "-S", program, *arguments, cwd=tmp_path, env=env)

    where = "import sys, tracker, providers; print(tracker.__file__, providers.__file__, *sys.path)"
    found = _run(sys.executable, "-S", "-c", where, cwd=tmp_path, env=env).split()
    assert all(path.startswith(str(installed)) for path in found[:2])
    assert str(ROOT) not in found

    assert all(name in gpucost("--help") for name in COMMANDS)
    assert "gpucost db upgrade" in gpucost("doctor")
    assert f"schema {migrate.head()}" in gpucost("db", "upgrade")
    with psycopg.connect(empty_database_url) as connection:
        tables = {name for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )}  # fmt: skip
        revisions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert {"provider", "poll", "offer", "offer_now", "price_span"} <= tables
    assert revisions == [(migrate.head(),)]
    polled = gpucost("poll", "--provider", "pricebook", "-o", "json")
    assert '"complete"' in polled
