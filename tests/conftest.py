"""Fixtures for every part: a real PostgreSQL, and nothing of the caller's environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.pg import TestServer, running_server

# boto3 would find whatever the caller has, and tests would ask AWS with it.
for _name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[_name]
os.environ |= {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}

# How long an example takes says more of the machine than of the code. The examples are the same
# each time, so that the same code passes or fails; whoever changes what a property is about looks
# closer, at others each time: GPUCOST_TEST_EXAMPLES=1000 make pytest
_WANTED = os.environ.get("GPUCOST_TEST_EXAMPLES")
EXAMPLES = int(_WANTED or 40)
settings.register_profile(
    "gpucost", deadline=None, max_examples=EXAMPLES, derandomize=_WANTED is None
)
settings.load_profile("gpucost")


@pytest.fixture(scope="session")
def database_server() -> Iterator[TestServer]:
    """One server for the session (for each worker, with xdist), started on first use."""
    with running_server() as server:
        yield server


@pytest.fixture
def database_url(database_server: TestServer) -> Iterator[str]:
    """URL of a fresh database that has gpucost's tables."""
    with database_server.database(migrated=True) as url:
        yield url


@pytest.fixture
def empty_database_url(database_server: TestServer) -> Iterator[str]:
    """URL of a fresh database without any table."""
    with database_server.database(migrated=False) as url:
        yield url
