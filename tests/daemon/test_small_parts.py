"""Telling the service manager, and saying things once."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from pathlib import Path

import pytest

from tracker.daemon.outages import Outages, lasted
from tracker.daemon.systemd import Notifier
from tracker.store.errors import DatabaseBusy, DatabaseUnreachable
from tracker.store.leader import NotLeading


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    it = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    it.bind(str(tmp_path / "n"))
    it.settimeout(5)
    return it


def received(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().splitlines()


def test_every_message(manager: socket.socket) -> None:
    with manager:
        notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000"})
        notifier.ready("leading")
        assert received(manager) == ["READY=1", "STATUS=leading"]
        notifier.starting("waiting\nREADY=1", 60)
        assert received(manager) == ["EXTEND_TIMEOUT_USEC=60000000", "STATUS=waiting READY=1"]
        notifier.reloading()
        reloading, monotonic = received(manager)
        assert (reloading, monotonic.partition("=")[0]) == ("RELOADING=1", "MONOTONIC_USEC")
        assert int(monotonic.partition("=")[2]) > 0
        notifier.alive()
        assert received(manager) == ["WATCHDOG=1"]
        notifier.status("fine")
        assert received(manager) == ["STATUS=fine"]
        notifier.stopping()
        assert received(manager)[0] == "STOPPING=1"
        assert notifier.watchdog_seconds == 30


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="abstract sockets are Linux's")
def test_an_abstract_socket() -> None:
    name = f"gpucost-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready("up")
        assert received(manager)[0] == "READY=1"


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket"])
def test_nobody_listens(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    notifier.ready("up")
    notifier.alive()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_whether_the_watchdog_asks_us(environment: dict[str, str], seconds: float | None) -> None:
    it = Notifier({"NOTIFY_SOCKET": "/x"} | environment)
    assert it.watchdog_seconds == seconds


def test_an_outage_is_told_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    passed = 0.0
    outages = Outages(lambda: passed)
    with caplog.at_level(logging.INFO):
        outages.works("mail")
        for reason in ("refused", "refused", "timed out"):
            outages.failed("mail", reason)
        assert outages.reasons == {"mail": "timed out"}
        passed = 7200
        outages.works("mail")
        outages.works("mail")
        outages.failed("mail", "refused")
    assert [record.getMessage() for record in caplog.records] == [
        "mail: refused", "mail: works again after 2 h 0 min", "mail: refused",
    ]  # fmt: skip


def test_whose_outage_an_error_of_the_store_is() -> None:
    outages = Outages()
    outages.store_failed("recording", NotLeading("another leads"))
    assert outages.reasons == {}
    outages.store_failed("recording", DatabaseUnreachable("gone"))
    outages.store_failed("alerts", DatabaseUnreachable("gone"))
    outages.store_failed("alerts", DatabaseBusy("locked"))
    assert outages.reasons == {"database": "gone", "alerts": "locked"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"), (0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5369, "89 min"),
        (5400, "1 h 30 min"), (172_799, "47 h 59 min"), (172_800, "2 d 0 h"),
        (259_199.999, "3 d 0 h"), (10**6, "11 d 13 h"),
    ],
)  # fmt: skip
def test_how_long_it_lasted(seconds: float, text: str) -> None:
    assert lasted(seconds) == text
