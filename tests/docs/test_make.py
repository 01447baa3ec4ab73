"""What `make run` prints, with providers that answer and with none that does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.replayed import environment, replaying, unreachable
from tests.support.pg import bindir_of_tests, reachable_folder
from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.store.embedded import Embedded

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

FAMILIES = {"A100", "H100", "RTX4090"}
LIVE = ("aws", "azure", "databasemart", "runpod", "vastai")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder without a database, as on a fresh machine; nothing may run in it afterwards."""
    with reachable_folder() as folder:
        yield folder
        embedded = Embedded(folder, bindir=bindir_of_tests())
        running = embedded.status().running
        embedded.stop(force=True)
        assert not running, "a server was left behind"


def _make_run(home: Path, data_dir: Path, providers: dict[str, str]) -> tuple[int, str, str]:
    variables = {**providers, "GPUCOST_DATA_DIR": str(data_dir)}
    if bindir_of_tests():
        variables["GPUCOST_POSTGRES_BINDIR"] = str(bindir_of_tests())
    # The environment is this one: nothing is installed (-o), only the recipe is run.
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["make", "--no-print-directory", "-o", ".venv/.run", "run", f"BIN={programs}"],
        cwd=ROOT,
        env=environment(home, variables),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def _ranked(output: str) -> list[tuple[str, str]]:
    """Family and the whole line of every ranked row, and of the best of each GPU below them."""
    rows = re.findall(r"^\s*(?:\d+|…)\s+(([A-Z0-9]+)-\S+\s.*)$", output, re.MULTILINE)
    return [(family, line) for line, family in rows]


@pytest.mark.e2e
def test_answers_from_live_prices(tmp_path: Path, data_dir: Path) -> None:
    with replaying() as providers:
        code, out, err = _make_run(tmp_path, data_dir, providers)
    assert code == 0, out + err
    for name in LIVE:
        assert re.search(rf"^\s*{name}\s+(complete|partial)\s", out, re.MULTILINE), out
    assert {family for family, _ in _ranked(out)} == FAMILIES, out
    assert re.search(r"^Break-even: H100\S* \$[\d.,]+ against A100\S* \$", out, re.MULTILINE), out


def test_answers_from_the_price_book_where_nobody_can_be_reached(
    tmp_path: Path, data_dir: Path
) -> None:
    with unreachable() as providers:
        code, out, err = _make_run(tmp_path, data_dir, providers)
    for name in LIVE:
        assert re.search(rf"^\s*{name}\b.*cannot connect", out, re.MULTILINE), out
    current = _families_with_a_current_list_price()
    if not current:  # the shipped prices have grown too old to be ranked
        assert code != 0
        assert "only stale prices match" in err
        return
    assert code == 0, out + err
    rows = _ranked(out)
    assert {family for family, _ in rows} == current, out
    for _, line in rows:
        assert re.search(r"\b\d{4}-\d{2}-\d{2}\b", line), line
    assert "not live" in out.lower()
    if {"A100", "H100"} <= current:
        assert "Break-even: H100" in out


def _families_with_a_current_list_price() -> set[str]:
    catalogue = Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml"))
    keys = {family: catalogue.select(family) for family in FAMILIES}
    today = datetime.now(UTC).date()
    found = set()
    for name in data.names("pricebook", ".toml"):
        book = tomllib.loads(data.text(name))
        lasts = timedelta(days=book["defaults"]["max_age_days"])
        for price in book["price"]:
            if price.get("market") != "spot" and price["valid_as_of"] + lasts > today:
                found |= {family for family in FAMILIES if price["gpu"] in keys[family]}
    return found
