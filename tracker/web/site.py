"""Everything that is served beside health and metrics, put together in one place."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import BaseRoute, Router

from tracker.app.answers import Answers
from tracker.web.api.app import Service, make_api
from tracker.web.api.guard import Access, Guard, Limits
from tracker.web.pages.site import make_pages
from tracker.web.whole import Whole


def site_routes(
    answers: Callable[[], Answers], access: Access, limits: Limits | None = None
) -> list[BaseRoute]:
    """The programming interface under /api, and the pages for people at all other addresses.

    *answers* gives the read side of this moment. Both are guarded alike.
    """
    service = Service(answers, access, limits or Limits())
    pages = Guard(make_pages(answers), access, limits)
    return [Whole("/api", make_api(service)), Whole("/", pages)]


def site_app(answers: Callable[[], Answers], access: Access) -> Router:
    """``site_routes`` as one application."""
    return Router(site_routes(answers, access))
