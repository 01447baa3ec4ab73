"""Everything that is served beside health and metrics, put together in one place."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp

from tracker.app.answers import Answers
from tracker.web.api.app import Service, make_api
from tracker.web.api.guard import Access, Guard, Limits
from tracker.web.pages.site import make_pages


def site_routes(
    answers: Callable[[], Answers], access: Access, limits: Limits | None = None
) -> list[BaseRoute]:
    """The programming interface under /api, and the pages for people at all other addresses.

    *answers* gives the read side of this moment. Both are guarded alike.
    """
    service = Service(answers, access, limits or Limits())
    pages = Guard(make_pages(answers), access, limits)
    return [_Whole("/api", make_api(service)), _Whole("/", pages)]


class _Whole(Mount):
    """A mount of every address that begins so, whatever is in the rest: line ends too."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        super().__init__(path, app)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)
