"""Events of a rule and their notices, as they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tracker.alert import context
from tracker.alert.evaluate import Evaluation
from tracker.domain.rule.state import State
from tracker.domain.rule.types import Event, Kind
from tracker.store import alerts
from tracker.store.alerts import NewEvent

if TYPE_CHECKING:
    import psycopg

_ENDS = (Kind.RESOLVED, Kind.CLOSED)


class Writer:
    """Writes the events of one rule and their notices, in a transaction of somebody else's."""

    def __init__(
        self,
        cursor: psycopg.Cursor[Any],
        rule: str,
        version: int,
        definition: Mapping[str, Any],
        inputs: Mapping[str, Any],
        existing: Collection[str] | None = None,
    ) -> None:
        """*existing* are the channels that are configured, where that is known."""
        self._cursor = cursor
        self._rule = rule
        self._version = version
        self._definition = definition
        self._inputs = inputs
        self._existing = existing

    def write(
        self,
        events: Iterable[Event],
        state: State,
        channels: Sequence[str] | None = None,
        evaluation: Evaluation | None = None,
        urls: Mapping[int, str] | None = None,
    ) -> int:
        """Write *events*; the notices go to *channels* (None: those of the definition), and the
        end of a firing to those that were told of it. Returns how many notices there are.

        Where none of these exists any more, as after one was renamed, the end goes to *channels*,
        too: the row of the old name shows in the outbox what did not arrive there.
        """
        count = 0
        usual = list(channels if channels is not None else self._definition.get("channels") or ())
        for event in events:
            to: Sequence[str] = usual if event.sent else ()
            if event.sent and event.kind in _ENDS and event.firing_seq is not None:
                to = self._told(event.firing_seq, usual)
            found = context.found_dicts(evaluation, event.found, urls or {}) if evaluation else ()
            self.write_one(event, to, state, found)
            count += len(set(to))
        return count

    def _told(self, firing_seq: int, usual: Sequence[str]) -> Sequence[str]:
        told = alerts.channels_told(self._cursor, self._rule, firing_seq)
        if self._existing is None or any(name in self._existing for name in told):
            return told or usual
        return [*told, *(name for name in usual if name not in told)]

    def write_one(
        self,
        event: Event,
        channels: Sequence[str],
        state: State | None,
        found: Sequence[Mapping[str, Any]],
    ) -> str:
        """Write one event and a notice for each of *channels*. Returns the event's id."""
        event_id = str(uuid4())
        alerts.write_event(
            self._cursor,
            NewEvent(
                event_id=event_id,
                rule=self._rule,
                rule_version=self._version,
                seq=event.seq,
                firing_seq=event.firing_seq,
                kind=str(event.kind),
                at=event.at,
                value=event.value,
                inputs={**self._inputs, "event": context.event_dict(event)},
                suppressed_by=event.suppressed_by,
            ),
            context.message(
                event, event_id, self._rule, self._version, self._definition, self._inputs,
                found=found, health_since=state.health_since if state else None,
            ),
            channels,
        )  # fmt: skip
        return event_id
