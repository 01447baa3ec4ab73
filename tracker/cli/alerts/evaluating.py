"""``gpucost alerts eval``: what a rule says now, and what that would do. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, enabled
from tracker.cli import completing, render
from tracker.cli.alerts import standing
from tracker.cli.alerts.common import (
    CONTEXT,
    Configured,
    nothing_recorded,
    print_sides,
    working,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tracker.alert.engine import AlertEngine, DryRun
    from tracker.alert.rules import Rule
    from tracker.domain.rule.types import Event


@click.command("eval", context_settings=CONTEXT)
@click.argument("rule", shell_complete=completing.rules)
@click.option("--dry-run", is_flag=True, help="Changes nothing: it never writes anyway.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def eval_(obj: dict[str, Any], rule: str, dry_run: bool, output: str) -> None:
    """Evaluate RULE on the prices of now: inputs, what was left out, the ratio, the thresholds,
    and the step that the daemon would take. State, history and notices stay as they are."""
    app = App(obj["config"])
    configured = Configured.of(app)
    wanted = configured.rule(rule)
    with working(app) as (_, engine):
        refuse_empty(engine)
        found = alert_engine(app, engine, wanted).dry_run(wanted, datetime.now(UTC))
    if output == "json":
        render.print_json(_document(found))
        return
    _print(found)


def alert_engine(app: App, engine: Engine, rule: Rule, guard: Any = None) -> AlertEngine:
    """The engine as the daemon has it, for one rule."""
    from tracker.alert.engine import AlertEngine

    chosen, left_out = enabled(app, None)
    return AlertEngine(
        engine, [rule], app.catalogue, guard=guard,
        sources=[provider.name for provider, _ in chosen], left_out=[name for name, _ in left_out],
    )  # fmt: skip


def refuse_empty(engine: Engine) -> None:
    """Raise Exit where nobody has ever been polled: there is nothing to evaluate."""
    from tracker.store import reads
    from tracker.store.engine import transaction

    with transaction(engine) as cursor:
        if not reads.providers(cursor.connection):
            raise nothing_recorded()


def _document(found: DryRun) -> dict[str, Any]:
    definition = found.rule.definition
    return {
        "rule": found.rule.name,
        "title": found.rule.title,
        "when": str(found.rule.condition),
        "at": found.inputs["at"],
        "health": found.sample.health,
        "reason": found.sample.reason,
        "value": standing.rounded(found.inputs["value"]),
        "label": found.sample.label,
        "found": found.inputs["found_count"] if standing.is_about_offers(definition) else None,
        **standing.thresholds(definition),
        "phase": found.before.phase,
        "phase_next": found.after.phase,
        "events": [_event(event, found.rule) for event in found.events],
        "silenced_by": found.silence,
        "channels": found.rule.channels,
        "inputs": found.inputs,
    }


def _event(event: Event, rule: Rule) -> dict[str, Any]:
    return {
        "kind": event.kind, "suppressed_by": event.suppressed_by, "reason": event.reason,
        "notice_on": rule.channels if event.sent else (),
    }  # fmt: skip


def _print(found: DryRun) -> None:
    from tracker.alert import words

    d, rule = _document(found), found.rule
    job = {"name": rule.job.name, "title": rule.job.title} if rule.job else None
    if found.sample.value is not None:
        context = {**found.inputs, "when": d["when"], "title": rule.title, "job": job}
        render.say(f"{words.state(context)}.")
    print_sides(found.inputs, tuple(rule.gpus))
    for line in _verdict(d):
        render.say(line)
    for command in (found.inputs["command"], *found.inputs["explain"][:6]):
        render.say(f"  {command}")


def _verdict(d: Mapping[str, Any]) -> Iterator[str]:
    """The figure, the thresholds, the health and the step."""
    yield standing.value_line(d)
    reason = f": {d['reason']}; it decides nothing" if d["reason"] else ""
    yield f"data: {str(d['health']).replace('_', ' ')}{reason}"
    moved = f" -> {d['phase_next']}" if d["phase_next"] != d["phase"] else ""
    yield f"phase: {d['phase']}{moved}"
    if d["silenced_by"]:
        yield f"silenced by: {d['silenced_by']}"
    for event in d["events"]:
        by = event["suppressed_by"]
        kept = f", its notice kept back by {by}" if by else ""
        on = f", a notice on {', '.join(event['notice_on'])}" if event["notice_on"] else ""
        why = f" ({event['reason']})" if event["reason"] else ""
        yield f"would record: {event['kind']}{why}{kept}{on}"
    if not d["events"]:
        yield "would record: nothing"
