"""The programming interface inside the daemon: it follows a reloaded configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracker.daemon.plan import Plan

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tracker.app.answers import Answers


def routes(
    plan: Callable[[], Plan],
    url: Callable[[], str],
    config: str | Path | None,
    env: Mapping[str, str] | None,
) -> list[BaseRoute]:
    """The routes, for whatever *plan* is in force and the database that *url* gives.

    Other machines can ask where ``listen`` says so, with the token. What answers is loaded when
    somebody asks for the first time: a daemon that nobody asks is to stay small.
    """
    from tracker.web.whole import Whole

    made: tuple[Plan, Answers] | None = None
    loaded: ASGIApp | None = None
    loading = asyncio.Lock()

    def answers() -> Answers:
        from tracker.app.answers import Answers
        from tracker.app.live import LiveApp

        nonlocal made
        current = plan()
        if made is None or made[0] is not current:
            made = current, Answers(LiveApp(url, config, env, current.app.redactor))
        return made[1]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal loaded
        if loaded is None:
            async with loading:
                if loaded is None:
                    loaded = await asyncio.to_thread(make)
        await loaded(scope, receive, send)

    def make() -> ASGIApp:
        from tracker.web.api.guard import Access
        from tracker.web.site import site_app

        settings = plan().app.settings.daemon
        token = settings.api_token
        access = Access(
            None if token is None else token.get_secret_value(),
            hosts=frozenset(settings.allow_hosts),
        )
        return site_app(answers, access)

    return [Whole("/", app)]
