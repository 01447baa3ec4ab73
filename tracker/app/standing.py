"""How every alert rule stands: as it is written down, and as it was evaluated last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tracker.report.shapes import texts
from tracker.report.shapes.texts import moment

if TYPE_CHECKING:
    import psycopg

    from tracker.alert.rules import Rule, RuleProblem
    from tracker.app.root import App
    from tracker.domain.rule.state import State
    from tracker.store.alerts import StoredRule

RUN_DAEMON = "not evaluated yet; run: gpucost daemon"

COLUMNS = (
    "rule", "title", "when", "job", "status", "phase", "health", "reason", "value", "label",
    "found", "enter", "exit", "since", "firing_since", "acknowledged_by", "version",
    "evaluated_at", "next_at", "every_seconds", "channels", "edited", "problems",
)  # fmt: skip

SILENCE_COLUMNS = (
    "id", "in_force", "rule", "job", "provider", "gpu", "starts_at", "until", "author", "comment",
)  # fmt: skip

# The daemon looks at the rules every quarter of a minute; what is so late is not on its way.
LATE = timedelta(minutes=5)


@dataclass(frozen=True)
class Configured:
    """The rules of a configuration: by name, what is wrong with others, and those turned off."""

    rules: Mapping[str, Rule]
    problems: tuple[RuleProblem, ...]
    off: tuple[str, ...]

    @classmethod
    def of(cls, app: App, providers: Collection[str] | None = None) -> Self:
        """Those of *app*. *providers*, where given, are all that a rule may name."""
        from tracker.alert.rules import shipped_rules

        rules, problems = app.alert_rules(providers)
        named = shipped_rules().keys() | app.settings.alerts.rules.keys()
        off = named - {rule.name for rule in rules} - {problem.rule for problem in problems}
        return cls({rule.name: rule for rule in rules}, problems, tuple(sorted(off)))

    @property
    def names(self) -> set[str]:
        """Every rule that is written down, whatever is wrong with it."""
        return {*self.rules, *self.off, *(problem.rule for problem in self.problems)}


@dataclass(frozen=True)
class _Stored:
    """What the database says: rules as they were evaluated last, and how much waits."""

    rules: Mapping[str, StoredRule]
    silences: int
    dead: int


def _stored(connection: psycopg.Connection[Any], now: datetime) -> _Stored:
    from tracker.store import alerts, outbox_admin

    return _Stored(
        {row.name: row for row in alerts.rules(connection)},
        len(alerts.silences(connection, now)),
        sum(counts.dead for counts in outbox_admin.counts(connection)),
    )


class AlertsReport(NamedTuple):
    """How all rules stand, and what one must know of them."""

    now: datetime
    rows: list[dict[str, Any]]
    remarks: list[str]

    def document(self) -> dict[str, Any]:
        """What stands around the rows."""
        return {"as_of": self.now, "remarks": self.remarks}


def alerts_report(
    app: App, connection: psycopg.Connection[Any] | None, now: datetime
) -> AlertsReport:
    """How all rules stand; without a connection, where nothing was ever recorded."""
    configured = Configured.of(app)
    stored = _Stored({}, 0, 0) if connection is None else _stored(connection, now)
    rows = list(_rows(configured, stored.rules, now))
    remarks = [app.redactor(line) for line in _remarks(app, configured, stored, rows, now)]
    return AlertsReport(now, rows, remarks)


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
        yield f"last evaluated {texts.age(oldest, now)} ago: is gpucost daemon running?"
    if stored.silences:
        silences = texts.counted(stored.silences, "silence")
        yield f"{silences} in force: gpucost alerts silence --list"
    if stored.dead:
        yield f"{texts.counted(stored.dead, 'notice')} given up: gpucost alerts outbox --dead"


def _patience(row: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=row["every_seconds"]) + LATE


class SilencesReport(NamedTuple):
    """Silences, by number."""

    now: datetime
    rows: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """What stands around the rows."""
        return {"as_of": self.now}


def silences_report(
    connection: psycopg.Connection[Any] | None, now: datetime, *, include_past: bool = False
) -> SilencesReport:
    """Those in force, or all of them; none without a connection."""
    from tracker.store import alerts

    if connection is None:
        return SilencesReport(now, [])
    found = alerts.silences(connection, None if include_past else now)
    rows = [s._asdict() | {"in_force": s.starts_at <= now < s.until} for s in found]
    return SilencesReport(now, rows)
