"""``gpucost serve``: answers over HTTP, without a daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli.exits import EXIT_USAGE, Exit

if TYPE_CHECKING:
    from tracker.web.api.guard import Access

DEFAULT_PORT = 9754
END_S = 5.0  # that threads which cannot be stopped get
_SHORTEST_TOKEN = 16


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True,
    help="0: any free one.",
)  # fmt: skip
@click.option(
    "--token-file", type=click.Path(dir_okay=False), metavar="FILE",
    help="A file with the token that other machines, and whatever changes something, must show. "
    "Default: api_token under [daemon].",
)  # fmt: skip
@click.option(
    "--allow-remote", is_flag=True,
    help="Let other machines read without a token. What changes something needs it all the same.",
)  # fmt: skip
@click.option(
    "--allow-host", multiple=True, metavar="NAME",
    help="A name that a proxy on this machine asks for, beside localhost. "
    "Beside those of allow_hosts under [daemon].",
)  # fmt: skip
@click.pass_obj
def serve(obj: dict[str, Any], /, **options: Any) -> None:
    """Answer over HTTP: pages at /, /api/v1/cheapest, /api/docs, /readyz, /metrics, until it is
    stopped.

    It polls nobody: that is what gpucost daemon does, which serves the same. It listens on this
    machine alone unless --host says otherwise, and then asks for a token.
    """
    from tracker.daemon.memory import settle
    from tracker.telemetry import setup_logging
    from tracker.web.server import CannotListen

    settle()
    app = App(obj["config"])
    access = _access(app, options)
    setup_logging("info", app.settings.log_format, redactor=app.redactor)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # it tells of its own life
    try:
        asyncio.run(_to_the_end(_serve(app, obj["config"], access, options)))
    except CannotListen as error:
        raise Exit(EXIT_USAGE, error.on_command) from None


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await *work*; then a question that is still worked out must not keep the process."""
    from tracker.web.server import CannotListen

    asked = True
    try:
        await work
    except CannotListen:
        asked = False  # by nobody: there is no thread to be left behind
        raise
    finally:
        if asked:
            end = threading.Timer(END_S, os._exit, (0,))
            end.daemon = True
            end.start()


def _access(app: App, options: dict[str, Any]) -> Access:
    """Who may ask. Raises Exit where other machines could, and nobody has said that they may."""
    from tracker.web.api.guard import Access
    from tracker.web.server import is_loopback

    token = _token(app, options["token_file"])
    if not is_loopback(options["host"]) and token is None and not options["allow_remote"]:
        raise Exit(
            EXIT_USAGE,
            f"{options['host']} can be reached from other machines: give a token with --token-file "
            "(or api_token under [daemon]), or --allow-remote to let everybody read",
        )
    return Access(token, options["allow_remote"], _hosts(app, options["allow_host"]))


def _hosts(app: App, named: tuple[str, ...]) -> frozenset[str]:
    """The names that are asked for, beside those of this machine."""
    from tracker.settings.service import host_name

    try:
        return frozenset((*app.settings.daemon.allow_hosts, *map(host_name, named)))
    except ValueError as error:
        raise Exit(EXIT_USAGE, f"--allow-host: {error}") from None


def _token(app: App, path: str | None) -> str | None:
    if path is None:
        secret = app.settings.daemon.api_token
        return None if secret is None else secret.get_secret_value()
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "not text"
        raise Exit(EXIT_USAGE, f"--token-file: {path}: {why.lower()}") from None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise Exit(
            EXIT_USAGE,
            f"--token-file: {path}: a token has at least {_SHORTEST_TOKEN} letters and digits",
        )
    app.redactor.register(token)
    return token


async def _serve(
    app: App, config: str | Path | None, access: Access, options: dict[str, Any]
) -> None:
    from tracker.web.alone import Alone
    from tracker.web.server import serve as serve_web

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    host = options["host"]
    shown = f"[{host}]" if ":" in host else host

    def on_port(port: int) -> None:
        where = f"http://{shown}:{port}"
        click.echo(f"serving {where}/ (pages) and {where}/api/docs (for programs)", err=True)

    with app.database(upgrade=True) as url:
        alone = Alone(url, app, config)
        await serve_web(
            alone.web(access), host, options["port"], stop, on_port,
            remote=access.open_to_all or access.token is not None,
        )  # fmt: skip
