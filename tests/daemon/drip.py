"""A server that answers one byte a second, for ever."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n["


class Drip:
    """Listens on a free port; ``most_at_once`` is how many clients waited side by side."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._now = self.most_at_once = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Drip:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._drip, client)

    def _drip(self, client: socket.socket) -> None:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        with client, suppress(OSError):
            client.recv(65536)
            client.sendall(_HEAD)
            client.settimeout(1)
            while not self._end.is_set():
                with suppress(TimeoutError):
                    if not client.recv(1):
                        break  # the client has gone
                client.sendall(b" ")
        with self._lock:
            self._now -= 1
