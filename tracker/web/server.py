"""Serving the application inside the daemon's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from tracker.web.patience import Patient

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 15  # Prometheus asks every 15 s or so; nobody else needs a connection for long
GOODBYE_S = 2


class CannotListen(Exception):
    """The address cannot be served on: one line that says what to do in the settings.

    ``on_command`` is the same for whoever named the address on the command line.
    """

    def __init__(self, why: str, in_settings: str, on_command: str) -> None:
        super().__init__(f"{why}: {in_settings}")
        self.on_command = f"{why}: {on_command}"


async def serve(
    app: Any,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_port: Callable[[int], None] | None = None,
    *,
    remote: bool = False,
) -> None:
    """Serve *app* until *stop* is set; signals stay with whoever handles them already.

    *on_port* is told the port once connections are accepted (*port* 0: any free one). Other
    machines are only let in when the operator has asked for it (*remote*), with a warning:
    nothing here asks for a password. Raises CannotListen.
    """
    listener = await asyncio.to_thread(listen, host, port, remote=remote)
    with contextlib.closing(listener):
        server = _Server(
            uvicorn.Config(
                app, lifespan="off", log_config=None, access_log=False, server_header=False,
                proxy_headers=False, ws="none", timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GOODBYE_S, http=Patient,
            )
        )  # fmt: skip
        server.listening = lambda: on_port and on_port(listener.getsockname()[1])
        running = asyncio.create_task(server.serve(sockets=[listener]))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            server.should_exit = True
            await running


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach *host*; a name that does not resolve is none of it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)


def listen(host: str, port: int, *, remote: bool = False) -> socket.socket:
    """A bound socket. Raises CannotListen; see ``serve`` for *remote*."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CannotListen(
            f"{host!r} is no address of this machine",
            "set listen under [daemon]; 127.0.0.1 is the usual one",
            "--host 127.0.0.1 is the usual one",
        ) from None
    family, kind, protocol, _, address = found[0]
    if not ipaddress.ip_address(address[0]).is_loopback:
        if not remote:
            raise CannotListen(
                f"{host} can be reached from other machines",
                f'to serve there, set listen = "{host}" under [daemon]',
                "give a token with --token-file, or --allow-remote to let everybody read",
            )
        log.warning(
            "serving on %s, where other machines may read /status and /metrics without a password",
            host,
        )
    listener = socket.socket(family, kind, protocol)
    try:
        # A daemon that is started anew must not wait for the last one's connections to time out.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(
            f"cannot listen on {host} port {port} ({why.lower()})",
            "set another port under [daemon], or serve = false",
            "name another one with --port",
        ) from None
    return listener


class _Server(uvicorn.Server):
    """uvicorn that leaves signals alone, and says when it accepts connections."""

    listening: Callable[[], object]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.listening()
