"""Reading the configuration anew while the daemon runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tracker.app import App
from tracker.daemon.plan import Plan, make_plan
from tracker.settings import SettingsError

# Settings that are taken up at the start alone.
_AT_START = ("database_url", "data_dir", "postgres_bindir", "postgres_user")
_AT_START_OF_DAEMON = ("serve", "listen", "port", "lock_database_url", "api_token",
                       "allow_hosts")  # fmt: skip


def read_again(
    before: Plan, config: str | Path | None, env: Mapping[str, str] | None = None
) -> Plan:
    """The plan that the configuration makes now. *before* is the one in force. Blocks.

    Raises SettingsError, UnknownProvider; also where the file that *before* was read from is gone.
    An editor that saves by renaming leaves a moment without one, and the defaults, or a file that
    is looked for later, are not what somebody meant who has a file.
    """
    file = before.app.settings.config_path
    _must_be_there(file)
    plan = make_plan(App(config, env, before.app.redactor))
    now = plan.app.settings.config_path
    if now != file:
        _must_be_there(file, gone=now is None)
    return plan


def _must_be_there(file: Path | None, *, gone: bool = False) -> None:
    if file is not None and (gone or not file.is_file()):
        raise SettingsError(f"{file} is gone; to go on without it, restart the daemon")


def only_at_start(before: Plan, after: Plan) -> set[str]:
    """The settings that have changed, and are taken up at the next start alone."""
    old, new = before.app.settings, after.app.settings
    changed = {n for n in _AT_START if getattr(old, n) != getattr(new, n)}
    return changed | {
        f"daemon.{n}"
        for n in _AT_START_OF_DAEMON
        if getattr(old.daemon, n) != getattr(new.daemon, n)
    }


class Reloads:
    """One reload at a time, and one more after it for all that were asked for meanwhile.

    So the configuration that was read last is the one in force, however long each takes.
    """

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Reload now, or again once the reload under way has ended. From the event loop."""
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._until_done(), name="reload")

    def cancel(self) -> None:
        """Leave off, and forget what was asked for."""
        self._asked = False
        if self._task is not None:
            self._task.cancel()

    async def _until_done(self) -> None:
        while self._asked:
            self._asked = False
            await self._reload()
