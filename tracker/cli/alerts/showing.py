"""``gpucost alerts show``: all that is known of one rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import completing, render
from tracker.cli.alerts import standing
from tracker.cli.alerts.common import (
    CONTEXT,
    RUN_DAEMON,
    Configured,
    moment,
    print_sides,
    unknown_rule,
)

if TYPE_CHECKING:
    from tracker.alert.rules import Rule
    from tracker.domain.rule.state import State
    from tracker.store.alerts import Silence, StoredRule
    from tracker.store.outbox_admin import ChannelCounts, StoredNotice


@click.command(context_settings=CONTEXT)
@click.argument("rule", shell_complete=completing.rules)
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def show(obj: dict[str, Any], rule: str, output: str) -> None:
    """Everything about RULE: its keys and where they come from, its last evaluation, its state,
    silences that may match it, and its channels."""
    app = App(obj["config"])
    configured = Configured.of(app)
    now = datetime.now(UTC)
    row, silences, counts, notices = _stored(app, rule, now)
    if rule not in configured.names and row is None:
        raise unknown_rule(rule, configured.names | _known(app))
    found = configured.rules.get(rule)
    problems = [f"{p.field}: {p.message}" for p in configured.problems if p.rule == rule]
    if rule in configured.off:
        problems = []
    document: dict[str, Any] = {
        "as_of": now,
        **standing.row_of(rule, found, row, problems, now),
        "enabled": rule not in configured.off,
        "definition": list(_definition(app, found)) if found else None,
        "state": None if row is None else _state(row, found, now),
        "evaluation": row and row.evaluation,
        "silences": [s._asdict() for s in silences],
        "channel_states": [
            _channel(app, name, counts, notices)
            for name in (found.channels if found else (row.definition.get("channels") or ())
                         if row else ())
        ],
    }  # fmt: skip
    if output == "json":
        render.print_json(_hidden(document, app))
    else:
        for line in _lines(document, now):
            render.say(app.redactor(line))
        _print_evaluation(document, tuple(found.gpus) if found else ())


def _hidden(document: Mapping[str, Any], app: App) -> dict[str, Any]:
    """*document* without what a channel may have told of a secret."""
    plain: dict[str, Any] = render.plain(document)
    for channel in plain["channel_states"]:
        for key in ("problem", "last_error"):
            channel[key] = channel[key] and app.redactor(channel[key])
    return plain


_Stored = tuple["StoredRule | None", "list[Silence]", "dict[str, ChannelCounts]",
                "list[StoredNotice]"]  # fmt: skip


def _stored(app: App, name: str, now: datetime) -> _Stored:
    from fnmatch import fnmatchcase

    from tracker.store import alerts, outbox_admin

    try:
        with app.reading() as connection:
            return (
                alerts.rule(connection, name),
                [
                    s for s in alerts.silences(connection, now)
                    if s.rule is None or fnmatchcase(name, s.rule.lower())
                ],
                {c.channel: c for c in outbox_admin.counts(connection)},
                outbox_admin.listed(connection, rule=name, limit=200),
            )  # fmt: skip
    except NothingRecorded:
        return None, [], {}, []


def _known(app: App) -> set[str]:
    from tracker.cli.alerts.common import stored_rules

    return {row.name for row in stored_rules(app, include_removed=True)}


def _definition(app: App, rule: Rule) -> Iterator[dict[str, Any]]:
    """Each key that has an effect: its value in force, and who says so."""
    from tracker.alert.rules import shipped_rules

    own = app.settings.alerts.rules.get(rule.name, {})
    shipped = shipped_rules().get(rule.name, {})
    for key, value in _in_force(rule, {**shipped, **own}).items():
        origin = "configuration" if key in own else "shipped" if key in shipped else "default"
        yield {"key": key, "value": value, "from": origin}


# What a kind of condition has no use for.
_WITHOUT_EFFECT = {
    "CostBelow": ("confidence",),
    "CostDrops": ("enter_percent", "confidence"),
    "PriceBelow": ("job", "confidence"),
    "CheapestChanges": ("exit_percent", "keep_firing", "remind_every", "send_resolved"),
    "NewOfferBelow": (
        "job", "enter_percent", "exit_percent", "rank", "confidence", "remind_every",
        "send_resolved",
    ),
    "ProviderStale": (
        "job", "enter_percent", "exit_percent", "rank", "confidence", "typed_prices",
    ),
}  # fmt: skip


def _in_force(rule: Rule, table: Mapping[str, Any]) -> dict[str, Any]:
    from tracker.alert.keys import FILTERS, MARGINS, POLICY
    from tracker.domain.rule.condition import default_margins

    margins = default_margins(rule.condition)
    keys: dict[str, Any] = {
        "when": str(rule.condition), "title": rule.title,
        "job": rule.definition.get("job_reference"), "every": rule.every,
        **{name: table.get(name, getattr(margins, name)) for name in MARGINS},
        "rank": rule.rank, **{name: getattr(rule.policy, name) for name in POLICY},
        "confidence": rule.confidence, "typed_prices": rule.typed_prices,
        "channels": rule.channels, "template": rule.template,
    }  # fmt: skip
    for name in _WITHOUT_EFFECT.get(type(rule.condition).__name__, ()):
        keys.pop(name)
    filters = {name: value for name, value in rule.filters._asdict().items() if name in FILTERS}
    return keys | {name: value for name, value in filters.items() if value not in ((), None, False)}


def _state(row: StoredRule, rule: Rule | None, now: datetime) -> dict[str, Any]:
    state = standing.state_of(row)
    if state is None:
        return {"problem": "written by another version of gpucost: it cannot be read"}
    firing = state.firing
    return {
        "count": state.count, "held_seconds": state.held, "last_good_at": state.last_good_at,
        "health_since": state.health_since, "health_told": state.health_told,
        "candidate": state.candidate,
        "firing": firing and {
            "since": firing.since, "best": firing.best, "worst": firing.worst,
            "notified": firing.notified, "kept_back_by": firing.hidden_by,
            "acknowledged_at": firing.acknowledged_at, "acknowledged_by": firing.acknowledged_by,
        },
        "last_notice_at": state.noticed_at, "cooldown_until": _cooldown(state, rule, now),
    }  # fmt: skip


def _cooldown(state: State, rule: Rule | None, now: datetime) -> datetime | None:
    if rule is None or state.noticed_at is None:
        return None
    until = state.noticed_at + rule.policy.cooldown
    return until if until > now else None


def _channel(
    app: App, name: str, counts: Mapping[str, ChannelCounts], notices: Sequence[StoredNotice]
) -> dict[str, Any]:
    """How a channel stands, and the rule's last notice on it."""
    working, problems = app.channels
    own = [n for n in notices if n.channel == name]
    waiting = counts.get(name)
    return {
        "channel": name,
        "type": working[name].kind if name in working else None,
        "problem": next((p.problem for p in problems if p.channel == name), None),
        "pending": waiting.pending if waiting else 0,
        "oldest_at": waiting.oldest_at if waiting else None,
        "dead": waiting.dead if waiting else 0,
        "last_notice": own[0].kind if own else None,
        "last_status": own[0].status if own else None,
        "last_at": (own[0].ended_at or own[0].created_at) if own else None,
        "last_error": own[0].last_error if own else None,
    }


def _lines(d: Mapping[str, Any], now: datetime) -> Iterator[str]:
    yield f"{d['rule']}: {d['title'] or render.DASH}"
    for problem in d["problems"]:
        yield f"  wrong: {problem}"
    if not d["enabled"]:
        yield "  turned off (enabled = false)"
    elif d["status"] == "removed":
        yield "  not configured any more"
    if d["definition"]:
        yield "definition"
        for key in d["definition"]:
            yield f"  {key['key']:<14} {_value(key['value']):<40} {key['from']}".rstrip()
    yield "state"
    yield from (f"  {line}" for line in _state_lines(d, now))
    for silence in d["silences"]:
        only = {k: silence[k] for k in ("job", "provider", "gpu") if silence[k] is not None}
        told = f" where {', '.join(f'{k} is {v}' for k, v in only.items())}" if only else ""
        yield (
            f"  silence {silence['id']} until {moment(silence['until'])}{told}: "
            f"{silence['comment']} ({silence['author']})"
        )
    yield "channels"
    for channel in d["channel_states"]:
        yield f"  {_channel_line(channel)}"


def _value(value: Any) -> str:
    if value is None or value == "":
        return "off" if value is None else '""'
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return render.number(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)


def _duration(value: timedelta) -> str:
    """A duration as a rule's key says it."""
    seconds = value.total_seconds()
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    return f"{seconds:g}s"


def _state_lines(d: Mapping[str, Any], now: datetime) -> Iterator[str]:
    state = d["state"]
    if state is None:
        yield RUN_DAEMON
        return
    if "problem" in state:
        yield str(state["problem"])
        return
    since = f" since {moment(d['since'])}" if d["since"] else ""
    yield f"{d['phase']}{since}, version {d['version']}"
    if d["edited"]:
        yield "edited since; it begins anew when the daemon evaluates it next"
    health = str(d["health"]).replace("_", " ")
    if state["health_since"]:
        told = ", told" if state["health_told"] else ""
        yield f"data: {health} since {moment(state['health_since'])}{told}: {d['reason']}"
    else:
        yield f"data: {health}"
    yield standing.value_line(d)
    if d["phase"] in ("pending", "recovering"):
        held = render.duration(state["held_seconds"].total_seconds())
        yield f"waited: {held} and {render.counted(state['count'], 'evaluation')} so far"
    yield from _firing_lines(d, state["firing"])
    if state["cooldown_until"]:
        yield f"cooldown: no notice of another firing before {moment(state['cooldown_until'])}"
    ago = render.age(d["evaluated_at"], now)
    yield f"evaluated: {moment(d['evaluated_at'])} ({ago} ago)"


def _firing_lines(d: Mapping[str, Any], firing: Mapping[str, Any] | None) -> Iterator[str]:
    if firing is None:
        return
    told = "told" if firing["notified"] else f"not told ({firing['kept_back_by']})"
    yield (
        f"firing: since {moment(firing['since'])}, {told}; "
        f"best {standing.measured(d, firing['best'])}, "
        f"worst {standing.measured(d, firing['worst'])}"
    )
    if firing["acknowledged_at"]:
        yield f"acknowledged: {moment(firing['acknowledged_at'])} by {firing['acknowledged_by']}"


def _channel_line(c: Mapping[str, Any]) -> str:
    parts = [c["problem"] or c["type"] or "not configured"]
    if c["pending"]:
        waiting = render.counted(c["pending"], "notice")
        parts.append(f"{waiting} waiting since {moment(c['oldest_at'])}")
    if c["dead"]:
        parts.append(f"{c['dead']} given up")
    if c["last_notice"]:
        error = f" ({c['last_error']})" if c["last_error"] else ""
        parts.append(f"last: {c['last_notice']} {c['last_status']} {moment(c['last_at'])}{error}")
    return f"{c['channel']}: {'; '.join(parts)}"


def _print_evaluation(d: Mapping[str, Any], selections: Sequence[str]) -> None:
    evaluation = d["evaluation"]
    if not evaluation:
        return
    render.say(f"last evaluation ({moment(d['evaluated_at'])})")
    print_sides(evaluation, selections)
    for line in (evaluation.get("command"), *(evaluation.get("explain") or [])[:6]):
        if line:
            render.say(f"  {line}")
