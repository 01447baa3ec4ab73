"""Reading the configuration anew while the daemon runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tracker.app import App
from tracker.daemon.plan import Plan, make_plan
from tracker.settings import SettingsError


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
