"""A channel that fails for hours leaves nothing that only the collector of cycles would free."""

from __future__ import annotations

import socket

import pytest

from tests.alert.test_channels_mail import NOTICE, channel
from tests.support.garbage import left
from tracker.notify import SendError
from tracker.notify.thread import Hand

pytestmark = pytest.mark.anyio

TIMES = 20


async def test_a_blocking_call_that_fails() -> None:
    hand = Hand()

    def fail() -> None:
        raise ConnectionError("no")

    async def run() -> int:
        with pytest.raises(ConnectionError):
            await hand.run(fail)
        return 0

    assert await left(run, TIMES) < 1


async def test_a_mail_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    mail = channel(port, host="127.0.0.1")

    async def send() -> int:
        with pytest.raises(SendError):
            await mail.send(NOTICE)
        return 0

    assert await left(send, TIMES) < 5
