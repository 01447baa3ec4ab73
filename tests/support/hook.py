"""A webhook receiver: a real HTTP server that keeps what it got and answers as it is told."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path
from typing import Any

from tests.support.replay import Answer, ReplayServer, Request

TLS = Path(__file__).with_name("tls")  # a certificate for tests, valid for a hundred years
CERTIFICATE = TLS / "cert.pem"
TOKEN = "T0kenOfTheHookXq81"


def server_context() -> ssl.SSLContext:
    """TLS for localhost, 127.0.0.1 and hook.example.test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, TLS / "key.pem")
    return context


class Hook(ReplayServer):
    """Takes posts to ``address``. ``answers`` are given in turn; when there are none left, 200.

    ``gate``, once cleared, makes every request wait until it is set again (5 s at most).
    """

    def __init__(self, *, tls: bool = False) -> None:
        super().__init__()
        self.answers: list[Answer] = []
        self.gate = threading.Event()
        self.gate.set()
        self.path = f"/hooks/{TOKEN}"
        self._tls = tls
        self.handle("POST", self.path, self._take)
        if tls:
            self._server.socket = server_context().wrap_socket(
                self._server.socket, server_side=True
            )

    def __enter__(self) -> Hook:
        super().__enter__()
        return self

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """The URL to post to: it holds the token."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{self.path}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What was posted, in order."""
        return [request.json() for request in self.requests]

    @property
    def ids(self) -> list[str]:
        """The ids of what was posted, in order."""
        return [request.headers["x-gpucost-event"] for request in self.requests]

    def say(self, *statuses: int, body: bytes = b"", **headers: str) -> None:
        """Answer the next requests with these statuses."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers += [Answer(body, status, named) for status in statuses]

    def _take(self, request: Request) -> Answer:
        self.gate.wait(5)
        return self.answers.pop(0) if self.answers else Answer(b"ok")
