"""SkyPilot's catalogues from a file, a folder, or the history of a git repository."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tracker.collect.importing import skypilot
from tracker.collect.importing.source import BadSource, ImportFailed, Plan, Unit

_GIT_TIMEOUT_S = 600
_MAX_FILE_BYTES = 256 * 2**20


class CatalogueFiles:
    """One file, or all of a folder, as of one moment: a catalogue does not say its date."""

    def __init__(self, plan: Plan, root: Path, at: datetime | None) -> None:
        if at is None:
            raise BadSource(f"{root}: a SkyPilot catalogue has no date in it; say --at TIME")
        paths = [root] if root.is_file() else sorted(root.rglob("*.csv"))
        newest: dict[str, tuple[int, Path]] = {}
        for path in paths:
            found = skypilot.whose(path.as_posix())
            if found and found[1] >= newest.get(found[0], (-1, path))[0]:
                newest[found[0]] = (found[1], path)
        if not newest:
            raise BadSource(f"{root}: no catalogue in it (catalogs/v8/aws/vms.csv, aws.csv)")
        self._files = [(cloud, path) for cloud, (_, path) in sorted(newest.items())]
        self._at = at
        self.plan = replace(plan, total=len(self._files))

    def units(self, after: str | None) -> Iterator[Unit]:
        """One unit a cloud. Raises ImportFailed."""
        for cloud, path in self._files:
            if after is None or cloud > after:
                try:
                    body = path.read_bytes()
                except OSError as error:
                    raise ImportFailed(f"{path}: {error.strerror}") from None
                snapshot = skypilot.parse(body, cloud, self._at, self.plan.hold, path.name)
                yield Unit(cloud, path.name, snapshot)


class _Version(NamedTuple):
    """A file as one commit left it."""

    commit: str
    at: datetime
    path: str
    cloud: str


class GitHistory:
    """Every version of every catalogue in a repository, each as of its commit."""

    def __init__(self, plan: Plan, root: Path, since: datetime | None, until: datetime | None):
        self._root = root
        self._versions = list(_newest_layout(_log(root)))
        self._versions = [
            v for v in self._versions
            if (since is None or v.at >= since) and (until is None or v.at < until)
        ]  # fmt: skip
        if not self._versions:
            raise BadSource(f"{root}: no commit of a catalogue in these days")
        self.plan = replace(plan, total=len(self._versions))

    def units(self, after: str | None) -> Iterator[Unit]:
        """One unit a version of a file, oldest first. Raises ImportFailed."""
        for number, v in enumerate(self._versions):
            key = f"{number:08d}"
            if after is None or key > after:
                label = f"{v.path}@{v.commit[:10]}"
                body = _git(self._root, "show", f"{v.commit}:{v.path}")
                yield Unit(key, label, skypilot.parse(body, v.cloud, v.at, self.plan.hold, label))


def head(root: Path) -> str:
    """The commit that is checked out. Raises ImportFailed."""
    return _git(root, "rev-parse", "HEAD").decode().strip()


def is_repository(root: Path) -> bool:
    """Whether *root* is the top of a git checkout."""
    return (root / ".git").exists()


def _log(root: Path) -> Iterator[_Version]:
    """All changes of catalogues, oldest first; the files that a commit removed left out."""
    listing = _git(
        root, "-c", "core.quotepath=off", "log", "--reverse", "--first-parent", "--diff-filter=d",
        "--format=%x00%H %ct", "--name-only", "--no-renames", "-m",
    ).decode("utf-8", errors="replace")  # fmt: skip
    for entry in listing.split("\0")[1:]:
        first, *paths = entry.splitlines()
        commit, _, seconds = first.partition(" ")
        at = datetime.fromtimestamp(int(seconds), UTC)
        for path in sorted(filter(None, paths)):
            found = skypilot.whose(path)
            if found and path.endswith("vms.csv"):
                yield _Version(commit, at, path, found[0])


def _newest_layout(versions: Iterator[_Version]) -> Iterator[_Version]:
    """One version of a cloud a commit: of the newest layout that the repository had by then."""
    newest: dict[str, int] = {}
    last: dict[tuple[str, str], _Version] = {}
    for v in versions:
        layout = (skypilot.whose(v.path) or ("", 0))[1]
        if layout >= newest.get(v.cloud, 0):
            newest[v.cloud] = layout
            last[(v.commit, v.cloud)] = v
    # Commits may share a second, and their clocks may go back: the later commit counts.
    yield from sorted(last.values(), key=lambda v: v.at)


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True, timeout=_GIT_TIMEOUT_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise ImportFailed("reading a git history needs git; install it") from None
    except subprocess.TimeoutExpired:
        raise ImportFailed(f"{root}: git did not answer within {_GIT_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = re.sub(r"\s+", " ", done.stderr.decode("utf-8", errors="replace")).strip()
        raise ImportFailed(f"{root}: git: {said[:200]}")
    if len(done.stdout) > _MAX_FILE_BYTES:
        raise ImportFailed(f"{root}: an answer of git larger than any catalogue")
    return done.stdout
