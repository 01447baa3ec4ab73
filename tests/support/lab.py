"""A collector over a real database and HTTP on loopback, polled at moments the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tests.support import clouds
from tests.support.catalogue import catalogue
from tests.support.replay import ReplayServer
from tests.support.web import NOW, FakeClock
from tracker import registry
from tracker.app import App
from tracker.collect import Collector, PollOutcome, poll_all
from tracker.domain.quality import Rules
from tracker.http.client import Client
from tracker.http.gate import HostGate
from tracker.http.limits import Limits
from tracker.provider import Provider, ProviderConfig
from tracker.report.filters import Filters, Selection, select
from tracker.store import reads
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder
from tracker.store.reads import StoredOffer


def at(minutes: float) -> datetime:
    """So many minutes after the lab's clock started."""
    return NOW + timedelta(minutes=minutes)


class Lab:
    """``poll("runpod", 15)`` asks the local server for its answer, 15 minutes after the start."""

    def __init__(self, url: str, recorder: Recorder, server: ReplayServer) -> None:
        self.url, self.server, self.clock = url, server, FakeClock()
        self._app = App(env=clouds.environment(server))
        self.collector = Collector(
            catalogue(), Rules(), recorder, self._client, utc_now=self.clock.now
        )

    def _client(self, provider: Provider[Any], config: ProviderConfig, deadline_s: float) -> Client:
        return Client(
            gate=HostGate(clock=self.clock), clock=self.clock, limits=Limits(attempts=1),
            deadline_s=deadline_s,
        )  # fmt: skip

    def poll(self, provider: str | Provider[Any], minutes: float) -> PollOutcome:
        """Poll one provider, and give its outcome."""
        [outcome] = self.poll_all([provider], minutes)
        return outcome

    def poll_all(self, providers: list[str | Provider[Any]], minutes: float) -> list[PollOutcome]:
        """Poll several side by side."""
        self.clock.passed = minutes * 60
        found = [registry.load(p) if isinstance(p, str) else p for p in providers]
        chosen = [(p, self._app.provider_config(p)) for p in found]
        return asyncio.run(poll_all(self.collector, chosen))

    def live(self, as_of: datetime | None = None) -> list[StoredOffer]:
        """What is open, or was known at a past moment."""
        with psycopg.connect(self.url) as connection:
            return reads.live_offers(connection, as_of=as_of)

    def prices(self, as_of: datetime | None = None) -> Mapping[tuple[str, str, int, str], int]:
        """Micro-USD by id, market, GPU count and tier."""
        return {
            (o.native_id, o.market, int(o.gpu_count), o.tier): o.price_micro_usd
            for o in self.live(as_of)
        }

    def select(self, minutes: float, **filters: Any) -> Selection:
        """What a question asked at that moment is answered from."""
        wanted = Filters(**({"markets": ("any",), "tiers": ("any",)} | filters))
        return select(self.live(), wanted, catalogue(), at(minutes))


@contextmanager
def laboratory(url: str, server: ReplayServer) -> Iterator[Lab]:
    """A lab on the database *url*."""
    engine = make_engine(url)
    try:
        yield Lab(url, Recorder(engine), server)
    finally:
        engine.dispose()
