"""What goes wrong, as application/problem+json (RFC 9457): one line that says what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.responses import Response

from tracker.app import NothingRecorded
from tracker.app.asked import BadQuestion
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import JobError
from tracker.registry import BrokenProvider, UnknownProvider, UnknownTier
from tracker.report.shapes.texts import json_text
from tracker.settings import SettingsError
from tracker.store.errors import StoreError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
_TITLES = {
    400: "The question makes no sense", 401: "A token is needed", 403: "Not allowed",
    404: "Not found", 405: "Not a method of this address", 406: "No such format",
    409: "It stands otherwise", 413: "Too large", 414: "Too long an address",
    415: "Not such a body", 421: "Another host is asked for", 429: "Too many questions",
    500: "An error in gpucost", 503: "No answer at the moment",
}  # fmt: skip


class Refused(Exception):
    """An answer with a status other than 200. ``kind`` names the problem for programs."""

    def __init__(
        self, status: int, kind: str, detail: str, *, parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.parameter = parameter
        self.headers = dict(headers or {})


def response(problem: Refused) -> Response:
    """The problem as an answer."""
    body = {
        "type": f"urn:gpucost:problem:{problem.kind}",
        "title": _TITLES.get(problem.status, "Refused"),
        "status": problem.status,
        "detail": problem.detail,
        "parameter": problem.parameter,
    }
    text = f"{json_text(body, indent=2)}\n".encode(errors="backslashreplace")
    return Response(
        text, problem.status, media_type=MEDIA_TYPE,
        headers={"cache-control": "no-store", **problem.headers},
    )  # fmt: skip


def refusal(error: Exception) -> Refused:
    """The problem that an error of the layers below is. What is not foreseen is logged, and the
    one who asked is told nothing of it."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BadQuestion):
        return Refused(400, "bad-question", error.said(str), parameter=error.parameter)
    if isinstance(error, JobError):
        return Refused(400, "bad-job", str(error), parameter="job")
    if isinstance(error, UnknownGpu):
        return Refused(400, "unknown-gpu", str(error), parameter="gpu")
    if isinstance(error, UnknownTier):
        return Refused(400, "unknown-tier", str(error), parameter="tier")
    if isinstance(error, UnknownProvider | BrokenProvider):
        return Refused(400, "unknown-provider", str(error))
    if isinstance(error, NothingRecorded):
        return Refused(404, "nothing-recorded", "no prices yet; ask for some with: gpucost poll")
    if isinstance(error, StoreError):
        retry = {"retry-after": str(RETRY_AFTER_S)}
        return Refused(503, "database", str(error), headers=retry)
    if isinstance(error, SettingsError):
        return Refused(503, "configuration", str(error))
    log.error("an answer failed", exc_info=error)
    return Refused(500, "internal", "internal error; the log of gpucost has the details")
