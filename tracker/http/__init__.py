"""HTTP for providers: bounded in time, size and rate, with retries and conditional requests.

The only package that imports httpx, and only once a client is asked for: the store, which needs
just the shape of a cached answer, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracker.http.cache import CachedResponse, ResponseCache
from tracker.http.limits import Clock, Limits, Stats, SystemClock

if TYPE_CHECKING:
    from tracker.http.client import Client
    from tracker.http.connection import user_agent
    from tracker.http.factory import make_client, make_gate
    from tracker.http.gate import HostGate

__all__ = [
    "CachedResponse",
    "Client",
    "Clock",
    "HostGate",
    "Limits",
    "ResponseCache",
    "Stats",
    "SystemClock",
    "make_client",
    "make_gate",
    "user_agent",
]

_HOMES = {
    "Client": "client",
    "HostGate": "gate",
    "make_client": "factory",
    "make_gate": "factory",
    "user_agent": "connection",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"tracker.http.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
