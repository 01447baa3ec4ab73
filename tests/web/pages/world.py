"""A database with a past, prices of now, hostile words and an alert that fired; pages served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from tests.alert.world import offer
from tests.cli.harness import RTX4090, ago, filled, polled, record
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.support.providers import disabled
from tests.web.api.served import MANY, server
from tracker.alert.engine import AlertEngine
from tracker.app import App
from tracker.domain.findings import Quarantined
from tracker.domain.quality import Gate
from tracker.report.history.versions import digest_of, estimates_now
from tracker.store import job_estimates, reads
from tracker.store.engine import connect, make_engine
from tracker.store.polls import Poll
from tracker.web.alone import Alone
from tracker.web.api.guard import Access

DAY_MIN = 24 * 60
HOSTILE = "<script>alert(1)</script>\u202e\x9b31m\"'><img src=x onerror=alert(2)>"
RULE = "h100-cheaper-than-a100"
ESTIMATED = "gromacs-like"
_RULES = f'[alerts.rules.{RULE}]\nmin_count = 1\nmin_duration = "0s"\n'


@dataclass
class Pages:
    """What is served: the pages at ``url``, of a database without anything at ``empty``."""

    url: str
    empty: str
    app: App


@contextmanager
def pages(database: TestServer, folder: Path) -> Iterator[Pages]:
    """Both, each on a free port."""
    with filled(database) as url, filled(database) as empty:
        app = _app(url, folder)
        _fill(url, app)
        nothing = _app(empty, folder)
        with server(_web(url, app)) as one, server(_web(empty, nothing)) as other:
            yield Pages(one, other, app)


@contextmanager
def shop(database: TestServer, folder: Path, *polls: Poll) -> Iterator[Pages]:
    """The pages over a database that holds these polls alone; ``empty`` is of the same."""
    with filled(database, *polls) as url:
        app = _app(url, folder)
        with server(_web(url, app)) as one:
            yield Pages(one, one, app)


def _app(url: str, folder: Path) -> App:
    config = folder / "gpucost.toml"
    config.write_text(_RULES + disabled())
    return App(config, {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(folder)})


def _web(url: str, app: App) -> Any:
    env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(app.boot.data_dir)}
    config = Path(app.boot.data_dir) / "gpucost.toml"
    return Alone(url, app, config, env).web(Access(), MANY)


def _fill(url: str, app: App) -> None:
    """Ten days of prices with a day without any, an alert that fires today, a hostile provider."""
    for day in range(10, 1, -1):
        if day == 6:
            continue
        goods = [offer("h100", f"{4.20 - day / 10:.2f}"), offer("a100", f"{1.00 + day / 50:.2f}")]
        goods += [offer("a100-doubted", "1.60")] if day == 2 else []
        record(url, polled("acme", goods, day * DAY_MIN, every_seconds=DAY_MIN * 20))
    now = [offer("h100", "2.49"), offer("a100", "1.19"), make_offer("r", "0.34", gpu=RTX4090)]
    held = [
        Quarantined(offer(name, "0.16"), Gate.JUMP, f"a tenth of {HOSTILE}", True, 1)
        for name in ("a100-doubted", "a100-never-seen")
    ]
    record(url, polled("acme", now, quarantined=held))
    _put_on_record(url, app)
    _evaluate(url, app)
    bad = {"region": HOSTILE, "source": "hostile"}
    record(url, polled("hostile", [offer(HOSTILE.replace("<", "h<", 1), "2.10", **bad)]))
    record(url, polled("older", [offer("h1", "1.00", source="older")], DAY_MIN))


def _put_on_record(url: str, app: App) -> None:
    """An estimate of ESTIMATED that changed four days ago."""
    job = app.job(ESTIMATED)
    with connect(url) as connection, connection.cursor() as cursor:
        offers = reads.live_offers(connection)
        first = estimates_now(job, offers, app.catalogue, ago(9 * DAY_MIN))
        job_estimates.add(cursor, digest_of(job), first)
        then = ago(4 * DAY_MIN)
        later = [
            one._replace(
                ways=[way | {"hours": str(Decimal(way["hours"]) * 2)} for way in one.ways],
                recorded_at=then,
            )
            for one in first
        ]  # fmt: skip
        job_estimates.add(cursor, digest_of(job), later)


def _evaluate(url: str, app: App) -> None:
    engine = make_engine(url)
    try:
        rules, _ = app.alert_rules()
        AlertEngine(engine, rules, app.catalogue).evaluate(datetime.now(UTC), force=True)
    finally:
        engine.dispose()


def tree(text: str) -> LexborHTMLParser:
    """A page to look into."""
    return LexborHTMLParser(text)
