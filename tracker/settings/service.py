"""``[daemon]``, ``[retention]``, ``[alerts]``: the background service and where notices go."""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

_LABEL = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class DaemonSettings(BaseModel):
    """``[daemon]``. Times in seconds.

    ``listen`` and ``port`` are where /livez, /readyz and /metrics are served (port 0: any free
    one; ``serve`` false: not at all). ``drain_seconds`` is how long a poll under way may take to
    end after SIGTERM. ``heartbeat_url`` gets a POST after every good evaluation of the alerts, for
    a dead man's switch. ``lock_database_url`` reaches the same database without a pooler in
    between (default: the database itself); the lock that decides who leads needs a session.
    ``api_token`` (16 characters or more) opens /api to other machines, and to what changes
    something. ``allow_hosts`` are names, beside those of this machine, that requests from it may
    ask for: those under which a reverse proxy passes them on. The three secrets may be given by a
    file: ``heartbeat_url_file``, ``lock_database_url_file``, ``api_token_file``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    serve: bool = True
    listen: str = "127.0.0.1"
    port: int = Field(default=9753, ge=0, le=65_535)
    drain_seconds: Seconds = 10
    heartbeat_url: SecretStr | None = None
    lock_database_url: SecretStr | None = None
    api_token: SecretStr | None = Field(default=None, min_length=16, max_length=200)
    allow_hosts: tuple[str, ...] = ()

    @field_validator("allow_hosts")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(host_name, names))

    @field_validator("heartbeat_url")
    @classmethod
    def _reachable(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _is_web_url(url.get_secret_value()):
            raise ValueError("must be a URL like https://host/path")
        return url


def _is_web_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    printable = not any(c.isspace() or not c.isprintable() for c in text)
    return parts.scheme in ("http", "https") and bool(host) and port != 0 and printable


def host_name(text: str) -> str:
    """The name of a host, in small letters. Raises ValueError for what is more than a name."""
    name = text.strip().lower().rstrip(".")
    if len(name) > 253 or not _HOST.fullmatch(name):
        raise ValueError(
            f"{text[:60]!r} is not the name of a host such as prices.example.org, without https://"
            " and port"
        )
    return name


class RetentionSettings(BaseModel):
    """``[retention]``: how long history is kept.

    ``span_months`` is how many whole months the prices of single offers are kept, beside the
    current one (0: for ever). The cheapest prices are kept for ever.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    span_months: int = Field(default=25, ge=0, le=1200)


# The keys that have a twin with ``_file`` behind it.
DAEMON_SECRETS = tuple(
    name
    for name, field in DaemonSettings.model_fields.items()
    if SecretStr in get_args(field.annotation)
)


class AlertSettings(BaseModel):
    """``[alerts]``. Rules and channels are raw tables, checked one by one where they are used, so
    that a mistake in one stops no other.

    ``default_channels`` are those of a rule that names none. ``allow_private_targets`` lets
    webhooks go to loopback and private addresses. ``group_wait_seconds`` is how long a notice waits
    for others that go to the same channel. ``give_up_hours`` bounds the retries of one notice.
    ``keep_days`` is how long a notice is listed after it was sent or given up; what happened, with
    its inputs, is kept for ever.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    rules: dict[str, Any] = Field(default_factory=dict)
    channels: dict[str, Any] = Field(default_factory=dict, repr=False)
    default_channels: tuple[str, ...] = ("log",)
    allow_private_targets: bool = False
    group_wait_seconds: float = Field(default=30, ge=0, le=3600)
    give_up_hours: float = Field(default=24, gt=0, le=24 * 30)
    keep_days: int = Field(default=90, ge=1, le=36_500)
