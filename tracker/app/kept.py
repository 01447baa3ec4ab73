"""Jobs that a user keeps: files in the ``jobs`` folder of the data directory, known by name.

A file is written beside its place and then moved there, so that nobody reads half of one.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.domain.job import JobError

if TYPE_CHECKING:
    from tracker.app.root import App

MAX_JOB_BYTES = 256 * 2**10
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NAME_LINE = re.compile(r"""^([ \t]*name[ \t]*=[ \t]*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*')""", re.M)
_MODEL_LINE = re.compile(r"""(\bmodel[ \t]*=[ \t]*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*')""")


def folder(app: App) -> Path:
    """Where they are; it need not exist."""
    return app.boot.data_dir.expanduser() / "jobs"


def names(app: App) -> list[str]:
    """Their names, sorted. A folder that cannot be read has none."""
    try:
        found = [path.stem for path in folder(app).iterdir() if path.suffix == ".toml"]
    except OSError:
        return []
    return sorted(name for name in found if _NAME.fullmatch(name))


Stamp = tuple[str, int, int, int]  # of a file: its path, when it was written, size, and number


def stamps(
    app: App, known: Mapping[Stamp, Path | None]
) -> tuple[tuple[Stamp, ...], Mapping[Stamp, Path | None]]:
    """What is there of the kept jobs and of the ``config.json`` that they name: equal while none of
    them has changed. The second is what files name, *known* to the next call."""
    found: list[Stamp] = []
    named: dict[Stamp, Path | None] = {}
    for name in names(app):
        job = _stamp(folder(app) / f"{name}.toml")
        if job is None:
            continue
        config = named[job] = known[job] if job in known else _config_of(job)
        of_config = None if config is None else _stamp(config)
        found += [one for one in (job, of_config) if one is not None]
    return tuple(found), named


def _stamp(path: Path) -> Stamp | None:
    """None for what is not there, or no ordinary file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _config_of(job: Stamp) -> Path | None:
    """The ``config.json`` that a job file names; None for one that names none or is none."""
    import tomllib

    path = Path(job[0])
    try:
        if job[2] > MAX_JOB_BYTES:
            return None
        with path.open("rb") as file:
            workload = tomllib.load(file).get("workload")
        model = workload.get("model") if isinstance(workload, dict) else None
        if not isinstance(model, str) or not model.strip().endswith(".json"):
            return None
        return path.parent / Path(model.strip()).expanduser()
    except (OSError, ValueError, RuntimeError):
        return None


def path_of(name: str, app: App) -> Path | None:
    """The file of the job that is kept under *name*; None: there is none."""
    if not _NAME.fullmatch(name) or name.endswith(".toml"):
        return None
    path = folder(app) / f"{name}.toml"
    return path if path.is_file() else None


def place_for(name: str, app: App, built_in: list[str]) -> Path:
    """Where a job of this name is kept. Raises JobError for a name that cannot be."""
    if name in built_in:
        raise JobError(f"{name} is a built-in job; keep yours under another name with --name")
    if name.endswith(".toml"):
        raise JobError(f"name: {name!r} would be taken for a file; leave out .toml")
    return folder(app) / f"{name}.toml"


def renamed(text: str, name: str) -> str:
    """The text of a job file with another name. Raises JobError for one that cannot be."""
    if not _NAME.fullmatch(name):
        raise JobError(f"--name: {name!r} must be lower-case letters, digits, '-', '_' or '.'")
    found, changes = _NAME_LINE.subn(lambda m: f"{m[1]}{json.dumps(name)}", text, count=1)
    if not changes:
        raise JobError("name: is not written in a way that can be changed; change it in the file")
    return found


def with_config(text: str, data: dict[str, Any], beside: Path) -> str:
    """*text* with the ``config.json`` that it names beside itself as an absolute path."""
    workload = data.get("workload")
    model = workload.get("model") if isinstance(workload, dict) else None
    if not isinstance(model, str) or not model.strip().endswith(".json"):
        return text
    path = Path(model.strip()).expanduser()
    absolute = str((path if path.is_absolute() else beside / path).absolute())
    return _MODEL_LINE.sub(lambda m: f"{m[1]}{json.dumps(absolute)}", text, count=1)


def already(name: str) -> str:
    """That a job of this name is kept, and what to do."""
    return f"{name} is kept already; --replace puts this one in its place"


def write(text: str, path: Path, *, replace: bool) -> None:
    """Keep *text* at *path*, with *replace* in the place of what is there. Raises JobError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".", suffix=".new", delete=False
        ) as file:
            file.write(text)
        try:
            os.chmod(file.name, 0o644)
            if replace:
                os.replace(file.name, path)
            else:
                os.link(file.name, path)  # refuses a name that is taken, whoever was quicker
        finally:
            Path(file.name).unlink(missing_ok=True)
    except FileExistsError:
        raise JobError(already(path.stem)) from None
    except OSError as error:
        raise JobError(f"{path}: cannot be written: {error.strerror or error}") from None


def remove(name: str, app: App) -> Path:
    """Forget the job kept under *name*, and say where it was. Raises JobError."""
    path = path_of(name, app)
    if path is None:
        raise JobError(f"no job is kept under the name {name!r}")
    try:
        path.unlink()
    except OSError as error:
        raise JobError(f"{path}: cannot be removed: {error.strerror or error}") from None
    return path
