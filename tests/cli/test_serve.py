"""gpucost serve: where it listens, whom it lets in, and how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled, run
from tests.support.pg import TestServer, bindir_of_tests, reachable_folder
from tests.web.api.served import MANY, Client, client
from tracker.app import App
from tracker.settings import SettingsError
from tracker.web.alone import Alone
from tracker.web.api.app import MARK_HOLDS_S
from tracker.web.api.guard import Access

COMMAND = Path(sys.executable).with_name("gpucost")
TOKEN = "a-token-of-sixteen-letters"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no-such-host.invalid"])  # noqa: S104
def test_other_machines_are_not_let_in_by_accident(host: str) -> None:
    answer = run("serve", "--host", host, "--port", "0")
    assert answer.code == 2
    assert f"{host} can be reached from other machines" in answer.complaint
    assert "--token-file" in answer.complaint


@pytest.mark.parametrize(
    ("text", "says"), [("short", "at least 16"), ("ü" * 20, "at least 16"), (None, "no such file")]
)
def test_a_token_that_is_none(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    answer = run("serve", "--token-file", str(path))
    assert answer.code == 2
    assert says in answer.complaint
    assert text is None or text not in answer.complaint


@pytest.mark.parametrize(
    "host", ["https://prices.example", "prices.example:80", "*", "a b", "", "-"]
)
def test_a_further_name_is_a_name(host: str) -> None:
    answer = run("serve", "--allow-host", host)
    assert answer.code == 2
    assert "is not the name of a host" in answer.complaint


def test_further_names_come_from_the_settings_too(tmp_path: Path) -> None:
    from tracker.app import App
    from tracker.cli.serve import _access

    config = tmp_path / "gpucost.toml"
    config.write_text('[daemon]\nallow_hosts = ["Prices.Example.", "other.example"]\n')
    given = {"host": "127.0.0.1", "token_file": None, "allow_remote": False,
             "allow_host": ("Third.example",)}  # fmt: skip
    access = _access(App(config, {}), given)
    assert access.hosts == {"prices.example", "other.example", "third.example"}
    config.write_text('[daemon]\nallow_hosts = ["http://prices.example"]\n')
    with pytest.raises(SettingsError, match="allow_hosts"):
        _access(App(config, {}), given)


def test_it_answers_until_it_is_told_to_stop(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with filled(database_server, *polls()) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path))
        process = subprocess.Popen(
            [COMMAND, "serve", "--port", "0", "--token-file", str(token)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            told = re.search(
                r"serving (http://127\.0\.0\.1:\d+)/ \(pages\)", process.stderr.readline()
            )
            assert told
            got = httpx.get(f"{told[1]}/api/v1/cheapest?job=bert-large", timeout=30).json()
            assert got["rows"] == _without_ages(run("cheapest", "bert-large", "-o", "json").json(),
                                                got["rows"])  # fmt: skip
            assert httpx.get(f"{told[1]}/readyz", timeout=30).json()["ready"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert TOKEN not in process.stderr.read()
        finally:
            process.kill()
            process.wait(20)
            process.stderr.close()


def test_its_embedded_server_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GPUCOST_DATABASE_URL", "GPUCOST_DATABASE_URL_FILE"):
        monkeypatch.delenv(name, raising=False)
    with reachable_folder() as folder:
        env = {"GPUCOST_DATA_DIR": str(folder)}
        if (bindir := bindir_of_tests()) is not None:
            env["GPUCOST_POSTGRES_BINDIR"] = str(bindir)
        app = App(env=env)
        embedded = app.embedded
        assert embedded is not None
        try:
            with app.database(upgrade=True) as url:
                web = Alone(url, app, env=env).web(Access(), MANY)
                with asyncio.Runner() as runner:
                    asking = Client(web, runner)
                    for path in ("/readyz", "/api/v1/providers"):
                        asking.get(path)
                        pid = embedded.status().pid
                        assert pid is not None
                        os.kill(pid, signal.SIGKILL)
                        _wait_until(lambda: not embedded.status().running)
                        time.sleep(MARK_HOLDS_S)
                        asking.get(path)
                        assert embedded.status().pid != pid
        finally:
            embedded.stop(force=True)


def _wait_until(done: Callable[[], bool]) -> None:
    for _ in range(1000):
        if done():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


def test_nobody_is_told_where_the_socket_is(tmp_path: Path) -> None:
    gone = f"postgresql://gpucost@/gpucost?host={quote(str(tmp_path), safe='')}"
    with client(gone, tmp_path) as asking:
        for path in ("/readyz", "/status", "/api/v1/providers"):
            got = asking.ask(path)
            assert "cannot reach the database" in got.text
            assert str(tmp_path) not in got.text


def _without_ages(document: dict[str, list[dict[str, object]]], like: object) -> object:
    """The rows of *document* with the ages of *like*, which were taken a moment before."""
    assert isinstance(like, list)
    return [
        row | {"age_seconds": other["age_seconds"]}
        for row, other in zip(document["rows"], like, strict=True)
    ]


def test_a_port_that_is_taken_names_the_option(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = run("serve", "--port", str(taken.getsockname()[1]))
    assert answer.code == 2
    assert "name another one with --port" in answer.err
    assert "[daemon]" not in answer.err
    # No clock ticks that ends the process, which may be a program that only tried.
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
