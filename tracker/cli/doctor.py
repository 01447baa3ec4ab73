"""``gpucost doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tracker import __version__
from tracker.app import App, enabled
from tracker.cli import render
from tracker.cli.exits import EXIT_ALL_FAILED, EXIT_DATABASE, EXIT_USAGE, Exit, known
from tracker.cli.poll import OFFLINE, OWN_FILES, seem_unreachable

if TYPE_CHECKING:
    from tracker.report.health import ProviderHealth
    from tracker.telemetry import Redactor

OK, WARN, BAD = "ok", "note", "BAD"
Finding = tuple[str, str, str]  # state, subject, what
_CODES = {"database": EXIT_DATABASE, "providers": EXIT_ALL_FAILED}
_SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table")
@click.pass_obj
def doctor(obj: dict[str, Any], output: str) -> None:
    """Check the configuration, alert rules and channels, the database and every provider: its
    set-up and how its last poll went. Polls nobody and sends nothing."""
    app = App(obj["config"])
    findings: list[Finding] = []
    health: dict[str, ProviderHealth] = {}
    worst = 0
    for subject, check in (
        ("gpucost", lambda: _program()),
        ("configuration", lambda: _configuration(app)),
        ("alerts", lambda: _alerts(app)),
        ("database", lambda: _database(app, health)),
        ("providers", lambda: _providers(app, health)),
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
        unread = any(found[:2] == (BAD, "configuration") for found in out)
        if unread and exit_.code == EXIT_USAGE:  # the same mistake: told once
            out.append((WARN, subject, "not checked: the configuration cannot be read"))
        else:
            out.append((BAD, subject, exit_.message or ""))
        return exit_.code
    bad = any(state == BAD for state, s, _ in out if s == subject)
    return _CODES.get(subject, EXIT_USAGE) if bad else 0


def _program() -> Iterator[Finding]:
    yield OK, "gpucost", f"{__version__} on Python {platform.python_version()} ({sys.platform})"


def _configuration(app: App) -> Iterator[Finding]:
    from tracker.settings import unknown_variables

    path = app.boot.config_path
    yield OK, "configuration", f"{path}" if path else "no gpucost.toml; defaults and variables"
    # Each raises with one line when something is wrong.
    _ = app.settings, app.catalogue, app.owned(datetime.now(UTC))
    for name in unknown_variables():
        yield WARN, "configuration", f"the variable {name} means nothing to gpucost"


def _alerts(app: App) -> Iterator[Finding]:
    from tracker.cli.alerts.checking import checked

    configured, problems = checked(app)
    for problem in problems:
        yield BAD, "alerts", problem
    if not problems:
        rules = render.counted(len(configured.rules), "rule")
        yield OK, "alerts", f"{rules}; channels: {', '.join(sorted(app.channels[0]))}"


def _database(app: App, health: dict[str, ProviderHealth]) -> Iterator[Finding]:
    """The findings; *health* is filled with how each provider stands, where that is recorded."""
    from tracker.report.health import provider_health
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
            after = timedelta(days=app.settings.quality.retired_after_days)
            found = provider_health(connection, datetime.now(UTC), retired_after=after)
            health |= {h.provider.slug: h for h in found}
        yield OK, "database", f"PostgreSQL {version}, schema {revision}"


def _providers(app: App, health: Mapping[str, ProviderHealth]) -> Iterator[Finding]:
    from tracker.app.keys import set_ups
    from tracker.settings import SettingsError

    chosen, _ = enabled(app, None)  # refuses tables of providers that there are not
    wrong = []
    for name, set_up in set_ups(app).items():
        if set_up.wrong:
            wrong.append(f"{name}: {set_up.said}")
        elif set_up.configured:
            state, last = _last_poll(health.get(name))
            yield state, "providers", f"{name}: {set_up.said}; {last}"
        else:
            state = WARN if set_up.enabled else OK
            yield state, "providers", f"{name}: {set_up.said}"
    errors = {
        provider.name: h.provider.last_error
        for provider, _ in chosen
        if (h := health.get(provider.name)) is not None and h.provider.consecutive_failures
    }
    if errors and errors.keys() >= {p.name for p, _ in chosen} - {OWN_FILES}:
        offline = seem_unreachable(errors.values())
        yield BAD, "providers", OFFLINE if offline else "no provider's last poll was of use"
    if wrong:
        raise SettingsError("; ".join(wrong))


def _last_poll(health: ProviderHealth | None) -> tuple[str, str]:
    from tracker.report.health import LOW_COVERAGE

    if health is None or health.provider.last_attempt_at is None:
        return OK, "never polled"
    p, now = health.provider, datetime.now(UTC)
    ago = "never" if p.last_ok_at is None else render.age(p.last_ok_at, now)
    if health.retired:
        return WARN, f"retired: no good poll since {p.last_ok_at:%Y-%m-%d}"
    if p.consecutive_failures:
        why = p.last_error or p.last_status
        failed = render.counted(p.consecutive_failures, "failed poll")
        return WARN, f"{failed} in a row, last good one: {ago}: {why}"
    few = health.coverage is not None and health.coverage < LOW_COVERAGE and not health.stale
    shown = f", with {health.latest_offers} offers where {health.usual_offers} are usual" * few
    state = WARN if health.stale or few or health.unchanged_since else OK
    if since := health.unchanged_since:
        shown += f", unchanged since {since:%Y-%m-%d}"
    return state, f"last good poll: {ago}{', stale' * health.stale}{shown}"
