"""The installed command as a process of its own: start-up, imports, pipes, encodings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import filled, polled
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker import __version__

# Runs a command, then prints on stderr which of the heavy modules it has imported.
SPY = """
import sys
from tracker.cli.main import _run
code = _run(sys.argv[1:])
sys.stdout.flush()
heavy = {"sqlalchemy", "alembic", "psycopg", "pydantic", "rich", "httpx", "selectolax",
         "providers", "asyncio", "tracker.domain.offer", "tracker.domain.runtime",
         "tracker.domain.models", "tracker.domain.evidence"}
print(",".join(sorted(heavy & sys.modules.keys())), file=sys.stderr)
sys.exit(code)
"""
COMMAND = Path(sys.executable).with_name("gpucost")
ESTIMATING_ONLY = {"tracker.domain.runtime", "tracker.domain.models", "tracker.domain.evidence"}
POLLING_ONLY = {"sqlalchemy", "alembic", "pydantic", "httpx", "providers", "selectolax"}


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, polled("acme", [make_offer("h100", "3")])) as url:
        yield url


def _process(
    argv: list[str], url: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"GPUCOST_DATABASE_URL": url} | environment
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["--version"], []], ids=str)
def test_help_and_version_import_nothing_heavy(argv: list[str]) -> None:
    done = _process([sys.executable, "-c", SPY, *argv])
    assert (done.returncode, done.stderr) == (0, "\n")
    assert ("cheapest" in done.stdout) or (__version__ in done.stdout)


def _imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    """What SPY said: the last line, behind whatever the command itself has to say."""
    return set(done.stderr.splitlines()[-1].split(","))


@pytest.mark.parametrize(
    "options",
    [[], ["-o", "json"], ["--all", "-o", "csv"], ["--provider", "acme"],
     ["--compare", "H100,A100"]],
    ids=" ".join,
)  # fmt: skip
def test_an_answer_imports_nothing_that_only_polling_needs(market: str, options: list[str]) -> None:
    done = _process([sys.executable, "-c", SPY, "cheapest", "bert-large", *options], market)
    assert done.returncode == 0, done.stderr
    assert "H100-SXM-80GB" in done.stdout
    assert "psycopg" in _imported(done)
    assert not _imported(done) & {*POLLING_ONLY, *ESTIMATING_ONLY, "tracker.domain.offer"}


def test_estimating_imports_what_it_needs_and_nothing_of_polling(market: str) -> None:
    argv = ["cheapest", "llama-3.1-8b-lora"]
    done = _process([sys.executable, "-c", SPY, *argv], market)
    assert done.returncode == 0, done.stderr
    assert _imported(done) >= ESTIMATING_ONLY
    assert not _imported(done) & POLLING_ONLY


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["doctor", "--help"], 0),
        (["offers"], 0),
        (["cheapest", "bert-large", "--provider", "acmee"], 2),  # known providers are named
    ],
    ids=str,
)
def test_who_is_installed_is_told_without_importing_providers_or_models(
    market: str, argv: list[str], code: int
) -> None:
    done = _process([sys.executable, "-c", SPY, *argv], market)
    assert done.returncode == code, done.stderr
    assert "acme" in done.stdout + done.stderr or "doctor" in argv
    assert not _imported(done) & POLLING_ONLY


def test_the_installed_command(market: str) -> None:
    done = _process([str(COMMAND), "--version"])
    assert (done.returncode, done.stdout) == (0, f"gpucost, version {__version__}\n")
    done = _process([str(COMMAND), "cheapest", "bert-large", "-o", "json"], market)
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"][0]["total_usd"] == "12"
    done = _process([str(COMMAND), "offers", "--gpu", "H10"], market)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpucost: ")


def test_a_terminal_that_knows_ascii_only_is_no_error(market: str) -> None:
    done = _process([str(COMMAND), "offers"], market, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "H100-SXM-80GB" in done.stdout


@pytest.mark.parametrize(
    "words", ["offers -o json", "export offers - -o ndjson", "export history - -o ndjson"]
)
def test_a_reader_that_goes_away_is_no_error(market: str, words: str) -> None:
    # ``true`` reads nothing: whatever is written finds nobody there.
    for reader, first in (("head -c 1", "{"), ("true", "")):
        script = f"{COMMAND} {words} | {reader}; echo ${{PIPESTATUS[0]}}"
        done = _process(["bash", "-c", script], market)
        assert done.stdout.split("\n")[0] in (f"{first}0", f"{first}141", f"{first}120")
        assert "Traceback" not in done.stderr
        assert "Broken pipe" not in done.stderr
