"""A client for one poll of one provider, from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import SecretStr

from tracker.http.cache import ResponseCache
from tracker.http.client import Client
from tracker.http.connection import user_agent
from tracker.http.gate import HostGate
from tracker.http.limits import Limits
from tracker.provider import Provider, ProviderConfig
from tracker.settings import Settings
from tracker.telemetry import Redactor


def make_client(
    provider: Provider[Any],
    config: ProviderConfig,
    settings: Settings,
    *,
    cache: ResponseCache | None = None,
    gate: HostGate | None = None,
    redactor: Redactor | None = None,
    deadline_s: float | None = None,
) -> Client:
    """A client paced and bounded as *provider* and *settings* say, that hides *config*'s secrets.

    *deadline_s* shortens the time for the whole poll, never lengthens it.
    A *gate* kept between polls also keeps the gap between the last request of one and the first
    of the next.
    """
    http = settings.http
    allowed_s = settings.poll_deadline_seconds or provider.poll_deadline.total_seconds()
    patience_s = provider.patience.total_seconds()
    return Client(
        user_agent=user_agent(http.user_agent_contact),
        limits=_limits(settings, patience_s),
        gate=gate or make_gate(provider, settings),
        cache=cache,
        redactor=redactor,
        secrets=_secrets(config),
        deadline_s=allowed_s if deadline_s is None else min(allowed_s, deadline_s),
    )


def make_download_client(settings: Settings, redactor: Redactor | None = None) -> Client:
    """A client for files that are no provider's answers, such as catalogues to import."""
    return Client(
        user_agent=user_agent(settings.http.user_agent_contact),
        limits=_limits(settings),
        gate=HostGate(0.0, concurrency=settings.http.concurrency_per_host),
        redactor=redactor,
    )


def _limits(settings: Settings, patience_s: float = 0.0) -> Limits:
    http = settings.http
    return Limits(
        connect_s=http.connect_seconds,
        read_s=max(http.read_seconds, patience_s),
        total_s=max(http.total_seconds, patience_s),
        stream_total_s=http.stream_total_seconds,
        attempts=http.attempts,
        max_retry_after_s=http.max_retry_after_seconds,
    )


def make_gate(provider: Provider[Any], settings: Settings) -> HostGate:
    """The pace of *provider*'s requests."""
    return HostGate(
        provider.min_seconds_between_requests, concurrency=settings.http.concurrency_per_host
    )


def _secrets(config: ProviderConfig) -> Iterable[str]:
    values = (getattr(config, name) for name in type(config).model_fields)
    return [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
