"""When to try again, and when not: full jitter, and what the server asks for."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState

from tracker.http.limits import Clock, Limits
from tracker.provider import FetchError

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

RETRIED_STATUSES = frozenset({429, 502, 503, 504})


class Retryable(FetchError):
    """A failure that may pass: no connection, a time-out, a broken answer, an overloaded server."""


class Unreachable(Retryable):
    """No connection to the host at all."""


def bare(error: E) -> E:
    """*error* without what led to it, for an error that is kept or raised again elsewhere.

    Traceback and context hold the frames of the whole request, "from None" or not: its connection,
    its answer, and often the error itself. What then waits for the cycle collector is megabytes.
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """How many seconds the server asks to wait, or None when it does not say.

    Reads Retry-After (seconds, or a date, taken relative to the server's own Date when it sends
    one, else to *now*) and Azure's ``x-ms-ratelimit-…-retry-after``; the longest counts.
    Source: RFC 9110, section 10.2.3.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    server_now = _date(lowered.get("date", "")) or now
    waits = []
    for name, value in lowered.items():
        azure = name.startswith("x-ms-ratelimit-") and name.endswith("-retry-after")
        if name != "retry-after" and not azure:
            continue
        try:
            seconds = float(value)
        except ValueError:
            date = _date(value)
            seconds = math.nan if date is None else (date - server_now).total_seconds()
        if not math.isnan(seconds):
            waits.append(max(seconds, 0.0))
    return max(waits, default=None)


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
        # "-0000" gives a naive date; HTTP dates are always UTC.
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def backoff_s(attempt: int, limits: Limits, rng: random.Random) -> float:
    """The pause after failed attempt number *attempt* (from 1): full jitter, in seconds.

    Uniform from 0 to the doubling upper end, so that many clients do not come back together.
    """
    return rng.uniform(0, min(limits.max_backoff_s, limits.backoff_s * 2.0 ** (attempt - 1)))


async def with_retries(
    once: Callable[[], Awaitable[T]],
    *,
    limits: Limits,
    clock: Clock,
    rng: random.Random,
    remaining_s: Callable[[], float],
    on_retry: Callable[[], None],
) -> T:
    """Call *once* until it works, at most ``limits.attempts`` times.

    Only Retryable is tried again. Gives up at once when the pause would be longer than
    ``limits.max_retry_after_s`` or than what remains of the deadline, and raises the last failure.
    """

    def wait(state: RetryCallState) -> float:
        error = _failure(state)
        asked = error.retry_after_s if isinstance(error, FetchError) else None
        return max(asked or 0.0, backoff_s(state.attempt_number, limits, rng))

    def stop(state: RetryCallState) -> bool:
        bound = min(limits.max_retry_after_s, remaining_s())
        return state.attempt_number >= limits.attempts or state.upcoming_sleep > bound

    async def attempt() -> T | _Failed:
        try:
            return await once()
        except FetchError as error:
            return _Failed(bare(error))
        except (Exception, asyncio.CancelledError) as error:
            return _Failed(error)

    retrying = AsyncRetrying(
        retry=lambda state: isinstance(_failure(state), Retryable),
        wait=wait,
        stop=stop,
        sleep=clock.sleep,
        before_sleep=lambda _: on_retry(),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    try:
        ended: T | _Failed = await retrying(attempt)
    finally:
        retrying.iter_state.reset()  # its own methods, by which it holds itself
    if not isinstance(ended, _Failed):
        return ended
    try:
        raise ended.error
    finally:
        del ended  # the error holds this frame, which must not hold the error


@dataclass(frozen=True, slots=True)
class _Failed:
    """A failed attempt as tenacity sees it: a result.

    Of an exception it keeps the frames, which keep its own state, which keeps the exception.
    """

    error: BaseException


def _failure(state: RetryCallState) -> BaseException | None:
    ended = state.outcome.result() if state.outcome else None
    return ended.error if isinstance(ended, _Failed) else None
