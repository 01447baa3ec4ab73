"""A market of one's own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alert.world import World, open_world


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """An empty world in a fresh database."""
    with open_world(database_url) as made:
        yield made
