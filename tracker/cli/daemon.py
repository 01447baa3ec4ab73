"""``gpucost daemon``: poll, evaluate the alerts and send notices, for months."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any

import click

from tracker.cli.exits import EXIT_ALL_FAILED, EXIT_USAGE, Exit

END_S = 5.0  # that threads which cannot be stopped get once everything is in order


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--once", is_flag=True, help="One round for what is due, then end: for cron.")
@click.pass_obj
def daemon(obj: dict[str, Any], /, once: bool) -> None:
    """Poll every provider at its own pace, evaluate the alert rules and send their notices.

    Several daemons may share one database: one works, the others stand by. SIGHUP reads the
    configuration anew, SIGTERM ends in order, a second one at once.
    """
    from tracker.daemon import memory
    from tracker.daemon.once import NoneWorked, run_once
    from tracker.daemon.service import Daemon
    from tracker.web.server import CannotListen

    memory.settle()
    try:
        made = Daemon(obj["config"])
        code = asyncio.run(_to_the_end(run_once(made) if once else made.run()))
    except CannotListen as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except NoneWorked as error:
        raise Exit(EXIT_ALL_FAILED, str(error)) from None
    if code:
        raise Exit(code)


async def _to_the_end(work: Coroutine[Any, Any, int]) -> int:
    """Await *work*; then threads that hang in a provider's module must not keep the process."""
    code = 1
    try:
        code = await work
    finally:
        end = threading.Timer(END_S, os._exit, (code,))
        end.daemon = True
        end.start()
    return code
