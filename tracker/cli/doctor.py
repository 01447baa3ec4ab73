"""``gpucost doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tracker import __version__
from tracker.app import App, enabled
from tracker.cli import render
from tracker.cli.exits import EXIT_DATABASE, EXIT_USAGE, Exit, known

if TYPE_CHECKING:
    from tracker.telemetry import Redactor

OK, WARN, BAD = "ok", "note", "BAD"
Finding = tuple[str, str, str]  # state, subject, what
_SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table")
@click.pass_obj
def doctor(obj: dict[str, Any], output: str) -> None:
    """Check the configuration, the database and every provider's set-up. Polls nobody."""
    app = App(obj["config"])
    findings: list[Finding] = []
    worst = 0
    for subject, check in (
        ("gpucost", lambda: _program()),
        ("configuration", lambda: _configuration(app)),
        ("database", lambda: _database(app)),
        ("providers", lambda: _providers(app)),
    ):
        code = _run(subject, check, findings)
        worst = worst or code
    redact = _redactor(app)
    findings = [(state, subject, redact(what)) for state, subject, what in findings]
    if output == "json":
        keys = ("state", "subject", "finding")
        render.print_json({"findings": [dict(zip(keys, f, strict=True)) for f in findings]})
    else:
        for state, subject, what in findings:
            render.say(f"{state:<5} {subject:<15} {what}")
    if worst:
        raise Exit(worst)


def _redactor(app: App) -> Redactor:
    """Knows all secrets of the settings, or those that can be told when these are wrong."""
    from tracker.settings import SettingsError
    from tracker.telemetry import Redactor

    try:
        return app.redactor
    except SettingsError:
        redactor = Redactor(
            value for name, value in os.environ.items() if name.endswith(_SECRET_ENDINGS)
        )
        redactor.register_url(os.environ.get("GPUCOST_DATABASE_URL"))
        return redactor


def _run(subject: str, check: Callable[[], Iterator[Finding]], out: list[Finding]) -> int:
    try:
        for finding in check():
            out.append(finding)
    except Exception as error:
        exit_ = known(error)
        if exit_ is None:
            raise
        out.append((BAD, subject, exit_.message or ""))
        return exit_.code
    bad = any(state == BAD for state, s, _ in out if s == subject)
    return {"database": EXIT_DATABASE}.get(subject, EXIT_USAGE) if bad else 0


def _program() -> Iterator[Finding]:
    yield OK, "gpucost", f"{__version__} on Python {platform.python_version()} ({sys.platform})"


def _configuration(app: App) -> Iterator[Finding]:
    from tracker.settings import unknown_variables

    path = app.boot.config_path
    yield OK, "configuration", f"{path}" if path else "no gpucost.toml; defaults and variables"
    _ = app.settings, app.catalogue  # both raise with one line when something is wrong
    for name in unknown_variables():
        yield WARN, "configuration", f"the variable {name} means nothing to gpucost"


def _database(app: App) -> Iterator[Finding]:
    from tracker.store import migrate
    from tracker.store.engine import read_connection

    if app.embedded is not None:
        data = app.embedded.status().data
        yield OK, "database", f"embedded, data in {data}"
        if not data.exists():
            yield WARN, "database", "empty; the first poll makes it: gpucost poll"
            return
    with app.database() as url, read_connection(url) as connection:
        version = connection.info.server_version // 10_000
        revision = migrate.read_revision(connection)
        if revision is None:
            yield WARN, "database", "no schema yet: gpucost db upgrade"
        else:
            migrate.check_revision(revision)
        yield OK, "database", f"PostgreSQL {version}, schema {revision}"


def _providers(app: App) -> Iterator[Finding]:
    chosen, left_out = enabled(app, None)
    for provider, _config in chosen:
        facts = provider.facts
        text = "needs no key"
        if facts.key == "optional":
            text = f"works without a key; {facts.key_variable} may hold one"
        elif facts.key == "required":
            text = "key set"
        yield OK, "providers", f"{provider.name}: {text}"
    for name, reason in left_out:
        yield WARN, "providers", f"{name}: {reason}"
