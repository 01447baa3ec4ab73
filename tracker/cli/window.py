"""The options of a window: since when, until when, in which buckets and whose days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import click

from tracker.app.asked import BadQuestion
from tracker.app.windows import Window, window_of
from tracker.cli.options import stack, usage

F = TypeVar("F", bound=Callable[..., Any])

window_options: Callable[[F], F] = stack(
    [
        click.option("--since", metavar="TIME", default="90d", show_default=True,
                     help="So long ago (12h, 90d, 1y) or a date: 2026-03-01."),
        click.option("--until", metavar="TIME", help="A date, or so long ago. Default: now."),
        click.option("--bucket", metavar="LENGTH",
                     help="15m, 1h, 6h (what divides a day), 1d, 1w or 1mo. Default: by the"
                     " window."),
        click.option("--tz", metavar="ZONE", default="UTC", show_default=True,
                     help="Whose days and midnights: Europe/Berlin."),
    ]
)  # fmt: skip


def window_from(options: Mapping[str, Any], now: datetime) -> Window:
    """The window that the options ask for. Raises click.UsageError."""
    try:
        return window_of(options["since"], options["until"], options["bucket"], options["tz"], now)
    except BadQuestion as error:
        raise usage(error) from None
