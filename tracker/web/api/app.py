"""The FastAPI application under /api: questions in, answers and problems out."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlencode

import anyio
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tracker import __version__
from tracker.app.answers import QUESTIONS, Answers, Question
from tracker.app.asked import BadQuestion, whole
from tracker.app.asker import AskerGone, still_asked
from tracker.app.measuring import measurements_of
from tracker.report.shapes import jobs as job_shapes
from tracker.report.shapes.texts import SCHEMA_VERSION, json_text, plain
from tracker.store.errors import DatabaseUnreachable, StoreError
from tracker.web.api import described, models, models_alerts, models_offers, models_past, writes
from tracker.web.api.accept import accepted
from tracker.web.api.guard import Access, Guard, Limits
from tracker.web.api.heads import Heads
from tracker.web.api.kept import Keeper, Kept
from tracker.web.api.page import DOCS_CSP, page
from tracker.web.api.problems import Refused, refusal, response
from tracker.web.api.views import FORMATS, VIEWS, body
from tracker.web.there import in_thread, while_there

CACHE_CONTROL = "private, max-age=5"
AT_ONCE = 2  # answers that are worked out at the same time; more would share one interpreter
MOST_WAITING = 64
MARK_HOLDS_S, MARK_TAKES_S = 1.0, 10.0  # the database is away when its state takes longer
MAX_OFFSET = 100_000
_HEADER_CHARS = re.compile(r"[^\x20-\x7e]")


@dataclass
class Service:
    """What answers: *answers* gives the current read side (a reload may change it)."""

    answers: Callable[[], Answers]
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)
    keeper: Keeper = field(default_factory=Keeper)
    _marked: tuple[float, Hashable] | None = None
    _marking: asyncio.Future[Hashable] | None = None
    _since: float = 0.0  # when that began
    _waiting: int = 0

    @functools.cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(AT_ONCE)

    async def work(self, do: Callable[[], Any]) -> Any:
        """*do* in a thread; a few at once. Raises Refused where too many wait. What is cancelled
        leaves the queue."""
        if self._waiting >= MOST_WAITING:
            raise Refused(
                503, "busy", "too many questions at once: retry in a moment",
                headers={"retry-after": "1"},
            )  # fmt: skip
        self._waiting += 1
        try:
            return await in_thread(do, self._limiter)
        finally:
            self._waiting -= 1

    async def mark(self) -> Hashable:
        """The state of the database, not older than MARK_HOLDS_S; one reads it for all who ask.

        It is read again before it is too old, so that nobody waits while many ask. Raises
        StoreError, also where the database hangs.
        """
        now = time.monotonic()
        age = MARK_HOLDS_S if self._marked is None else now - self._marked[0]
        if age >= MARK_HOLDS_S / 2 and self._marking is None:
            self._since = now
            self._marking = asyncio.ensure_future(self._read_mark())
            self._marking.add_done_callback(self._mark_is_read)
        if self._marked is not None and age < MARK_HOLDS_S:
            return self._marked[1]
        assert self._marking is not None  # noqa: S101 - begun above, or under way
        left = max(0.0, self._since + MARK_TAKES_S - now)
        done, _ = await asyncio.wait({self._marking}, timeout=left)
        if not done:
            raise DatabaseUnreachable(
                "the database does not answer: look whether it runs, or retry"
            )
        return done.pop().result()

    async def _read_mark(self) -> Hashable:
        reading = getattr(self.answers().app, "mark", None)
        if reading is None:
            return None
        began = time.monotonic()
        # Not behind the questions that are worked out: every answer waits for this.
        found = await anyio.to_thread.run_sync(reading, abandon_on_cancel=True)
        self._marked = began, found
        return self._marked[1]

    def _mark_is_read(self, done: asyncio.Future[Hashable]) -> None:
        self._marking = None
        if not done.cancelled():
            done.exception()  # looked at: whoever asked may have gone

    async def answer(
        self, name: str, given: Iterable[tuple[str, str]], request: Request,
        form: str | None = None,
    ) -> Response:  # fmt: skip
        """The answer to a question whose parameters are *given*; *form*: what its address names."""
        own, asked = _split(given)
        if form is None:
            form = _format(own.get("format"), request.headers.get("accept", ""))
        elif "format" in own:
            raise BadQuestion("format", "the address names a format already")
        offset = _offset(own.get("offset"), name)
        answers = self.answers()
        question = Question.parsed(name, asked, self.utc_now())
        spelt = [*asked, *([("format", form)] if "format" in own else [])]
        address = _Address(f"{request.scope.get('root_path', '')}{_path(request)}", tuple(spelt))
        key = (answers, name, address, form, offset)  # the next page is at the same address
        mark = await self.mark()
        since = time.monotonic() if self._marked is None else self._marked[0]

        def make() -> tuple[bytes, dict[str, str]]:
            with answers.app.content_with(since):
                view = VIEWS[name](answers, question, offset)
            still_asked()
            following = None
            if view.more:
                following = address.of_page(offset + question.values["top"])
            headers = {"x-gpucost-left-out": _HEADER_CHARS.sub("?", view.footer)[:1000]}
            if following is not None:
                headers["link"] = f'<{following}>; rel="next"'
            return body(view, form, following), headers

        kept = self.keeper.find(key, mark)
        if kept is None:
            making = self.keeper.answer(key, mark, lambda: self.work(make))
            try:
                kept = await while_there(request, making)
            except AskerGone:
                return Response(status_code=503)  # which nobody reads
        return _found(kept, form, request)


def _split(given: Iterable[tuple[str, str]]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    own: dict[str, str] = {}
    asked = []
    for name, text in given:
        if name in ("format", "offset"):
            if name in own:
                raise BadQuestion(name, "is given twice")
            own[name] = text
        else:
            asked.append((name, text))
    return own, asked


def _format(named: str | None, accept: str) -> str:
    """The format by its name, or by what the client accepts."""
    if named is not None:
        if named not in FORMATS:
            raise BadQuestion("format", f"is one of {', '.join(FORMATS)}")
        return named
    found = accepted(accept, FORMATS)
    if found is None:
        known = ", ".join(kind.partition(";")[0] for kind in FORMATS.values())
        raise Refused(406, "format", f"answers come as {known}")
    return found


def _offset(text: str | None, name: str) -> int:
    if text is None:
        return 0
    if name not in described.PAGED:
        raise BadQuestion(None, "there is no parameter 'offset': this answer has one page")
    try:
        return whole(text, 0, MAX_OFFSET)
    except ValueError as error:
        raise BadQuestion("offset", str(error)) from None


class _Address(NamedTuple):
    """Where something is asked, from the root of this server: with the parameters as spelt."""

    path: str
    spelt: tuple[tuple[str, str], ...]

    def of_page(self, offset: int) -> str | None:
        """Where the answer goes on; None: no further than that."""
        if offset > MAX_OFFSET:
            return None
        return f"{self.path}?{urlencode([*self.spelt, ('offset', str(offset))])}"


def _path(request: Request) -> str:
    root = request.scope.get("root_path", "")
    path = request.scope["path"]
    return str(path.removeprefix(root) if root else path)


def _found(kept: Kept, form: str, request: Request) -> Response:
    headers = {"etag": kept.etag, "cache-control": CACHE_CONTROL, "vary": "accept", **kept.headers}
    known = {tag.strip().removeprefix("W/") for tag in
             request.headers.get("if-none-match", "").split(",")}  # fmt: skip
    if kept.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(kept.body, media_type=FORMATS[form], headers=headers)


def make_api(service: Service) -> FastAPI:
    """The application, to be mounted at /api. Its document is at /api/openapi.json."""
    app = FastAPI(
        title="gpucost", version=__version__, docs_url=None, redoc_url=None,
        openapi_url=None, redirect_slashes=False,
        description="What a whole GPU job costs. Money is text in USD, never a number; what is not "
        "known is null. Every answer with rows also comes as CSV and NDJSON: by the Accept header, "
        "by format=, or by the address: /api/v1/cheapest.csv.",
        servers=[{"url": "/api"}],
    )  # fmt: skip
    router = APIRouter(prefix="/v1", route_class=_Plain)
    for name in VIEWS:
        _add_question(router, service, name)
    _add_job(router, service)
    writes.add(router, service)
    app.include_router(router)
    _add_documents(app)
    app.add_exception_handler(Exception, _refused)
    app.add_exception_handler(HTTPException, _not_here)
    for kind in (Refused, BadQuestion, StoreError):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Guard, access=service.access, limits=service.limits)
    app.add_middleware(Heads)
    return app


class _Plain(APIRoute):
    """A route whose errors are problems."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except HTTPException:
                raise
            except Exception as error:
                return response(refusal(error))

        return handle


async def _refused(_request: Request, error: Exception) -> Response:
    return response(refusal(error))


async def _not_here(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict((error.headers if isinstance(error, HTTPException) else None) or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"  # see Heads
    details = {
        404: ("not-found", "there is nothing at this address; see /api/docs"),
        405: ("method", "this address does not take that method"),
    }
    kind, detail = details.get(status, ("refused", "the request cannot be read"))
    return response(Refused(status, kind, detail, headers=headers))


def _add_question(router: APIRouter, service: Service, name: str) -> None:
    async def ask(request: Request) -> Response:
        return await service.answer(name, request.query_params.multi_items(), request)

    def in_format(form: str) -> Callable[[Request], Any]:
        async def ask_so(request: Request) -> Response:
            return await service.answer(name, request.query_params.multi_items(), request, form)

        return ask_so

    _, title, text = described.ANSWERS[name]
    path = described.path_of(name)
    router.add_api_route(
        f"/{path}", ask, methods=["GET"], name=name, operation_id=name, summary=title,
        description=text, responses=described.answered(name), response_class=Response,
        openapi_extra={"parameters": described.parameters(name)},
    )  # fmt: skip
    for form in FORMATS:
        router.add_api_route(
            f"/{path}.{form}", in_format(form), methods=["GET"], include_in_schema=False
        )


def _add_job(router: APIRouter, service: Service) -> None:
    async def job(request: Request) -> Response:
        name = request.path_params["name"]
        if request.query_params:
            raise BadQuestion(None, "a job by name takes no parameters")

        def read() -> bytes:
            try:
                found = service.answers().job(name)
            except BadQuestion as error:
                raise Refused(404, "no-such-job", error.said(str)) from None
            runs, remark = measurements_of(service.answers().app, found)
            told = {**job_shapes.document(found), "measurements": job_shapes.measured(found, runs),
                    "remark": remark}  # fmt: skip
            document = {"schema_version": SCHEMA_VERSION, **plain(told)}
            return (json_text(document) + "\n").encode()

        return Response(await service.work(read), media_type=FORMATS["json"],
                        headers={"cache-control": CACHE_CONTROL})  # fmt: skip

    schema = {"$ref": "#/components/schemas/JobAnswer"}
    router.add_api_route(
        "/jobs/{name}", job, methods=["GET"], operation_id="job", summary="One job",
        description="What it is, what it assumes, and what was measured of it.",
        response_class=Response,
        responses={
            200: {"description": "The job", "content": {"application/json": {"schema": schema}}},
            **described.refusals(),
        },
        openapi_extra={"parameters": [described.in_path("name")]},
    )  # fmt: skip


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the models of all answers."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi
        from pydantic.json_schema import models_json_schema

        found = get_openapi(
            title=app.title, version=app.version, description=app.description,
            routes=app.routes, servers=app.servers,
        )  # fmt: skip
        modules = (models, models_alerts, models_offers, models_past)
        kinds = [kind for m in modules for kind in vars(m).values() if _is_model(kind, m)]
        _, schemas = models_json_schema(
            [(kind, "serialization") for kind in kinds],
            ref_template="#/components/schemas/{model}",
        )
        components = found.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            components.pop(unused, None)
        components |= schemas["$defs"]
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = found
    return app.openapi_schema


def _is_model(kind: object, module: ModuleType) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, BaseModel)
        and kind.__module__ == module.__name__
    )


def _add_documents(app: FastAPI) -> None:
    @functools.cache
    def texts() -> Mapping[str, tuple[bytes, str]]:
        found = document(app)
        return {
            "/openapi.json": (f"{json_text(found, indent=1)}\n".encode(), FORMATS["json"]),
            "/docs": (page(found).encode(), "text/html; charset=utf-8"),
        }

    async def document_at(request: Request) -> Response:
        path = _path(request)
        content, kind = texts()[path]
        headers = {"cache-control": "private, max-age=300"}
        if path == "/docs":
            headers["content-security-policy"] = DOCS_CSP
        return Response(content, media_type=kind, headers=headers)

    for path in ("/openapi.json", "/docs"):
        app.add_route(path, document_at, methods=["GET"], include_in_schema=False)


__all__ = ["QUESTIONS", "Service", "document", "make_api"]
