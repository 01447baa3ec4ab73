"""The site: its addresses, its templates, and what every page has in common."""

from __future__ import annotations

import hashlib
import logging
import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tracker.app.answers import QUESTIONS, Answers
from tracker.app.asked import BadQuestion, Parameter, unknown
from tracker.app.asker import AskerGone
from tracker.app.root import NothingRecorded
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import JobError
from tracker.registry import UnknownProvider
from tracker.report.shapes import texts
from tracker.web.pages.addresses import Address, parsed
from tracker.web.there import in_thread, while_there

if TYPE_CHECKING:
    from jinja2 import Environment

log = logging.getLogger(__name__)

# All that a page may do: its own scripts, styles and pictures, and forms that lead back here.
# What every answer has beside these: tracker.web.app.SECURITY_HEADERS.
PAGE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
}
_OPTION = re.compile(r"with --hours (\S+)")
AT_ONCE = 4  # pages that are made at the same time: each may hold a connection
STATIC = ("chart.js", "icon.svg", "page.js", "style.css", "uPlot.iife.min.js", "uPlot.min.css")


class Empty(NamedTuple):
    """Why there is nothing to show, the commands that change it, and links (text and address)."""

    why: str
    commands: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def only_stale(address: Address, *, expired: bool) -> Empty:
    """That only stale prices match (*expired*: typed ones of one's own), and what to do."""
    link = ("show them, marked as stale", address.href(include_stale="true"))
    if expired:
        return Empty(
            "Only prices that you typed match, and their time is up: no poll renews them. Give "
            "them a new valid_as_of and expires in your price book, then have it read again:",
            ("gpucost poll --provider pricebook",), (link,),
        )  # fmt: skip
    return Empty(
        "Only stale prices match: none was confirmed for too long. Ask again, or look who did not "
        "answer:",
        ("gpucost poll", "gpucost providers"), (link,),
    )  # fmt: skip


def in_page_words(line: str) -> str:
    """A remark that names an option of the command line, with the field of the page instead."""
    return _OPTION.sub(r'under "Hours per GPU": \1', line)


class Site(NamedTuple):
    """What pages are made with. ``api`` is where programs ask the same."""

    answers: Answers
    api: str


class Asked(NamedTuple):
    """What a page is asked for."""

    site: Site
    address: Address


class PageKind(NamedTuple):
    """A page: the question it answers, its template, and what fills that in.

    ``own`` are the parameters that only the page knows, with their defaults; ``also`` those of
    another question that it answers beside. ``fill`` puts the
    values of the template into a dict, first those that need no answer: it may raise what
    ``Answers`` does, and the page then says so.
    """

    path: str
    title: str
    question: str
    template: str
    fill: Callable[[Asked, dict[str, Any]], None]
    own: Mapping[str, str]
    about_a_job: bool = True
    also: Mapping[str, Parameter] = MappingProxyType({})

    @property
    def known(self) -> Mapping[str, Parameter]:
        """All that may be asked of the page, but for ``own``."""
        return {**QUESTIONS[self.question], **self.also}


def make_pages(answers: Callable[[], Answers], *, api: str = "/api/v1") -> Starlette:
    """The pages as an application of their own. *answers* gives the read side of this moment.

    It is to be mounted in ``tracker.web.app.make_web``, which adds the headers of every answer.
    """
    return Starlette(routes=page_routes(answers, api=api), exception_handlers={404: _nowhere})


def page_routes(answers: Callable[[], Answers], *, api: str = "/api/v1") -> list[BaseRoute]:
    """The addresses of the pages."""
    from tracker.web.pages.kinds import KINDS

    @cache
    def limiter() -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(AT_ONCE)

    def endpoint(kind: PageKind) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            site = Site(answers(), api)
            make = partial(_answer, site, kind, KINDS, request)
            try:
                return await while_there(request, in_thread(make, limiter()))
            except AskerGone:
                return Response(status_code=503)  # which nobody reads

        return answer

    routes: list[BaseRoute] = [Route(kind.path, endpoint(kind), methods=["GET"]) for kind in KINDS]
    return [*routes, Route("/static/{name}", _static, methods=["GET"])]


def _answer(
    site: Site, kind: PageKind, kinds: tuple[PageKind, ...], request: Request
) -> Response:  # fmt: skip
    address = parsed(kind.path, request.query_params.multi_items(), kind.known, kind.own)
    if not address.tidy:  # a form sends its empty fields too
        return RedirectResponse(address.href(), 303, headers=dict(PAGE_HEADERS))
    values: dict[str, Any] = {"empty": None, "problem": None}
    status = 200
    try:
        if kind.about_a_job and not _names_a_job(address):
            first = address.href(job=_first_job(site.answers))
            return RedirectResponse(first, 303, headers=dict(PAGE_HEADERS))
        kind.fill(Asked(site, address), values)
    except (BadQuestion, JobError, UnknownGpu, UnknownProvider) as error:
        status, values["problem"] = 400, str(_unknown(address, kind) or error)
    except NothingRecorded:
        values["empty"] = Empty(
            "No prices are on record yet. Ask the providers for them:",
            ("gpucost poll", "gpucost daemon"),
        )
    except Exception as error:
        status, values["problem"] = _failure(error)
    values |= _common(site, kind, kinds, address)
    body = environment().get_template(kind.template).render(values)
    return Response(body, status, headers=dict(PAGE_HEADERS), media_type="text/html")


def _unknown(address: Address, kind: PageKind) -> BadQuestion | None:
    """That a page has no such parameter, with those that only it knows among the known ones."""
    every = {*kind.known, *kind.own}
    return next((unknown(name, every) for name, _ in address.question if name not in every), None)


def _nowhere(request: Request, _: Exception) -> Response:
    """What stands at an address where no page is: the way to those that there are."""
    from tracker.web.pages.kinds import KINDS

    values = {
        "title": "There is no such page", "nav": [(one.title, one.path, False) for one in KINDS],
        "static": static_href, "problem": None,
        "empty": Empty("There is nothing at this address. These pages there are:", (),
                       tuple((one.title, one.path) for one in KINDS)),
    }  # fmt: skip
    body = environment().get_template("base.html").render(values)
    return Response(body, 404, headers=dict(PAGE_HEADERS), media_type="text/html")


def _names_a_job(address: Address) -> bool:
    return any(address.value(name) for name in ("job", "hours")) or "model" in address.own


def _failure(error: Exception) -> tuple[int, str]:
    """What is told of an error: of a database that cannot be read its one line, else nothing."""
    from tracker.store.errors import StoreError

    if isinstance(error, StoreError):
        return 503, f"{error} (gpucost doctor looks what is wrong)"
    log.error("a page failed", exc_info=error)
    return 500, "This page failed; the log of the server says why."


def _common(
    site: Site, kind: PageKind, kinds: tuple[PageKind, ...], address: Address
) -> dict[str, Any]:  # fmt: skip
    return {
        "title": kind.title,
        "address": address,
        "nav": [
            (one.title, address.to(one.path, one.known), one.path == kind.path) for one in kinds
        ],
        "static": static_href,
        "jobs": _jobs(site.answers, address.value("job")) if kind.about_a_job else (),
    }


def _jobs(answers: Answers, chosen: str) -> list[str]:
    from tracker.app import kept
    from tracker.app.jobs import job_names

    names = [*kept.names(answers.app), *job_names()]
    return names if not chosen or chosen in names else [chosen, *names]


def _first_job(answers: Answers) -> str:
    """A job of one's own if there is one, else the built-in example."""
    from tracker.app import kept

    own = kept.names(answers.app)
    return own[0] if own else "bert-large"


# --- templates --------------------------------------------------------------------------------


@cache
def environment() -> Environment:
    """The templates. Whatever a provider wrote is text in them: escaped, and with nothing in it
    that turns text round or cannot be seen."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("tracker.web.pages"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_inert,
    )  # fmt: skip


def _inert(value: Any) -> Any:
    from markupsafe import Markup

    if value is None:
        return texts.DASH
    if isinstance(value, str) and not isinstance(value, Markup):
        return texts.visible(value)
    return value


# --- static files -----------------------------------------------------------------------------


def static_href(name: str) -> str:
    """The address of a static file, another one when its content changes."""
    return f"/static/{name}?v={_static_file(name)[1][:12]}"


@cache
def _static_file(name: str) -> tuple[bytes, str]:
    body = (resources.files("tracker.web") / "static" / name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return Response("not found\n", 404, headers=dict(PAGE_HEADERS), media_type="text/plain")
    body, digest = _static_file(name)
    kept = "public, max-age=31536000, immutable" if "v" in request.query_params else "no-cache"
    headers = {**PAGE_HEADERS, "cache-control": kept, "etag": f'"{digest[:32]}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(body, headers=headers, media_type=kind)
