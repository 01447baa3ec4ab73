"""The programming interface without a socket: one client, one event loop, one database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tracker.app import App
from tracker.web.alone import Alone
from tracker.web.api.guard import Access, Limits
from tracker.web.server import serve

TOKEN = "a-token-of-sixteen-letters"
MANY = Limits(per_second=1e6, burst=10**6)


class Client:
    """Asks an ASGI application as somebody on *address* would."""

    def __init__(self, web: Any, runner: asyncio.Runner, address: str = "127.0.0.1") -> None:
        self._runner = runner
        transport = httpx.ASGITransport(web, raise_app_exceptions=False, client=(address, 1))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9754")

    def ask(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        """One request."""
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of an answer that must be one."""
        got = self.ask(path, **options)
        assert got.status_code == 200, got.text
        return got.json()

    def at_once(self, paths: list[str]) -> list[httpx.Response]:
        """Several requests side by side."""

        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self._client.get(path) for path in paths))

        return self._runner.run(all_of_them())


@contextmanager
def client(
    url: str, folder: Path, access: Access | None = None, limits: Limits = MANY,
    address: str = "127.0.0.1",
) -> Iterator[Client]:  # fmt: skip
    """A client of the database at *url*."""
    env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(folder)}
    web = Alone(url, App(env=env), env=env).web(access or Access(), limits)
    with asyncio.Runner() as runner:
        yield Client(web, runner, address)


@contextmanager
def server(web: Any) -> Iterator[str]:
    """Serve *web* on a free port of the loopback interface, in a thread of its own; the URL."""
    port, loops = threading.Event(), []
    found: list[int] = []

    def on_port(number: int) -> None:
        found.append(number)
        port.set()

    async def main() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        await serve(web, "127.0.0.1", 0, stop, on_port)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert port.wait(20)
        yield f"http://127.0.0.1:{found[0]}"
    finally:
        [(loop, stop)] = loops
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
