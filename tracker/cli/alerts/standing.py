"""``gpucost alerts list``: how every rule stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from tracker.app import App, NothingRecorded
from tracker.app.standing import COLUMNS, alerts_report
from tracker.app.standing import is_about_offers as is_about_offers
from tracker.app.standing import rounded as rounded
from tracker.app.standing import row_of as row_of
from tracker.app.standing import state_of as state_of
from tracker.app.standing import thresholds as thresholds
from tracker.cli import render
from tracker.cli.alerts.common import CONTEXT, ratio
from tracker.cli.options import output_option

_TABLE = (
    render.Column("RULE"), render.Column("WHEN", 2), render.Column("JOB", 4),
    render.Column("PHASE"), render.Column("HEALTH"), render.Column("VALUE", right=True),
    render.Column("FIRES", 3, right=True), render.Column("CLEARS", 3, right=True),
    render.Column("SINCE", 1, right=True), render.Column("EVALUATED", 1, right=True),
    render.Column("NEXT", 3, right=True),
)  # fmt: skip


@click.command("list", context_settings=CONTEXT)
@output_option
@click.pass_obj
def list_(obj: dict[str, Any], output: str) -> None:
    """Every rule: its phase, its health, its value against its thresholds, and what is wrong."""
    app = App(obj["config"])
    now = datetime.now(UTC)
    try:
        with app.reading() as connection:
            found = alerts_report(app, connection, now)
    except NothingRecorded:
        found = alerts_report(app, None, now)
    rows, remarks = found.rows, found.remarks
    if output not in ("table", "wide"):
        render.print_rows(output, rows, COLUMNS, found.document(), "\n".join(remarks))
        return
    render.print_table(_TABLE, [_line(row, now) for row in rows], wide=output == "wide")
    if remarks:
        render.say()
    for line in remarks:
        render.say(line)


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
