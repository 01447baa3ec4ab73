"""The channel that writes into the log."""

from __future__ import annotations

import io
import logging

import pytest

from tracker.notify import Notice
from tracker.notify.log import LogChannel
from tracker.telemetry import Redactor, setup_logging


@pytest.mark.anyio
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_notice_is_written_at_every_log_level(level: str, anyio_backend: str) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    before = root.level
    handler = setup_logging(level, "text", redactor=Redactor(), stream=stream)
    try:
        await LogChannel().send(Notice("event-1", "it fired", "It fired."))
        logging.getLogger("tracker.other").warning("something else")
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    assert "It fired." in stream.getvalue()
    assert ("something else" in stream.getvalue()) == (level != "error")
