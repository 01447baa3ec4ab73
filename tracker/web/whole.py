"""A mount that takes every address."""

from __future__ import annotations

import re

from starlette.routing import Mount
from starlette.types import ASGIApp


class Whole(Mount):
    """A mount of every address that begins so, whatever is in the rest: line ends too."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        super().__init__(path, app)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)
