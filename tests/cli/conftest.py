"""An environment in which only what a test sets is set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled
from tests.support.pg import TestServer
from tracker.domain.gpu import Catalogue

_CATALOGUES: dict[tuple[object, ...], Catalogue] = {}
NONE: Mapping[str, str] = {}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("GPUCOST_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _catalogue_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the catalogue is pure, and most of the time that a question takes."""
    read: Callable[..., Catalogue] = Catalogue.from_toml

    def from_toml(gpus: str, aliases: str, extra: Mapping[str, str] = NONE) -> Catalogue:
        key = (gpus, aliases, tuple(extra.items()))
        if key not in _CATALOGUES:
            _CATALOGUES[key] = read(gpus, aliases, extra)
        return _CATALOGUES[key]

    monkeypatch.setattr(Catalogue, "from_toml", from_toml)


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    """The market of ``cheapest_market.py``, unless a module has one of its own."""
    with filled(database_server, *polls()) as url:
        yield url


@pytest.fixture
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
