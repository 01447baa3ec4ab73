"""One poll, top to bottom: fetch, parse, normalise, judge, record.

``digest`` is the pure middle: the same call serves a live poll, ``gpucost provider parse`` on a
recorded file, and ``gpucost explain``, which parses the archive again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.gpu import Catalogue
from tracker.domain.normalize import FxRate, Unnormalised, normalise
from tracker.domain.offer import ListedOffer, Offer
from tracker.domain.quality import Assessment, Known, Rules, assess
from tracker.fx import fetch_rates
from tracker.http import Client
from tracker.provider import (
    FetchError,
    Parsed,
    ParseError,
    Payload,
    Provider,
    ProviderConfig,
    Rejected,
)
from tracker.store.polls import Poll, Recorded, Recorder

log = logging.getLogger(__name__)

SAMPLE_LENGTH = 200
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Digest:
    """What a poll's payloads amount to, before anything is written."""

    parsed: Parsed
    assessment: Assessment
    rejected: tuple[Rejected, ...]  # by the parser and by normalisation
    unmapped: tuple[UnmappedGpu, ...]

    @property
    def accepted(self) -> tuple[Offer, ...]:
        """The offers whose prices may enter history."""
        return self.assessment.accepted

    @property
    def held(self) -> tuple[Quarantined, ...]:
        """The quarantined ones."""
        return self.assessment.held


def digest(
    provider: Provider[Any],
    payloads: Sequence[Payload],
    catalogue: Catalogue,
    *,
    fx: Mapping[str, FxRate],
    known: Known,
    rules: Rules,
    parsed: Parsed | None = None,
) -> Digest:
    """Parse, normalise and judge. Pure.

    Raises ParseError when the answer as a whole does not have the documented shape.
    """
    parsed = parsed or provider.parse(payloads)
    offers: list[Offer] = []
    rejected = list(parsed.rejected)
    unmapped: dict[str, UnmappedGpu] = {}
    for listed in parsed.offers:
        result = normalise(provider.name, listed, catalogue, fx)
        if isinstance(result, Offer):
            offers.append(result)
        elif result.unmapped:
            _count_unmapped(unmapped, result)
            rejected.append(Rejected("GPU name not in the catalogue", _sample(result.listed)))
        else:
            rejected.append(Rejected(result.reason, _sample(result.listed)))
    assessment = assess(
        offers,
        known,
        catalogue,
        rules,
        marketplace=provider.facts.marketplace,
        complete=parsed.complete,
    )
    return Digest(parsed, assessment, tuple(rejected), tuple(unmapped.values()))


def _count_unmapped(found: dict[str, UnmappedGpu], result: Unnormalised) -> None:
    listed = result.listed
    before = found.get(listed.gpu_name)
    vram = f"{listed.vram_mib} MiB" if listed.vram_mib else ""
    vram = vram or (f"{listed.vram_gb} GB" if listed.vram_gb else "not said")
    found[listed.gpu_name] = UnmappedGpu(
        name=listed.gpu_name,
        vram=before.vram if before else vram,
        sample=before.sample if before else _sample(listed),
        rows=(before.rows if before else 0) + 1,
    )


def _sample(listed: ListedOffer) -> str:
    price = listed.price
    text = (
        f"{listed.source_id}: {listed.gpu_count} x {listed.gpu_name}, "
        f"{price.amount} {price.currency} per {price.unit}, {listed.market} {listed.region or ''}"
    )
    return text[:SAMPLE_LENGTH]


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
    """

    catalogue: Catalogue
    rules: Rules
    recorder: Recorder | None
    client: Callable[[Provider[Any], ProviderConfig, float], Client]
    utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def poll(
        self, provider: Provider[Any], config: ProviderConfig, deadline_s: float | None = None
    ) -> PollOutcome:
        """Poll one provider once. Never raises for what a provider does; store errors propagate.

        1. fetch under the provider's deadline; 2. parse; 3. exchange rates where needed;
        4. normalise and judge; 5. record everything in one transaction.
        """
        started_at, clock = self.utc_now(), time.monotonic()
        payloads: Sequence[Payload] = ()
        result: Digest | None = None
        failure: str | None = None
        retry_after_s: float | None = None
        async with self.client(provider, config, _deadline(provider, deadline_s)) as http:
            try:
                payloads = await _fetch(provider, config, http, _deadline(provider, deadline_s))
                result = await self._digest(provider, payloads, http)
            except FetchError as error:
                failure, retry_after_s = str(error), error.retry_after_s
            except ParseError as error:
                failure = (
                    f"unexpected answer: {error}; if it stays so, please report it with a "
                    f"recording (gpucost provider record {provider.name})"
                )
            stats = http.stats
        outcome = _outcome(provider, result, failure, retry_after_s)
        outcome = replace(
            outcome, requests=stats.requests, bytes=stats.bytes, seconds=time.monotonic() - clock
        )
        if self.recorder is None:
            return outcome
        row = _row(provider, config, outcome, payloads, started_at, self.utc_now())
        recorded = await asyncio.to_thread(self.recorder.record, row)
        return _merge(outcome, recorded)

    async def _digest(
        self, provider: Provider[Any], payloads: Sequence[Payload], http: Client
    ) -> Digest:
        parsed = await asyncio.to_thread(_parse, provider, payloads)
        fx: Mapping[str, FxRate] = {}
        if any(o.price.currency.strip().upper() != "USD" for o in parsed.offers):
            try:
                fx = await fetch_rates(http)
            except (FetchError, ValueError) as error:
                log.warning("%s: no exchange rates: %s", provider.name, error)
                # Offers in other currencies are still there, only their price is not known.
                why = [parsed.incomplete_reason, f"no exchange rates ({error})"]
                parsed = replace(
                    parsed, complete=False, incomplete_reason="; ".join(filter(None, why))
                )
        known = await asyncio.to_thread(self._known, provider.name)
        return await asyncio.to_thread(
            digest, provider, payloads, self.catalogue, fx=fx, known=known, rules=self.rules,
            parsed=parsed,
        )  # fmt: skip

    def _known(self, source: str) -> Known:
        if self.recorder is None:
            return Known()
        context = self.recorder.context(source)
        return Known(
            context.last_price_micro_usd, context.complete_count, context.shrunk_counts,
            context.pending,
        )  # fmt: skip


async def poll_all(
    collector: Collector,
    providers: Sequence[tuple[Provider[Any], ProviderConfig]],
    *,
    deadline_s: float | None = None,
    on_done: Callable[[PollOutcome], None] = lambda outcome: None,
) -> list[PollOutcome]:
    """Poll side by side, each on its own: one provider's trouble is never another's.

    Raises StoreError when the database fails.
    """

    async def one(provider: Provider[Any], config: ProviderConfig) -> PollOutcome:
        outcome = await collector.poll(provider, config, deadline_s)
        on_done(outcome)
        return outcome

    return await asyncio.gather(*(one(provider, config) for provider, config in providers))


async def fetch_once(
    collector: Collector, provider: Provider[Any], config: ProviderConfig, deadline_s: float
) -> Sequence[Payload]:
    """The provider's answers and nothing else. Raises FetchError."""
    async with collector.client(provider, config, deadline_s) as http:
        return await _fetch(provider, config, http, deadline_s)


async def _fetch(
    provider: Provider[Any], config: ProviderConfig, http: Client, deadline_s: float
) -> Sequence[Payload]:
    """Run the provider's fetch. What a module does wrong becomes a FetchError, named."""
    try:
        # The client stops by itself at the deadline, so that what has come is kept; this is for
        # a provider that waits for something else.
        async with asyncio.timeout(deadline_s + GRACE_S):
            return await provider.fetch(http, config)
    except TimeoutError:
        raise FetchError(f"no complete answer within {deadline_s:.0f} s") from None
    except (FetchError, ParseError):
        raise
    except Exception as error:  # a third-party module may raise anything
        raise FetchError(f"its fetch failed: {_one_line(error)}") from error


def _parse(provider: Provider[Any], payloads: Sequence[Payload]) -> Parsed:
    try:
        parsed = provider.parse(payloads)
    except ParseError:
        raise
    except Exception as error:  # as above: a bug in one parser is that provider's failed poll
        raise ParseError("parse", f"failed with {_one_line(error)}") from error
    if not isinstance(parsed, Parsed):
        raise ParseError("parse", f"gave {type(parsed).__name__}, not Parsed")
    return parsed


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}{': ' + text if text else ''}"


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
    every = timedelta(seconds=config.every_seconds) if config.every_seconds else provider.every
    every = max(every, provider.facts.min_every)
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
        discounts=result.parsed.discounts if result else (),
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
        outcome, status=recorded.status, opened=recorded.opened, changed=recorded.changed,
        closed=recorded.closed,
    )  # fmt: skip
