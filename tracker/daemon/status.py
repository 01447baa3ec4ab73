"""What a daemon says of itself, to /livez, /readyz and /status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tracker import __version__
from tracker.daemon.plan import PRICE_BOOK
from tracker.report.health import ProviderHealth, provider_health
from tracker.store import schedule
from tracker.store.engine import read_connection
from tracker.store.errors import DatabaseUnreachable, StoreError
from tracker.store.schedule import StoredStanding

if TYPE_CHECKING:
    from tracker.daemon.service import Daemon

_TIMEOUT_S = 5.0


class DaemonStatus:
    """A ``tracker.web.app.StatusSource``. ``ready`` and ``status`` read the database: they are
    true of whoever stands by, too."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._started_at = datetime.now(UTC)

    def database_url(self) -> str:
        """Where the database is. Raises DatabaseUnreachable before that is known."""
        link = self._daemon.database.link
        if link is None:
            raise DatabaseUnreachable("the database has not answered yet")
        return link.url

    def alive(self) -> bool:
        """Whether the loop goes round and no poll hangs."""
        return self._daemon.alive

    def ready(self) -> tuple[bool, list[str]]:
        """Whether questions can be answered with fresh prices, and what is missing for it."""
        daemon = self._daemon
        missing = ["stopping"] if daemon.stopping else []
        if not daemon.plan.polled:
            missing.append("no provider is configured")
        try:
            health, _ = self._read()
        except StoreError as error:
            return False, [*missing, f"database: {self._hide(error)}"]
        # A price book is a file: that it was read says nothing of the network. Where nobody else
        # is to be polled, it is what was asked for.
        asked = daemon.plan.polled.keys() - {PRICE_BOOK} or daemon.plan.polled.keys()
        standing = {h.provider.slug: h for h in health if h.provider.slug in asked}
        if asked and not any(h.provider.last_ok_at and not h.stale for h in standing.values()):
            missing.append("no provider has given fresh prices")
            for name in sorted(asked):
                said = standing[name].provider.last_error if name in standing else None
                missing.append(f"{name}: {said or 'no fresh answer yet'}")
        return not missing, missing

    def status(self) -> dict[str, Any]:
        """Everything, as plain values."""
        daemon = self._daemon
        told: dict[str, Any] = {
            "version": __version__,
            "started_at": self._started_at,
            "holder": daemon.holder,
            "leads": daemon.term is not None,
            "stopping": daemon.stopping,
            "trouble": daemon.outages.reasons,
            "reload_error": daemon.reload_error,
            "left_out": dict(daemon.plan.left_out),
            "alert_problems": [*daemon.plan.problems, *daemon.doubts],
            "providers": [],
        }
        try:
            health, standings = self._read()
        except StoreError as error:
            return told | {"database_error": self._hide(error)}
        now = datetime.now(UTC)
        known = {h.provider.slug: h for h in health}
        running = daemon.term.poller.running if daemon.term is not None else []
        told["providers"] = [
            {"provider": name, "polling": name in running}
            | _standing(standings.get(name))
            | (known[name].as_dict(now) if name in known else {})
            for name in daemon.plan.polled
        ]
        return told

    def _read(self) -> tuple[list[ProviderHealth], dict[str, StoredStanding]]:
        settings = self._daemon.plan.app.settings
        after = timedelta(days=settings.quality.retired_after_days)
        with read_connection(self.database_url(), statement_timeout_s=_TIMEOUT_S) as connection:
            kept = {row.provider: row for row in schedule.standings(connection)}
            now = datetime.now(UTC)
            return list(provider_health(connection, now, retired_after=after)), kept

    def _hide(self, error: StoreError) -> str:
        return self._daemon.plan.app.redactor.error(error)


def _standing(row: StoredStanding | None) -> dict[str, Any]:
    if row is None:
        return {"next_due_at": None, "breaker": "closed", "outage_since": None, "reason": None}
    return {
        "next_due_at": row.next_due_at,
        "breaker": row.breaker,
        "outage_since": row.outage_since,
        "reason": row.reason,
    }
