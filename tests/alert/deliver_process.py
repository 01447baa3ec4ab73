"""A process that delivers, to be killed: ``deliver_process.py DATABASE_URL HOOK_URL``."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from pydantic import SecretStr

from tracker.alert.deliver import Deliverer, Pace
from tracker.notify.webhook import WebhookChannel
from tracker.store.engine import make_engine
from tracker.telemetry import Redactor


async def main(database_url: str, hook_url: str) -> None:
    """Deliver to one webhook until killed."""
    hook = WebhookChannel(
        "hook", SecretStr(hook_url), allow_private=True, redactor=Redactor([hook_url])
    )
    pace = Pace(group_wait=timedelta(0), poll=timedelta(seconds=0.02))
    deliverer = Deliverer(make_engine(database_url), {"hook": hook}, redactor=Redactor(), pace=pace)
    await deliverer.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
