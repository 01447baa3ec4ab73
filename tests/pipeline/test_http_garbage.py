"""What a request leaves behind: a daemon makes thousands a day, and must not wait for a collector.

An exception holds the frames it went through; where one of them holds the exception, all of the
request stays until the collector of cycles comes by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from tests.daemon.drip import Drip
from tests.support.garbage import left
from tests.support.replay import Answer, ReplayServer, Request, json_answer
from tests.support.web import NOW, FixedJitter
from tracker.http import Client, Limits, outgoing
from tracker.http.limits import SystemClock
from tracker.provider import FetchError

pytestmark = pytest.mark.anyio

TIMES = 10
CONNECTED_S = 0.2  # by then; what is cut off while it connects leaves a little of anyio's
LIMITS = Limits(read_s=0.02, total_s=1, backoff_s=0.001)
PATIENT = replace(LIMITS, read_s=5)
NOBODY = "http://127.0.0.1:9"

HTML = Answer(b"<html>We are busy</html>", 200, {"content-type": "text/html"})
ANSWERS = {
    "good": json_answer([{"gpu": "H100"}] * 100),
    "broken": Answer(b'[{"gpu": "H100"}, {"gpu": '),
    "html": HTML,
    "empty": Answer(b""),
    "refused": json_answer({"error": "who are you?"}, 401),
    "500": Answer(b"no", 500),
    "503": Answer(b"not now", 503),
    "429": json_answer({"error": "slow down"}, 429, retry_after="0"),
    "moved": Answer(b"", 302, {"location": "/500"}),
    "lost": Answer(b"", 302, {"location": "/lost"}),
    "inside": Answer(b"", 302, {"location": "ftp://example.org"}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with ReplayServer() as made:
        for name, answer in ANSWERS.items():
            for method in ("GET", "POST"):
                made.handle(method, f"/{name}", partial(_give, answer))
        yield made


def _give(answer: Answer, _: Request) -> Answer:
    return answer


async def fetch(
    url: str, *, stream: bool = False, deadline_s: float | None = None, limits: Limits = LIMITS
) -> int:
    """One poll's request, with a client of its own, however it ends; how many were sent."""
    async with Client(
        limits=limits, clock=SystemClock(), rng=FixedJitter(), deadline_s=deadline_s
    ) as client:
        with suppress(FetchError):
            await (client.stream_lines(url, lambda _: True) if stream else client.get(url))
        return client.stats.requests


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_request_leaves_nothing(server: ReplayServer, name: str, stream: bool) -> None:
    assert await left(lambda: fetch(f"{server.url}/{name}", stream=stream), TIMES) < 1


async def test_no_connection_leaves_nothing() -> None:
    assert await left(lambda: fetch(NOBODY), TIMES, connected=False) < 1


async def test_a_silent_server_leaves_nothing() -> None:
    with Drip() as drip:
        assert await left(lambda: fetch(drip.url), TIMES) < 1


async def test_a_deadline_in_the_midst_of_an_answer_leaves_nothing() -> None:
    with Drip() as drip:
        assert (
            await left(lambda: fetch(drip.url, deadline_s=CONNECTED_S, limits=PATIENT), TIMES) < 1
        )


async def test_a_cancelled_request_leaves_nothing() -> None:
    async def cut_off() -> int:
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECTED_S):
                await fetch(drip.url, limits=PATIENT)
        return 1

    with Drip() as drip:
        assert await left(cut_off, TIMES) < 1


@pytest.mark.parametrize("name", ["good", "500", "moved", None])
async def test_a_post_to_a_users_address_leaves_nothing(
    server: ReplayServer, name: str | None
) -> None:
    url = NOBODY if name is None else f"{server.url}/{name}"

    async def post() -> int:
        with suppress(FetchError):
            await outgoing.post(url, b"{}", {}, now=NOW, allow_private=True)
        return 1

    assert await left(post, TIMES, connected=name is not None) < 1
