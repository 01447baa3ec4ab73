"""An input that ends while questions are open: they are answered first."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled
from tests.support.pg import TestServer

pytest.importorskip("mcp", reason="needs gpucost[mcp]")
import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from tests.web.test_mcp import CALLS
from tracker.web.mcp import TOOLS
from tracker.web.mcp_open import Incoming, Open

COMMAND = Path(sys.executable).with_name("gpucost")


def test_what_is_asked_is_answered_though_the_input_has_ended(
    database_server: TestServer, tmp_path: Path
) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "test", "version": "1"}}  # fmt: skip
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
        *(
            {"id": n, "method": "tools/call", "params": {"name": name, "arguments": CALLS[name]}}
            for n, name in enumerate(TOOLS, 2)
        ),
        {"id": 99, "method": "tools/call", "params": {"name": "offers"}},
        {"method": "notifications/cancelled", "params": {"requestId": 99}},
    ]  # fmt: skip
    text = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    with filled(database_server, *polls()) as url:
        done = subprocess.run(
            [COMMAND, "mcp"], input=text.encode(), capture_output=True, timeout=60, check=False,
            env={"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(tmp_path),
                 "PATH": os.environ["PATH"]},
        )  # fmt: skip
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines()) if "id" in one}
    assert done.returncode == 0, done.stderr
    wanted = {1, *range(2, 2 + len(TOOLS))}
    assert wanted <= answers.keys() <= wanted | {99}
    assert not any(answers[id_]["result"].get("isError") for id_ in wanted)


def test_the_end_of_the_input_waits_no_longer_than_it_may() -> None:
    async def ended(open_: Open) -> float:
        send, receive = anyio.create_memory_object_stream[Any](9)
        asked = types.JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call")
        await send.send(SessionMessage(asked))
        await send.aclose()
        began = time.monotonic()
        async with Incoming(receive, open_) as incoming:
            assert [one.message.id async for one in incoming] == [7]
        return time.monotonic() - began

    assert 0.2 <= asyncio.run(ended(Open(0.2))) < 10
