"""The providers as a local server that answers from the fixtures, and a shell to run commands in.

No command run through here reaches a live service: every provider's base URL is set, or it is
turned off.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.fixtures import cases
from tests.support.providers import OURS
from tests.support.replay import Answer, ReplayServer, Request, json_answer
from tracker.provider import Payload

# provider -> the fixture that its server answers from
SHOWN = {
    "aws": "on_demand_and_spot",
    "databasemart": "cards_on_three_pages",
    "runpod": "normal",
    "vastai": "normal",
}

# Fewer requests than a real poll makes: the pauses between them are real ones.
_NARROW = {
    "GPUCOST_PROVIDERS__AWS__REGIONS": '["us-east-1", "eu-central-1"]',
    "GPUCOST_PROVIDERS__VASTAI__GPUS": '[["A100 PCIE", "A100 SXM4"]]',
    "GPUCOST_PROVIDERS__DATABASEMART__PATHS_GPU_MART": '["/pricing"]',
    "GPUCOST_PROVIDERS__DATABASEMART__PATHS_DATABASEMART": '["/gpu-server"]',
    "GPUCOST_HTTP__ATTEMPTS": "1",
}
_BASES = {
    "aws": ("small_feed_url", "bulk_url", "spot_url", "advisor_url"),
    "azure": ("base_url",),
    "databasemart": ("base_url_gpu_mart", "base_url_databasemart"),
    "runpod": ("base_url",),
    "vastai": ("base_url",),
}


_OFF = set(OURS) - _BASES.keys() - {"pricebook"}


@contextmanager
def replaying() -> Iterator[dict[str, str]]:
    """Serve the fixtures; give the variables that point every provider at them."""
    recorded = {
        case.provider: case.payloads() for case in cases() if SHOWN.get(case.provider) == case.name
    }
    azure = next(c for c in cases() if str(c) == "azure-two_chains_three_pages").payloads()
    with ReplayServer() as server:
        for payloads in recorded.values():
            server.replay(payloads)
        # Recorded with a shortened query.
        catalogue = recorded["runpod"][0].body
        server.handle("POST", "/graphql", lambda _: Answer(catalogue))
        server.handle("GET", "/api/retail/prices", lambda request: _azure(request, azure))
        yield _variables(server.url) | _NARROW


@contextmanager
def unreachable() -> Iterator[dict[str, str]]:
    """The variables that point every provider at a port of this machine where nobody listens."""
    with ExitStack() as stack:
        held = stack.enter_context(socket.socket())
        held.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        yield _variables(f"http://127.0.0.1:{held.getsockname()[1]}") | _NARROW


def _azure(request: Request, pages: list[Payload]) -> Answer:
    """One page for the filter that asks for A100, and an empty one for every other."""
    if "A100" not in request.query.get("$filter", ""):
        return json_answer({"Items": [], "NextPageLink": None, "Count": 0})
    page = json.loads(pages[0].body)
    return json_answer(page | {"NextPageLink": None})


def _variables(base: str) -> dict[str, str]:
    return {
        f"GPUCOST_PROVIDERS__{provider}__{field}".upper(): base
        for provider, fields in _BASES.items()
        for field in fields
    } | {f"GPUCOST_PROVIDERS__{name}__ENABLED".upper(): "false" for name in _OFF}


def environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the caller's but the PATH (this environment's programs first), and *variables*."""
    programs = Path(sys.executable).parent
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }


def shell(
    script: str, folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run *script* in *folder*; the first command that fails ends it."""
    return subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env=environment(folder, variables),
        capture_output=True,
        text=True,
        timeout=300,
    )
