"""The channel that needs nothing: a line in gpucost's own log."""

from __future__ import annotations

import logging

from tracker.notify.channel import Notice

log = logging.getLogger("tracker.notify.log")
log.setLevel(logging.WARNING)  # its own: a notice that was sent is written, whatever log_level says


class LogChannel:
    """Writes warnings. They are shown at every log level."""

    kind = "log"
    max_characters = 4000
    groups = False

    def __init__(self, name: str = "log") -> None:
        self.name = name

    async def send(self, notice: Notice) -> None:
        """Write the notice; it cannot fail."""
        log.warning("%s", notice.text, extra={"event_id": notice.event_id})
