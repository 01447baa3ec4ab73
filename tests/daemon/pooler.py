"""What stands between a client and PostgreSQL, as poolers do: just enough to tell them apart.

A pooler announces a process id of its own making. With ``shared`` all clients take turns on one
session, as with a pooler that works by transaction; else each gets a session.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

_FAKE_PID = 1


class Pooler:
    """Listens on a free port of the loopback interface; ``url`` leads through it."""

    def __init__(self, url: str, *, shared: bool) -> None:
        parts = urlsplit(url)
        self._server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._shared = shared
        self._greeting = b""
        self._session: socket.socket | None = None
        self._turn = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"

    def __enter__(self) -> Pooler:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for it in self._open:
            with suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            startup = _startup(client)
            with self._turn:
                session = self._session
                if session is None:
                    session, greeting = self._connect(startup)
                    if self._shared:
                        self._session, self._greeting = session, greeting
                else:
                    greeting = self._greeting
            client.sendall(greeting)
            while True:
                kind, message = _message(client)
                if kind == b"X":
                    return
                with self._turn:
                    session.sendall(message)
                    if kind in b"QS":  # then the server answers until it is ready again
                        while kind != b"Z":
                            kind, answer = _message(session)
                            client.sendall(answer)

    def _connect(self, startup: bytes) -> tuple[socket.socket, bytes]:
        session = socket.socket(socket.AF_UNIX)
        self._open.append(session)
        session.connect(self._server)
        session.sendall(startup)
        greeting, kind = b"", b""
        while kind != b"Z":
            kind, message = _message(session)
            if kind == b"E":
                raise EOFError(message)
            if kind == b"K":
                message = message[:5] + struct.pack("!i", _FAKE_PID) + message[9:]
            greeting += message
        return session, greeting


def _startup(client: socket.socket) -> bytes:
    head = _exactly(client, 4)
    return head + _exactly(client, struct.unpack("!i", head)[0] - 4)


def _message(it: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(it, 5)
    return head[:1], head + _exactly(it, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(it: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = it.recv(count - len(found))
        if not more:
            raise EOFError
        found += more
    return found
