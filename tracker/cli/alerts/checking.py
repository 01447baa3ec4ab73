"""``gpucost alerts check``: rules and channels are read, without a database."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, enabled
from tracker.cli import render
from tracker.cli.alerts.common import CONTEXT, Configured
from tracker.cli.exits import EXIT_USAGE, Exit

if TYPE_CHECKING:
    from tracker.alert.rules import Rule

PRICE_BOOK = "pricebook"

_RULES = (
    render.Column("RULE"), render.Column("WHEN"), render.Column("JOB", 2),
    render.Column("EVERY", 3, right=True), render.Column("CHANNELS", 1),
)  # fmt: skip
_CHANNELS = (render.Column("CHANNEL"), render.Column("TYPE"))


@click.command(context_settings=CONTEXT)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def check(obj: dict[str, Any], file: Path | None, output: str) -> None:
    """Read the rules and channels of FILE (unless given: of the configuration) and name every
    mistake, each in one line. Needs no database and sends nothing."""
    app = App(file or obj["config"])
    channels = app.channels[0]
    configured, problems = checked(app)
    rules = list(configured.rules.values())
    if output == "json":
        render.print_json(
            {
                "problems": problems,
                "rules": [{"rule": rule.name, **rule.definition} for rule in rules],
                "off": configured.off,
                "channels": [{"channel": n, "type": c.kind} for n, c in channels.items()],
            }
        )
    elif problems:
        for problem in problems:
            render.say(problem)
    else:
        _print(rules, {name: channel.kind for name, channel in channels.items()})
        if configured.off:
            render.say(f"turned off: {', '.join(configured.off)}")
    if problems:
        raise Exit(EXIT_USAGE, f"{render.counted(len(problems), 'problem')} in alerts")


def checked(app: App) -> tuple[Configured, list[str]]:
    """The rules of *app*, and all that is wrong with them and the channels, a line each."""
    from tracker.alert.doubts import doubts

    channels, unusable = app.channels
    configured = Configured.of(app, _known_providers(app))
    problems = [str(problem) for problem in (*unusable, *configured.problems)]
    problems += [str(doubt) for doubt in doubts(configured.rules.values(), None)]
    problems += [p for name, channel in channels.items() if (p := _will_not_send(name, channel))]
    return configured, [app.redactor(problem) for problem in problems]


def _print(rules: list[Rule], channels: dict[str, str]) -> None:
    render.print_table(
        _RULES,
        [
            [
                rule.name, str(rule.condition), rule.job.name if rule.job else render.DASH,
                render.duration(rule.every.total_seconds()), ", ".join(rule.channels),
            ]
            for rule in rules
        ],
    )  # fmt: skip
    render.say()
    render.print_table(_CHANNELS, [[name, kind] for name, kind in channels.items()])


def _will_not_send(name: str, channel: Any) -> str | None:
    from importlib.util import find_spec

    from tracker.notify.services import MISSING, AppriseChannel
    from tracker.notify.webhook import WebhookChannel

    why = None
    if isinstance(channel, WebhookChannel):
        why = channel.refusal()
    elif channel.kind == "apprise" and find_spec("apprise") is None:
        why = MISSING
    elif isinstance(channel, AppriseChannel):
        why = channel.refusal()
    return why and f"[alerts.channels.{name}] {why}"


def _known_providers(app: App) -> set[str]:
    """Everybody whom a rule can mean: who can be polled, and the sellers in the price books."""
    from tracker import registry
    from tracker.collect import poll_all
    from tracker.settings import SettingsError

    known = set(registry.names())
    with contextlib.suppress(SettingsError, registry.UnknownProvider):
        chosen, _ = enabled(app, [PRICE_BOOK])
        with app.collector(dry_run=True) as collector:
            for outcome in asyncio.run(poll_all(collector, chosen)):
                if outcome.digest is not None:
                    known |= {offer.provider for offer in outcome.digest.accepted}
    return known
