"""The pages that say how things stand: providers, and alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tracker.app.answers import Question
from tracker.app.root import NothingRecorded
from tracker.report.shapes import texts
from tracker.web.pages.site import Asked, Empty, PageKind
from tracker.web.pages.sorting import OWN, Column, heads, in_order

EVENTS_SINCE = timedelta(days=30)
MOST_EVENTS = 200


def _formats(asked: Asked, name: str) -> list[tuple[str, str]]:
    return [
        (form.upper(), asked.address.form(asked.site.api, name, form)) for form in ("json", "csv")
    ]


# --- providers --------------------------------------------------------------------------------


def fill_providers(asked: Asked, values: dict[str, Any]) -> None:
    """How each provider stands."""
    values |= {
        "formats": _formats(asked, "providers"), "rows": [], "never": [], "remark": None,
        "held": [],
    }  # fmt: skip
    question = Question.parsed("providers", asked.address.question)
    report = asked.site.answers.providers(question)
    every = report.rows()
    asked_ones = [row for row in every if row["provider"] not in report.never]
    asked_ones = in_order(asked.address, _PROVIDER_COLUMNS, asked_ones)
    rows = [_provider(row, report.now) for row in asked_ones]
    # Settings are the user's: what is wrong with them may quote one.
    never = [
        (row["provider"], asked.site.answers.app.redactor(row["problem"] or "not asked yet"))
        for row in every
        if row["provider"] in report.never
    ]
    values |= {
        "rows": rows, "never": never, "as_of": report.now,
        "heads": heads(asked.address, _PROVIDER_COLUMNS, "each"), **_held(asked),
    }  # fmt: skip
    late = [row["provider"] for row in rows if row["stale"]]
    values["remark"] = (
        f"Stale: {', '.join(late)}. Ask again with gpucost poll; gpucost doctor looks why."
        if late
        else None
    )
    if not rows:
        values["empty"] = Empty("No provider was asked yet:", ("gpucost poll", "gpucost daemon"))


_PROVIDER_COLUMNS = (
    Column("provider", "Provider", lambda r: r["provider"]),
    Column("state", "State", lambda r: _state(r)),
    Column("age", "Age", lambda r: r["age_seconds"], number=True),
    Column("last", "Last answer (UTC)", lambda r: r["last_ok_at"]),
    Column("due", "Next due (UTC)", lambda r: r["next_due_at"]),
    Column("every", "Every", lambda r: r.get("every_seconds"), number=True),
    Column("offers", "Offers", lambda r: r["offers"], number=True),
    Column("held", "Held back", lambda r: r["quarantined"], number=True),
    Column("rejected", "Rejected", lambda r: r["rejected"], number=True),
    Column("unknown", "Unknown GPUs", lambda r: r["unmapped"], number=True),
    Column("failures", "Failures in a row", lambda r: r["consecutive_failures"], number=True),
)


def _held(asked: Asked) -> dict[str, Any]:
    """What the gates hold back, the first of it."""
    question = Question.parsed("quarantined", ())
    report = asked.site.answers.quarantined(question)
    path = f"{asked.site.api}/offers/quarantined"
    return {
        "held": report.rows(question.values["top"]), "held_footer": report.footer,
        "held_formats": [("JSON", path), ("CSV", f"{path}.csv")],
    }  # fmt: skip


def _provider(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    polled = row["last_status"] is not None
    every = row.get("every_seconds")
    last = row["last_ok_at"]
    return {
        "provider": row["provider"],
        "state": _state(row),
        "stale": bool(row["stale"]),
        "last_ok_at": last,
        "age": texts.age(last, now) if last is not None else "never",
        "due": row["next_due_at"],
        "every": texts.duration(every) if every else texts.DASH,
        "figures": [
            texts.count(row[name]) if polled else texts.DASH
            for name in ("offers", "quarantined", "rejected", "unmapped", "consecutive_failures")
        ],
        "error": row["last_error"] if row["consecutive_failures"] else None,
        "rejects": sorted((row.get("rejects") or {}).items()),
    }


def _state(row: Mapping[str, Any]) -> str:
    if row["last_status"] is None:
        return "price book or import only"
    state = str(row["last_status"])
    if row["stale"] and row["last_ok_at"] is not None:
        state += ", stale"
    if row.get("retired"):
        state += ", retired"
    if row["unchanged_since"] is not None:
        state += f", unchanged since {row['unchanged_since']:%Y-%m-%d}"
    return state


PROVIDERS = PageKind(
    "/providers", "Providers", "providers", "providers.html", fill_providers, OWN,
    about_a_job=False,
)  # fmt: skip


# --- alerts -----------------------------------------------------------------------------------


def fill_alerts(asked: Asked, values: dict[str, Any]) -> None:
    """How each rule stands, and what happened of late."""
    values |= {
        "formats": _formats(asked, "alerts"), "rows": [], "events": [], "remarks": [],
        "since": EVENTS_SINCE.days, "silences": [],
    }  # fmt: skip
    question = Question.parsed("alerts", asked.address.question)
    report = asked.site.answers.alerts(question)
    values |= {
        "heads": heads(asked.address, _RULE_COLUMNS, "each"),
        "rows": [
            _rule(row, report.now) for row in in_order(asked.address, _RULE_COLUMNS, report.rows)
        ],
        "silences": _silences(asked),
        "remarks": report.remarks,
        "events": list(_events(asked, report.now)),
        "as_of": report.now,
    }
    if not report.rows:
        values["empty"] = Empty(
            "No rule is configured. docs/alerts.md has examples; then check yours and start:",
            ("gpucost alerts check", "gpucost daemon"),
        )


def _silences(asked: Asked) -> list[dict[str, Any]]:
    """Those in force; what somebody wrote may quote a secret of the settings."""
    hide = asked.site.answers.app.redactor
    rows = asked.site.answers.silences(Question.parsed("silences", ())).rows
    return [row | {name: hide(row[name]) for name in ("author", "comment")} for row in rows]


def _decimal(name: str) -> Callable[[Mapping[str, Any]], Decimal | None]:
    def value(row: Mapping[str, Any]) -> Decimal | None:
        return None if row[name] is None else Decimal(str(row[name]))

    return value


_RULE_COLUMNS = (
    Column("rule", "Rule", lambda r: r["rule"]),
    Column("state", "State", lambda r: r["phase"] or r["status"]),
    Column("when", "When", lambda r: r["when"]),
    Column("job", "Job", lambda r: r["job"]),
    Column("value", "Value", _decimal("value"), number=True),
    Column("fires", "Fires at", _decimal("enter"), number=True),
    Column("clears", "Clears at", _decimal("exit"), number=True),
    Column("since", "Since (UTC)", lambda r: r["since"]),
    Column("evaluated", "Evaluated", lambda r: r["evaluated_at"], number=True),
    Column("why", "Why"),
)


def _rule(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {
        **row,
        "evaluated": texts.age(row["evaluated_at"], now) if row["evaluated_at"] else "never",
        "value": _figure(row["value"]),
        "enter": _figure(row["enter"]),
        "exit": _figure(row["exit"]),
        "state": row["phase"] or row["status"],
    }


def _figure(value: Any) -> str:
    if value is None:
        return texts.DASH
    if isinstance(value, Decimal):
        return texts.number(value)
    return str(value)


def _rounded(value: Any) -> str:
    return _figure(round(value, 6) if isinstance(value, Decimal) else value)


def _events(asked: Asked, now: datetime) -> Iterator[dict[str, Any]]:
    """Newest first: what happened to rules. What a channel may have told of a secret is hidden."""
    app = asked.site.answers.app
    for event in alert_events(asked, now - EVENTS_SINCE):
        said = event.inputs.get("event") or {}
        reason = said.get("reason") or event.inputs.get("reason") or ""
        yield {
            "at": event.at, "rule": event.rule, "kind": event.kind, "value": _rounded(event.value),
            "reason": app.redactor(str(reason)), "kept_back": event.suppressed_by or "",
        }  # fmt: skip


def alert_events(asked: Asked, since: datetime) -> list[Any]:
    """The latest events of all rules since then; none where nothing was ever recorded."""
    from tracker.store import alerts

    try:
        with asked.site.answers.app.reading() as connection:
            return alerts.history(connection, since=since, limit=MOST_EVENTS)
    except NothingRecorded:
        return []


ALERTS = PageKind(
    "/alerts", "Alerts", "alerts", "alerts.html", fill_alerts, OWN, about_a_job=False
)  # fmt: skip
