"""``gpucost alerts list``: how every rule stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.alerts.common import CONTEXT, RUN_DAEMON, Configured, moment, ratio
from tracker.cli.options import output_option

if TYPE_CHECKING:
    from tracker.alert.rules import Rule
    from tracker.domain.rule.state import State
    from tracker.store.alerts import StoredRule

COLUMNS = (
    "rule", "title", "when", "job", "status", "phase", "health", "reason", "value", "label",
    "found", "enter", "exit", "since", "firing_since", "acknowledged_by", "version",
    "evaluated_at", "next_at", "every_seconds", "channels", "edited", "problems",
)  # fmt: skip

# The daemon looks at the rules every quarter of a minute; what is so late is not on its way.
LATE = timedelta(minutes=5)

_TABLE = (
    render.Column("RULE"), render.Column("WHEN", 2), render.Column("JOB", 4),
    render.Column("PHASE"), render.Column("HEALTH"), render.Column("VALUE", right=True),
    render.Column("FIRES", 3, right=True), render.Column("CLEARS", 3, right=True),
    render.Column("SINCE", 1, right=True), render.Column("EVALUATED", 1, right=True),
    render.Column("NEXT", 3, right=True),
)  # fmt: skip


@dataclass(frozen=True)
class _Stored:
    """What the database says: rules as they were evaluated last, and how much waits."""

    rules: Mapping[str, StoredRule]
    silences: int
    dead: int


@click.command("list", context_settings=CONTEXT)
@output_option
@click.pass_obj
def list_(obj: dict[str, Any], output: str) -> None:
    """Every rule: its phase, its health, its value against its thresholds, and what is wrong."""
    app = App(obj["config"])
    configured = Configured.of(app)
    now = datetime.now(UTC)
    stored = _stored(app, now)
    rows = list(_rows(configured, stored.rules, now))
    remarks = [app.redactor(line) for line in _remarks(app, configured, stored, rows, now)]
    if output not in ("table", "wide"):
        document = {"as_of": now, "remarks": remarks}
        render.print_rows(output, rows, COLUMNS, document, "\n".join(remarks))
        return
    render.print_table(_TABLE, [_line(row, now) for row in rows], wide=output == "wide")
    if remarks:
        render.say()
    for line in remarks:
        render.say(line)


def _stored(app: App, now: datetime) -> _Stored:
    from tracker.store import alerts, outbox_admin

    try:
        with app.reading() as connection:
            return _Stored(
                {row.name: row for row in alerts.rules(connection)},
                len(alerts.silences(connection, now)),
                sum(counts.dead for counts in outbox_admin.counts(connection)),
            )
    except NothingRecorded:
        return _Stored({}, 0, 0)


def _rows(
    configured: Configured, stored: Mapping[str, StoredRule], now: datetime
) -> Iterator[dict[str, Any]]:
    wrong: dict[str, list[str]] = {}
    for problem in configured.problems:
        wrong.setdefault(problem.rule, []).append(f"{problem.field}: {problem.message}")
    for name in sorted({*configured.rules, *wrong, *configured.off, *stored}):
        rule, row = configured.rules.get(name), stored.get(name)
        if name in configured.off and row is None:
            continue  # a remark names it
        yield row_of(name, rule, row, wrong.get(name, []), now)


def row_of(
    name: str, rule: Rule | None, row: StoredRule | None, problems: Sequence[str], now: datetime
) -> dict[str, Any]:
    """How one rule stands, as plain values.

    ``status`` is "evaluated", "waiting" (not evaluated yet), "wrong" (it cannot be read; its state
    stays as it is) or "removed" (it is closed when the daemon looks next).
    """
    state = None if row is None else state_of(row)
    found = dict.fromkeys(COLUMNS) | {"rule": name, "problems": list(problems), "edited": False}
    definition: Mapping[str, Any] = rule.definition if rule else row.definition if row else {}
    found |= {
        "title": definition.get("title"), "when": definition.get("when"),
        "job": (definition.get("job") or {}).get("name"),
        "every_seconds": definition.get("every"), "channels": definition.get("channels"),
        **thresholds(definition),
    }  # fmt: skip
    found["status"] = "wrong" if problems else "removed" if rule is None else "waiting"
    if row is None:
        return found
    evaluation = row.evaluation or {}
    firing = state.firing if state else None
    if rule is not None:
        found["status"] = "evaluated" if row.evaluated_at is not None else "waiting"
        found["edited"] = row.definition_sha256 != rule.sha256
    found |= {
        "phase": row.phase, "health": row.health, "version": row.version,
        "reason": evaluation.get("reason"), "value": rounded(evaluation.get("value")),
        "label": state.label if state else evaluation.get("label"),
        "found": evaluation.get("found_count") if is_about_offers(definition) else None,
        "since": state.since if state else None, "firing_since": firing and firing.since,
        "acknowledged_by": firing and firing.acknowledged_by, "evaluated_at": row.evaluated_at,
    }  # fmt: skip
    every = definition.get("every")
    if row.evaluated_at is not None and every is not None and found["status"] == "evaluated":
        found["next_at"] = max(row.evaluated_at + timedelta(seconds=every), now)
    return found


def state_of(row: StoredRule) -> State | None:
    """The state that a rule was left in; None for one that another version wrote."""
    from tracker.domain.rule.state import State

    try:
        return State.from_json(row.machine)
    except ValueError:
        return None


def rounded(value: str | None) -> str | None:
    """A ratio for programs: to the millionth, as notices have it."""
    from tracker.alert.context import number_text

    return None if value is None else number_text(Decimal(value))


def is_about_offers(definition: Mapping[str, Any]) -> bool:
    """Whether the rule watches for new offers: it has no number and no threshold of one."""
    return str(definition.get("when") or "").startswith("new offer")


def thresholds(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios at which the rule fires and clears; None where it has none."""
    when = str(definition.get("when") or "")
    enter, exit_ = definition.get("enter"), definition.get("exit")
    if is_about_offers(definition):
        enter = exit_ = None
    if when.startswith("cheapest"):  # a rival must be so much cheaper; nothing clears
        exit_ = None
    return {"enter": enter, "exit": exit_}


def _line(row: Mapping[str, Any], now: datetime) -> list[str]:
    phase = row["phase"] or row["status"]
    if row["status"] in ("wrong", "removed") and row["phase"]:
        phase = f"{row['phase']} ({row['status']})"
    bound = {name: row[name] and measured(row, row[name]) for name in ("enter", "exit")}
    return [
        row["rule"], row["when"] or render.DASH, row["job"] or render.DASH, phase,
        (row["health"] or render.DASH).replace("_", " "), shown_value(row),
        f"<= {bound['enter']}" if bound["enter"] else render.DASH,
        f">= {bound['exit']}" if bound["exit"] else render.DASH,
        render.age(row["since"], now), render.age(row["evaluated_at"], now), _next(row, now),
    ]  # fmt: skip


def shown_value(row: Mapping[str, Any]) -> str:
    """What the rule looks at: a ratio, dollars, the cheapest GPU, or a number of offers."""
    if row["found"] is not None:
        return render.counted(row["found"], "offer")
    return row["label"] or measured(row, row["value"])


def measured(row: Mapping[str, Any], value: Any) -> str:
    """A ratio for people: in dollars where the rule holds something against a number of them."""
    from tracker.alert import words

    limit = _limit_usd(str(row.get("when") or ""))
    if limit is None or value is None:
        return ratio(value)
    try:
        return words.usd(Decimal(str(value)) * limit, 4)
    except InvalidOperation:
        return ratio(value)


def _limit_usd(when: str) -> Decimal | None:
    """The dollars that the condition *when* names as its limit."""
    from tracker.domain.rule.condition import ConditionError, CostBelow, PriceBelow
    from tracker.domain.rule.parser import read

    try:
        condition = read(when)
    except ConditionError:
        return None
    if isinstance(condition, PriceBelow):
        return condition.usd_per_gpu_hour
    return condition.usd if isinstance(condition, CostBelow) else None


def value_line(row: Mapping[str, Any]) -> str:
    """The value and what it is held against, as a line."""
    fires = "another one takes over at" if row["label"] else "fires at"
    limits = "".join(
        f"; {what} {measured(row, row[name])} or {side}"
        for what, name, side in ((fires, "enter", "below"), ("clears at", "exit", "above"))
        if row[name] is not None
    )
    return f"value: {shown_value(row)}{limits}"


def _next(row: Mapping[str, Any], now: datetime) -> str:
    if row["next_at"] is None:
        return render.DASH
    wait = (row["next_at"] - now).total_seconds()
    return f"in {render.duration(wait)}" if wait > 0 else "due"


def _remarks(
    app: App, configured: Configured, stored: _Stored, rows: Sequence[Mapping[str, Any]],
    now: datetime,
) -> Iterator[str]:  # fmt: skip
    yield from (f"wrong: {problem}" for problem in configured.problems)
    yield from (f"wrong: {problem}" for problem in app.channels[1])
    for row in rows:
        if row["reason"] and row["status"] == "evaluated":
            yield f"{row['rule']}: {row['health'].replace('_', ' ')}: {row['reason']}"
        if row["edited"]:
            yield f"{row['rule']}: edited since; it begins anew when the daemon evaluates it next"
        if row["status"] == "removed":
            yield f"{row['rule']}: not configured any more; the daemon closes it when it looks next"
        if row["acknowledged_by"]:
            since = moment(row["firing_since"])
            yield f"{row['rule']}: firing since {since}, acknowledged by {row['acknowledged_by']}"
    if configured.off:
        yield f"turned off: {', '.join(configured.off)}"
    waiting = [row["rule"] for row in rows if row["status"] == "waiting"]
    if waiting:
        yield f"{', '.join(waiting)}: {RUN_DAEMON}"
    late = [r for r in rows if r["next_at"] and now - r["evaluated_at"] > _patience(r)]
    if late:
        oldest = min(r["evaluated_at"] for r in late)
        yield f"last evaluated {render.age(oldest, now)} ago: is gpucost daemon running?"
    if stored.silences:
        silences = render.counted(stored.silences, "silence")
        yield f"{silences} in force: gpucost alerts silence --list"
    if stored.dead:
        yield f"{render.counted(stored.dead, 'notice')} given up: gpucost alerts outbox --dead"


def _patience(row: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=row["every_seconds"]) + LATE
