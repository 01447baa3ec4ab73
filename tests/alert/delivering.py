"""A deliverer on a real outbox, with real receivers, for the tests of delivery."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Engine

from tests.store.worlds import rows
from tests.support.hook import Hook
from tracker.alert.deliver import Deliverer, Pace
from tracker.notify import Channel
from tracker.notify.webhook import WebhookChannel
from tracker.telemetry import Redactor

AT_ONCE = Pace(group_wait=timedelta(0), poll=timedelta(seconds=0.05))


def webhook(hook: Hook, name: str = "hook") -> Channel:
    """A channel to *hook*."""
    return WebhookChannel(
        name, SecretStr(hook.address), allow_private=True, redactor=Redactor([hook.address])
    )


class Longest(random.Random):
    """Draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return b


def deliverer(engine: Engine, *channels: Channel, pace: Pace = AT_ONCE, **how: Any) -> Deliverer:
    """Delivers what is in the outbox to *channels*, at once, with the longest pauses."""
    how.setdefault("redactor", Redactor())
    how.setdefault("rng", Longest())
    return Deliverer(engine, {channel.name: channel for channel in channels}, pace=pace, **how)


def last_errors(url: str) -> list[str]:
    """What stands with the rows that did not pass."""
    found = rows(url, "SELECT last_error FROM alert_outbox WHERE last_error IS NOT NULL")
    return [error for (error,) in found]


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is *true*."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what it waits for happens in a database
            await asyncio.sleep(0.02)
