"""A world with three providers and a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.fleet import sell
from tests.daemon.world import World
from tests.support.replay import ReplayServer

NAMES = ("alpha", "beta", "gamma")


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    """Answers for all providers."""
    with ReplayServer() as running:
        for name in NAMES:
            sell(running, name)
        yield running


@pytest.fixture
def world(tmp_path: Path, server: ReplayServer, database_url: str) -> World:
    """Daemons of it share the test's database."""
    return World(tmp_path, server, NAMES, {"GPUCOST_DATABASE_URL": database_url})
