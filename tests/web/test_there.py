"""Questions whose clients have gone: not begun, or not worked out to the end."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.cli.harness import polled, record
from tests.support.offers import make_offer
from tests.web.api.served import MANY, server
from tracker.app import App
from tracker.app.asker import AskerGone, still_asked
from tracker.app.live import LiveApp
from tracker.web.alone import Alone
from tracker.web.api import views
from tracker.web.api.guard import Access
from tracker.web.api.kept import Keeper
from tracker.web.there import in_thread


def _until(done: Callable[[], bool]) -> None:
    for _ in range(1000):
        if done():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


def _walk_off(url: str, path: str, when: Callable[[], bool]) -> None:
    """Ask, and close the connection without an answer."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as asking:
        asking.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        time.sleep(0.05)  # so that it is in the queue, most likely
        _until(when)


def test_abandoned_questions_leave_the_queue(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(database_url, polled("acme", [make_offer("a", "2")]))
    real, begun, release = views.VIEWS["offers"], list[str](), threading.Event()

    def slowly(answers: Any, question: Any, offset: int) -> Any:
        begun.append(question.values["interconnect"])
        assert release.wait(30)
        still_asked()
        return real(answers, question, offset)

    monkeypatch.setitem(views.VIEWS, "offers", slowly)  # type: ignore[arg-type]
    env = {"GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path)}
    web = Alone(database_url, App(env=env), env=env).web(Access(), MANY)
    with server(web) as url:
        for number in range(12):
            rooms_taken = min(number + 1, 2)
            _walk_off(
                url, f"/api/v1/offers?interconnect={number}", lambda n=rooms_taken: len(begun) == n
            )  # fmt: skip
        assert begun == ["0", "1"]
        for _ in range(3):  # by when the server has seen the last of them go
            assert httpx.get(f"{url}/livez").status_code == 200
        release.set()
        got = httpx.get(f"{url}/api/v1/offers?interconnect=x", timeout=20)
        assert got.status_code == 200
    assert begun == ["0", "1", "x"]


def test_what_an_abandoned_question_reads_is_dropped(database_url: str, tmp_path: Path) -> None:
    env = {"GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path)}
    app = LiveApp(lambda: database_url, None, env)
    ended: list[BaseException] = []
    began = threading.Event()

    def slowly() -> None:
        try:
            with app.reading() as connection:
                began.set()
                connection.execute("SELECT pg_sleep(60)")
        except BaseException as error:
            ended.append(error)
            raise

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(slowly, anyio.CapacityLimiter(1)))
        await asyncio.to_thread(began.wait, 20)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(_until, lambda: bool(ended))

    before = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - before < 20
    with pytest.raises(AskerGone):
        _abandoned(app)


def _abandoned(app: LiveApp) -> None:
    from tracker.app.asker import Asker

    asker = Asker()
    with asker.waits():
        asker.leave()
        with app.reading():
            pytest.fail("a step has begun")


def test_an_answer_that_somebody_waits_for_goes_on() -> None:
    async def main() -> None:
        keeper, release, made = Keeper(), asyncio.Event(), list[int]()

        async def make() -> tuple[bytes, dict[str, str]]:
            made.append(1)
            await release.wait()
            return b"all", {}

        first, second = (asyncio.ensure_future(keeper.answer("q", 1, make)) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        release.set()
        assert (await second).body == b"all"
        assert made == [1]
        release.clear()
        third = asyncio.ensure_future(keeper.answer("q", 2, make))
        await asyncio.sleep(0.01)
        third.cancel()
        await asyncio.sleep(0.01)
        assert not keeper._making
        release.set()
        assert (await keeper.answer("q", 2, make)).body == b"all"
        assert len(made) == 3

    asyncio.run(main())
