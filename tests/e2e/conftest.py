"""A folder that the embedded server's account can enter, and the stage in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, staged
from tests.support.pg import reachable_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, fresh, removed in the end."""
    with reachable_folder() as made:
        yield made


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    """Two providers, one webhook, one mailbox."""
    with staged(folder, make=Stage) as made:
        yield made
