"""Channels from their tables: what is accepted, what is said of what is not, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.hook import CERTIFICATE
from tracker.notify import Channel, ChannelProblem, load_channels
from tracker.telemetry import Redactor

URL = "https://hooks.example.org/services/T00000000/s3cr3t-path-token-91"
PASSWORD = "mail-password-5Qz"
MAIL = {"type": "smtp", "host": "mail.example.org", "from": "a@example.org", "to": "b@example.org"}


def load(
    tables: dict[str, Any], env: dict[str, str] | None = None, redactor: Redactor | None = None
) -> tuple[dict[str, Channel], tuple[ChannelProblem, ...]]:
    return load_channels(
        tables, env or {}, allow_private=False, redactor=redactor or Redactor()
    )  # fmt: skip


def test_the_log_is_always_there() -> None:
    channels, problems = load({})
    assert ([*channels], problems) == (["log"], ())
    assert channels["log"].kind == "log"


def test_every_kind(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    channels, problems = load(
        {
            "ops": {"type": "webhook", "url_env": "OPS_URL", "secret": "0123456789abcdef"},
            "mail": {**MAIL, "to": ["b@example.org", "c@example.org"], "username": "bot",
                     "password_file": str(tmp_path / "password"), "ca_file": str(CERTIFICATE)},
            "chat": {"type": "apprise", "url": "ntfy://topic-of-mine", "max_characters": 500},
            "also-log": {"type": "log"},
        },
        {"OPS_URL": URL},
    )  # fmt: skip
    assert problems == ()
    assert {name: channel.kind for name, channel in channels.items()} == {
        "log": "log", "ops": "webhook", "mail": "smtp", "chat": "apprise", "also-log": "log",
    }  # fmt: skip
    assert {name: channel.name for name, channel in channels.items()} == {n: n for n in channels}
    assert channels["chat"].max_characters == 500


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, 'has no "type": use one of log, webhook, smtp, apprise'),
        ({"type": "webhok", "url": URL}, 'type: there is no "webhok", did you mean "webhook"?'),
        ({"type": ["webhook"]}, "type: there is no"),
        ("webhook", 'must be a table with a "type"'),
        ({"type": "webhook"}, "url: field required"),
        ({"type": "webhook", "url": URL, "scret": "x"},
         'unknown key "scret", did you mean "secret"?'),
        ({"type": "webhook", "url": URL, "secret": "short"},
         "its secret must have 8 characters or more"),
        ({"type": "webhook", "url_env": URL}, "url_env: must be the name of a variable"),
        ({"type": "webhook", "url_file": URL}, "url_file: must be the path of a file"),
        ({"type": "webhook", "url": "ftp://" + URL[8:]}, "url: must begin with https://"),
        ({"type": "webhook", "url": "https:///" + URL[8:]}, "url: not a complete URL"),
        ({"type": "webhook", "url": "https://[::1/" + URL[8:]}, "url: not a URL"),
        ({"type": "webhook", "url": "https://h.example:99999/x"}, "url: not a URL"),
        ({"type": "webhook", "url": "https://h.example/a\nb"}, "url: not a"),
        ({"type": "webhook", "url": URL, "url_env": "X"}, "url: give it once"),
        ({"type": "webhook", "url_env": "NOT_SET"}, "url_env: there is no variable NOT_SET"),
        ({"type": "webhook", "url_file": "/nonexistent/url"}, "url: cannot read /nonexistent/url"),
        ({"type": "apprise", "url": "just-words"}, "url: not an Apprise URL"),
        ({"type": "apprise", "url": "tgram://\x1b[1mtoken-of-mine"}, "url: not an Apprise URL"),
        ({**MAIL, "to": []}, "to: "),
        ({**MAIL, "to": "b@example.org\r\nBcc: c@example.org"}, "to: must be plain mail addresses"),
        ({**MAIL, "from": "Me <a@example.org>"}, "from: must be plain mail addresses"),
        ({**MAIL, "host": "smtp://mail"}, "host: must be the name of a server"),
        ({**MAIL, "port": 0}, "port: input should be greater"),
        ({**MAIL, "security": "ssl"}, "security: input should be 'starttls', 'tls' or 'none'"),
        ({**MAIL, "username": "bot"}, "password: a login needs username and password"),
        ({**MAIL, "password": PASSWORD}, "username: a login needs username and password"),
        ({**MAIL, "username": "bot", "password": PASSWORD, "security": "none"},
         "security: \"none\" would send the password in clear"),
        ({**MAIL, "ca_file": "/nonexistent.pem"}, "ca_file: there is no file /nonexistent.pem"),
        ({**MAIL, "max_characters": 5}, "max_characters: "),
        # A secret in the wrong place.
        ({"type": URL}, "type: there is no such type, use one of log"),
        ({"type": PASSWORD}, "type: there is no such type, use one of log"),
        ({**MAIL, "username": "bot", "password_env": "mail_password_5Qz"},
         "password_env: there is no such variable, or it is empty"),
        ({**MAIL, "username": "bot", "password_env": PASSWORD},
         "password_env: must be the name of a variable"),
        ({**MAIL, "username": "bot", "password_file": PASSWORD},
         "password_file: there is no such file"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_stops_no_other(table: Any, said: str) -> None:
    channels, problems = load({"bad": table, "good": {"type": "webhook", "url": URL}})
    assert [*channels] == ["log", "good"]
    (problem,) = problems
    line = str(problem)
    assert line.startswith("[alerts.channels.bad] " + said), line
    assert len(line.splitlines()) == 1
    for secret in (URL, "s3cr3t-path-token-91", PASSWORD, "mail_password_5Qz"):
        assert secret not in line


@pytest.mark.parametrize("name", ["", "a b", "ö", "-x", "x\n", "a" * 64])
def test_a_channel_has_a_plain_name(name: str) -> None:
    channels, problems = load({name: {"type": "log"}})
    assert [*channels] == ["log"]
    assert "letters, digits" in str(problems[0])


def test_a_broken_log_table_leaves_no_log() -> None:
    channels, problems = load({"log": {"type": "log", "colour": "red"}})
    assert channels == {}
    assert len(problems) == 1


def test_the_redactor_learns_every_secret_even_of_a_refused_channel() -> None:
    redactor = Redactor()
    load(
        {
            "a": {"type": "webhook", "url": URL, "secret": "0123456789abcdef"},
            "b": {**MAIL, "username": "bot", "password": PASSWORD},
            "c": {"type": "nothing", "url": "tgram://123456789:AAbbCCddEEff_tokenTG/-100"},
        },
        redactor=redactor,
    )
    login = "AGJvdABtYWlsLXBhc3N3b3JkLTVReg=="  # "\0bot\0" and the password, as AUTH PLAIN has it
    for secret in (URL, "T00000000/s3cr3t-path-token-91", "s3cr3t-path-token-91",
                   "0123456789abcdef", PASSWORD, login, "AAbbCCddEEff_tokenTG"):  # fmt: skip
        assert secret not in redactor(f"it said {secret}!")


def test_no_secret_in_what_a_channel_looks_like() -> None:
    channels, _ = load(
        {
            "a": {"type": "webhook", "url": URL, "secret": "0123456789abcdef"},
            "b": {**MAIL, "username": "bot", "password": PASSWORD},
            "c": {"type": "apprise", "url": "ntfy://topic-of-mine"},
        }
    )
    shown = " ".join(f"{channel!r} {vars(channel)!r}" for channel in channels.values())
    for secret in (URL, "0123456789abcdef", PASSWORD, "topic-of-mine"):
        assert secret not in shown
