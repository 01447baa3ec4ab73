"""A market, an outbox and a receiver of one's own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from tests.alert.outbox_world import Events, engine_of
from tests.alert.world import World, open_world
from tests.support.hook import Hook
from tracker.store.outbox import Outbox


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """An empty world in a fresh database."""
    with open_world(database_url) as made:
        yield made


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on a fresh database."""
    with engine_of(database_url) as made:
        yield made


@pytest.fixture
def events(engine: Engine) -> Events:
    """Writes events and their rows in the outbox of ``engine``."""
    return Events(engine)


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A receiver of webhooks."""
    with Hook() as running:
        yield running


@pytest.fixture
def outbox(engine: Engine) -> Outbox:
    """The outbox of ``engine``, as who delivers sees it."""
    return Outbox(engine)
