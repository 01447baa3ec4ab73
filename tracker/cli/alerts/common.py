"""What the commands about alerts share: finding rules, opening the database, wording figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from tracker.app import App, NothingRecorded, standing
from tracker.app.standing import RUN_DAEMON as RUN_DAEMON
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.report.shapes.texts import moment as moment

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Engine

    from tracker.alert.rules import Rule
    from tracker.store.alerts import StoredRule

CONTEXT = {"help_option_names": ["-h", "--help"]}

_SIDES = (
    render.Column("SIDE"), render.Column("COST", right=True), render.Column("HOURS", 3, right=True),
    render.Column("$/H", 2, right=True), render.Column("$/GPU-H", 2, right=True),
    render.Column("GPU"), render.Column("PROVIDER"), render.Column("TIER", 4),
    render.Column("MARKET", 3), render.Column("REGION", 5), render.Column("SEEN", 2, right=True),
    render.Column("BASIS", 4), render.Column("OFFER"),
)  # fmt: skip


class Configured(standing.Configured):
    """The same, with rules that a command names."""

    def rule(self, name: str, *, kept: Collection[str] = ()) -> Rule:
        """The rule called *name*. Raises Exit for one that is wrong, turned off or unknown.

        *kept* are those that the database knows as well.
        """
        found = self.rules.get(name) or self.rules.get(name.lower())
        if found is not None:
            return found
        for problem in self.problems:
            if problem.rule == name:
                raise Exit(EXIT_USAGE, str(problem))
        if name in self.off:
            raise Exit(EXIT_USAGE, f"rule {name} is turned off (enabled = false)")
        if name in kept:
            raise Exit(EXIT_USAGE, f"rule {name} is no longer configured; its history is kept")
        raise unknown_rule(name, {*self.names, *kept})


def unknown_rule(name: str, known: Collection[str]) -> Exit:
    """How a command ends that names a rule which does not exist: with the nearest that does."""
    from tracker.alert.fields import nearest

    return Exit(EXIT_USAGE, f"no rule is called {name!r}; {nearest(name, known)}")


def nothing_recorded() -> Exit:
    """How a command ends that needs a database to which nothing was ever written."""
    return Exit(EXIT_NO_MATCH, "no poll recorded yet; start with: gpucost daemon")


@contextmanager
def reading(app: App) -> Iterator[psycopg.Connection[Any]]:
    """A snapshot of the database. Raises StoreError, and Exit where nothing was recorded."""
    try:
        with app.reading() as connection:
            yield connection
    except NothingRecorded:
        raise nothing_recorded() from None


@contextmanager
def working(app: App) -> Iterator[tuple[str, Engine]]:
    """The database's URL and a pool of connections that may write. Raises StoreError and Exit."""
    from tracker.store import migrate
    from tracker.store.engine import make_engine

    if app.embedded is not None and not app.embedded.status().data.exists():
        raise nothing_recorded()
    with app.database(upgrade=True) as url:
        migrate.check(url)
        engine = make_engine(url)
        try:
            yield url, engine
        finally:
            engine.dispose()


def stored_rules(app: App, *, include_removed: bool = False) -> list[StoredRule]:
    """The rules that have been evaluated; none where nothing was ever recorded."""
    from tracker.store import alerts

    try:
        with app.reading() as connection:
            return alerts.rules(connection, include_removed=include_removed)
    except NothingRecorded:
        return []


def ratio(value: Any) -> str:
    """A ratio for people: to the ten-thousandth."""
    try:
        return render.number(round(Decimal(str(value)), 4)) if value is not None else render.DASH
    except (InvalidOperation, ValueError):
        return str(value)


def time_of(text: Any) -> datetime | None:
    """A time that was written as text; None for what is none."""
    try:
        return None if text is None else datetime.fromisoformat(str(text))
    except ValueError:
        return None


def print_sides(inputs: Mapping[str, Any], selections: Sequence[str] = ()) -> None:
    """The bills (or prices) that an evaluation stands on, and what it left out.

    *selections* are those of the condition: a side without any offer does not name its own.
    """
    from tracker.alert import words

    named = inputs.get("labels") or {name: inputs.get(name) for name in ("left", "right")}
    rows = [(str(side.get("selection") or name), side) for name, side in named.items() if side]
    rows += [("new", offer) for offer in inputs.get("found") or []]
    if rows:
        render.print_table(_SIDES, [_side(name, side) for name, side in rows])
    for told, check in (inputs.get("checks") or {}).items():
        name = told.removeprefix("label ")
        if name not in named:
            continue  # the leader among labels, once more
        left_out = ", ".join(
            f"{n:,} {reason}" for reason, n in sorted(
                (check.get("excluded") or {}).items(), key=lambda item: -item[1]
            ) if n
        )  # fmt: skip
        counts = check.get("counts") or {}
        offers = counts.get("considered", 0) + sum((check.get("excluded") or {}).values())
        of = f"{counts.get('used', 0):,} of {offers:,} offers counted"
        doubts = [f"{counts[w]:,} {w}" for w in ("stale", "held", "partial") if counts.get(w)]
        out = f"left out: {left_out}" if left_out else ""
        written = dict(zip(("left", "right"), selections, strict=False)).get(name, name)
        who = (named.get(name) or {}).get("selection") or written
        render.say(f"{who}: {'; '.join(filter(None, (of, ', '.join(doubts), out)))}")
    even = inputs.get("break_even_usd_per_gpu_hour")
    if even is not None and rows:
        render.say(f"break-even: {rows[0][0]} at {words.usd(even, 4)} per GPU-hour")


def _side(name: str, side: Mapping[str, Any]) -> list[str]:
    from tracker.alert import words

    def known(key: str) -> str:
        value = side.get(key)
        return render.DASH if value is None else str(value)

    def usd(key: str, places: int) -> str:
        return render.DASH if side.get(key) is None else words.usd(side[key], places)

    bound = ">= " if side.get("lower_bound") else ""
    cost = usd("job_cost_usd", 2)
    hours = side.get("billed_hours")
    gpus = f"{known('gpu_count')} x {known('gpu')}"
    if isinstance(side.get("machines"), int) and side["machines"] > 1:
        gpus = f"{side['machines']} x ({gpus})"
    age = side.get("age_seconds")
    return [
        name, cost if cost == render.DASH else bound + cost,
        render.DASH if hours is None else words.plain(hours, 2), usd("price_usd_per_hour", 4),
        usd("price_usd_per_gpu_hour", 4), gpus, known("provider"), known("tier"),
        known("market").replace("_", " "), known("region"),
        render.DASH if age is None else render.duration(age), known("basis"), known("offer"),
    ]  # fmt: skip
