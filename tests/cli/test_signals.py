"""Stopped by a signal, the command ends in order and leaves no server behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.pg import reachable_folder
from tests.support.replay import Answer, ReplayServer, Request
from tracker.store.embedded import Embedded

COMMAND = Path(sys.executable).with_name("gpucost")


def _heed_interrupts() -> None:
    # A shell starts what runs in its background with SIGINT ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_poll_that_is_told_to_stop(number: signal.Signals, code: int) -> None:
    asked, done = threading.Event(), threading.Event()

    def hang(_: Request) -> Answer:
        asked.set()
        done.wait(30)
        return Answer(b"{}")

    with ReplayServer() as server, reachable_folder() as folder:
        server.handle("POST", "/graphql", hang)
        env = os.environ | {
            "GPUCOST_DATA_DIR": str(folder),
            "GPUCOST_PROVIDERS__RUNPOD__BASE_URL": server.url,
        }
        env.pop("GPUCOST_DATABASE_URL", None)
        process = subprocess.Popen(
            [str(COMMAND), "poll", "--provider", "runpod"], env=env, stderr=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts,
        )  # fmt: skip
        assert asked.wait(60)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        done.set()
        assert process.returncode == code
        assert "Traceback" not in errors
        for _ in range(50):  # the postmaster takes a moment to be gone
            if not Embedded(folder).status().running:
                break
            time.sleep(0.1)
        assert not Embedded(folder).status().running
