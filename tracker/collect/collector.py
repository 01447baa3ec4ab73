"""The collector: polls providers side by side, and records how each poll went."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tracker import registry
from tracker.collect.digest import Digest, digest
from tracker.collect.exchange import Rates, foreign, rates_for
from tracker.collect.reading import Reading
from tracker.domain.gpu import Catalogue
from tracker.domain.normalize import FxRate
from tracker.domain.quality import Known, Rules
from tracker.http import Client
from tracker.http.retry import bare
from tracker.provider import (
    FetchError,
    Parsed,
    ParseError,
    Payload,
    Provider,
    ProviderConfig,
    Rejected,
)
from tracker.store.errors import DatabaseFailed, StoreError
from tracker.store.polls import Poll, Recorded, Recorder
from tracker.telemetry import one_line

log = logging.getLogger(__name__)

REASON_LENGTH = 300
GRACE_S = 5.0
# The largest answers take a tenth of it; it has to end some time, whatever an answer makes it do.
PARSE_S = 120.0


def grace_s(deadline_s: float) -> float:
    """How long after its deadline a provider's fetch is cut off: a tenth of it, 1 to GRACE_S."""
    return min(GRACE_S, max(1.0, deadline_s / 10))


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """How one poll went, for people and for the exit code."""

    provider: str
    status: str  # complete, partial, empty, shrunk, failed, late, duplicate, not configured
    reason: str | None = None
    accepted: int = 0
    held: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    unmapped: int = 0
    opened: int = 0
    changed: int = 0
    closed: int = 0
    requests: int = 0
    bytes: int = 0
    seconds: float = 0.0
    retry_after_s: float | None = None
    http_status: int | None = None  # of the answer that made it fail
    digest: Digest | None = None

    @property
    def ok(self) -> bool:
        """Whether usable prices came: recorded, or overtaken by another process's newer ones."""
        return self.status in {"complete", "partial", "late", "duplicate"}


@dataclass(slots=True)
class Collector:
    """Everything a poll needs beside the provider itself.

    ``client`` makes the HTTP client of one poll, given the seconds it may take. ``recorder`` is
    None on a dry run: then nothing is read from or written to the store. ``utc_now`` is the clock.
    ``redact`` takes secrets out of a text; ``sellers`` gives the names that the store knows;
    ``rates`` keeps exchange rates from one poll to the next. ``parse_s`` bounds the parsing of an
    answer, which ``reading`` does.
    """

    catalogue: Catalogue
    rules: Rules
    recorder: Recorder | None
    client: Callable[[Provider[Any], ProviderConfig, float], Client]
    utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)
    redact: Callable[[str], str] = str
    sellers: Callable[[], Collection[str]] = frozenset
    rates: Rates | None = None
    parse_s: float = PARSE_S
    reading: Reading = field(default_factory=Reading)

    async def poll(
        self, provider: Provider[Any], config: ProviderConfig, deadline_s: float | None = None
    ) -> PollOutcome:
        """Poll one provider once. Never raises for what a provider does.

        1. fetch under the provider's deadline; 2. parse; 3. exchange rates where needed;
        4. normalise and judge; 5. record everything in one transaction.

        Raises StoreError when the database fails, other than by refusing this poll's values.
        """
        started_at, clock = self.utc_now(), time.monotonic()
        payloads: Sequence[Payload] = ()
        result: Digest | None = None
        failure: str | None = None
        retry_after_s: float | None = None
        http_status: int | None = None
        requests = received = 0
        try:
            seconds = _deadline(provider, deadline_s)
            async with self.client(provider, config, seconds) as http:
                try:
                    payloads = await self.fetch(provider, config, http, seconds)
                    result = await self._digest(provider, payloads, http)
                finally:
                    requests, received = http.stats.requests, http.stats.bytes
        except FetchError as error:
            failure, retry_after_s = self._line(str(error)), error.retry_after_s
            http_status = error.status
        except ParseError as error:
            failure = (
                f"unexpected answer: {self._line(str(bare(error)))}; if it stays so, please report "
                f"it with a recording (gpucost provider record {provider.name})"
            )
        except Exception as error:
            _raise_if_fatal(error)
            failure = self._line(f"its answer cannot be used: {registry.summary(error)}")
        outcome = replace(
            _outcome(provider, result, failure, retry_after_s), http_status=http_status,
            requests=requests, bytes=received, seconds=time.monotonic() - clock,
        )  # fmt: skip
        outcome = replace(outcome, reason=outcome.reason and self.redact(outcome.reason))
        if self.recorder is None:
            return outcome
        return await asyncio.to_thread(
            self._record, self.recorder, provider, config, outcome, payloads, started_at
        )

    async def fetch(
        self, provider: Provider[Any], config: ProviderConfig, http: Client, deadline_s: float
    ) -> Sequence[Payload]:
        """Run the provider's fetch. What a module does wrong becomes a FetchError, named."""
        try:
            # The client stops by itself at the deadline, so that what has come is kept; this is
            # for a provider that waits for something else.
            async with asyncio.timeout(deadline_s + grace_s(deadline_s)):
                payloads = await provider.fetch(http, config)
        except TimeoutError:
            raise FetchError(f"no complete answer within {deadline_s:.0f} s") from None
        except FetchError as error:
            # A module may keep its errors, and its frames would keep the module's variables.
            error = bare(error)
            reason = self._line(str(error))
            raise FetchError(
                reason, status=error.status, retry_after_s=error.retry_after_s
            ) from error
        except ParseError:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # A third-party module may raise anything; what is meant for us goes through.
            if registry.stops_us(error) or _cancelled(error):
                raise
            raise FetchError(self._line(f"its fetch failed: {registry.summary(error)}")) from error
        return registry.checked(payloads, self.utc_now())

    def _line(self, text: str) -> str:
        """One line without secrets, cut only after they are out: half a key is one, too."""
        return one_line(self.redact(one_line(self.redact(text))), REASON_LENGTH)

    async def _digest(
        self, provider: Provider[Any], payloads: Sequence[Payload], http: Client
    ) -> Digest:
        parsed = await self.reading.parse(provider, payloads, self.parse_s)
        fx: Mapping[str, FxRate] = {}
        if currencies := foreign(parsed.offers):
            today = self.utc_now().date()
            fx, problem = await rates_for(currencies, http, self.rates, today)
            if problem is not None:
                log.warning("%s: no exchange rates: %s", provider.name, problem)
                # Offers in other currencies are still there, only their price is not known.
                why = [parsed.incomplete_reason, f"no exchange rates ({problem})"]
                parsed = replace(
                    parsed, complete=False, incomplete_reason="; ".join(filter(None, why))
                )
        return await asyncio.to_thread(self._judge, provider, payloads, parsed, fx)

    def _judge(
        self, provider: Provider[Any], payloads: Sequence[Payload], parsed: Parsed,
        fx: Mapping[str, FxRate],
    ) -> Digest:  # fmt: skip
        found = digest(
            provider, payloads, self.catalogue, fx=fx, known=self._known(provider.name),
            rules=self.rules, parsed=parsed,
            sellers=self.sellers() if parsed.discounts else (),
        )  # fmt: skip
        return replace(
            found,
            rejected=self._without_secrets(found.rejected),
            unmapped=tuple(
                replace(u, name=self.redact(u.name), sample=self.redact(u.sample))
                for u in found.unmapped
            ),
        )

    def _without_secrets(self, rejected: Sequence[Rejected]) -> tuple[Rejected, ...]:
        """One sample, the first, for all of a reason: there may be thousands, and one is shown."""
        first: dict[str, Rejected] = {}
        for r in rejected:
            if r.reason not in first:
                first[r.reason] = Rejected(self.redact(r.reason), self.redact(r.sample))
        return tuple(first[r.reason] for r in rejected)

    def _known(self, source: str) -> Known:
        if self.recorder is None:
            return Known()
        context = self.recorder.context(source)
        return Known(
            context.last_price_micro_usd, context.complete_count, context.shrunk_counts,
            context.pending, context.sizes,
        )  # fmt: skip

    def _record(
        self, recorder: Recorder, provider: Provider[Any], config: ProviderConfig,
        outcome: PollOutcome, payloads: Sequence[Payload], started_at: datetime,
    ) -> PollOutcome:  # fmt: skip
        """Write the poll or, where its values are refused, at least that it failed."""
        try:
            row = _row(provider, config, outcome, payloads, started_at, self.utc_now())
            return _merge(outcome, recorder.record(row))
        except Exception as error:
            _raise_if_fatal(error)
            reason = self._line(f"its answer cannot be recorded: {registry.summary(error)}")
        outcome = replace(
            PollOutcome(provider.name, "failed", reason),
            requests=outcome.requests, bytes=outcome.bytes, seconds=outcome.seconds,
        )  # fmt: skip
        try:
            row = _row(provider, config, outcome, (), started_at, self.utc_now())
            return _merge(outcome, recorder.record(row))
        except Exception as error:
            _raise_if_fatal(error)
            return outcome


def _raise_if_fatal(error: Exception) -> None:
    """The database's own trouble is everybody's; a value that it refuses is one provider's."""
    if isinstance(error, StoreError) and not isinstance(error, DatabaseFailed):
        raise error
    log.debug("a poll failed", exc_info=error)


def _cancelled(error: BaseException) -> bool:
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and bool(task and task.cancelling())


async def poll_all(
    collector: Collector,
    providers: Sequence[tuple[Provider[Any], ProviderConfig]],
    *,
    deadline_s: float | None = None,
    on_done: Callable[[PollOutcome], None] = lambda outcome: None,
) -> list[PollOutcome]:
    """Poll side by side, each on its own: one provider's trouble is never another's.

    Raises StoreError when the database fails, once every poll has come to its end.
    """

    async def one(provider: Provider[Any], config: ProviderConfig) -> PollOutcome:
        outcome = await collector.poll(provider, config, deadline_s)
        on_done(outcome)
        return outcome

    ended = await asyncio.gather(
        *(one(provider, config) for provider, config in providers), return_exceptions=True
    )
    outcomes: list[PollOutcome] = []
    for end in ended:
        if isinstance(end, BaseException):
            raise end
        outcomes.append(end)
    return outcomes


async def fetch_once(
    collector: Collector, provider: Provider[Any], config: ProviderConfig, deadline_s: float
) -> Sequence[Payload]:
    """The provider's answers and nothing else. Raises FetchError."""
    async with collector.client(provider, config, deadline_s) as http:
        return await collector.fetch(provider, config, http, deadline_s)


def interval(provider: Provider[Any], config: ProviderConfig) -> timedelta:
    """How often *provider* is polled: as configured, but never more often than it allows."""
    every = timedelta(seconds=config.every_seconds) if config.every_seconds else provider.every
    return max(every, provider.facts.min_every)


def _deadline(provider: Provider[Any], asked_s: float | None) -> float:
    own = provider.poll_deadline.total_seconds()
    return own if asked_s is None else min(own, asked_s)


def _outcome(
    provider: Provider[Any], result: Digest | None, failure: str | None, retry_after_s: float | None
) -> PollOutcome:
    if result is None:
        return PollOutcome(provider.name, "failed", failure, retry_after_s=retry_after_s)
    verdict = result.assessment.verdict
    reason = result.assessment.verdict_reason or result.parsed.incomplete_reason
    if verdict == "empty" and result.rejected:
        reasons = Counter(r.reason for r in result.rejected).most_common(2)
        reason = f"{reason}: " + ", ".join(f"{n} {why}" for why, n in reasons)
    return PollOutcome(
        provider.name,
        verdict or ("complete" if result.parsed.complete else "partial"),
        reason,
        accepted=len(result.accepted),
        held=len(result.held),
        rejected=Counter(r.reason for r in result.rejected),
        unmapped=len(result.unmapped),
        digest=result,
    )


def _row(
    provider: Provider[Any],
    config: ProviderConfig,
    outcome: PollOutcome,
    payloads: Sequence[Payload],
    started_at: datetime,
    now: datetime,
) -> Poll:
    """The poll as the store takes it. Prices are of the moment the first answer came."""
    every = interval(provider, config)
    result = outcome.digest
    facts = {
        field.name: getattr(provider.facts, field.name) for field in fields(provider.facts)
    } | {"min_every": int(provider.facts.min_every.total_seconds())}
    return Poll(
        source=provider.name,
        status=outcome.status,
        started_at=started_at,
        polled_at=min((p.fetched_at for p in payloads), default=now),
        every_seconds=int(every.total_seconds()),
        marketplace=provider.facts.marketplace,
        default_tiers=provider.facts.default_tiers,
        facts=facts,
        accepted=result.accepted if result else (),
        quarantined=result.held if result else (),
        released=result.assessment.released if result else (),
        rejected=result.rejected if result else (),
        unmapped=result.unmapped if result else (),
        discounts=result.discounts if result else (),
        payloads=payloads,
        error=outcome.reason if outcome.status == "failed" else None,
        incomplete_reason=outcome.reason if outcome.status != "failed" else None,
        content_sha256=_content(payloads),
        bytes=outcome.bytes,
        requests=outcome.requests,
        duration_ms=int(outcome.seconds * 1000),
    )


def _content(payloads: Sequence[Payload]) -> bytes | None:
    """One hash of all answers, to notice a feed that has stopped moving."""
    if not payloads:
        return None
    hashed = hashlib.sha256()
    for payload in payloads:
        hashed.update(hashlib.sha256(payload.body).digest())
    return hashed.digest()


def _merge(outcome: PollOutcome, recorded: Recorded) -> PollOutcome:
    return replace(
        outcome, status=recorded.status, reason=recorded.reason or outcome.reason,
        opened=recorded.opened, changed=recorded.changed, closed=recorded.closed,
    )  # fmt: skip
