"""A local HTTP server that answers as providers do, from recordings or from small handlers."""

from __future__ import annotations

import hashlib
import json
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tracker.provider import Payload


@dataclass(frozen=True)
class Request:
    """What a provider was asked."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float  # time.monotonic() when it came

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Handler = Callable[[Request], Answer]


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """*value* as a JSON answer."""
    extra = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(json.dumps(value).encode(), status, {"content-type": "application/json"} | extra)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asks may hang up before the answer: that is no news for the tests' own output."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ReplayServer:
    """Serves on a free loopback port. Unknown paths answer 404; every request is kept.

    With *etags* every 200 has an ETag of its body, and a request that names it gets a bare 304.
    """

    def __init__(self, *, etags: bool = False) -> None:
        self._etags = etags
        self.requests: list[Request] = []
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._recorded: dict[tuple[str, str], list[Payload]] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler_class())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def handle(self, method: str, path: str, handler: Handler) -> None:
        """Answer *path* by *handler*; takes precedence over recordings."""
        self._handlers[method, path] = handler

    def unhandle(self, method: str, path: str) -> None:
        """Forget what ``handle`` was told."""
        self._handlers.pop((method, path), None)

    def replay(self, payloads: Iterable[Payload]) -> None:
        """Answer the recorded requests, whatever host they were made to.

        Recordings of the same paths that were replayed before are forgotten.
        """
        payloads = list(payloads)
        for payload in payloads:
            self._recorded.pop((payload.method, urlsplit(payload.url).path), None)
        for payload in payloads:
            key = payload.method, urlsplit(payload.url).path
            self._recorded.setdefault(key, []).append(payload)

    def answer(self, request: Request) -> Answer:
        handler = self._handlers.get((request.method, request.path))
        if handler:
            return handler(request)
        candidates = self._recorded.get((request.method, request.path), [])
        for payload in candidates:
            if _same_request(payload, request):
                kind = payload.headers.get("content-type") or _guess_type(payload.body)
                return Answer(payload.body, payload.status, {"content-type": kind})
        return Answer(b'{"error": "not recorded"}', 404)

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("content-length") or 0)
                request = Request(
                    self.command,
                    parts.path,
                    dict(parse_qsl(parts.query)),
                    {k.lower(): v for k, v in self.headers.items()},
                    self.rfile.read(length),
                    time.monotonic(),
                )
                outer.requests.append(request)
                answer = outer.answer(request)
                if outer._etags:
                    answer = _conditional(request, answer)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = _serve  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Quiet: the tests look at ``requests`` instead."""

        return _Handler


def _conditional(request: Request, answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    etag = f'"{hashlib.sha256(answer.body).hexdigest()[:16]}"'
    if request.headers.get("if-none-match") == etag:
        return Answer(b"", 304, {"etag": etag})
    return Answer(answer.body, 200, {**answer.headers, "etag": etag})


def vast_market(rows: Iterable[Mapping[str, Any]], most: int = 64) -> Handler:
    """Vast.ai's search over *rows*: the posted filters and order, and never more than *most*."""
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "eq": operator.eq,
        "in": lambda value, wanted: value in wanted,
        "lt": operator.lt,
        "gte": operator.ge,
    }
    rows = list(rows)

    def search(request: Request) -> Answer:
        query = request.json()
        conditions = {k: v for k, v in query.items() if isinstance(v, dict)}
        found = [
            row
            for row in rows
            if all(
                compare[op](row[name], wanted)
                for name, condition in conditions.items()
                for op, wanted in condition.items()
            )
        ]
        for name, direction in reversed(query.get("order", [])):
            found.sort(key=operator.itemgetter(name), reverse=direction == "desc")
        return json_answer({"offers": found[: min(query.get("limit", most), most)]})

    return search


def _same_request(payload: Payload, request: Request) -> bool:
    if dict(parse_qsl(urlsplit(payload.url).query)) != dict(request.query):
        return False
    if not payload.request_body:
        return True
    return bool(json.loads(payload.request_body) == request.json())


def _guess_type(body: bytes) -> str:
    start = body.lstrip()[:1]
    if start in (b"{", b"["):
        return "application/json"
    return "text/html" if start == b"<" else "text/plain"
