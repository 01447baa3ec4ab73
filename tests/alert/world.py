"""Markets made by hand in a real database, and rules that look at them.

BERT-Large takes 12 h on an A100 (80 GB SXM), 4 h on an H100 (SXM) and at least 48 h on an RTX 4090
(tracker/data/jobs/bert-large.toml). Providers are polled every 5 minutes: prices hold for 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine

from tests.store.worlds import rows
from tests.support.catalogue import catalogue
from tests.support.offers import at, make_offer, make_poll
from tracker import data
from tracker.alert.engine import AlertEngine
from tracker.alert.evaluate import Evaluation, evaluate
from tracker.alert.rules import Rule, RuleProblem, load_rules
from tracker.alert.snapshot import Snapshot
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job, JobError
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules, assess
from tracker.store import alerts
from tracker.store.engine import make_engine, transaction
from tracker.store.polls import Recorded, Recorder

H100 = Gpu("H100-SXM-80GB", "H100", "SXM", 80)
A100 = Gpu("A100-SXM-80GB", "A100", "SXM", 80)
A100_40 = Gpu("A100-PCIE-40GB", "A100", "PCIE", 40)
RTX4090 = Gpu("RTX4090-24GB", "RTX4090", None, 24)
EVERY = 300
GPUS = {"h": H100, "a": A100, "p": A100_40, "r": RTX4090}


def offer(name: str, price: str, source: str = "acme", **fields: Any) -> Offer:
    """An offer whose GPU is told by the first letter of *name*: h100, a100, p(cie) a100, r4090."""
    return make_offer(name, price, source=source, gpu=GPUS[name[0]], **fields)


def find_job(name: str) -> Job:
    """A built-in job, or one of a few that tests need."""
    text = data.text("jobs/bert-large.toml")
    if name == "bert-large":
        return job_from_text(text, catalogue())
    if name == "uploads":
        changed = text.replace('name = "bert-large"', 'name = "uploads"\negress_gb = 100')
        return job_from_text(changed, catalogue())
    raise JobError(f"no job is called {name!r}; did you mean bert-large?")


def load(
    shipped: bool = False, channels: Iterable[str] = ("log", "ops"), **tables: Mapping[str, Any]
) -> tuple[tuple[Rule, ...], tuple[RuleProblem, ...]]:
    """The rules of *tables*."""
    return load_rules(
        tables, catalogue=catalogue(), job=find_job, channels=tuple(channels), shipped=shipped
    )


def rule(when: str = "cost(H100) < cost(A100)", name: str = "r", **keys: Any) -> Rule:
    """One rule, of BERT-Large where it needs a job."""
    table: dict[str, Any] = {"when": when} | keys
    if when.startswith(("cost", "cheapest")):
        table.setdefault("job", "bert-large")
    loaded, problems = load(**{name: table})
    assert problems == ()
    return loaded[0]


class World:
    """A database, polled and looked at at moments that a test chooses (minutes after START)."""

    def __init__(self, url: str, engine: Engine) -> None:
        self.url, self.engine = url, engine
        self.recorder = Recorder(engine)

    def poll(
        self, minutes: float, offers: Iterable[Offer] | Mapping[str, str] = (),
        source: str = "acme", **fields: Any,
    ) -> Recorded:  # fmt: skip
        """A poll that passes all gates: *offers*, or prices by name."""
        if isinstance(offers, Mapping):
            offers = [offer(name, price, source) for name, price in offers.items()]
        options: dict[str, Any] = {"every_seconds": EVERY} | fields
        return self.recorder.record(make_poll(minutes, tuple(offers), source=source, **options))

    def gated(
        self, minutes: float, offers: Iterable[Offer], source: str = "acme", **fields: Any
    ) -> Recorded:
        """A poll that the real gates judge."""
        context = self.recorder.context(source)
        known = Known(
            context.last_price_micro_usd, context.complete_count, context.shrunk_counts,
            context.pending, context.sizes,
        )  # fmt: skip
        found = assess(
            list(offers), known, catalogue(), Rules(),
            marketplace=fields.get("marketplace", False), complete=True,
        )  # fmt: skip
        return self.poll(
            minutes, found.accepted, source, status=found.verdict or "complete",
            quarantined=found.held, released=found.released, **fields,
        )  # fmt: skip

    def fail(self, minutes: float, source: str = "acme") -> None:
        """A poll that brings nothing."""
        self.poll(minutes, (), source, status="failed", error="HTTP 503")

    def look(self, wanted: Rule, minutes: float, **options: Iterable[str]) -> Evaluation:
        """What *wanted* says then. *options* as of ``snapshot``."""
        return evaluate(wanted, self.snapshot(minutes, wanted, **options), at(minutes))

    def snapshot(
        self, minutes: float, *wanted: Rule, sources: Iterable[str] = (),
        left_out: Iterable[str] = (),
    ) -> Snapshot:  # fmt: skip
        """All that *wanted* need to be evaluated then."""
        with transaction(self.engine) as cursor:
            return Snapshot.read(
                cursor.connection,
                wanted,
                catalogue(),
                at(minutes),
                sources=tuple(sources),
                left_out=tuple(left_out),
            )

    def alerts(self, *wanted: Rule, **options: Any) -> AlertEngine:
        """A fresh engine, as after a restart."""
        return AlertEngine(self.engine, wanted, catalogue(), **options)

    def events(self, name: str = "r") -> list[tuple[str, str | None]]:
        """The kinds of a rule's events, and what kept each back."""
        found = rows(
            self.url, "SELECT kind, suppressed_by FROM alert_event WHERE rule = %s ORDER BY id",
            (name,),
        )  # fmt: skip
        return [(kind, kept) for kind, kept in found]

    def kinds(self, name: str = "r") -> list[str]:
        """The kinds of a rule's events."""
        return [kind for kind, _ in self.events(name)]

    def notices(self, name: str = "r") -> list[tuple[str, str]]:
        """The kinds and channels of a rule's notices."""
        found = rows(
            self.url, "SELECT kind, channel FROM alert_outbox WHERE rule = %s ORDER BY id", (name,)
        )
        return [(kind, channel) for kind, channel in found]

    def messages(self, name: str = "r") -> list[dict[str, Any]]:
        """The contexts of a rule's notices."""
        found = rows(
            self.url, "SELECT message FROM alert_outbox WHERE rule = %s ORDER BY id", (name,)
        )
        return [message for (message,) in found]

    def row(self, name: str = "r") -> dict[str, Any]:
        """A rule's row."""
        [found] = rows(self.url, "SELECT to_jsonb(r) FROM alert_rule r WHERE name = %s", (name,))
        return dict(found[0])


QUICK: dict[str, Any] = {
    "min_duration": "0s", "min_count": 1, "keep_firing": "0s", "cooldown": "0s",
}  # fmt: skip
CHEAP, DEAR = {"h": "2.5", "a": "1"}, {"h": "4", "a": "1"}  # 10 and 16 against 12


def play(world: World, wanted: Rule, prices: str, start: int = 0, **options: Any) -> None:
    """Poll and evaluate every 5 minutes, each time in a new engine: c(heap), d(ear), x (none)."""
    for index, price in enumerate(prices):
        minutes = start + 5 * index
        if price != "x":
            world.poll(minutes, CHEAP if price == "c" else DEAR)
        world.alerts(wanted, **options).evaluate(at(minutes))


def silence(world: World, minutes: float, until: float, **matchers: str) -> int:
    """A silence from one moment until another; its number."""
    with transaction(world.engine) as cursor:
        return alerts.add_silence(
            cursor, starts_at=at(minutes), until=at(until), author="me", comment="known",
            **matchers,
        )  # fmt: skip


@contextmanager
def open_world(url: str) -> Iterator[World]:
    """A world in the database at *url*."""
    engine = make_engine(url)
    try:
        yield World(url, engine)
    finally:
        engine.dispose()
