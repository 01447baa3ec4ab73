"""A small RunPod whose prices a test sets, and which the real command polls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.harness import Result, run
from tests.support.replay import Answer, ReplayServer, json_answer

H100_NAME = "NVIDIA H100 80GB HBM3"
A100_NAME = "NVIDIA A100-SXM4-80GB"


class Shop:
    """Sells one GPU of each name at a price in USD per hour, in the secure cloud."""

    def __init__(self, server: ReplayServer) -> None:
        self.types: list[dict[str, Any]] = []
        self.broken: Answer | None = None
        server.handle("POST", "/graphql", lambda _: self._answer())

    def _answer(self) -> Answer:
        return self.broken or json_answer({"data": {"gpuTypes": self.types}})

    def sell(self, *goods: tuple[str, str]) -> None:
        """From now on sell exactly *goods*: (GPU name, USD per hour as text)."""
        nothing = {"minimumBidPrice": None, "uninterruptablePrice": None, "stockStatus": None}
        self.types = []
        for name, usd in goods:
            one = nothing | {"uninterruptablePrice": float(usd), "stockStatus": "High"}
            offered = {f"{cloud}{n}": nothing for cloud in "sc" for n in (1, 2, 4, 8)} | {"s1": one}
            self.types.append(
                {
                    "id": name, "displayName": name, "memoryInGb": 80, "secureCloud": True,
                    "communityCloud": False, "securePrice": float(usd), "communityPrice": None,
                    "secureSpotPrice": None, "communitySpotPrice": None, "maxGpuCount": 1,
                    "maxGpuCountSecureCloud": 1, "maxGpuCountCommunityCloud": None, **offered,
                }
            )  # fmt: skip

    def poll(self) -> Result:
        """Let gpucost ask."""
        return run("poll", "--provider", "runpod", "-o", "json")


@contextmanager
def open_shop(patch: pytest.MonkeyPatch, url: str) -> Iterator[Shop]:
    """A shop, and gpucost pointed at it and at the database *url*."""
    with ReplayServer() as server:
        patch.setenv("GPUCOST_DATABASE_URL", url)
        patch.setenv("GPUCOST_PROVIDERS__RUNPOD__BASE_URL", server.url)
        patch.setenv("GPUCOST_HTTP__ATTEMPTS", "1")
        yield Shop(server)
