"""Whatever happens to its senders, the outbox loses nothing, keeps order, and repeats itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from tests.alert.outbox_world import MINUTE, NOW, Events
from tests.store.worlds import rows
from tracker.store.outbox import Claim, Outbox

LEASE = 5 * MINUTE
WAIT = timedelta(seconds=30)
RULES = ("a", "b", "c")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.sampled_from(RULES), st.booleans()),
        st.tuples(
            st.just("send"),
            st.sampled_from(["sent", "failed", "lost before", "lost after", "failed after"]),
        ),
        st.tuples(st.just("later"), st.sampled_from([1, 20, 60, 301])),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Receiver:
    """What arrived: each message's id and its events, own and merged."""

    messages: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def take(self, claim: Claim) -> None:
        own = tuple(row.event_id for row in claim.rows)
        merged = [
            event for row in claim.rows
            for event in row.message.get("merged", {}).get("event_ids", [])
        ]  # fmt: skip
        self.messages.append((claim.batch, own, tuple(merged)))


@dataclass
class World:
    """Rules that fire and clear, a sender that has accidents, and a clock."""

    outbox: Outbox
    events: Events
    now: datetime = NOW
    firing: set[str] = field(default_factory=set)
    receiver: Receiver = field(default_factory=Receiver)

    def happen(self, rule: str, data_problem: bool) -> None:
        kind = "resolved" if rule in self.firing else "fired"
        if data_problem:
            kind = "data_problem"
        else:
            self.firing ^= {rule}
        self.events.add(kind, rule, at=self.now)

    def send(self, outcome: str) -> bool:
        """One round of a sender, whose name changes with every accident."""
        claim = self.outbox.claim(
            "hook", holder="one", now=self.now, lease=LEASE, group_wait=WAIT
        )  # fmt: skip
        if claim is None:
            return False
        if outcome in ("sent", "lost after", "failed after"):
            self.receiver.take(claim)
        if outcome == "sent":
            assert self.outbox.sent(claim, self.now) == len(claim.rows)
        elif outcome.startswith("failed"):  # "after": the answer was lost on its way
            self.outbox.retry(claim, self.now, self.now + MINUTE, "no answer")
        return True

    def drain(self) -> None:
        for _ in range(500):
            if not self.send("sent"):
                self.now += MINUTE
            if not self.outbox.waiting():
                return
        raise AssertionError("something stays in the outbox")


@given(STEPS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_reordered_or_told_apart(
    engine: Engine, database_url: str, steps: list[tuple[str, ...]]
) -> None:
    rows(database_url, "TRUNCATE alert_event, alert_outbox")
    world = World(Outbox(engine), Events(engine))
    for name, *values in steps:
        if name == "event":
            world.happen(str(values[0]), bool(values[1]))
        elif name == "send":
            world.send(values[0])
        else:
            world.now += timedelta(seconds=int(values[0]))
    world.drain()

    messages = world.receiver.messages
    told = {event for _, own, merged in messages for event in (*own, *merged)}
    assert told == set(world.events.ids)
    by_id: dict[str, set[str]] = {}
    for batch, own, _ in messages:
        # A message tried again may have lost what its end has swallowed; it never has more.
        assert set(own) <= by_id.setdefault(batch, set(own))
    for rule in RULES:
        first: list[int] = []
        for _, own, _ in messages:
            for event in own:
                seq = int(event.rpartition("-")[2])
                if event.startswith(f"{rule}-") and seq not in first:
                    first.append(seq)
        assert first == sorted(first)
    for place, (_, _, merged) in enumerate(messages):
        later = {event for _, own, _ in messages[place + 1 :] for event in own}
        assert not later & set(merged), "a firing told after its end"
