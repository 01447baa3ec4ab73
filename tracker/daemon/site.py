"""The programming interface inside the daemon: it follows a reloaded configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracker.app.answers import Answers
from tracker.app.live import LiveApp
from tracker.daemon.plan import Plan
from tracker.web.api.guard import Access
from tracker.web.site import site_routes

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


def routes(
    plan: Callable[[], Plan],
    url: Callable[[], str],
    config: str | Path | None,
    env: Mapping[str, str] | None,
) -> list[BaseRoute]:
    """The routes, for whatever *plan* is in force and the database that *url* gives.

    Other machines can ask where ``listen`` says so, with the token.
    """
    made: tuple[Plan, Answers] | None = None

    def answers() -> Answers:
        nonlocal made
        current = plan()
        if made is None or made[0] is not current:
            made = current, Answers(LiveApp(url, config, env, current.app.redactor))
        return made[1]

    token = plan().app.settings.daemon.api_token
    access = Access(None if token is None else token.get_secret_value())
    return site_routes(answers, access)
