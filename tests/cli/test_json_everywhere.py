"""Whatever a command answers, it answers in JSON too; and what it hides, it counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.harness import run
from tests.cli.test_db_history import url as old_prices  # noqa: F401 - a fixture
from tracker.cli.main import cli

# These do something and say in a line that it is done, or speak a protocol of their own.
DOERS = {
    "jobs add", "jobs remove", "jobs measure", "serve", "mcp", "daemon", "demo", "completion",
    "alerts ack", "provider new", "provider record", "db rebuild-floor", "db start", "db stop",
    "db upgrade",
}  # fmt: skip


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(_commands(cli, ()))


def _formats(command: click.Command) -> set[str]:
    for one in command.params:
        if "--output" in one.opts and isinstance(one.type, click.Choice):
            return set(one.type.choices)
    return set()


def test_every_command_that_answers_does_so_in_json() -> None:
    # An export is of the formats that hold a table.
    assert {name for name, one in COMMANDS.items() if "json" not in _formats(one)} == {
        *DOERS, "export",
    }  # fmt: skip
    assert "ndjson" in _formats(COMMANDS["export"])


def test_a_check_of_jobs_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text('name = "good"\n[hours]\nH100 = 4\n')
    Path("bad.toml").write_text('name = "bad"\n[hurs]\nH100 = 4\n')
    told, shown = (run("jobs", "check", "good.toml", "bad.toml", *o) for o in (("-o", "json"), ()))
    assert told.code == shown.code == 2
    assert told.err == shown.err
    good, bad = json.loads(told.out)["files"]
    assert (good["file"], good["usable"], good["mistakes"]) == ("good.toml", True, [])
    assert shown.lines[0] == f"good.toml: ok: {good['summary']}"
    assert (bad["usable"], bad["summary"]) == (False, None)
    assert shown.lines[1:] == [f"bad.toml: not usable: {line}" for line in bad["mistakes"]]
    assert any("did you mean 'hours'?" in line for line in bad["mistakes"])


@pytest.mark.usefixtures("old_prices")
def test_retention_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    dry = run("db", "retention", "--dry-run", "-o", "json").json()
    assert dry["dry_run"] is True
    assert dry["months"]
    assert all(month["month"] < dry["kept_from"] for month in dry["months"])
    shown = run("db", "retention").lines
    assert [line.partition(":")[0] for line in shown] == [one["month"] for one in dry["months"]]
    gone = run("db", "retention", "-o", "json").json()
    assert (gone["months"], gone["kept_from"]) == ([], dry["kept_from"])
    monkeypatch.setenv("GPUCOST_RETENTION__SPAN_MONTHS", "0")
    assert run("db", "retention", "-o", "json").json()["kept_from"] is None
