"""Channels: where notices go. Each sends one notice and says whether trying again may help."""

from __future__ import annotations

from tracker.notify.channel import Channel, ChannelProblem, Notice, Permanent, SendError, Transient
from tracker.notify.config import load_channels

__all__ = [
    "Channel",
    "ChannelProblem",
    "Notice",
    "Permanent",
    "SendError",
    "Transient",
    "load_channels",
]
