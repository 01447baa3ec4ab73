"""What is kept of an answer, and answers that are read line by line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
import respx

from tests.pipeline.http_world import KEY, URL
from tests.support.web import NOW, FakeClock, MemoryCache
from tracker.http import CachedResponse, Client
from tracker.provider import FetchError

pytestmark = pytest.mark.anyio


# -- conditional requests --------------------------------------------------------------------------


@respx.mock
async def test_what_has_not_changed_comes_from_the_cache(http: Client, clock: FakeClock) -> None:
    validators = {"ETag": 'W/"7"', "Last-Modified": "Sun, 01 Mar 2026 10:00:00 GMT"}
    route = respx.get(URL)
    route.side_effect = [httpx.Response(200, json=[7], headers=validators), httpx.Response(304)]
    first = await http.get(URL)
    clock.passed += 60
    second = await http.get(URL)
    sent = route.calls[1].request.headers
    assert sent["if-none-match"] == 'W/"7"'
    assert sent["if-modified-since"] == validators["Last-Modified"]
    assert second.body == first.body == b"[7]"
    assert (second.status, second.fetched_at) == (200, NOW + timedelta(seconds=60))
    assert second.headers == {**first.headers, "x-gpucost-not-modified": "1"}
    assert "x-gpucost-not-modified" not in first.headers
    assert http.stats.not_modified == 1


@respx.mock
async def test_a_changed_answer_replaces_the_cached_one(http: Client) -> None:
    route = respx.get(URL)
    route.side_effect = [
        httpx.Response(200, json=[1], headers={"ETag": '"1"'}),
        httpx.Response(200, json=[2], headers={"ETag": '"2"'}),
        httpx.Response(304),
    ]
    bodies = [(await http.get(URL)).body for _ in range(3)]
    assert bodies == [b"[1]", b"[2]", b"[2]"]
    assert route.calls[2].request.headers["if-none-match"] == '"2"'


@respx.mock
async def test_what_is_answered_differently_is_cached_apart(
    http: Client, cache: MemoryCache
) -> None:
    route = respx.get(url__startswith=URL).respond(json=1, headers={"ETag": '"1"'})
    await http.get(URL)
    await http.get(URL + "?page=2")
    await http.get(URL, headers={"Authorization": KEY})
    await http.get(URL, headers={"Authorization": KEY + "2"})
    await http.stream_lines(URL, lambda line: True, cache_variant="all")
    await http.stream_lines(URL, lambda line: False, cache_variant="none")
    await http.stream_lines(URL, lambda line: False)
    assert not any("if-none-match" in call.request.headers for call in route.calls)
    assert len(cache.kept) == 6
    assert all(len(key) <= 400 and KEY not in key for key in cache.kept)


@respx.mock
@pytest.mark.parametrize(
    "headers", [{}, {"ETag": '"1"', "Cache-Control": "private, no-store"}], ids=["bare", "no-store"]
)
async def test_what_is_not_cached(
    http: Client, cache: MemoryCache, headers: dict[str, str]
) -> None:
    respx.get(URL).respond(json=1, headers=headers)
    await http.get(URL)
    assert cache.kept == {}


@respx.mock
async def test_searches_are_not_conditional(http: Client, cache: MemoryCache) -> None:
    respx.post(URL).respond(json=1, headers={"ETag": '"1"'})
    await http.post(URL, json_body={})
    assert cache.kept == {}


@respx.mock
async def test_a_broken_cache_costs_no_poll(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get(self, key: str) -> CachedResponse | None:
            raise OSError("disk at postgresql://u:hunter22@h is gone")

        def put(self, key: str, response: CachedResponse) -> None:
            raise OSError("full")

    respx.get(URL).respond(json=1, headers={"ETag": '"1"'})
    async with Client(clock=clock, cache=Broken()) as client:
        assert (await client.get(URL)).body == b"1"
    assert "cannot be read" in caplog.text
    assert "cannot be written: full" in caplog.text
    assert "hunter22" not in caplog.text


# -- streams ---------------------------------------------------------------------------------------


@respx.mock
async def test_kept_lines_and_their_cache(http: Client) -> None:
    route = respx.get(URL)
    text = b'"p5.48xlarge",1\r\n"t3.micro",2\n\n"p4d.24xlarge",3'
    first = httpx.Response(200, content=text, headers={"ETag": '"a"'})
    route.side_effect = [first, httpx.Response(304)]
    for _ in range(2):
        payload = await http.stream_lines(
            URL, lambda line: line.startswith(b'"p'), cache_variant="p, version 1"
        )
        assert payload.body == b'"p5.48xlarge",1\n"p4d.24xlarge",3\n'
    assert http.stats.not_modified == 1


@respx.mock
async def test_no_line_may_match(http: Client) -> None:
    respx.get(URL).respond(content=b"a\nb\n")
    assert (await http.stream_lines(URL, lambda line: False)).body == b""


@respx.mock
@pytest.mark.parametrize(
    ("content", "how", "reason"),
    [
        (b"", {}, "empty answer"),
        (b"<!doctype html>", {}, "HTML page where text was due"),
        (b"a" * 100, {"max_bytes": 50}, "answer larger than 50 bytes"),
        (b"ab\n" * 10, {"max_kept_bytes": 29}, "more than 29 bytes of matching lines"),
        (b"a" * (5 * 2**20), {}, "a line longer than 4 MiB: not a text file"),
    ],
)
async def test_streams_have_bounds_too(
    http: Client, content: bytes, how: dict[str, Any], reason: str
) -> None:
    respx.get(URL).respond(content=content)
    with pytest.raises(FetchError, match=f"^api.example: {reason}$"):
        await http.stream_lines(URL, lambda line: True, **how)
