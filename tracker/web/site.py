"""Everything that is served beside health and metrics, put together in one place."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import BaseRoute, Mount

from tracker.app.answers import Answers
from tracker.web.api.app import Service, make_api
from tracker.web.api.guard import Access, Limits


def site_routes(
    answers: Callable[[], Answers], access: Access, limits: Limits | None = None
) -> list[BaseRoute]:
    """The routes of the programming interface. *answers* gives the read side of this moment."""
    service = Service(answers, access, limits or Limits())
    return [Mount("/api", make_api(service))]
