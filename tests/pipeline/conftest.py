"""The five providers on a local server, two ways to poll them, a client, an empty home."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import clouds
from tests.support.command import Cli
from tests.support.lab import Lab, laboratory
from tests.support.replay import ReplayServer
from tests.support.web import FakeClock, FixedJitter, MemoryCache
from tracker.http import Client, factory
from tracker.http.gate import HostGate
from tracker.settings import sources


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    """Serves the ordinary fixture of each of the five."""
    with ReplayServer() as running:
        for provider in clouds.FIVE:
            clouds.serve(running, provider)
        yield running


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: ReplayServer, database_url: str,
) -> Cli:  # fmt: skip
    """gpucost on the local server and a fresh database, without the pauses between requests."""
    monkeypatch.setattr(factory, "make_gate", lambda provider, settings: HostGate())
    command = Cli(monkeypatch, tmp_path)
    command.environment = {**clouds.environment(server), "GPUCOST_DATABASE_URL": database_url}
    return command


@pytest.fixture
def lab(database_url: str, server: ReplayServer) -> Iterator[Lab]:
    """A collector on the local server and a fresh database, at chosen moments."""
    with laboratory(database_url, server) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user's empty home and working folder, and no system-wide file."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(sources, "SYSTEM_CONFIG", tmp_path / "etc" / "gpucost.toml")
    return folder


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests that are marked with anyio."""
    return "asyncio"


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands until somebody sleeps."""
    return FakeClock()


@pytest.fixture
def cache() -> MemoryCache:
    """Answers kept for conditional requests."""
    return MemoryCache()


@pytest.fixture
async def http(clock: FakeClock, cache: MemoryCache) -> AsyncIterator[Client]:
    """A client on that clock and cache."""
    async with Client(
        clock=clock, rng=FixedJitter(), cache=cache, deadline_s=120, secrets=["configured-secret"]
    ) as client:
        yield client
