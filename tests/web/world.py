"""What the tests of the web share: a daemon's status by hand, a served application, a shop."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from starlette.routing import BaseRoute

from tracker.web.app import make_web
from tracker.web.metrics import Metrics
from tracker.web.server import serve


@dataclass
class Status:
    """A StatusSource that says what a test sets."""

    living: bool = True
    missing: list[str] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def alive(self) -> bool:
        return self.living

    def ready(self) -> tuple[bool, list[str]]:
        return not self.missing, self.missing

    def status(self) -> dict[str, Any]:
        return self.told


@dataclass(frozen=True)
class Got:
    """An answer. Header names do not mind their case."""

    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


async def ask(
    url: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> Got:  # fmt: skip
    """One request, answered or refused."""
    return await asyncio.to_thread(_ask, url, method, headers or {})


def _ask(url: str, method: str, headers: dict[str, str]) -> Got:
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return Got(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as answer:
        with answer:
            return Got(answer.code, answer.headers, answer.read())


@asynccontextmanager
async def serving(
    status: Status | None = None,
    metrics: Metrics | None = None,
    hosts: tuple[str, ...] = (),
    beside: Sequence[BaseRoute] = (),
) -> AsyncIterator[str]:
    """Serve for the length of the block, on a free port of the loopback interface; the URL."""
    stop = asyncio.Event()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    app = make_web(status or Status(), metrics or Metrics(), beside, hosts)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, stop, port.set_result))
    try:
        yield f"http://127.0.0.1:{await asyncio.wait_for(port, 10)}"
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


def samples(text: str) -> dict[str, float]:
    """The samples of Prometheus' text format: name and labels as written -> value."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found
