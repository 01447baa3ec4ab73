"""A local HTTP server that answers as providers do, from recordings or from small handlers."""

from __future__ import annotations

import json
import threading
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


class ReplayServer:
    """Serves on a free loopback port. Unknown paths answer 404; every request is kept."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._recorded: dict[tuple[str, str], list[Payload]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True
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

    def replay(self, payloads: Iterable[Payload]) -> None:
        """Answer the recorded requests, whatever host they were made to."""
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
                )
                outer.requests.append(request)
                answer = outer.answer(request)
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
