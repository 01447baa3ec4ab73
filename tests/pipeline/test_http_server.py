"""The client against a real server, where timing, truncation and size are what matters."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib

import pytest

from tests.support.web import FakeClock, Received, answer, fixed, serve
from tracker.http import Client, Limits
from tracker.provider import FetchError

pytestmark = pytest.mark.anyio
MIB = 2**20


async def failure(client: Client, url: str, **how: object) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await client.get(url, **how)  # type: ignore[arg-type]
    return caught.value


async def test_a_server_that_drips_for_ever_is_cut_off() -> None:
    async def drip(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with (
        serve(drip) as server,
        Client(clock=FakeClock(), limits=Limits(read_s=5, total_s=0.2)) as client,
    ):
        error = await failure(client, server.url)
        assert str(error).endswith(": no complete answer within 0.2 s")
        assert len(server.seen) == 1  # it would drip again


async def test_a_silent_server_is_tried_again() -> None:
    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)

    async with (
        serve(silent) as server,
        Client(clock=FakeClock(), limits=Limits(read_s=0.05)) as client,
    ):
        assert str(await failure(client, server.url)).endswith(": no data for 0.05 s")
        assert len(server.seen) == 3


async def test_nobody_listens() -> None:
    async with serve(fixed(b"")) as server:
        pass
    clock = FakeClock()
    async with Client(clock=clock) as client:
        assert "cannot connect" in str(await failure(client, server.url))
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    "broken",
    [
        answer(b"[1, 2", length=400),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1, 2\r\n",
        answer(gzip.compress(b"[1, 2]" * 99)[:-12], "Content-Encoding: gzip"),
        answer(b"\x1f\x8b garbage that is not gzip", "Content-Encoding: gzip"),
        b"",
    ],
    ids=["length", "chunked", "gzip", "corrupt", "closed"],
)
async def test_half_an_answer_is_tried_again_and_never_used(broken: bytes) -> None:
    async with (
        serve(fixed(broken, broken, answer(b"[1, 2, 3]"))) as server,
        Client(clock=FakeClock()) as client,
    ):
        assert (await client.get(server.url)).body == b"[1, 2, 3]"
        assert client.stats.retries == 2
    async with serve(fixed(broken)) as server, Client(clock=FakeClock()) as client:
        for read in (
            client.get(server.url),
            client.stream_lines(server.url, lambda line: True),
        ):
            with pytest.raises(FetchError, match=r"truncated|corrupt|closed without"):
                await read


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(b'{"a": 1}'),
        gzip.compress(b'{"a":') + gzip.compress(b" 1}"),
        gzip.compress(b'{"a": 1}') + b"\0" * 64,
    ],
    ids=["one", "members", "padded"],
)
async def test_gzip(packed: bytes) -> None:
    async with (
        serve(fixed(answer(packed, "Content-Encoding: gzip"))) as server,
        Client() as client,
    ):
        assert (await client.get(server.url)).body == b'{"a": 1}'
        assert client.stats.bytes == len(packed)
        assert server.seen[0].headers["accept-encoding"] == "gzip"


async def test_an_encoding_nobody_asked_for() -> None:
    async with (
        serve(fixed(answer(zlib.compress(b"[]"), "Content-Encoding: br"))) as server,
        Client() as client,
    ):
        assert "content encoding 'br'" in str(await failure(client, server.url))


async def test_a_gzip_bomb_does_not_unfold() -> None:
    squeeze = zlib.compressobj(9, wbits=31)
    bomb = b"".join(squeeze.compress(b" " * MIB) for _ in range(200)) + squeeze.flush()
    async with (
        serve(fixed(answer(bomb, "Content-Encoding: gzip"))) as server,
        Client() as client,
    ):
        await failure(client, server.url + "/warm-up", max_bytes=1000)
        tracemalloc.start()
        try:
            error = await failure(client, server.url, max_bytes=4 * MIB)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert str(error).endswith(": answer larger than 4 MiB")
    assert peak < 12 * MIB


@pytest.mark.parametrize("announced", [True, False])
async def test_a_large_answer_is_cut(announced: bool) -> None:
    whole = answer(b" " * 3000)
    if not announced:
        whole = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 3000
    async with serve(fixed(whole)) as server, Client() as client:
        error = await failure(client, server.url, max_bytes=2000)
        assert str(error).endswith(": answer larger than 2000 bytes")
        assert client.stats.bytes == 0 if announced else client.stats.bytes >= 2000


async def test_a_stream_is_never_held_whole() -> None:
    line = b'"SKU%07d","p5.48xlarge","OnDemand","' + b"x" * 400 + b'"\n'
    lines, every = 140_000, 10_000

    async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
        size = len(line % 0) * lines
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for start in range(0, lines, 100):
            writer.write(b"".join(line % n for n in range(start, start + 100)))
            await writer.drain()

    def keep(candidate: bytes) -> bool:
        return candidate[4:11].endswith(b"0000")

    async with serve(stream) as server, Client() as client:
        tracemalloc.start()
        try:
            payload = await client.stream_lines(server.url, keep)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert client.stats.bytes > 55 * MIB
    assert payload.body == b"".join(line % n for n in range(0, lines, every))
    assert peak < 8 * MIB


async def test_a_stream_that_drips_is_cut_off_by_its_own_limit() -> None:
    async def drip(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"a\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with (
        serve(drip) as server,
        Client(clock=FakeClock(), limits=Limits(stream_total_s=0.2)) as client,
    ):
        with pytest.raises(FetchError, match=r"no complete answer within 0\.2 s"):
            await client.stream_lines(server.url, lambda line: True)


async def test_no_more_than_four_at_once() -> None:
    under_way = most = 0
    full = asyncio.Event()

    async def count(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 4:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)  # time for a fifth to come
        under_way -= 1
        writer.write(answer(b"1"))

    async with serve(count) as server, Client() as client:
        await asyncio.gather(*(client.get(f"{server.url}/{n}") for n in range(10)))
    assert most == 4


async def test_the_callers_deadline_cuts_a_request_and_leaves_the_client_usable() -> None:
    async def slow_once(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.path == "/slow":
            await asyncio.sleep(0.3)
        writer.write(answer(b"1"))

    async with serve(slow_once) as server, Client(clock=FakeClock()) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.get(server.url + "/slow")
        assert (await client.get(server.url + "/fast")).body == b"1"


async def test_redirects_between_local_servers() -> None:
    async with serve(fixed(answer(b"[2]"))) as new:
        moved = answer(b"", f"Location: {new.url}/there", status="302 Found")
        async with serve(fixed(moved)) as old, Client() as client:
            payload = await client.get(old.url, headers={"Authorization": "Bearer abc"})
    assert payload.body == b"[2]"
    assert new.seen[0].path == "/there"
    assert "authorization" not in new.seen[0].headers
    assert old.seen[0].headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    "key", ["with\nnewline-0123456", "with-\xfcnicode-0123456", "nul\0-0123456"]
)
async def test_a_key_that_cannot_be_sent_is_not_shown(key: str) -> None:
    async with serve(fixed(answer(b"1"))) as server, Client(clock=FakeClock()) as client:
        error = await failure(client, server.url, headers={"X-Api-Key": key})
    assert str(error).endswith(": the request cannot be sent: check the key for stray characters")
    assert "0123456" not in str(error)
    assert server.seen == []
