"""``gpucost mcp``: the questions as tools for assistants."""

from __future__ import annotations

from typing import Any

import click

from tracker.app import App
from tracker.cli.exits import EXIT_USAGE, Exit


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_obj
def mcp(obj: dict[str, Any]) -> None:
    """Answer an assistant's questions: a server of the Model Context Protocol, on stdin and stdout.

    An assistant starts it by itself, once it is told of the command. Its tools (cheapest, history,
    compare, when, estimate, offers, providers) only read. It ends when its input ends.
    """
    import asyncio

    from tracker.app.answers import Answers
    from tracker.daemon.memory import settle
    from tracker.telemetry import setup_logging

    try:
        from tracker.web.mcp import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types", "anyio"}:
            raise
        raise Exit(
            EXIT_USAGE,
            "the protocol's library is not installed: pip install '.[mcp]' in gpucost's checkout",
        ) from None
    settle()
    app = App(obj["config"])
    setup_logging("warning", app.settings.log_format, redactor=app.redactor)
    asyncio.run(serve_stdio(Answers(app)))
