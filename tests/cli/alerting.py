"""A database with prices, a configuration with rules and channels, and rules evaluated on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.alert.world import offer
from tests.cli.harness import Result, polled, record, run
from tests.support.providers import disabled
from tracker.alert.engine import AlertEngine, Evaluated
from tracker.app import App
from tracker.store.engine import connect, make_engine

SHIPPED = "h100-cheaper-than-a100"
CHEAPER = {"h100": "2.00", "a100": "1.20"}  # 8 USD against 14.40
DEARER = {"h100": "4.00", "a100": "1.20"}  # 16 USD against 14.40

# Nobody is polled but by the test itself.
_NOBODY = disabled()
AT_ONCE = 'min_count = 1\nmin_duration = "0s"\n'
QUICK = f"[alerts.rules.{SHIPPED}]\n{AT_ONCE}"


class Desk:
    """Where somebody sits who looks after the rules of one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def configure(self, text: str = "") -> None:
        """Write the configuration."""
        (self.folder / "gpucost.toml").write_text(text + "\n" + _NOBODY)

    def prices(self, prices: Mapping[str, str], minutes_ago: float = 5) -> None:
        """A poll of acme."""
        record(self.url, polled("acme", [offer(n, p) for n, p in prices.items()], minutes_ago))

    def evaluate(self, minutes_ago: float = 0) -> list[Evaluated]:
        """What the daemon does after a poll."""
        app, engine = App(), make_engine(self.url)
        rules, problems = app.alert_rules()
        broken = [problem.rule for problem in problems]
        try:
            alerts = AlertEngine(engine, rules, app.catalogue, broken=broken)
            return alerts.evaluate(datetime.now(UTC) - timedelta(minutes=minutes_ago), force=True)
        finally:
            engine.dispose()

    def all(self, sql: str) -> list[Any]:
        """What the database says."""
        with connect(self.url) as connection:
            return connection.execute(sql).fetchall()

    def state(self) -> list[Any]:
        """Everything that a command which only looks must leave as it is."""
        tables = ("alert_rule", "alert_event", "alert_outbox", "alert_silence")
        return [self.all(f"SELECT t::text FROM {t} t ORDER BY 1") for t in tables]  # noqa: S608


@contextmanager
def at_desk(url: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk with the shipped rule made quick, in *folder* (the current one)."""
    patch.setenv("GPUCOST_DATABASE_URL", url)
    desk = Desk(url, folder)
    desk.configure(QUICK)
    yield desk


def alerts(*argv: str) -> Result:
    """``gpucost alerts`` with *argv*."""
    return run("alerts", *argv)


def row(name: str) -> dict[str, Any]:
    """A rule in ``alerts list``."""
    rows: list[dict[str, Any]] = alerts("list", "-o", "json").json()["rows"]
    return next(r for r in rows if r["rule"] == name)
