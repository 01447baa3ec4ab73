"""``gpucost daemon`` as a process: its settings, what it logs and serves, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.daemon.fleet import install
from tests.support.providers import disabled
from tests.support.replay import ReplayServer

T = TypeVar("T")

COMMAND = Path(sys.executable).with_name("gpucost")

PATIENCE_S = 60.0  # only ever used up by a test that fails


def until(met: Callable[[], T], what: str = "", patience_s: float = PATIENCE_S) -> T:
    """Wait until *met* gives something true, and return it."""
    deadline = time.monotonic() + patience_s
    while not (found := met()):
        assert time.monotonic() < deadline, what or "it did not happen"
        time.sleep(0.02)
    return found


class Running:
    """A daemon's process. ``log`` holds its lines so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def lines(self, pattern: str) -> list[str]:
        """The lines of the log that hold *pattern*."""
        return [line for line in list(self.log) if re.search(pattern, line)]

    def says(self, pattern: str, patience_s: float = PATIENCE_S) -> str:
        """Wait for a line that holds *pattern*, and return it."""

        def met() -> list[str]:
            found = self.lines(pattern)
            ended = self.process.poll() is not None and not self._reader.is_alive()
            assert found or not ended, f"ended without {pattern!r}:\n" + "\n".join(self.log)
            return found

        try:
            return until(met, patience_s=patience_s)[0]
        except AssertionError as error:
            raise AssertionError(f"no {pattern!r} in:\n" + "\n".join(self.log)) from error

    @property
    def port(self) -> int:
        """Where it serves."""
        match = re.search(r"port (\d+)", self.says("serving /livez"))
        assert match
        return int(match[1])

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """What it answers on *path*."""
        url = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - made above
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self) -> Any:
        """/status."""
        return json.loads(self.get("/status")[1])

    def provider(self, name: str) -> Any:
        """A provider's row of /status."""
        return next(row for row in self.status()["providers"] if row["provider"] == name)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ends(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(timeout=patience_s)
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code

    def stop(self) -> int:
        """End it in order."""
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
        return self.ends()

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self.process.kill()
        self.ends()


class World:
    """A server that answers for every provider, a configuration file, and daemons.

    ``command`` starts gpucost.
    """

    command: Sequence[str] = (str(COMMAND),)

    def __init__(
        self, folder: Path, server: ReplayServer, names: Iterable[str],
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.folder, self.server, self.names = folder, server, tuple(names)
        self.config = folder / "gpucost.toml"
        self.packages = install(folder / "packages", self.names)
        self.environment = dict(environment)
        self.configure()

    def configure(self, more: str = "", **tables: str) -> None:
        """Write the configuration: *more* at its top, *tables* into those of providers."""
        lines = [more, "[daemon]\nport = 0\n", "[http]\nattempts = 1\n"]
        lines.append(disabled())
        for name in self.names:
            own = tables.get(name, "")
            lines.append(f'[providers.{name}]\nbase_url = "{self.server.url}"\n{own}\n')
        self.config.write_text("\n".join(lines))

    def popen(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a gpucost command."""
        env = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(self.packages),
            "GPUCOST_CONFIG": str(self.config), **self.environment, **environment,
        }  # fmt: skip
        return subprocess.Popen(
            [*self.command, *arguments], cwd=self.folder, env=env,
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    @contextmanager
    def daemon(self, *arguments: str, **environment: str) -> Iterator[Running]:
        """A daemon, killed at the end if the test has not ended it."""
        running = Running(self.popen("daemon", *arguments, **environment))
        try:
            yield running
        finally:
            running.kill()

    def asked(self, name: str) -> list[float]:
        """When (monotonic) the provider was asked."""
        return [r.at for r in list(self.server.requests) if r.path == f"/{name}"]


def polls(url: str, name: str, status: str | None = None) -> int:
    """How many polls of the provider are recorded."""
    with psycopg.connect(url) as connection:
        [(count,)] = connection.execute(
            "SELECT count(*) FROM poll JOIN provider p ON p.id = provider_id WHERE p.slug = %s"
            " AND coalesce(status = %s, true)",
            (name, status),
        ).fetchall()
        return int(count)
