"""One line when something stops working, one when it works again, none in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tracker.store.errors import DatabaseUnreachable, StoreError
from tracker.store.leader import NotLeading

log = logging.getLogger(__name__)


class Outages:
    """What does not work right now, by name ("database", "delivery")."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def failed(self, what: str, reason: str) -> None:
        """*what* does not work; told once."""
        self._reasons[what] = reason
        if what not in self._since:
            self._since[what] = self._monotonic()
            log.error("%s: %s", what, reason)

    def store_failed(self, what: str, error: StoreError) -> None:
        """*what* failed because of the database. That it is away is one outage, whoever notices;
        that another daemon leads is none."""
        if not isinstance(error, NotLeading):
            away = isinstance(error, DatabaseUnreachable)
            self.failed("database" if away else what, str(error))

    def works(self, what: str) -> None:
        """*what* works; told if it did not."""
        self._reasons.pop(what, None)
        since = self._since.pop(what, None)
        if since is not None:
            log.warning("%s: works again after %s", what, lasted(self._monotonic() - since))

    @property
    def reasons(self) -> dict[str, str]:
        """What does not work, and why."""
        return dict(self._reasons)


def lasted(seconds: float) -> str:
    """A duration for people: 45 s, 12 min, 3 h 20 min, 2 d 4 h."""
    whole = max(round(seconds), 0)
    minutes, hours = round(whole / 60), whole // 3600
    if whole < 90:
        return f"{whole} s"
    if minutes < 90:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {whole % 3600 // 60} min"
    return f"{hours // 24} d {hours % 24} h"
