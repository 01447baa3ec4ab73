"""``[alerts.channels.NAME]``: channels from their tables, checked one by one."""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)

from tracker.notify import secrets
from tracker.notify.channel import Channel, ChannelProblem
from tracker.notify.log import LogChannel
from tracker.notify.mail import DEFAULT_PORTS, MailChannel, Security, Server
from tracker.notify.services import AppriseChannel
from tracker.notify.webhook import WebhookChannel
from tracker.settings.errors import explain
from tracker.settings.sources import SettingsError, from_file_twin
from tracker.telemetry import HIDDEN, Redactor

SHORTEST_SECRET = 8  # characters, of what signs a webhook's messages
LOG = "log"  # the channel that is there without being configured

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.IGNORECASE)
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")
# What is plainly no secret that somebody wrote into the wrong key, and may be shown.
_SURELY_A_VARIABLE = re.compile(r"[A-Z]+(_[A-Z]+)+")
_SURELY_A_PATH = re.compile(r"(/|\.{1,2}/|~/).*", re.DOTALL)
_SURELY_A_WORD = re.compile(r"[a-z][a-z_-]{0,19}", re.IGNORECASE)
_SECRETS = ("url", "secret", "password")


def _addresses(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    max_characters: int | None = Field(default=None, ge=200, le=1_000_000)


class _Log(_Table):
    type: Literal["log"]


class _Webhook(_Table):
    type: Literal["webhook"]
    url: SecretStr
    secret: SecretStr | None = None


class _Mail(_Table):
    type: Literal["smtp"]
    host: str
    port: int | None = Field(default=None, ge=1, le=65_535)
    security: Security = "starttls"
    username: str | None = None
    password: SecretStr | None = None
    ca_file: Path | None = None
    sender: str = Field(alias="from")
    to: Annotated[tuple[str, ...], BeforeValidator(_addresses), Field(min_length=1, max_length=50)]

    @field_validator("host")
    @classmethod
    def _is_host(cls, host: str) -> str:
        if not _HOST.fullmatch(host):
            raise ValueError("must be the name of a server, without scheme or path")
        return host

    @field_validator("sender", "to")
    @classmethod
    def _are_addresses(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        every = (value,) if isinstance(value, str) else value
        if not all(_ADDRESS.fullmatch(address) for address in every):
            raise ValueError("must be plain mail addresses like alerts@example.org")
        return value


class _Apprise(_Table):
    type: Literal["apprise"]
    url: SecretStr


_MODELS: dict[str, type[_Table]] = {
    "log": _Log,
    "webhook": _Webhook,
    "smtp": _Mail,
    "apprise": _Apprise,
}


_TYPES = (
    f"use one of {', '.join(_MODELS)} (Slack, Discord, Telegram, ntfy and many others: apprise)"
)


class _Problem(Exception):
    """What is wrong with one channel, in one line."""


def load_channels(
    tables: Mapping[str, Mapping[str, Any]],
    env: Mapping[str, str],
    *,
    allow_private: bool,
    redactor: Redactor,
    contact: str | None = None,
) -> tuple[dict[str, Channel], tuple[ChannelProblem, ...]]:
    """The channels of *tables* by name, and those that cannot be used.

    "log" is among them whether it is configured or not. ``url``, ``secret`` and ``password`` may
    come from a variable (``url_env``) or a file (``url_file``); *redactor* learns them, even those
    of a channel that is refused otherwise. *contact* goes into the User-Agent of webhooks.
    """
    channels: dict[str, Channel] = {LOG: LogChannel(LOG)}
    problems: list[ChannelProblem] = []
    for name, table in tables.items():
        try:
            channels[name] = _channel(name, table, env, allow_private, redactor, contact)
        except _Problem as problem:
            channels.pop(name, None)
            # Our own words: "password: a login needs" is not a password.
            problems.append(ChannelProblem(name, redactor.exact(str(problem), HIDDEN)))
    return channels, tuple(problems)


def _channel(
    name: str,
    table: Mapping[str, Any],
    env: Mapping[str, str],
    allow_private: bool,
    redactor: Redactor,
    contact: str | None,
) -> Channel:
    if not _NAME.fullmatch(name):
        raise _Problem("a channel's name is made of letters, digits, - and _")
    if not isinstance(table, Mapping):
        raise _Problem('must be a table with a "type"')
    values = _with_secrets(table, env)
    for key in _SECRETS:
        _learn(redactor, key, values.get(key))
    kind = values.get("type")
    if kind is None:
        raise _Problem(f'has no "type": use one of {", ".join(_MODELS)}')
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        near = difflib.get_close_matches(str(kind), _MODELS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else _TYPES
        named = isinstance(kind, str) and _SURELY_A_WORD.fullmatch(kind)
        called = f'"{kind}"' if named else "such type"
        raise _Problem(f"type: there is no {called}, {hint}")
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        raise _Problem(explain(error, model, "", {}).removeprefix(": ")) from None
    match settings:
        case _Webhook():
            return _webhook(name, settings, allow_private, redactor, contact)
        case _Mail():
            return _mail(name, settings, redactor)
        case _Apprise():
            return _apprise(name, settings, allow_private, redactor)
        case _:
            return LogChannel(name)


def _with_secrets(table: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """*table* with its secrets read from where it says."""
    values = dict(table)
    for key in _SECRETS:
        variable, file = values.pop(f"{key}_env", None), values.pop(f"{key}_file", None)
        if sum(source is not None for source in (values.get(key), variable, file)) > 1:
            raise _Problem(f"{key}: give it once, directly or as {key}_env or {key}_file")
        if variable is not None:
            if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
                # Perhaps the secret itself: it is not shown.
                raise _Problem(f"{key}_env: must be the name of a variable")
            found = env.get(variable)
            if not found:
                surely = _SURELY_A_VARIABLE.fullmatch(variable)
                named = f"variable {variable}" if surely else "such variable"
                raise _Problem(f"{key}_env: there is no {named}, or it is empty")
            values[key] = found
        elif file is not None:
            if not isinstance(file, str) or "://" in file:
                raise _Problem(f"{key}_file: must be the path of a file")
            try:
                values[key] = from_file_twin(key, None, file)
            except SettingsError as error:
                if not _SURELY_A_PATH.fullmatch(file) and not Path(file).exists():
                    raise _Problem(f"{key}_file: there is no such file") from None
                raise _Problem(str(error)) from None
    return values


def _learn(redactor: Redactor, key: str, value: object) -> None:
    if not isinstance(value, str):
        return
    if key == "url":
        redactor.register_url(value)
        redactor.register(*secrets.of_url(value))
    else:
        redactor.register(value)


def _webhook(
    name: str, table: _Webhook, allow_private: bool, redactor: Redactor, contact: str | None
) -> Channel:
    from tracker.http.outgoing import check_target

    problem = check_target(table.url.get_secret_value())
    if problem is not None:
        raise _Problem(f"url: {problem}")
    if table.secret is not None and len(table.secret.get_secret_value()) < SHORTEST_SECRET:
        # No colon: what comes after "secret:" is hidden in whatever is shown.
        raise _Problem(f"its secret must have {SHORTEST_SECRET} characters or more")
    channel = WebhookChannel(
        name, table.url, secret=table.secret, allow_private=allow_private, redactor=redactor,
        contact=contact,
    )  # fmt: skip
    if table.max_characters is not None:
        channel.max_characters = table.max_characters
    return channel


def _mail(name: str, table: _Mail, redactor: Redactor) -> Channel:
    if (table.username is None) != (table.password is None):
        missing = "password" if table.password is None else "username"
        raise _Problem(f"{missing}: a login needs username and password")
    if table.password is not None and table.security == "none" and not _is_here(table.host):
        raise _Problem('security: "none" would send the password in clear, use "starttls" or "tls"')
    if table.password is not None:
        # As the client sends it (RFC 4616), in case a server repeats that.
        login = f"\0{table.username}\0{table.password.get_secret_value()}"
        redactor.register(base64.b64encode(login.encode()).decode())
    if table.ca_file is not None and not table.ca_file.is_file():
        raise _Problem(f"ca_file: there is no file {table.ca_file}")
    server = Server(
        table.host, table.port or DEFAULT_PORTS[table.security], table.security, table.username,
        table.password, str(table.ca_file) if table.ca_file else None,
    )  # fmt: skip
    channel = MailChannel(name, server, sender=table.sender, recipients=table.to, redactor=redactor)
    if table.max_characters is not None:
        channel.max_characters = table.max_characters
    return channel


def _is_here(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def _apprise(name: str, table: _Apprise, allow_private: bool, redactor: Redactor) -> Channel:
    url = table.url.get_secret_value()
    if not re.match(r"[a-z][a-z0-9+.-]*://\S", url, re.IGNORECASE) or not url.isprintable():
        raise _Problem("url: not an Apprise URL: it begins with a service's name, like ntfy://")
    return AppriseChannel(
        name, table.url, allow_private=allow_private, redactor=redactor,
        max_characters=table.max_characters,
    )  # fmt: skip
