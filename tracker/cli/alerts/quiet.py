"""``gpucost alerts silence`` and ``ack``: who does not want to hear of what, and for how long."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import completing, render
from tracker.cli.alerts.common import CONTEXT, Configured, moment, reading, stored_rules, working
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import Duration, output_option

if TYPE_CHECKING:
    from tracker.domain.gpu import Catalogue
    from tracker.store.alerts import StoredRule

MAX_TEXT = 500  # characters of a comment
LONGEST = timedelta(days=366)

_TABLE = (
    render.Column("ID", right=True), render.Column("RULE"), render.Column("JOB", 3),
    render.Column("PROVIDER", 3), render.Column("GPU", 3), render.Column("FROM", 2),
    render.Column("UNTIL"), render.Column("AUTHOR", 1), render.Column("COMMENT"),
)  # fmt: skip
_MATCHERS = ("job", "provider", "gpu")


class Later(click.ParamType[datetime]):
    """``2026-11-20`` or ``2026-11-20T12:00Z``, to come; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            at = datetime.fromisoformat(str(value).strip())
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            example = "2026-11-20 or 2026-11-20T12:00Z"
            self.fail(f"{value!r} is not a time such as {example}", param, ctx)
        if at <= datetime.now(UTC):
            self.fail(f"{value!r} has passed", param, ctx)
        return at


@click.command(context_settings=CONTEXT)
@click.argument("rule", required=False, shell_complete=completing.rules)
@click.option("--job", help="Only of rules about this job.")
@click.option("--provider", help="Only while a price of this provider decides.")
@click.option("--gpu", help="Only of rules in which this GPU decides.")
@click.option("--for", "length", type=Duration(), help="For so long: 2h, 7d.")
@click.option("--until", type=Later(), help="Until then (UTC): 2026-11-20, 2026-11-20T12:00Z.")
@click.option("--comment", help="Why: it stands in the list and in the history.")
@click.option("--author", help="Who. Unless given: your account's name.")
@click.option("--list", "show_list", is_flag=True, help="The silences in force.")
@click.option("--all", "show_all", is_flag=True, help="With --list: past ones too.")
@click.option("--end", type=int, metavar="ID", help="End this silence now.")
@output_option
@click.pass_obj
def silence(obj: dict[str, Any], /, **options: Any) -> None:
    """Keep notices back for a while: of RULE (* and ? match anything), or of all rules that the
    options match. What happens is recorded all the same.

    A rule that still fires when its silence ends says so then.
    """
    app = App(obj["config"])
    making = ("rule", *_MATCHERS, "length", "until", "comment", "author")
    given = [name for name in making if options[name] is not None]
    if options["show_all"] and not options["show_list"]:
        raise click.UsageError("--all goes with --list")
    if sum((options["show_list"], options["end"] is not None, bool(given))) > 1:
        raise click.UsageError("make a silence, --list them or --end one: not two at once")
    if options["end"] is not None:
        _end(app, options["end"])
    elif options["show_list"]:
        _list(app, options["output"], include_past=options["show_all"])
    else:
        _make(app, options)


def _make(app: App, options: dict[str, Any]) -> None:
    from tracker.report.health import check_providers
    from tracker.store import alerts
    from tracker.store.engine import transaction

    if not any(options[name] for name in ("rule", *_MATCHERS)):
        raise click.UsageError("name a rule ('*' for all of them), or --job, --provider or --gpu")
    comment = (options["comment"] or "").strip()
    if not comment:
        raise click.UsageError("say why with --comment TEXT: others will ask")
    if len(comment) > MAX_TEXT or len(options["author"] or "") > MAX_TEXT:
        raise click.UsageError(f"--comment and --author take at most {MAX_TEXT} characters")
    now = datetime.now(UTC)
    until = _until(options, now)
    job = options["job"] and _job(app, options["job"])
    gpu = options["gpu"] and _gpu(options["gpu"], app.catalogue)
    provider = options["provider"] and options["provider"].lower()
    rule = options["rule"] and _rule(app, options["rule"])
    with working(app) as (_, engine), transaction(engine) as cursor:
        check_providers(cursor.connection, [provider] if provider else [])
        made = alerts.add_silence(
            cursor, starts_at=now, until=until, author=(options["author"] or _account()).strip(),
            comment=comment, rule=rule, job=job, provider=provider, gpu=gpu,
        )  # fmt: skip
    render.say(f"silence {made} until {moment(until)} UTC; gpucost alerts silence --end {made}")
    if rule and not _names_one(app, rule):
        render.say(f"no rule is called {rule} now; see: gpucost alerts list")


def _until(options: dict[str, Any], now: datetime) -> datetime:
    if (options["length"] is None) == (options["until"] is None):
        raise click.UsageError("say for how long: --for 2h, or --until TIME")
    length: timedelta = options["length"] or options["until"] - now
    if length > LONGEST:
        raise click.UsageError("a silence lasts a year at most; turn the rule off instead")
    return now + length if options["until"] is None else options["until"]


def _rule(app: App, name: str) -> str:
    """*name* as a silence has it: of a rule that exists, unless it is a pattern."""
    name = name.lower()
    if any(sign in name for sign in "*?["):
        from tracker.alert.silences import check_pattern

        try:
            check_pattern(name)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return name
    configured = Configured.of(app)
    if name not in configured.names:
        configured.rule(name, kept=[row.name for row in stored_rules(app)])
    return name


def _names_one(app: App, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    known = {*Configured.of(app).names, *(row.name for row in stored_rules(app))}
    return any(fnmatchcase(name, pattern) for name in known)


def _job(app: App, reference: str) -> str:
    from tracker.domain.job import JobError

    rules = Configured.of(app).rules.values()
    if reference.lower() in {rule.job.name for rule in rules if rule.job is not None}:
        return reference.lower()
    try:
        return app.job(reference).name
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _gpu(name: str, catalogue: Catalogue) -> str:
    """A family or one GPU, as offers name it; else as it was typed, for rules that say so."""
    from tracker.domain.gpu import UnknownGpu

    try:
        keys = catalogue.select(name)
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    families = {gpu.family for key in keys if (gpu := catalogue.gpu(key))}
    if len(families) == 1 and catalogue.select(*families) == keys:
        return families.pop()
    return next(iter(keys)) if len(keys) == 1 else name


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return f"uid {os.getuid()}"


def _end(app: App, id_: int) -> None:
    from tracker.store import alerts
    from tracker.store.engine import transaction

    with working(app) as (_, engine), transaction(engine) as cursor:
        ended = -(2**63) < id_ < 2**63 and alerts.end_silence(cursor, id_, datetime.now(UTC))
    if not ended:
        hint = "gpucost alerts silence --list"
        raise Exit(EXIT_NO_MATCH, f"no silence {id_} is in force; see: {hint}")
    render.say(f"silence {id_} ended")


def _list(app: App, output: str, *, include_past: bool) -> None:
    from tracker.app.standing import SILENCE_COLUMNS, silences_report

    with reading(app) as connection:
        report = silences_report(connection, datetime.now(UTC), include_past=include_past)
    rows = report.rows
    if output not in ("table", "wide"):
        render.print_rows(output, rows, SILENCE_COLUMNS, report.document())
        return
    if not rows:
        render.say("no silence is in force" if not include_past else "there never was a silence")
        return
    lines = [
        [
            str(r["id"]), *(r[name] or "*" for name in ("rule", *_MATCHERS)),
            moment(r["starts_at"]), moment(r["until"]), r["author"], r["comment"],
        ]
        for r in rows
    ]  # fmt: skip
    past = frozenset(i for i, r in enumerate(rows) if not r["in_force"])
    render.print_table(_TABLE, lines, dim=past, wide=output == "wide")


@click.command(context_settings=CONTEXT)
@click.argument("rule", shell_complete=completing.rules)
@click.option("--author", help="Who. Unless given: your account's name.")
@click.pass_obj
def ack(obj: dict[str, Any], rule: str, author: str | None) -> None:
    """Say that somebody has taken note of RULE's firing: no more reminders of it. Its end is told
    all the same."""
    from tracker.alert.engine import AlertEngine, UnknownRule
    from tracker.cli.alerts.common import unknown_rule

    app = App(obj["config"])
    configured = Configured.of(app)
    with working(app) as (_, engine):
        before = {row.name: row for row in stored_rules(app)}
        if rule not in before:
            configured.rule(rule)  # which may say that it is wrong, or turned off
            raise Exit(EXIT_NO_MATCH, f"{rule} is not firing: it was not evaluated yet")
        try:
            noted = AlertEngine(engine, (), app.catalogue).acknowledge(
                rule, datetime.now(UTC), (author or _account()).strip()[:MAX_TEXT]
            )
        except UnknownRule:
            raise unknown_rule(rule, configured.names) from None
    if noted:
        render.say(f"{rule}: acknowledged; no more reminders of this firing")
        return
    by = _acknowledged_by(before[rule])
    if by is None:
        raise Exit(EXIT_NO_MATCH, f"{rule} is not firing")
    render.say(f"{rule}: was acknowledged already, by {by}")


def _acknowledged_by(row: StoredRule) -> str | None:
    from tracker.cli.alerts.standing import state_of

    state = state_of(row)
    return state.firing.acknowledged_by if state and state.firing else None
