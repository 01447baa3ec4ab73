"""The channel that needs nothing: a line in gpucost's own log."""

from __future__ import annotations

import logging

from tracker.notify.channel import Notice

log = logging.getLogger("tracker.notify.log")


class LogChannel:
    """Writes warnings, which the log shows unless it is told to show errors alone."""

    kind = "log"
    max_characters = 4000
    groups = False

    def __init__(self, name: str = "log") -> None:
        self.name = name

    async def send(self, notice: Notice) -> None:
        """Write the notice; it cannot fail."""
        log.warning("%s", notice.text, extra={"event_id": notice.event_id})
