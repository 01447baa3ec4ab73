"""The pages are served once for all who look at them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pg import TestServer
from tests.web.pages.world import Pages, pages


@pytest.fixture(scope="session")
def site(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:  # fmt: skip
    """The pages over a database with a past."""
    with pages(database_server, tmp_path_factory.mktemp("site")) as served:
        yield served
