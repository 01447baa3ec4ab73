"""Telling systemd how the service does (sd_notify), and keeping its watchdog quiet.

Nothing happens unless NOTIFY_SOCKET is set. Protocol: sd_notify(3).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """Sends datagrams to the service manager. Never raises: nobody may be listening."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._address = _address(env.get("NOTIFY_SOCKET", ""))
        self._watchdog_s = _watchdog_s(env)

    @property
    def watchdog_seconds(self) -> float | None:
        """How often the watchdog must hear of us, None when nobody asks."""
        return self._watchdog_s if self._address else None

    def ready(self, status: str) -> None:
        """Start-up, or a reload, is over."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``."""
        self._send(f"STATUS={text}")

    def starting(self, text: str, seconds: float) -> None:
        """Start-up takes *seconds* more: wait that long."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}", f"STATUS={text}")

    def reloading(self) -> None:
        """A reload begins; ``ready`` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1", "STATUS=stopping")

    def alive(self) -> None:
        """Feed the watchdog."""
        if self._watchdog_s is not None:
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        message = "\n".join(" ".join(line.split()) for line in lines)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(1)
            sock.sendto(message.encode(), self._address)


def _address(text: str) -> str:
    """The socket's address; a leading @ stands for the abstract namespace."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def _watchdog_s(env: Mapping[str, str]) -> float | None:
    if env.get("WATCHDOG_PID") not in (None, "", str(os.getpid())):
        return None
    try:
        usec = int(env.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return usec / 1e6 if usec > 0 else None
