"""One round without staying: what is due is polled, rules are evaluated, notices are sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from tracker.collect import PollOutcome
from tracker.daemon.alerting import make_deliverer
from tracker.daemon.plan import PRICE_BOOK
from tracker.daemon.service import Daemon
from tracker.daemon.term import Term
from tracker.store.errors import StoreError

log = logging.getLogger(__name__)


class NoneWorked(Exception):
    """Every provider that was due failed."""


async def run_once(daemon: Daemon) -> int:
    """One round of *daemon*; the exit code. Does nothing where another daemon leads.

    Raises StoreError, NoneWorked.
    """
    trouble: list[StoreError] = []
    try:
        link = await asyncio.to_thread(daemon.database.open)
        if not await asyncio.to_thread(link.leadership.acquire):
            log.info("another daemon leads and does all of it: nothing to do")
            return 0
        await daemon.look_for_doubts(daemon.plan)
        daemon.tell_what_is_wrong()
        # Nobody will be here to send what waits for others to go with it.
        deliverer = make_deliverer(
            daemon.plan, link, daemon.metrics, daemon.outages, trouble.append, group_wait_s=0
        )
        term = Term(
            daemon.plan, link, deliverer, daemon.metrics, daemon.outages, {}, trouble.append
        )
        try:
            outcomes = await term.once()
        finally:
            await term.end()
        if trouble:
            raise trouble[0]
        _judge(outcomes)
        return 0
    finally:
        await asyncio.to_thread(daemon.database.close)


def _judge(outcomes: Sequence[PollOutcome | None]) -> None:
    ended = [outcome for outcome in outcomes if outcome is not None]
    log.info("polled %d providers, %d with usable prices", len(ended), sum(o.ok for o in ended))
    # A price book is a file: that it was read is no answer of anybody, where others were asked.
    asked = [o for o in ended if o.provider != PRICE_BOOK] or ended
    if asked and not any(o.ok for o in asked):
        raise NoneWorked("no provider that was due gave usable prices; see the reasons above")
