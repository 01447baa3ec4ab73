"""Events and outbox rows as the engine writes them, for the tests of delivery."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Engine

from tests.store.worlds import rows
from tracker.store.engine import make_engine, transaction
from tracker.store.outbox import Claim, Outbox

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=5)

RULE = "h100-cheaper-than-a100"


def side(selection: str, provider: str, price: str, cost: str, **more: Any) -> dict[str, Any]:
    """One side of a context."""
    return {
        "selection": selection, "gpu": f"{selection}-SXM-80GB", "provider": provider,
        "native_id": f"{provider}-1", "offer": f"{provider[:4]}01", "market": "on_demand",
        "tier": "secure", "region": "US-KS-2", "gpu_count": "1", "machines": 1,
        "price_usd_per_hour": price, "price_usd_per_gpu_hour": price, "runtime_hours": "4",
        "billed_hours": "4", "job_cost_usd": cost, "lower_bound": False, "basis": "published",
        "estimate_version": "mlperf-2024", "seen_at": "2026-03-01T11:58:00Z", "age_seconds": 120,
        "source_url": "https://offers.example/1", **more,
    }  # fmt: skip


def context(kind: str = "fired", **more: Any) -> dict[str, Any]:
    """What the engine writes into the outbox for a rule of two costs."""
    return {
        "schema_version": 1, "event_id": "event-1", "kind": kind, "rule": RULE, "rule_version": 1,
        "seq": 1, "firing_seq": 1, "at": "2026-03-01T12:00:00.250000+00:00",
        "title": "H100 job cheaper than A100 job", "when": "cost(H100) < cost(A100)",
        "job": {"name": "bert-large", "title": "BERT-Large"}, "value": "0.909", "enter": "0.98",
        "exit": "1.02", "left": side("H100", "runpod", "2.69", "10.76"),
        "right": side("A100", "vastai", "1.18", "11.83", runtime_hours="10", billed_hours="10"),
        "break_even_usd_per_gpu_hour": "2.9575", "margin_percent": "9.1", "firing": None,
        "health": None, "reason": None, "previous_label": None, "label": None, "found": [],
        "threshold_usd": None, "rank": "auto",
        "command": "gpucost cheapest bert-large --gpu H100,A100",
        "explain": ["gpucost explain runp01", "gpucost explain vast01"], **more,
    }  # fmt: skip


class Events:
    """Writes events; ``ids`` lists theirs in order."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seqs: dict[str, itertools.count[int]] = {}
        self._firings: dict[str, int] = {}
        self._tests = itertools.count(1)
        self.ids: list[str] = []

    def _next(self, rule: str) -> int:
        return next(self._seqs.setdefault(rule, itertools.count(1)))

    def add(
        self,
        kind: str = "fired",
        rule: str = RULE,
        *,
        channels: Collection[str] = ("hook",),
        at: datetime = NOW,
        **more: Any,
    ) -> str:
        """One event with one row a channel; its id. An end belongs to the rule's last firing;
        tests count their seq downwards."""
        seq = -next(self._tests) if kind == "test" else self._next(rule)
        if kind == "fired":
            self._firings[rule] = seq
        firing = None if kind in ("data_problem", "data_ok", "test") else self._firings.get(rule)
        event_id = f"{rule}-{seq}"
        message = context(
            kind, **{"event_id": event_id, "rule": rule, "seq": seq, "firing_seq": firing, **more}
        )
        with transaction(self._engine) as cursor:
            cursor.execute(
                "INSERT INTO alert_event (event_id, rule, rule_version, seq, firing_seq, kind, at,"
                " inputs) VALUES (%s, %s, 1, %s, %s, %s, %s, '{}') RETURNING id",
                (event_id, rule, seq, firing, kind, at),
            )
            (event,) = cursor.fetchone() or (None,)
            for channel in channels:
                cursor.execute(
                    "INSERT INTO alert_outbox (event, rule, seq, firing_seq, kind, channel,"
                    " message, created_at, due_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    (event, rule, seq, firing, kind, channel, Jsonb(message), at, at),
                )
        self.ids.append(event_id)
        return event_id


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    """An engine that is closed in the end."""
    engine = make_engine(url, pool_size=8)
    try:
        yield engine
    finally:
        engine.dispose()


def statuses(url: str, channel: str = "hook") -> dict[str, str]:
    """Event -> status of its row for *channel*."""
    return dict(
        rows(
            url,
            "SELECT e.event_id, o.status FROM alert_outbox o JOIN alert_event e ON e.id = o.event"
            " WHERE o.channel = %s ORDER BY o.id",
            (channel,),
        )
    )


def claim(
    outbox: Outbox, channel: str = "hook", *, later: timedelta = timedelta(0), holder: str = "one",
    **how: Any,
) -> Claim | None:  # fmt: skip
    """What *holder* may send to *channel*, *later* than ``NOW``."""
    return outbox.claim(channel, holder=holder, now=NOW + later, lease=LEASE, **how)


def claimed(outbox: Outbox, channel: str = "hook", **how: Any) -> Claim:
    """The same where there is something to send."""
    found = claim(outbox, channel, **how)
    assert found is not None
    return found


def events_of(found: Claim | None) -> list[str]:
    """Ids of the events in a claim."""
    return [row.event_id for row in found.rows] if found else []
