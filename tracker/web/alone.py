"""The application of a process that only serves: it polls nobody and evaluates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from tracker import __version__
from tracker.app import App, NothingRecorded
from tracker.app.answers import Answers
from tracker.app.live import LiveApp
from tracker.store.errors import StoreError
from tracker.web.api.guard import Access, Limits
from tracker.web.app import make_web
from tracker.web.figures import StoreFigures
from tracker.web.metrics import Metrics
from tracker.web.site import site_routes


class Alone:
    """Serves the database at *url* with the configuration of *app*."""

    def __init__(
        self,
        url: str,
        app: App,
        config: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._embedded = app.embedded
        renew = None if self._embedded is None else self._again
        self._live = LiveApp(lambda: self._url, config, env, app.redactor, renew)
        self._answers = Answers(self._live)

    def web(self, access: Access, limits: Limits | None = None) -> Starlette:
        """The application: health, metrics and what is beside them."""
        metrics = Metrics(StoreFigures(lambda: self._url, self._live.catalogue))
        beside = site_routes(lambda: self._answers, access, limits)
        return make_web(self, metrics, beside, access.hosts)

    def _again(self) -> str:
        """The URL of the embedded server, which is started anew when it has ended."""
        assert self._embedded is not None  # noqa: S101 - else nobody calls this
        with self._embedded.running() as url:  # the lease of whoever serves goes on
            self._url = url
        return url

    # -- what is known of it, see StatusSource ---------------------------------------------------

    def alive(self) -> bool:
        """That the loop answers is all there is."""
        return True

    def ready(self) -> tuple[bool, list[str]]:
        """Ready once the database answers."""
        missing = self._missing()
        return not missing, missing

    def status(self) -> dict[str, Any]:
        """What runs."""
        return {"version": __version__, "role": "serve", "missing": self._missing()}

    def _missing(self) -> list[str]:
        try:
            self._live.mark()
        except NothingRecorded:
            return []
        except StoreError as error:
            return [str(error)]
        return []
