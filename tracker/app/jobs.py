"""Jobs: the built-in ones, those in files, and what is known for reading them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tracker import data
from tracker.domain.job import Job, JobError
from tracker.domain.job_text import job_from_text

if TYPE_CHECKING:
    from tracker.app.root import App
    from tracker.domain.models import Models
    from tracker.domain.runtime.estimator import Estimator

MAX_JOB_BYTES = 256 * 2**10
MAX_CONFIG_BYTES = 2 * 2**20  # a model's config.json


def job_names() -> list[str]:
    """The built-in jobs."""
    return [Path(name).stem for name in data.names("jobs", ".toml")]


def find_job(reference: str, app: App) -> Job:
    """A built-in job by name, or a TOML file by path. Raises JobError."""
    import difflib

    known = job_names()
    if reference.lower() in known:
        text = data.text(f"jobs/{reference.lower()}.toml")
        return job_from_text(text, app.catalogue, _Knowledge(app))
    path = _path(reference)
    if path.suffix == ".toml" or path.is_file():
        try:
            beside = _Knowledge(app, path.parent)
            return job_from_text(_job_text(path), app.catalogue, beside)
        except JobError as error:
            raise JobError(f"{reference}: {error}") from None
    near = difflib.get_close_matches(reference.lower(), known, n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"built in: {', '.join(known)}"
    raise JobError(f"no job is called {reference!r}; {hint}")


def mistakes_in(reference: str, app: App) -> list[str]:
    """Every mistake of a job file, a line each; the one that is told of what is no such file."""
    from tracker.domain.job_mistakes import mistakes

    try:
        find_job(reference, app)
    except JobError as error:
        path = _path(reference)
        try:
            text = _job_text(path)
        except JobError:
            return [str(error)]
        return mistakes(text, app.catalogue, _Knowledge(app, path.parent)) or [str(error)]
    return []


class _Knowledge:
    """What jobs with a workload are read and estimated with, loaded when one asks for it."""

    def __init__(self, app: App, folder: Path | None = None) -> None:
        self._app = app
        self._folder = folder

    @property
    def models(self) -> Models:
        """The models known by name."""
        return self._app.models

    @property
    def estimator(self) -> Estimator:
        """The estimator with the calibration that is shipped."""
        return self._app.estimator

    def config_text(self, path: str) -> str:
        """A config.json, looked for beside the job file. Raises JobError."""
        where = _path(path) if self._folder is None else self._folder / _path(path)
        try:
            return _job_text(where, MAX_CONFIG_BYTES, "a config.json")
        except JobError as error:
            raise JobError(f"workload.model: {path}: {error}") from None


def _path(reference: str) -> Path:
    """*reference* as a path. Raises JobError for the home of somebody who does not exist."""
    try:
        return Path(reference).expanduser()
    except RuntimeError:
        raise JobError(f"{reference}: there is no such home directory") from None


def _job_text(path: Path, limit: int = MAX_JOB_BYTES, what: str = "a job file") -> str:
    """The text of a job file. Raises JobError where it is no ordinary, small text file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait, and a device never ends
            raise JobError("is a folder" if stat.S_ISDIR(found.st_mode) else "not an ordinary file")
        with path.open("rb") as file:
            body = file.read(limit + 1)
        if len(body) > limit:
            raise JobError(f"larger than {limit >> 10} KiB: not {what}")
        return body.decode("utf-8")
    except UnicodeError:
        raise JobError("not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise JobError(getattr(error, "strerror", None) or "not the name of a file") from None
