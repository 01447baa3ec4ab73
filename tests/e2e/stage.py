"""A market of two GPUs whose prices cross, somebody to tell, and daemons on one database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.daemon.fleet import sell
from tests.daemon.world import Running, World, until
from tests.support.fixtures import ROOT
from tests.support.hook import Hook
from tests.support.mail import MailServer
from tests.support.pg import bindir_of_tests
from tests.support.replay import Answer, ReplayServer, Request
from tracker.store.embedded import Embedded

S = TypeVar("S", bound="Stage")

RULE = "h100-cheaper-than-a100"
CHANNELS = ("hook", "mail")

# BERT-Large takes 12 h on an A100 and 4 h on an H100: at 1.20 USD for an A100 the H100's job is
# the cheaper one below 3.60 USD, with both margins for certain below 3.52 and no more above 3.68.
A100 = "1.20"
CHEAP, DEAR = "3.00", "4.50"

AT_ONCE = """every = "1s"
min_duration = "0s"
min_count = 1
keep_firing = "0s"
cooldown = "0s"
"""

_SENDING = """
SELECT o.channel, e.event_id FROM alert_outbox o JOIN alert_event e ON e.id = o.event
WHERE o.status = 'sending'
"""


@dataclass(frozen=True)
class Noted:
    """An event of the rule as the database has it; ``rows`` is channel -> status of its notice."""

    id: str
    kind: str
    seq: int
    rows: Mapping[str, str]


class Inbox(Hook):
    """A webhook that keeps what it accepted; ``on_post`` answers in its place."""

    on_post: Callable[[Request], Answer] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.taken: list[Request] = []
        self.handle("POST", self.path, self._accept)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json() for request in list(self.taken)]

    @property
    def ids(self) -> list[str]:
        return [request.headers["x-gpucost-event"] for request in list(self.taken)]

    def _accept(self, request: Request) -> Answer:
        self.tries += 1
        answer = Answer(b"ok") if self.on_post is None else self.on_post(request)
        if answer.status == 200:
            self.taken.append(request)
        return answer


class Mailbox(MailServer):
    """``on_mail`` is called with a mail in hand, before its sender hears that it was taken."""

    on_mail: Callable[[], None] | None = None

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        reply = await super().handle_DATA(server, session, envelope)
        if self.on_mail is not None:
            self.on_mail()
        return reply


class Stage(World):
    """The providers *names* ask the same prices; their server, the webhook and the mailbox run
    elsewhere. The daemons share the embedded PostgreSQL of ``folder``."""

    command = (sys.executable, "-m", "tests.e2e.hasty")

    def __init__(
        self, folder: Path, server: ReplayServer, names: Iterable[str], hook: Inbox,
        mail: Mailbox, *, rule: str = AT_ONCE,
    ) -> None:  # fmt: skip
        self.hook, self.mail, self.rule = hook, mail, rule
        self._started: list[Running] = []
        self.alert_settings = ""  # more lines of [alerts]
        self.embedded = Embedded(folder / "d", bindir=bindir_of_tests())
        environment = {"GPUCOST_DATA_DIR": str(folder / "d")}
        if bindir_of_tests() is not None:
            environment["GPUCOST_POSTGRES_BINDIR"] = str(bindir_of_tests())
        super().__init__(folder, server, names, environment)
        self.ask(DEAR)

    def configure(self, more: str = "", **tables: str) -> None:
        """As in a world, with the rule and both channels."""
        super().configure(f"{more}\n{self.alerts()}", **tables)

    def alerts(self) -> str:
        """The configuration of rule and channels."""
        return f"""
[alerts]
allow_private_targets = true
group_wait_seconds = 0
default_channels = ["hook", "mail"]
{self.alert_settings}
[alerts.channels.hook]
type = "webhook"
url = "{self.hook.address}"
[alerts.channels.mail]
type = "smtp"
host = "127.0.0.1"
port = {self.mail.port}
security = "none"
from = "gpucost@example.org"
to = "ops@example.org"
[alerts.rules.{RULE}]
{self.rule}
"""

    def popen(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a gpucost command, one that hurries to send."""
        return subprocess.Popen(
            [*self.command, *arguments], cwd=self.folder, env=self._environment(environment),
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, **environment: str) -> str:
        """Run a gpucost command; all that it prints."""
        done = subprocess.run(
            [*self.command, *arguments], cwd=self.folder, env=self._environment(environment),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        return done.stdout

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{self.packages}{os.pathsep}{ROOT}",
            "GPUCOST_CONFIG": str(self.config), **self.environment, **more,
        }  # fmt: skip

    def start(self, **environment: str) -> Running:
        """A daemon that the caller ends; killed with the stage if it lives then."""
        self._started.append(Running(self.popen("daemon", **environment)))
        return self._started[-1]

    def close(self) -> None:
        """End what is left of it."""
        for daemon in self._started:
            daemon.kill()
        self.embedded.stop(force=True)

    def ask(self, h100: str) -> None:
        """Let every provider ask this for an H100 from now on."""
        for name in self.names:
            sell(self.server, name, h100=h100, a100=A100)

    def url(self) -> str:
        """Where the server listens, once it does."""
        return until(lambda: self.embedded.status().url or "", "the server does not run")

    def waiting_for(self, kind: str, count: int, daemon: Running) -> None:
        """Wait until the rule has *count* events of *kind* and their notices have left."""
        told = f"{kind} number {count} was not told"
        url = self.url()

        def met() -> bool:
            assert daemon.process.poll() is None, "\n".join(daemon.log)
            found = [event for event in noted(url) if event.kind == kind]
            return len(found) >= count and all(settled(event) for event in found)

        try:
            until(met, told)
        except AssertionError as error:
            raise AssertionError(f"{told}: {noted(url)}\n" + "\n".join(daemon.log)) from error

    def arrived(self, channel: str) -> list[str]:
        """The ids of the messages that have come on *channel*, in order."""
        if channel == "hook":
            return self.hook.ids
        return [str(mail.content["X-Gpucost-Event"]) for mail in list(self.mail.mails)]


def noted(url: str) -> list[Noted]:
    """The events that are sent, in order."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT e.event_id, e.kind, e.seq, jsonb_object_agg(o.channel, o.status)"
            " FROM alert_event e JOIN alert_outbox o ON o.event = e.id"
            " WHERE e.rule = %s GROUP BY e.id ORDER BY e.seq",
            (RULE,),
        )
        return [Noted(*row) for row in rows]


def settled(event: Noted) -> bool:
    """Whether nothing more is to be sent of it."""
    return all(status in ("sent", "merged") for status in event.rows.values())


def under_way(url: str) -> list[tuple[str, str]]:
    """The messages, as (channel, event), that somebody has taken to send and not marked."""
    with psycopg.connect(url) as connection:
        return [(channel, event) for channel, event in connection.execute(_SENDING)]


def assert_told_once(stage: Stage, url: str, crossings: int, cut_short: Counter[Any]) -> int:
    """Every one of *crossings* (both ways, a fall first) is one event, told on both channels.

    A message may come again only as often as *cut_short* has it: (channel, event) that were under
    way when somebody died. Returns how many came again.
    """
    events = noted(url)
    kinds = [event.kind for event in events]
    assert kinds == [("fired", "resolved")[number % 2] for number in range(crossings)], events
    again = 0
    for channel in CHANNELS:
        assert {e.rows.get(channel) for e in events} <= {"sent", "merged"}, events
        sent = [e.id for e in events if e.rows[channel] == "sent"]
        came = Counter(stage.arrived(channel))
        assert list(came) == sent, (channel, sent, came)  # all of them, in their order
        for event, times in came.items():
            assert times - 1 <= cut_short[channel, event], (channel, event, times, cut_short)
            again += times - 1
        swallowed = {e.id for e in events if e.rows[channel] == "merged"}
        assert swallowed == merged(url, channel)
    for body in stage.hook.bodies:
        assert body["event_id"] == body["events"][0]["event_id"]
    return again


def merged(url: str, channel: str) -> set[str]:
    """The firings that were told together with their end."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT jsonb_array_elements_text(message #> '{merged,event_ids}') FROM alert_outbox"
            " WHERE channel = %s AND status = 'sent' AND message ? 'merged'",
            (channel,),
        )
        return {event for (event,) in rows}


@contextmanager
def staged(
    folder: Path, names: Iterable[str] = ("alpha", "beta"), *, rule: str = AT_ONCE,
    make: Callable[..., S],
) -> Iterator[S]:  # fmt: skip
    """A stage with its servers; its PostgreSQL is stopped in the end."""
    hook, mail = Inbox(), Mailbox()
    with ReplayServer() as server, hook, mail:
        for receiver in (server, hook):  # whoever asked may be dead when the answer is ready
            receiver._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        stage = make(folder, server, names, hook, mail, rule=rule)
        try:
            yield stage
        finally:
            stage.close()
