"""The real command, run in this process, and databases filled through the real recorder."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.offers import make_poll
from tests.support.pg import TestServer
from tracker.cli import main
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Offer
from tracker.store.engine import make_engine
from tracker.store.polls import Poll, Recorder

H100 = Gpu("H100-SXM-80GB", "H100", "SXM", 80)
A100 = Gpu("A100-SXM-80GB", "A100", "SXM", 80)
RTX4090 = Gpu("RTX4090-24GB", "RTX4090", None, 24)
HOUR = 3600


@dataclass(frozen=True)
class Result:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Stdout as JSON, in which no number may be a float that stands for money."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def complaint(self) -> str:
        """The one line on stderr; fails when it is not one, or smells of a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("gpucost: ")
        assert "Traceback" not in self.err
        assert "internal error" not in self.err
        return lines[0].removeprefix("gpucost: ")


def run(*argv: str) -> Result:
    """Run ``gpucost`` with *argv* in this process and environment."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main._run(list(argv))
    return Result(code, out.getvalue(), err.getvalue())


def ago(minutes: float) -> datetime:
    """So many minutes before now."""
    return datetime.now(UTC) - timedelta(minutes=minutes)


def polled(source: str, offers: Iterable[Offer], minutes_ago: float = 5, **fields: Any) -> Poll:
    """A complete poll of *source*, by default recent and hourly (time to live: three hours)."""
    moment = ago(minutes_ago)
    times = {"started_at": moment, "polled_at": moment, "every_seconds": HOUR}
    return make_poll(0, tuple(offers), source=source, **(times | fields))


def record(url: str, *polls: Poll) -> None:
    """Record *polls* in the database at *url*."""
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        for poll in polls:
            recorder.record(poll)
    finally:
        engine.dispose()


@contextmanager
def filled(server: TestServer, *polls: Poll) -> Iterator[str]:
    """The URL of a fresh database that holds *polls*."""
    with server.database(migrated=True) as url:
        record(url, *polls)
        yield url


def by_id(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of an answer by the provider's own id of the offer."""
    return {row.get("offer_id") or row["native_id"]: row for row in rows}


def cheapest_document(*argv: str) -> dict[str, Any]:
    """What ``gpucost cheapest`` with these arguments answers as JSON."""
    answer = run("cheapest", *argv, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document
