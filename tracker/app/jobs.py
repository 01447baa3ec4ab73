"""Jobs: the built-in ones, those that one keeps, those in files, and how they are read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracker import data
from tracker.app import kept
from tracker.app.kept import MAX_JOB_BYTES
from tracker.domain.job import Job, JobError
from tracker.domain.job_text import job_from_text

if TYPE_CHECKING:
    from tracker.app.root import App
    from tracker.domain.models import Models
    from tracker.domain.runtime.estimator import Estimator

MAX_CONFIG_BYTES = 2 * 2**20  # a model's config.json


@cache
def _shipped() -> tuple[str, ...]:
    return tuple(Path(name).stem for name in data.names("jobs", ".toml"))


def job_names() -> list[str]:
    """The built-in jobs."""
    return list(_shipped())


class ListedJob(NamedTuple):
    """A job known by name; ``job`` is None and ``problem`` says why for one that cannot be used."""

    name: str
    origin: str  # "built in" or "kept"
    job: Job | None
    problem: str | None


def listed_jobs(app: App) -> Iterator[ListedJob]:
    """Every job that is known by name: where it comes from, and why one cannot be used."""
    for name in job_names():
        yield ListedJob(name, "built in", app.job(name), None)
    for name in kept.names(app):
        try:
            yield ListedJob(name, "kept", app.job(name), None)
        except JobError as error:
            yield ListedJob(name, "kept", None, str(error))


def described_job(text: str, app: App) -> Job:
    """The job of a job file's *text* that lies nowhere. Raises JobError."""
    return job_from_text(text, app.catalogue, _Knowledge(app))


def find_job(reference: str, app: App) -> Job:
    """A job by the name of a built-in or a kept one, or a TOML file by path. Raises JobError."""
    text, folder = _source(reference, app)
    if folder is None:  # shipped, and known to be right
        return job_from_text(text, app.catalogue, _Knowledge(app))
    try:
        return job_from_text(text, app.catalogue, _Knowledge(app, folder))
    except JobError as error:
        raise JobError(f"{reference}: {error}") from None


def _source(reference: str, app: App) -> tuple[str, Path | None]:
    """The text of a job, and the folder that paths in it start from (None: of a built-in one)."""
    import difflib

    known, name = job_names(), reference.lower()
    if name in known:
        return data.text(f"jobs/{name}.toml"), None
    path = kept.path_of(name, app) or _path(reference)
    if path.suffix == ".toml" or path.is_file():
        try:
            return _job_text(path), path.parent
        except JobError as error:
            raise JobError(f"{reference}: {error}") from None
    near = difflib.get_close_matches(name, [*known, *kept.names(app)], n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"built in: {', '.join(known)}"
    raise JobError(f"no job is called {reference!r}; {hint}")


class Kept(NamedTuple):
    """A job that can be kept: its text, and where."""

    job: Job
    text: str
    path: Path


def to_keep(reference: str, app: App, name: str | None = None) -> Kept:
    """The job at *reference* (a file, or a job's name) as it is kept, under its own *name* or
    another. Raises JobError where it cannot be used."""
    import tomllib

    text, folder = _source(reference, app)
    if name is not None:
        text = kept.renamed(text, name)
    try:
        if folder is not None:
            text = kept.with_config(text, tomllib.loads(text), folder)
        job = job_from_text(text, app.catalogue, _Knowledge(app, folder))
        return Kept(job, text, kept.place_for(job.name, app, job_names()))
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{reference}: not TOML: {error}") from None
    except JobError as error:
        raise JobError(f"{reference}: {error}") from None


def mistakes_in(reference: str, app: App) -> list[str]:
    """Every mistake of a job file, a line each; the one that is told of what is no such file."""
    from tracker.domain.job_mistakes import mistakes

    try:
        find_job(reference, app)
    except JobError as error:
        path = kept.path_of(reference.lower(), app) or _path(reference)
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
