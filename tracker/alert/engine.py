"""The engine: which rules are due, one snapshot for them, and what comes of it as one change.

A rule's new state, its events and their notices are written in one transaction, under a lock of
the rule's row and behind the guard of whoever leads. Two engines at once, or one that is killed at
any moment, therefore neither lose nor double anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.alert import cadence, context
from tracker.alert.evaluate import NOT_POLLED, Evaluation, evaluate
from tracker.alert.rules import Rule
from tracker.alert.silences import silence_for, silence_of_removed
from tracker.alert.snapshot import Snapshot
from tracker.alert.writer import Writer
from tracker.domain.gpu import Catalogue
from tracker.domain.rule.machine import acknowledge, edited, late_end, step_for
from tracker.domain.rule.state import State
from tracker.domain.rule.types import Event, Health, Kind, Phase, Sample
from tracker.domain.texts import storable
from tracker.report.measured import measured
from tracker.store import alerts
from tracker.store.alert_inputs import source_urls
from tracker.store.alerts import StoredRule
from tracker.store.engine import transaction
from tracker.store.errors import DatabaseBusy, DatabaseFailed

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Engine

    Guard = Callable[[psycopg.Cursor[Any]], None]

REMOVED = "removed"
SOON = timedelta(seconds=15)  # as often as the daemon looks

# What may go wrong with one rule while the database answers the others.
_OF_ONE_RULE = (DatabaseFailed, DatabaseBusy, ValueError, TypeError, LookupError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation of one rule came to. ``notices`` counts the outbox rows written;
    ``problem`` says why its state could not be moved."""

    rule: str
    at: datetime
    phase: Phase
    health: Health
    value: Decimal | None = None
    reason: str | None = None
    events: tuple[Event, ...] = ()
    notices: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an evaluation would come to now. Nothing of it was written."""

    rule: Rule
    sample: Sample
    inputs: Mapping[str, Any]
    before: State
    after: State
    events: tuple[Event, ...]
    silence: str | None


class UnknownRule(LookupError):
    """No rule of this name has been evaluated or is configured."""


class AlertEngine:
    """Evaluates *rules*. Safe to use from several threads and processes.

    *guard* is called first in each transaction that writes. *sources* are the providers that are
    polled: until each was tried once, no rule about prices is judged. *left_out* are those that
    should be and cannot, as for want of a key; any other one is turned off, and its prices count
    no more. *broken* are the names of
    rules that cannot be read: they are left as they are, neither evaluated nor closed.
    *channels* are those that are configured, where that is known.
    """

    def __init__(
        self,
        engine: Engine,
        rules: Iterable[Rule],
        catalogue: Catalogue,
        *,
        guard: Guard | None = None,
        sources: Collection[str] = (),
        left_out: Collection[str] = (),
        broken: Collection[str] = (),
        channels: Collection[str] | None = None,
    ) -> None:
        self._engine = engine
        self.rules: Mapping[str, Rule] = {rule.name: rule for rule in rules}
        self._catalogue = catalogue
        self._guard = guard
        self._sources = frozenset(sources)
        self._left_out = frozenset(left_out)
        self._broken = frozenset(broken)
        self._channels = None if channels is None else frozenset(channels)

    def evaluate(self, now: datetime, *, force: bool = False) -> list[Evaluated]:
        """Evaluate the rules whose time has come (all, with *force*) and write what comes of it.

        Rules that are gone from the configuration are closed. What the database does not take of
        one rule is that rule's ERROR. Raises StoreError where it takes nothing at all; what had
        been written by then stands, and the rest is still due.
        """
        with self._reading() as connection:
            known = {row.name: row for row in alerts.rules(connection, include_removed=True)}
            due = [
                r for r in self.rules.values() if _is_due(r, known.get(r.name), now, force=force)
            ]
            evaluations, urls = self._look(connection, due, now) if due else ([], {})
        done = [self._recorded(e, urls, now, known.get(e.rule.name)) for e in evaluations]
        kept = self.rules.keys() | self._broken
        for name, row in known.items():
            gone = name not in kept and row.removed_at is None
            if gone or (name not in self.rules and row.machine.get("owed")):
                done.append(self._closed(row, now, gone=gone))
        return [one for one in done if one is not None]

    def dry_run(self, rule: Rule, now: datetime) -> DryRun:
        """What *rule* says now, and what that would do to its state. Writes nothing."""
        with self._reading() as connection:
            [evaluation], urls = self._look(connection, [rule], now)
            row = alerts.rule(connection, rule.name)
            silences = alerts.silences(connection, now)
        same = row is not None and row.removed_at is None and row.definition_sha256 == rule.sha256
        before = State.from_json(row.machine) if row else State()
        started = before if same or row is None else edited(before, now)[0]
        sample = evaluation.sample_for(started)
        silence = silence_for(evaluation, silences, self._catalogue)
        policy = cadence.paced(rule.policy, row and row.evaluation)
        after, events = step_for(rule.condition)(policy, started, sample, now, silence=silence)
        inputs = context.inputs_of(evaluation, sample, urls)
        return DryRun(rule, sample, inputs, before, after, events, silence)

    def acknowledge(self, name: str, now: datetime, by: str) -> bool:
        """Note that somebody has taken note of what fires. False: nothing fires, or it was noted.

        Raises UnknownRule, StoreError.
        """
        with transaction(self._engine, self._guard) as cursor:
            row = alerts.lock_rule(cursor, name)
            if row is None or row.removed_at is not None:
                raise UnknownRule(name)
            state, events = acknowledge(State.from_json(row.machine), now, by)
            writer = Writer(cursor, row.name, row.version, row.definition, row.evaluation or {})
            writer.write(events, state)
            alerts.write_rule(cursor, _moved(row, state))
        return bool(events)

    def test(self, rule: Rule, now: datetime, channels: Sequence[str] = ()) -> str:
        """Send a notice that is marked as a test on the channels of *rule* (or on *channels*), the
        way every notice goes, and return its event's id. The rule's state stays as it is."""
        trial = self.dry_run(rule, now)
        with transaction(self._engine, self._guard) as cursor:
            row = alerts.rule(cursor.connection, rule.name)
            event = Event(
                Kind.TEST, alerts.next_test_seq(cursor, rule.name), now, trial.before.phase,
                trial.before.phase, value=trial.sample.value,
            )  # fmt: skip
            version = row.version if row else 1
            writer = Writer(cursor, rule.name, version, rule.definition, trial.inputs)
            return writer.write_one(event, channels or rule.channels, None, ())

    # -- one rule ------------------------------------------------------------------------------

    def _look(
        self, connection: psycopg.Connection[Any], rules: Sequence[Rule], now: datetime
    ) -> tuple[list[Evaluation], dict[int, str]]:
        """Evaluate *rules* on one snapshot, and find where the prices can be looked up."""
        rules = [
            rule if rule.job is None else replace(rule, job=measured(connection, rule.job))
            for rule in rules
        ]
        snapshot = Snapshot.read(
            connection, rules, self._catalogue, now, sources=self._sources, left_out=self._left_out
        )
        found = [evaluate(rule, snapshot, now) for rule in rules]
        return found, source_urls(connection, context.offers_of(found))

    def _recorded(
        self, evaluation: Evaluation, urls: Mapping[int, str], now: datetime,
        seen: StoredRule | None,
    ) -> Evaluated | None:  # fmt: skip
        """``_apply``; what cannot be written is an ERROR of this rule, and stops no other."""
        try:
            return self._apply(evaluation, urls, now, seen)
        except _OF_ONE_RULE as error:
            problem = _problem("cannot be recorded", error)
            busy = isinstance(error, DatabaseBusy)
        rule = evaluation.rule
        if not busy:  # its next turn is soon, and another long wait would keep the others
            clean = replace(rule, definition=storable(rule.definition))
            failed = Evaluation(clean, now, Sample(Health.ERROR, reason=problem))
            try:
                done = self._apply(failed, {}, now, seen)
            except _OF_ONE_RULE:
                pass
            else:
                return None if done is None else replace(done, problem=done.problem or problem)
        phase = Phase(seen.phase) if seen else Phase.OK
        return Evaluated(rule.name, now, phase, Health.ERROR, problem=problem)

    def _closed(self, row: StoredRule, now: datetime, *, gone: bool) -> Evaluated | None:
        """``_close``; the same."""
        try:
            return self._close(row.name, now, gone=gone)
        except _OF_ONE_RULE as error:
            problem = _problem("cannot be closed", error)
        return Evaluated(row.name, now, Phase(row.phase), Health.ERROR, problem=problem)

    def _apply(
        self,
        evaluation: Evaluation,
        urls: Mapping[int, str],
        now: datetime,
        seen: StoredRule | None,
    ) -> Evaluated | None:
        """Move one rule; None when somebody else has done so since it was *seen*."""
        rule = evaluation.rule
        with transaction(self._engine, self._guard) as cursor:
            row = alerts.lock_rule(cursor, rule.name)
            if row is None:
                empty = State().to_json()
                row = alerts.make_rule(cursor, rule.name, rule.definition, rule.sha256, empty)
            if row.evaluated_at != (seen.evaluated_at if seen else None):
                return None
            try:
                state = State.from_json(row.machine)
            except ValueError as error:
                return Evaluated(
                    rule.name, now, Phase(row.phase), Health(row.health), problem=str(error)
                )
            silences = alerts.silences(cursor.connection, now)
            silence = silence_for(evaluation, silences, self._catalogue)
            written = 0
            if row.removed_at is not None or row.definition_sha256 != rule.sha256:
                row, state, written = _begin_anew(
                    cursor, row, rule, state, now, silence, self._channels
                )
            sample = evaluation.sample_for(state)
            policy = cadence.paced(rule.policy, row.evaluation)
            pace = {cadence.KEY: cadence.intervals(row.evaluation, row.evaluated_at, now)}
            state, events = step_for(rule.condition)(policy, state, sample, now, silence=silence)
            inputs = context.inputs_of(evaluation, sample, urls)
            writer = Writer(cursor, rule.name, row.version, rule.definition, inputs, self._channels)
            written += writer.write(events, state, rule.channels, evaluation, urls)
            row = row._replace(definition=dict(rule.definition), evaluation=inputs | pace)
            alerts.write_rule(cursor, _moved(row, state)._replace(evaluated_at=now))
        return Evaluated(
            rule.name, now, state.phase, sample.health, sample.value, sample.reason, events, written
        )

    def _close(self, name: str, now: datetime, *, gone: bool) -> Evaluated | None:
        """A rule that is no longer evaluated. When it has just *gone* from the configuration, its
        firing is closed, and its history stays; an end that a silence kept back is told later."""
        with transaction(self._engine, self._guard) as cursor:
            row = alerts.lock_rule(cursor, name)
            if row is None or (gone and row.removed_at is not None):
                return None
            job = (row.definition.get("job") or {}).get("name")
            silence = silence_of_removed(name, job, alerts.silences(cursor.connection, now))
            try:
                before = State.from_json(row.machine)
            except ValueError:  # nobody can go on with it: there is nothing to close
                before = State(seq=row.seq)
            if gone:
                state, events = edited(before, now, reason=REMOVED, silence=silence)
                row = row._replace(removed_at=now)
            else:
                state, events = late_end(before, now, silence=silence)
            if not (gone or events):
                return None
            writer = Writer(
                cursor, name, row.version, row.definition, row.evaluation or {}, self._channels
            )
            written = writer.write(events, state)
            alerts.write_rule(cursor, _moved(row, state))
        return Evaluated(name, now, state.phase, state.health, events=events, notices=written)

    @contextmanager
    def _reading(self) -> Iterator[psycopg.Connection[Any]]:
        """One snapshot of the database for everything that is read in the block."""
        with transaction(self._engine) as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield cursor.connection


def _is_due(rule: Rule, row: StoredRule | None, now: datetime, *, force: bool) -> bool:
    """Whether it is time to look at *rule* again: also when it is new, edited, or was removed.

    With *force* it always is, but for the moment at which it was evaluated already.
    """
    if row is None or row.evaluated_at is None or row.removed_at is not None:
        return True
    if row.evaluated_at == now:
        return False
    if force or row.definition_sha256 != rule.sha256:
        return True
    # A time ahead of ours comes from a clock that was turned back since: it must not wait for it.
    passed = now - row.evaluated_at
    waits = str((row.evaluation or {}).get("reason")).startswith(NOT_POLLED)
    every = min(rule.every, SOON) if waits else rule.every
    return passed >= every or passed < -timedelta(minutes=1)


def _problem(what: str, error: Exception) -> str:
    return str(storable(f"{what}: {' '.join(str(error).split())[:300] or type(error).__name__}"))


def _begin_anew(
    cursor: psycopg.Cursor[Any],
    row: StoredRule,
    rule: Rule,
    state: State,
    now: datetime,
    silence: str | None,
    existing: Collection[str] | None,
) -> tuple[StoredRule, State, int]:
    """The next version of a rule that was edited, or is back. Its end is told as the old one."""
    state, events = edited(state, now, silence=silence)
    writer = Writer(cursor, row.name, row.version, row.definition, row.evaluation or {}, existing)
    written = writer.write(events, state, rule.channels)
    row = row._replace(version=row.version + 1, definition_sha256=rule.sha256, removed_at=None)
    return row, state, written


def _moved(row: StoredRule, state: State) -> StoredRule:
    return row._replace(
        machine=state.to_json(), seq=state.seq, phase=str(state.phase), health=str(state.health)
    )
