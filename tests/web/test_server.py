"""The daemon's pages over real connections: what they answer, and who else may be heard."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.web.world import Status, ask, serving
from tracker.web import patience, server
from tracker.web.app import SECURITY_HEADERS, make_web
from tracker.web.metrics import Metrics
from tracker.web.server import CannotListen, listen, serve


def test_alive_and_ready() -> None:
    async def main() -> None:
        status = Status()
        async with serving(status) as url:
            assert (await ask(f"{url}/livez")).status == 200
            assert json.loads((await ask(f"{url}/readyz")).text) == {"ready": True, "missing": []}
            status.living = False
            status.missing = ["no provider is configured"]
            assert (await ask(f"{url}/livez")).status == 503
            ready = await ask(f"{url}/readyz")
        assert ready.status == 503
        assert json.loads(ready.text)["missing"] == ["no provider is configured"]

    asyncio.run(main())


def test_status_is_json_of_plain_values() -> None:
    at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    told = {
        "providers": {"runpod": {"last_ok_at": at, "age": timedelta(minutes=2), "state": "ok"}},
        "price": Decimal("2.690"), "names": frozenset({"b", "a"}), "nothing": None,
    }  # fmt: skip

    async def main() -> None:
        async with serving(Status(told=told)) as url:
            got = await ask(f"{url}/status")
        assert got.headers["content-type"] == "application/json"
        assert json.loads(got.text) == {
            "providers": {
                "runpod": {"last_ok_at": "2026-03-01T12:00:00+00:00", "age": 120, "state": "ok"}
            },
            "price": "2.690", "names": ["a", "b"], "nothing": None,
        }  # fmt: skip

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/livez", 200), ("GET", "/readyz", 200), ("GET", "/status", 200),
        ("GET", "/metrics", 200), ("HEAD", "/metrics", 200), ("POST", "/metrics", 405),
        ("DELETE", "/status", 405), ("GET", "/", 404), ("GET", "/../etc/passwd", 404),
    ],
)  # fmt: skip
def test_every_answer_has_the_security_headers(method: str, path: str, expected: int) -> None:
    async def main() -> None:
        async with serving() as url:
            got = await ask(f"{url}{path}", method=method)
        assert got.status == expected
        for name, value in SECURITY_HEADERS:
            assert got.headers[name.decode()] == value.decode()
        assert got.headers["server"] is None
        assert got.headers["access-control-allow-origin"] is None

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/status", "/metrics", "/readyz"])
def test_a_page_of_another_site_learns_nothing_of_the_process(path: str) -> None:
    own = socket.gethostname()
    known = ("127.0.0.1:9753", "localhost", "[::1]:9753", "192.0.2.7:9753", "[fe80::1]", "gpucost",
             "GPUcost.:9753", own, f"{own}:9753")  # fmt: skip

    async def main() -> None:
        async with serving(hosts=("gpucost",)) as url:
            for host in known:
                assert (await ask(f"{url}{path}", headers={"Host": host})).status == 200, host
            for host in ("evil.example", "127.0.0.1.evil.example:9753", "[::1", "gpucost.evil"):
                got = await ask(f"{url}{path}", headers={"Host": host})
                assert got.status == 421, host
                assert "allow_hosts" in got.text
            evil = await ask(f"{url}/livez", headers={"Host": "evil.example"})
            assert evil.status == 200  # tells nothing

    asyncio.run(main())


def test_a_failure_tells_the_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Status):
        def status(self) -> dict[str, object]:
            raise RuntimeError("planted-secret")

    async def main() -> None:
        async with serving(Broken()) as url:
            got = await ask(f"{url}/status")
            assert (await ask(f"{url}/livez")).status == 200
        assert got.status == 500
        assert "planted-secret" not in got.text
        assert "Traceback" not in got.text

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "planted-secret" in caplog.text  # whoever runs it learns what it was


def test_a_slow_database_holds_up_readiness_only() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Slow(Status):
        def ready(self) -> tuple[bool, list[str]]:
            asked.set()
            answer.wait(30)
            return True, []

    async def main() -> None:
        async with serving(Slow()) as url:
            ready = asyncio.create_task(ask(f"{url}/readyz"))
            await asyncio.to_thread(asked.wait, 10)
            assert (await ask(f"{url}/livez")).status == 200
            assert not ready.done()
            answer.set()
            assert (await ready).status == 200

    asyncio.run(main())


def test_signals_stay_with_the_daemon() -> None:
    async def main() -> None:
        stop, caught = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, caught.set)
        before = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM)}
        app, ports = make_web(Status(), Metrics()), asyncio.Queue[int]()
        task = asyncio.create_task(serve(app, "127.0.0.1", 0, stop, ports.put_nowait))
        port = await asyncio.wait_for(ports.get(), 10)
        assert {sig: signal.getsignal(sig) for sig in before} == before
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(caught.wait(), 10)
        # It is for the daemon to say when the pages go.
        assert (await ask(f"http://127.0.0.1:{port}/livez")).status == 200
        stop.set()
        await asyncio.wait_for(task, 10)
        assert {sig: signal.getsignal(sig) for sig in before} == before

    asyncio.run(main())


def test_stopping_waits_for_nobody_who_only_holds_a_connection() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as url:
            port = int(url.rpartition(":")[2])
            _, idle = await asyncio.open_connection("127.0.0.1", port)
            _, half = await asyncio.open_connection("127.0.0.1", port)
            half.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")  # and never the empty line
            await half.drain()
            assert (await ask(f"{url}/livez")).status == 200
            start = loop.time()
        assert loop.time() - start < 5
        for writer in (idle, half):
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())


def test_cancelling_frees_the_port() -> None:
    async def main() -> None:
        ports = asyncio.Queue[int]()
        app = make_web(Status(), Metrics())
        task = asyncio.create_task(
            serve(app, "127.0.0.1", 0, asyncio.Event(), ports.put_nowait)
        )  # fmt: skip
        port = await asyncio.wait_for(ports.get(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        listen("127.0.0.1", port).close()

    asyncio.run(main())


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"port {port} \(address already in use\): set "):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.8.7.6"])
def test_loopback_needs_no_leave(host: str, caplog: pytest.LogCaptureFixture) -> None:
    with listen(host, 0) as opened:
        assert opened.getsockname()[1] > 0
    assert caplog.text == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - refused, which is the point
def test_other_machines_are_let_in_only_on_purpose(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CannotListen, match=r'set listen = "'):
        listen(host, 0)
    try:
        listen(host, 0, remote=True).close()
    except CannotListen:
        assert host == "::", "a machine without IPv6"
        return
    assert "without a password" in caplog.text


@pytest.mark.parametrize("host", ["no such host.invalid", "", "a" * 300, "-"])
def test_an_address_that_is_none_is_told_in_one_line(host: str) -> None:
    with pytest.raises(CannotListen) as caught:
        listen(host, 0)
    assert "\n" not in str(caught.value)
    assert "[daemon]" in str(caught.value)


# --- clients that take their time ---------------------------------------------------------------


async def _closed(reader: asyncio.StreamReader) -> bool:
    """Whether the other end has closed the connection, within a moment."""
    try:
        async with asyncio.timeout(10):
            while await reader.read(65_536):
                pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc",
    ],
)  # fmt: skip
def test_who_never_finishes_asking_is_left(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ASK_S", 0.05)
    monkeypatch.setattr(patience, "_LOOK_S", 0.02)
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0)

    async def main() -> None:
        async with serving(Status()) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
            writer.write(sent)
            await writer.drain()
            assert await _closed(reader)
            assert (await ask(f"{url}/livez")).status == 200
            writer.close()

    asyncio.run(main())


def test_head_and_body_share_the_time_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ASK_S", 2.0)
    monkeypatch.setattr(patience, "_LOOK_S", 0.02)

    async def take(request: Request) -> Response:
        return Response(await request.body())

    async def main() -> None:
        async with serving(beside=[Route("/take", take, methods=["POST"])]) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
            began = time.monotonic()
            writer.write(b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
            await asyncio.sleep(1.6)
            writer.write(b"\r\nabc")
            assert await _closed(reader)
            assert time.monotonic() - began < 3.4  # each with its own: 3.6
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
            for _ in range(3):  # each request has its own time
                writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b" 200 " in await reader.readuntil(b"ok\n")
                await asyncio.sleep(0.8)
            writer.close()

    asyncio.run(main())


def test_who_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "READ_S", 0.05)
    monkeypatch.setattr(patience, "_LOOK_S", 0.02)

    async def main() -> None:
        told = {"much": "x" * 20_000_000}  # more than the system keeps on the way
        async with serving(Status(told=told)) as url:
            with socket.create_connection(("127.0.0.1", _port(url))) as silent:
                silent.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(silent, b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                async with asyncio.timeout(10):
                    while True:
                        await asyncio.sleep(0.1)  # without reading: the server must give up
                        if not _is_open(silent):
                            break
            assert (await ask(f"{url}/livez")).status == 200

    asyncio.run(main())


_ESTABLISHED = 1  # the first byte of Linux's tcp_info is the state of the connection


async def _asked(url: str, path: str) -> socket.socket:
    """A connection that asks for *path* and never reads the answer."""
    found = socket.create_connection(("127.0.0.1", _port(url)))
    found.setblocking(False)
    sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    await asyncio.get_running_loop().sock_sendall(found, sent)
    return found


def _is_open(connection: socket.socket) -> bool:
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return bool(state == _ESTABLISHED)


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_who_does_not_read_makes_room_and_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MOST_CONNECTIONS", 20)
    body = b"x" * 20_000_000

    async def much(_: Request) -> Response:
        return Response(body)

    async def main() -> None:
        async with serving(beside=[Route("/much", much)]) as url:
            before = _resident_mb()
            deaf = [await _asked(url, "/much") for _ in range(40)]
            try:
                async with asyncio.timeout(30):
                    # Before that all 20 may be worked on, which is no reason to end one of them.
                    while True:
                        if sum(map(_is_open, deaf)) <= 20:
                            break
                        await asyncio.sleep(0.01)
                for _ in range(4):
                    assert (await ask(f"{url}/livez")).status == 200
                assert _resident_mb() - before < 100, "each has the whole answer on its way"
            finally:
                for one in deaf:
                    one.close()

    asyncio.run(main())


def test_a_trickle_of_reading_does_not_hold_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DRAIN_S", 0.5)
    monkeypatch.setattr(patience, "_LOOK_S", 0.02)

    async def main() -> None:
        async with serving(Status(told={"much": "x" * 30_000_000})) as url:
            slow = await _asked(url, "/status")
            with slow, suppress(ConnectionError):
                for _ in range(400):
                    await asyncio.get_running_loop().sock_recv(slow, 1)
                    if not _is_open(slow):
                        break
                    await asyncio.sleep(0.05)
                else:
                    pytest.fail("it goes on for as long as somebody reads a byte at a time")
            assert len((await ask(f"{url}/status")).body) > 30_000_000

    asyncio.run(main())


def test_a_request_of_two_lengths_is_the_last_of_its_connection() -> None:
    smuggled = (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )

    async def main() -> None:
        async with serving() as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(url))
            writer.write(smuggled)
            async with asyncio.timeout(10):
                got = await reader.read()
            assert got.count(b"HTTP/1.1 ") == 1
            assert b"connection: close" in got
            writer.close()

    asyncio.run(main())


def test_silent_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MOST_CONNECTIONS", 5)

    async def main() -> None:
        async with serving(Status()) as url:
            silent = [
                await asyncio.open_connection("127.0.0.1", _port(url)) for _ in range(12)
            ]  # fmt: skip
            for _ in range(3):
                assert (await ask(f"{url}/livez")).status == 200
            assert await _closed(silent[0][0])
            for _, writer in silent:
                writer.close()

    asyncio.run(main())
