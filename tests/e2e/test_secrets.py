"""Secrets in every place that takes one, and a whole run of a daemon: no place shows any."""

from __future__ import annotations

import base64
import json
import signal
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from tests.daemon.fleet import machines
from tests.daemon.world import Running, polls, until
from tests.e2e.killing import Script
from tests.e2e.stage import DEAR, Stage, noted, staged
from tests.support.hook import TOKEN
from tests.support.replay import Answer, Request, json_answer
from tracker.store import migrate

pytest.importorskip("apprise")
pytestmark = pytest.mark.e2e

WORN_KEY, KEY = "planted-worn-key-Hq3", "planted-good-key-Lw8"
DATABASE, LOCK = "planted-database-Vb5", "planted-lock-Nd2"
HMAC, MAIL, CHAT, BEAT = (
    "planted-hmac-Tj7",
    "planted-mail-Xc4",
    "planted-chat-Rg6",
    "planted-beat-Mz9",
)
TYPO = "planted-typo-Ks1"
PLANTED = (WORN_KEY, KEY, DATABASE, LOCK, HMAC, MAIL, CHAT, BEAT, TYPO, TOKEN)

COMMANDS = (
    ("doctor",), ("db", "status"), ("providers",), ("alerts", "check"), ("alerts", "list"),
    ("alerts", "outbox"), ("alerts", "history"), ("daemon", "--once"),
)  # fmt: skip

CHANNELS = """
[alerts.channels.chat]
type = "apprise"
url_env = "CHAT_URL"
"""


class Confidential(Stage):
    """A stage whose receivers want secrets, and repeat them whenever something is wrong."""

    refuse = fail = False  # whether receivers, and providers, are out of order just now
    h100 = DEAR

    def alerts(self) -> str:
        hook = f'secret = "{HMAC}"\nurl = "{self.hook.address}"'
        mail = f'username = "bot"\npassword = "{MAIL}"\nsecurity = "none"'
        text = super().alerts().replace(f'url = "{self.hook.address}"', hook)
        text = text.replace('"hook", "mail"', '"hook", "mail", "chat", "log"')
        return text.replace('security = "none"', mail) + CHANNELS

    def open(self) -> None:
        """Let the receivers begin."""
        self.hook.on_post = self.take
        self.hook.handle("POST", f"/chat/{CHAT}", self.take)
        self.hook.handle("POST", f"/beat/{BEAT}", self.take)
        for name in self.names:
            self.server.handle("GET", f"/{name}", self.sell)
        self.mail.users = {"bot": MAIL}

    def ask(self, h100: str) -> None:
        self.h100 = h100

    def sell(self, request: Request) -> Answer:
        """Prices for the right key; everything that was sent for a wrong one."""
        echo = json.dumps(dict(request.headers)).encode()
        given = request.headers.get("authorization")
        if request.path == "/alpha" and given != f"Bearer {KEY}":
            return Answer(echo, 401)
        return Answer(echo, 500) if self.fail else json_answer(machines(self.h100, "1.20"))

    def take(self, request: Request) -> Answer:
        """Take a message, or say in an error what was sent and where to."""
        echo = f"{request.path} {dict(request.headers)} {HMAC} {self.hook.address}"
        return Answer(echo.encode(), 500) if self.refuse else Answer(b"ok")

    def out_of_order(self, wrong: bool) -> None:
        """All receivers fail, or none."""
        self.refuse = wrong
        self.mail.users["bot"] = "another" if wrong else MAIL


@pytest.fixture
def confidential(folder: Path) -> Iterator[Confidential]:
    """A database whose URL has a password, and secrets wherever there can be one."""
    with staged(folder, make=Confidential) as stage:
        url = stage.embedded.acquire()
        migrate.upgrade(url)
        assert "://gpucost@" in url
        at = f"127.0.0.1:{stage.hook.port}"
        stage.environment = {
            "GPUCOST_DATABASE_URL": url.replace("://gpucost@", f"://gpucost:{DATABASE}@"),
            "GPUCOST_DAEMON__LOCK_DATABASE_URL": url.replace("://gpucost@", f"://gpucost:{LOCK}@"),
            "GPUCOST_DAEMON__HEARTBEAT_URL": f"http://{at}/beat/{BEAT}",
            "CHAT_URL": f"json://bot:{CHAT}@{at}/chat/{CHAT}",
        }
        stage.open()
        stage.configure(alpha=f'api_key = "{WORN_KEY}"')
        yield stage
        stage.embedded.release()


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_place_shows_a_secret(confidential: Confidential, form: str) -> None:
    stage, script = confidential, Script(confidential)
    pages: list[str] = []
    with stage.daemon(GPUCOST_LOG_LEVEL="debug", GPUCOST_LOG_FORMAT=form) as daemon:
        daemon.says("leading as")
        until(lambda: daemon.provider("alpha")["breaker"] == "open")
        pages += look(daemon)
        typed_wrong(stage, daemon)
        stage.configure(alpha=f'api_key = "{KEY}"')
        daemon.send(signal.SIGHUP)
        until(lambda: polls(stage.url(), "alpha", "complete"), "the good key is of no use")
        stage.out_of_order(True)
        script.turn()
        for channel in ("hook", "mail", "chat"):
            daemon.says(f"alert channel {channel}: ")
        daemon.says("heartbeat: HTTP 500")
        stage.fail = True
        daemon.says("beta: no usable prices")
        stage.fail = False
        pages += [*look(daemon), errors(stage)]
        stage.out_of_order(False)
        script.wait(partial(ended, stage, script.crossings), daemon)
        stage.embedded.stop(force=True)
        daemon.says("database: ")
        pages += look(daemon)
        stage.embedded.acquire()
        daemon.says("database: works again")
        script.turn()
        script.wait(partial(ended, stage, script.crossings), daemon)
        pages += look(daemon)
        said = [stage.run(*words, GPUCOST_LOG_LEVEL="debug") for words in COMMANDS]
        assert daemon.stop() == 0
    assert sum("***" in page for page in pages) > 0  # there was something to hide
    assert daemon.lines(r"\*\*\*")
    sinks = {
        "log": "\n".join(daemon.log), "pages": "\n".join(pages), "commands": "\n".join(said),
        "messages": "\n".join(messages(stage)), **tables(stage),
    }  # fmt: skip
    assert len(sinks["messages"]) > 4000
    assert sinks["alert_outbox"].count("\n") == 2 * 4
    for secret in spellings():
        for place, shown in sinks.items():
            assert secret not in shown, f"{secret} in {place}: {around(secret, shown)}"
    stage.embedded.stop(force=True)
    assert_no_file_shows(stage.folder, stage.config)
    stage.embedded.acquire()  # the fixture gives it back


def spellings() -> list[str]:
    """The secrets as they are, and as they travel."""
    plain = f"\0bot\0{MAIL}"
    encoded = [base64.b64encode(s.encode()).decode().rstrip("=") for s in (*PLANTED, plain)]
    return [*PLANTED, *map(quote, PLANTED), *encoded]


def around(secret: str, shown: str) -> str:
    """Where it stands."""
    at = shown.index(secret)
    return shown[max(0, at - 300) : at + 100]


def ended(stage: Stage, crossings: int) -> bool:
    """Whether all is told, or given up: a refused password is tried twice only."""
    with suppress(psycopg.OperationalError):
        events = noted(stage.url())
        rows = [status for event in events for status in event.rows.values()]
        return len(events) == crossings and not {"pending", "sending"} & set(rows)
    return False


def typed_wrong(stage: Stage, daemon: Running) -> None:
    """Configurations with mistakes at or near a secret."""
    right = stage.config.read_text()
    for wrong, told in (
        (f'databse_url = "postgresql://u:{TYPO}@h/x"\n{right}', "databse_url"),
        (right.replace('type = "webhook"', f'type = "webhook"\nsceret = "{TYPO}"'), "sceret"),
        (right.replace(stage.hook.address, f"gopher://{TYPO}/{TOKEN}"), "hook"),
        (right.replace(f'api_key = "{WORN_KEY}"', f"api_key = [\"{TYPO}\"]"), "api_key"),
    ):  # fmt: skip
        assert wrong != right
        seen = len(daemon.log)
        stage.config.write_text(wrong)
        daemon.send(signal.SIGHUP)
        until(partial(said_since, daemon, seen, told), told)
    stage.config.write_text(right)


def said_since(daemon: Running, seen: int, *words: str) -> bool:
    """Whether a reload, and the word, were in the log after its first *seen* lines."""
    lines = [line for line in daemon.log[seen:] if "asyncio" not in line]
    return all(any(word in line for line in lines) for word in ("reloaded", *words))


def look(daemon: Running) -> list[str]:
    """All pages that are served."""
    return [daemon.get(page)[1] for page in ("/livez", "/readyz", "/status", "/metrics", "/no")]


def errors(stage: Stage) -> str:
    """What the outbox says of notices that could not be sent, which must be something."""
    with psycopg.connect(stage.url()) as connection:
        found = connection.execute(
            "SELECT channel, last_error FROM alert_outbox WHERE last_error IS NOT NULL"
        ).fetchall()
    assert {channel for channel, _ in found} == {"hook", "mail", "chat"}, found
    return repr(found)


def messages(stage: Stage) -> Iterator[str]:
    """What people were told, without the addresses that it went to."""
    for request in list(stage.hook.requests):
        yield request.body.decode()
    for mail in list(stage.mail.mails):
        yield str(mail.content["Subject"])
        for part in mail.content.walk():
            if not part.is_multipart():
                yield str(part.get_content())


def tables(stage: Stage) -> dict[str, str]:
    """The whole database as text, packed bodies unpacked."""
    found: dict[str, str] = {}
    with psycopg.connect(stage.url()) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'm')"
            " AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        for (name,) in names:
            rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))
            found[name] = "\n".join(" ".join(map(_text, row)) for row in rows) + "\n"
    assert len(found) > 15
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            value = zlib.decompress(value)
        return str(value, "latin-1")
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def assert_no_file_shows(folder: Path, config: Path) -> None:
    """Logs, the server's own files, whatever else was left on the disk."""
    looked = 0
    for path in folder.rglob("*"):
        if path.is_file() and path != config and not path.is_symlink():
            content = path.read_bytes()
            looked += 1
            for secret in PLANTED:
                assert secret.encode() not in content, f"{secret} in {path}"
    assert looked > 100
