"""What a channel is, what it sends, and how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

ECHO_CHARACTERS = 256  # of a server's answer that an error may repeat


@dataclass(frozen=True, slots=True)
class Notice:
    """One message, without secrets.

    ``event_id`` is the same however often the message is tried, and is for the receiver to know
    it again. ``subject`` is one line. ``html`` None: there is text alone. ``data`` is what a
    program gets, as JSON. ``told``: recipients that an earlier attempt has reached; they do not
    get it again.
    """

    event_id: str
    subject: str
    text: str
    html: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    told: frozenset[str] = frozenset()


class SendError(Exception):
    """A notice that did not get through: one line, without secrets.

    ``told``: recipients that this attempt has reached all the same.
    """

    def __init__(self, reason: str, *, told: frozenset[str] = frozenset()) -> None:
        super().__init__(reason)
        self.told = told


class Transient(SendError):
    """Trying again may help. ``retry_after_s``: what the server asks for, in seconds.

    ``unknown``: all of it was handed over, and no answer came; the receiver may have it.
    """

    def __init__(
        self,
        reason: str,
        retry_after_s: float | None = None,
        *,
        unknown: bool = False,
        told: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(reason, told=told)
        self.retry_after_s = retry_after_s
        self.unknown = unknown


class Permanent(SendError):
    """Trying again will not help: something has to be changed first."""


class Channel(Protocol):
    """A place to send to.

    ``max_characters`` bounds a notice's text. ``groups``: whether notices may wait for others, to
    go in one message.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def max_characters(self) -> int: ...
    @property
    def groups(self) -> bool: ...

    async def send(self, notice: Notice) -> None:
        """Send it. Raises Transient or Permanent; returning means that the server has taken it."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelProblem:
    """A channel that cannot be used, and what to change; ``str()`` is one line."""

    channel: str
    problem: str

    def __str__(self) -> str:
        return f"[alerts.channels.{self.channel}] {self.problem}"


def shortened(text: str, limit: int) -> str:
    """*text* in at most *limit* characters; its last line, which says which event it is, stays."""
    if len(text) <= limit:
        return text
    *_, last = text.rstrip("\n").rsplit("\n", 1)
    mark = "…\n"
    room = limit - len(mark) - len(last)
    return text[:room].rstrip() + mark + last if room > 0 else text[: max(limit - 1, 0)] + "…"
