"""The client that providers fetch with (``tracker.provider.HttpClient``), over httpx."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, cast

import httpx

from tracker.http import archive, guard
from tracker.http.body import LineFilter, pieces, read_head, read_whole
from tracker.http.cache import NOT_MODIFIED_HEADER, CachedResponse, ResponseCache, cache_key
from tracker.http.conditional import look_up, remember, storable
from tracker.http.connection import let_go, make_http, user_agent
from tracker.http.errors import translate
from tracker.http.gate import HostGate
from tracker.http.limits import ERROR_HEAD_BYTES, Clock, Limits, Stats, SystemClock
from tracker.http.retry import Unreachable, retry_after_s, with_retries
from tracker.provider import FetchError, Payload
from tracker.telemetry import Redactor

log = logging.getLogger(__name__)

_ACCEPT = {
    "json": "application/json",
    "html": "text/html,application/xhtml+xml",
    "text": "text/*,*/*;q=0.8",
    "any": "*/*",
}
_SURE_SECRET = 16  # characters from which a value is replaced in bodies: no price data looks so
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that may follow a redirect to another host: anything else might be a credential.
_SAFE_ELSEWHERE = frozenset(
    {"accept", "accept-language", "content-type", "if-none-match", "if-modified-since"}
)

Body = AsyncGenerator[bytes, None]


DEFAULT_USER_AGENT = user_agent()


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request as the provider made it. ``variant`` None: no conditional request."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes
    expect: guard.Expect
    max_bytes: int
    total_s: float
    variant: str | None
    read: Callable[[Body, str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """A usable answer (status 200..299, or 304 to a condition), or a redirect."""

    status: int
    headers: dict[str, str]
    fetched_at: datetime  # when its headers were here: a long body may take minutes more
    body: bytes = b""


class Client:
    """Implements ``tracker.provider.HttpClient``; one for each poll of a provider.

    *deadline_s* is what the whole poll may take from now on: no pause is begun that would outlast
    it. *gate* paces requests (shared between clients where wanted); *cache* makes GETs conditional
    (None: off); *redactor* learns every credential that is sent. *clock*, *rng* and *transport*
    are for tests. To be used with ``async with``. ``stats`` counts requests and bytes.
    """

    def __init__(
        self,
        *,
        user_agent: str = DEFAULT_USER_AGENT,
        limits: Limits | None = None,
        gate: HostGate | None = None,
        cache: ResponseCache | None = None,
        redactor: Redactor | None = None,
        secrets: Iterable[str] = (),
        deadline_s: float | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.stats = Stats()
        self._limits = limits or Limits()
        self._clock = clock or SystemClock()
        self._gate = gate or HostGate(clock=self._clock)
        self._cache = cache
        self._redactor = redactor or Redactor()
        self._sure_secrets: set[bytes] = set()
        self._learn(secrets)
        self._rng = rng or random.Random()  # noqa: S311 (jitter)
        self._misses: dict[str, list[str]] = {}  # attempts in a row that did not reach a host
        self._ends_at = None if deadline_s is None else self._clock.monotonic() + deadline_s
        self._http = make_http(user_agent, self._limits, transport)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    # -- the three kinds of request (see tracker.provider.HttpClient) --------------------------

    async def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        expect: guard.Expect = "json",
        max_bytes: int = 32 * 2**20,
    ) -> Payload:
        """GET a document. Raises FetchError."""
        if params:
            guard.check_address(url)
            try:
                url = str(httpx.URL(url).copy_merge_params(dict(params)))
            except httpx.InvalidURL as error:
                raise self._named(guard.host_of(url), translate(error, self._limits)) from None
        return await self._fetch(self._ask("GET", url, headers, b"", expect, max_bytes))

    async def post(
        self,
        url: str,
        *,
        json_body: Any,
        headers: Mapping[str, str] | None = None,
        expect: guard.Expect = "json",
        max_bytes: int = 32 * 2**20,
    ) -> Payload:
        """POST a search (idempotent: it may be retried). Raises FetchError."""
        content = json.dumps(json_body).encode()
        full = {"content-type": "application/json", **guard.lowered(headers or {})}
        return await self._fetch(self._ask("POST", url, full, content, expect, max_bytes))

    async def stream_lines(
        self,
        url: str,
        keep: Callable[[bytes], bool],
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 2 * 2**30,
        max_kept_bytes: int = 64 * 2**20,
        cache_variant: str | None = None,
    ) -> Payload:
        """Stream a large text file and return only the lines that *keep* accepts.

        *keep* sees each line without its line end; kept lines end with a line feed. The file is
        never held whole. *cache_variant* names what *keep* keeps (its needles, and a version):
        given, the request is conditional, and a file that has not changed costs nothing. Raises
        FetchError.
        """

        async def read(body: Body, content_type: str) -> bytes:
            lines = LineFilter(keep, max_kept_bytes)
            begun = False
            async for piece in body:
                if not begun:
                    guard.check_start(piece, content_type, "text")
                    begun = True
                lines.feed(piece)
            if not begun:
                raise FetchError("empty answer")
            return lines.finish()

        ask = self._ask("GET", url, headers, b"", "text", max_bytes)
        variant = None if cache_variant is None else f"lines {cache_variant}"
        return await self._fetch(
            replace(ask, read=read, variant=variant, total_s=self._limits.stream_total_s)
        )

    # -- how a request is made -----------------------------------------------------------------

    def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        content: bytes,
        expect: guard.Expect,
        max_bytes: int,
    ) -> _Ask:
        async def read(body: Body, content_type: str) -> bytes:
            whole = await read_whole(body)
            guard.check_body(whole, content_type, expect)
            return whole

        full = {"accept": _ACCEPT[expect], **guard.lowered(headers or {})}
        self._learn([*archive.header_secrets(full), *archive.url_secrets(url)])
        variant = "" if method == "GET" else None
        return _Ask(
            method, url, full, content, expect, max_bytes, self._limits.total_s, variant, read
        )

    async def _fetch(self, ask: _Ask) -> Payload:
        guard.check_address(ask.url)
        shown = archive.clean_url(ask.url, self._redactor)
        key = None
        if self._cache is not None and ask.variant is not None:
            key = cache_key(ask.url, shown, ask.headers, ask.variant)
        cached = await look_up(self._cache, key, self._redactor)
        try:
            answer = await with_retries(
                lambda: self._attempt(ask, cached),
                limits=self._limits,
                clock=self._clock,
                rng=self._rng,
                remaining_s=self._remaining_s,
                on_retry=self._count_retry,
            )
        except FetchError as error:
            log.debug("%s %s: %s", ask.method, shown, error)
            raise
        headers = archive.kept_headers(answer.headers, self._redactor)
        if answer.status == 304 and cached is not None:
            self.stats.not_modified += 1
            headers = {**cached.headers, **headers, NOT_MODIFIED_HEADER: "1"}
            answer = replace(answer, status=200, body=cached.body)
        else:
            answer = replace(answer, body=self._without_secrets(answer.body))
            if answer.status == 200:
                entry = storable(answer.headers, answer.body, headers)
                await remember(self._cache, key, entry, self._redactor)
        log.debug("%s %s: %d, %d bytes", ask.method, shown, answer.status, len(answer.body))
        return Payload(
            url=shown,
            body=answer.body,
            fetched_at=answer.fetched_at,
            method=ask.method,
            request_body=self._without_secrets(ask.content),
            status=answer.status,
            headers=headers,
        )

    async def _attempt(self, ask: _Ask, cached: CachedResponse | None) -> _Answer:
        """One attempt with its redirects. Raises FetchError with the host in front."""
        url, headers = ask.url, dict(ask.headers)
        if cached is not None:
            headers.update(cached.conditions())
        for _ in range(self._limits.max_redirects + 1):
            host = guard.host_of(url)
            bound = min(self._limits.max_retry_after_s, self._remaining_s())
            async with self._gate.slot(host, bound, self._ends_at):
                total_s = min(ask.total_s, self._remaining_s())
                try:
                    self._check_worth_asking(host, total_s)
                except FetchError:
                    self._gate.never_reached(host)  # whoever waits behind this one waits no gap
                    raise
                try:
                    async with asyncio.timeout(total_s):
                        answer = await self._exchange(ask, url, headers, cached)
                    self._misses.pop(host, None)
                    if answer.status not in _REDIRECTS:
                        return answer
                    target = guard.redirect_target(
                        url, answer.headers["location"], ask.method, answer.status
                    )
                except TimeoutError:
                    raise FetchError(f"{host}: no complete answer within {total_s:.3g} s") from None
                except FetchError as error:
                    if isinstance(error, Unreachable):
                        self._misses.setdefault(host, []).append(str(error))
                        self._gate.never_reached(host)
                    if error.retry_after_s:
                        self._gate.pause(host, error.retry_after_s)
                    raise self._named(host, error) from None
            if not guard.same_origin(url, target):
                headers = {k: v for k, v in headers.items() if k in _SAFE_ELSEWHERE}
            url = target
        raise FetchError(
            f"{guard.host_of(ask.url)}: more than {self._limits.max_redirects} redirects"
        )

    def _check_worth_asking(self, host: str, remaining_s: float) -> None:
        """Raises FetchError where *host* is not to be asked any more in this poll."""
        misses = self._misses.get(host, [])
        if len(misses) >= self._limits.attempts:
            # Thirty regions need not each find out again.
            raise FetchError(f"{host}: {misses[-1]}; given up for this poll")
        if remaining_s <= 0:
            raise FetchError(f"{host}: not asked, the time for the poll is over")

    async def _exchange(
        self, ask: _Ask, url: str, headers: Mapping[str, str], cached: CachedResponse | None
    ) -> _Answer:
        """Send one request and read its answer."""
        try:
            request = self._http.build_request(
                ask.method, url, headers=dict(headers), content=ask.content or None
            )
            self.stats.requests += 1
            response = await self._http.send(request, stream=True)
            try:
                return await self._answer(ask, response, headers, cached)
            finally:
                await let_go(response)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise translate(error, self._limits) from None

    async def _answer(
        self,
        ask: _Ask,
        response: httpx.Response,
        sent: Mapping[str, str],
        cached: CachedResponse | None,
    ) -> _Answer:
        status, headers = response.status_code, guard.lowered(response.headers)
        now = self._clock.now()
        redirected = status in _REDIRECTS and "location" in headers
        if redirected or (status == 304 and cached is not None):
            return _Answer(status, headers, now)
        # The stream itself, not aiter_raw(): that refuses what a mock has already read.
        stream = cast(httpx.AsyncByteStream, response.stream)
        if not 200 <= status <= 299 or status == 206:
            raise guard.status_error(
                status,
                await read_head(stream, headers, ERROR_HEAD_BYTES),
                retry_after_s=retry_after_s(headers, now),
                credential_sent=any(map(archive.is_credential, sent))
                or bool(archive.url_secrets(ask.url)),
                redactor=self._redactor,
            )
        async with aclosing(pieces(stream, headers, ask.max_bytes, self.stats)) as body:
            whole = await ask.read(body, headers.get("content-type", ""))
        return _Answer(status, headers, now, whole)

    def _named(self, host: str, error: FetchError) -> FetchError:
        text = self._redactor(f"{host}: {error}")
        return type(error)(text, status=error.status, retry_after_s=error.retry_after_s)

    # -- small things --------------------------------------------------------------------------

    def _remaining_s(self) -> float:
        if self._ends_at is None:
            return float("inf")
        return max(self._ends_at - self._clock.monotonic(), 0.0)

    def _count_retry(self) -> None:
        self.stats.retries += 1

    def _learn(self, secrets: Iterable[str]) -> None:
        found = [secret for secret in secrets if secret]
        self._redactor.register(*found)
        self._sure_secrets |= {s.encode() for s in found if len(s) >= _SURE_SECRET}

    def _without_secrets(self, body: bytes) -> bytes:
        for secret in sorted(self._sure_secrets, key=len, reverse=True):
            if secret in body:
                body = body.replace(secret, archive.REDACTED.encode())
        return body
