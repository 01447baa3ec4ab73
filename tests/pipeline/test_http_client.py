"""The client's promises towards providers, with mocked answers: retries, guards, secrets, cache."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
import respx

from tests.support.web import NOW, FakeClock, FixedJitter, MemoryCache
from tracker import __version__
from tracker.http import CachedResponse, Client, HostGate, Limits, user_agent
from tracker.provider import FetchError, HttpClient
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio
URL = "https://api.example/v1/gpus"
KEY = "rpa_0123456789abcdefXYZ"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


@pytest.fixture
async def http(clock: FakeClock, cache: MemoryCache) -> AsyncIterator[Client]:
    async with Client(
        clock=clock, rng=FixedJitter(), cache=cache, deadline_s=120, secrets=["configured-secret"]
    ) as client:
        yield client


async def failure(client: HttpClient, url: str = URL, **how: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await client.get(url, **how)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(httpx.URL(url).host)
    return caught.value


# -- the plain case --------------------------------------------------------------------------------


@respx.mock
async def test_a_document(http: Client) -> None:
    route = respx.get(URL, params={"a": "1", "b": "x y"}).respond(
        json={"ok": 1}, headers={"ETag": '"1"', "X-RateLimit-Left": "9", "Set-Cookie": "id=1"}
    )
    payload = await http.get(URL + "?a=1", params={"b": "x y"}, headers={"X-Own": "1"})
    assert payload.body == b'{"ok":1}'
    assert payload.url == URL + "?a=1&b=x+y"
    assert (payload.method, payload.status, payload.fetched_at) == ("GET", 200, NOW)
    assert payload.headers == {
        "content-type": "application/json",
        "etag": '"1"',
        "x-ratelimit-left": "9",
    }
    sent = route.calls[0].request.headers
    assert sent["user-agent"] == f"gpucost/{__version__}"
    assert (sent["accept-encoding"], sent["accept"]) == ("gzip", "application/json")
    assert sent["x-own"] == "1"
    assert (http.stats.requests, http.stats.bytes) == (1, 8)
    assert (http.stats.retries, http.stats.not_modified) == (0, 0)


@respx.mock
async def test_a_search(http: Client) -> None:
    route = respx.post(URL).respond(json=[])
    payload = await http.post(URL, json_body={"q": ["H100"]}, headers={"accept": "x/y"})
    assert payload.method == "POST"
    assert payload.request_body == b'{"q": ["H100"]}' == route.calls[0].request.content
    assert route.calls[0].request.headers["content-type"] == "application/json"
    assert route.calls[0].request.headers["accept"] == "x/y"


async def test_the_user_agent_says_whose_requests_these_are() -> None:
    assert user_agent("https://me.example") == f"gpucost/{__version__} (+https://me.example)"
    with respx.mock:
        route = respx.get(URL).respond(json=1)
        async with Client(user_agent=user_agent("mailto:me@me.example")) as client:
            await client.get(URL)
        assert "(+mailto:me@me.example)" in route.calls[0].request.headers["user-agent"]


# -- retries ---------------------------------------------------------------------------------------


@respx.mock
@pytest.mark.parametrize(
    "trouble",
    [
        *(httpx.Response(status) for status in (429, 502, 503, 504)),
        httpx.ConnectError("[Errno 111] refused"),
        httpx.ConnectTimeout(""),
        httpx.ReadTimeout(""),
        httpx.PoolTimeout(""),
        httpx.ReadError(""),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_may_pass_is_tried_again(
    http: Client, clock: FakeClock, trouble: Any, method: str
) -> None:
    respx.route(method=method).mock(side_effect=[trouble, trouble, httpx.Response(200, json=1)])
    if method == "GET":
        payload = await http.get(URL)
    else:
        payload = await http.post(URL, json_body={})
    assert payload.body == b"1"
    assert clock.slept == [1, 2]  # the upper ends of full jitter
    assert (http.stats.requests, http.stats.retries) == (3, 2)


@respx.mock
async def test_a_host_that_is_down_is_not_asked_again_by_the_same_poll(http: Client) -> None:
    route = respx.get(url__startswith=URL).mock(side_effect=httpx.ConnectError("refused"))
    other = respx.get("https://other.example/").respond(json=1)
    first = await failure(http, URL + "?region=1")
    second = await failure(http, URL + "?region=2")
    assert str(first) == "api.example: cannot connect (refused)"
    assert str(second) == "api.example: cannot connect (refused); given up for this poll"
    assert route.call_count == 3
    await http.get("https://other.example/")
    assert other.call_count == 1


@respx.mock
async def test_the_gap_between_requests_is_not_kept_towards_a_host_never_reached(
    clock: FakeClock,
) -> None:
    respx.get(URL).mock(side_effect=httpx.ConnectError("refused"))
    gate = HostGate(60, clock=clock)
    async with Client(clock=clock, rng=FixedJitter(), gate=gate) as client:
        await failure(client)
    assert clock.slept == [1, 2]  # between attempts; no minute each


@respx.mock
async def test_who_waits_for_a_host_that_is_given_up_waits_for_no_gap(clock: FakeClock) -> None:
    respx.get(url__startswith=URL).mock(side_effect=httpx.ConnectError("refused"))
    gate = HostGate(60, clock=clock)
    limits = Limits(attempts=1)
    async with Client(clock=clock, gate=gate, deadline_s=3600, limits=limits) as client:
        await failure(client)
        await asyncio.gather(*(failure(client, f"{URL}?region={n}") for n in range(30)))
    assert clock.slept == []


@respx.mock
async def test_no_gap_outlasts_the_deadline(clock: FakeClock) -> None:
    route = respx.get(url__startswith=URL).respond(json=1)
    async with Client(clock=clock, gate=HostGate(6, clock=clock), deadline_s=10) as client:
        await client.get(URL)
        await client.get(URL)  # after 6 s; the third would be due after 12
        errors = await asyncio.gather(*(failure(client) for _ in range(20)))
    assert all("time for the poll is over" in str(error) for error in errors)
    assert (route.call_count, clock.passed) == (2, 6)


@respx.mock
async def test_nothing_is_asked_once_the_time_for_the_poll_is_over(clock: FakeClock) -> None:
    route = respx.get(URL).respond(json=1)
    async with Client(clock=clock, deadline_s=10) as client:
        await client.get(URL)
        clock.passed += 10
        error = await failure(client)
    assert "time for the poll is over" in str(error)
    assert route.call_count == 1


@respx.mock
async def test_three_attempts_are_all(http: Client) -> None:
    route = respx.get(URL).respond(503)
    error = await failure(http)
    assert route.call_count == 3
    assert error.status == 503
    assert str(error) == "api.example: server not available (HTTP 503)"


@respx.mock
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500, 501])
async def test_what_will_not_pass_is_asked_once(http: Client, status: int) -> None:
    route = respx.get(URL).respond(status)
    assert (await failure(http)).status == status
    assert route.call_count == 1


@respx.mock
@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "30"},
        {"Retry-After": format_datetime(NOW + timedelta(seconds=30), usegmt=True)},
        {  # the server's clock is an hour ahead
            "Retry-After": format_datetime(NOW + timedelta(hours=1, seconds=30), usegmt=True),
            "Date": format_datetime(NOW + timedelta(hours=1), usegmt=True),
        },
        {"x-ms-ratelimit-retailprices-retry-after": "30"},
        {"Retry-After": "5", "x-ms-ratelimit-retailprices-retry-after": "30"},
    ],
)
async def test_the_pause_that_the_server_asks_for(
    http: Client, clock: FakeClock, headers: dict[str, str]
) -> None:
    limited = httpx.Response(429, headers=headers, text="API requests too frequent")
    respx.get(URL).mock(side_effect=[limited, httpx.Response(200, json=1)])
    await http.get(URL)
    assert clock.slept == [30]


@respx.mock
@pytest.mark.parametrize("asked", ["soon", "nan", "-5", "", "0"])
async def test_a_meaningless_retry_after_is_no_pause_of_its_own(
    http: Client, clock: FakeClock, asked: str
) -> None:
    limited = httpx.Response(429, headers={"Retry-After": asked})
    respx.get(URL).mock(side_effect=[limited, httpx.Response(200, json=1)])
    await http.get(URL)
    assert clock.slept == [1]


@respx.mock
@pytest.mark.parametrize("asked", ["91", "86400", "inf", "1e400"])
async def test_too_long_a_pause_fails_at_once(http: Client, clock: FakeClock, asked: str) -> None:
    route = respx.get(URL).respond(429, headers={"Retry-After": asked})
    error = await failure(http)
    assert error.status == 429
    assert error.retry_after_s == float(asked)
    assert route.call_count == 1
    # The next request does not even ask.
    assert (await failure(http)).retry_after_s == float(asked)
    assert route.call_count == 1
    assert clock.slept == []


@respx.mock
async def test_no_pause_outlasts_the_deadline(clock: FakeClock) -> None:
    route = respx.get(URL).respond(429, headers={"Retry-After": "30"})
    async with Client(clock=clock, deadline_s=40) as client:
        error = await failure(client)
    assert (route.call_count, clock.slept) == (2, [30])
    assert error.retry_after_s == 30


# -- pace ------------------------------------------------------------------------------------------


@respx.mock
async def test_requests_to_a_host_keep_the_gap(clock: FakeClock) -> None:
    respx.get(url__startswith="https://").respond(json=1)
    async with Client(clock=clock, gate=HostGate(6, clock=clock)) as client:
        for _ in range(3):
            await client.get(URL)
        assert clock.slept == [6, 6]
        await client.get("https://other.example/")
    assert clock.slept == [6, 6]


# -- redirects -------------------------------------------------------------------------------------


@respx.mock
async def test_redirects_within_a_host_keep_the_credential(http: Client) -> None:
    respx.get(URL).respond(301, headers={"Location": "/v2/gpus"})
    moved = respx.get("https://api.example/v2/gpus").respond(json=1)
    payload = await http.get(URL, headers={"Authorization": f"Bearer {KEY}"})
    assert payload.url == URL
    assert moved.calls[0].request.headers["authorization"] == f"Bearer {KEY}"
    assert http.stats.requests == 2


@respx.mock
@pytest.mark.parametrize(
    "target", ["https://cdn.example/x", "http://api.example/x", "https://api.example:8443/x"]
)
async def test_redirects_elsewhere_drop_every_own_header(http: Client, target: str) -> None:
    respx.get(URL).respond(302, headers={"Location": target})
    moved = respx.get(target).respond(json=1)
    await http.get(URL, headers={"Authorization": "Bearer x", "X-Api-Key": "y", "X-Odd": "z"})
    sent = moved.calls[0].request.headers
    assert not {"authorization", "x-api-key", "x-odd"} & set(sent)
    assert sent["accept"] == "application/json"


@respx.mock
@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/v1/gpus", "more than 3 redirects"),
        ("ftp://api.example/x", "redirected to something that is not http (HTTP 302)"),
        ("file:///etc/passwd", "redirected to something that is not http (HTTP 302)"),
        ("http://169.254.169.254/x", "redirected into a private network (HTTP 302)"),
        ("http://localhost/x", "redirected into a private network (HTTP 302)"),
        ("http://[", "HTTP 302 with a broken address"),
    ],
)
async def test_redirects_that_are_not_followed(http: Client, location: str, message: str) -> None:
    route = respx.get(URL).respond(302, headers={"Location": location})
    assert str(await failure(http)) == f"api.example: {message}"
    assert route.call_count == (4 if location.startswith("/") else 1)


@respx.mock
async def test_a_search_is_not_turned_into_another_request(http: Client) -> None:
    respx.post(URL).respond(301, headers={"Location": "https://new.example/v1"})
    with pytest.raises(FetchError, match=r"moved to new.example \(HTTP 301\): change the prov"):
        await http.post(URL, json_body={})
    respx.post(URL).respond(308, headers={"Location": "https://new.example/v1"})
    moved = respx.post("https://new.example/v1").respond(json=1)
    await http.post(URL, json_body={"a": 1})
    assert moved.calls[0].request.content == b'{"a": 1}'


# -- what is no answer -----------------------------------------------------------------------------


@respx.mock
@pytest.mark.parametrize(
    ("body", "kind", "expect", "reason"),
    [
        (b"<!DOCTYPE html><p>busy", "text/html", "json", "HTML page where JSON was due"),
        (b'{"a": 1}', "text/html; charset=utf-8", "json", "HTML page where JSON was due"),
        (b" \n<html>", "application/json", "json", "HTML page where JSON was due"),
        (b"<?xml?><Error/>", "application/xml", "json", "XML document where JSON was due"),
        (b"", "application/json", "json", "empty answer"),
        (b" \r\n", "text/csv", "text", "empty answer"),
        (b"", "text/html", "any", "empty answer"),
        (b'{"a": [1, 2', "application/json", "json", "truncated JSON"),
        (b'{"a": "x', "application/json", "json", "truncated JSON"),
        (b"[1] trailing", "application/json", "json", "not JSON"),
        (b"nope", "application/json", "json", "not JSON"),
        (b'{"a": "\xff"}', "application/json", "json", "not JSON"),
        (b'{"a": NaN}', "application/json", "json", "NaN in the answer, which is not JSON"),
        (b"[-Infinity]", "application/json", "json", "-Infinity in the answer, which is not JSON"),
        (b"[" * 200_000, "application/json", "json", "JSON nested too deeply"),
        (b"<!-- x --> <!doctype HTML>", "text/plain", "text", "HTML page where text was due"),
        (b'{"a": 1}', "application/json", "html", "no HTML page where one was due"),
    ],
)
async def test_not_the_document_that_was_expected(
    http: Client, body: bytes, kind: str, expect: Any, reason: str
) -> None:
    route = respx.get(URL).respond(content=body, headers={"content-type": kind, "etag": "1"})
    assert str(await failure(http, expect=expect)) == f"api.example: {reason}"
    assert route.call_count == 1


@respx.mock
async def test_a_broken_answer_is_never_cached(http: Client, cache: MemoryCache) -> None:
    respx.get(URL).respond(content=b"{", headers={"etag": "1"})
    await failure(http)
    assert cache.kept == {}


@respx.mock
@pytest.mark.parametrize(
    ("body", "expect"),
    [
        (b"\xef\xbb\xbf[1]", "json"),
        (b"<rates/>", "any"),
        (b"<?xml version='1.0'?><r/>", "text"),
        (b"a,b\n1,2\n", "text"),
        (b"<p>page", "html"),
    ],
)
async def test_documents_of_each_kind(http: Client, body: bytes, expect: Any) -> None:
    respx.get(URL).respond(content=body)
    assert (await http.get(URL, expect=expect)).body == body


@respx.mock
@pytest.mark.parametrize(
    ("status", "body", "headers", "message"),
    [
        (401, "no", {"Authorization": "Bearer x"}, "credential refused (HTTP 401): check"),
        (403, "no", {"x-api-key": "x"}, "credential refused (HTTP 403): check the provider's key"),
        (401, "no", {}, "access refused without a credential (HTTP 401): a key may be needed"),
        (403, "error code: 1010", {}, "blocked by Cloudflare (HTTP 403, error code: 1010): set"),
        (403, "error code: 1020", {}, "blocked by Cloudflare (HTTP 403, error code: 1020)"),
        (400, '{"detail":\n"bad filter"}', {}, 'HTTP 400: {"detail": "bad filter"}'),
        (404, "<html>gone</html>", {}, "HTTP 404"),
        (404, "x" * 5000, {}, "HTTP 404: " + "x" * 119 + "…"),
        (206, "[1]", {}, "HTTP 206: [1]"),
        (304, "", {}, "HTTP 304"),
    ],
)
async def test_statuses_say_what_to_do(
    http: Client, status: int, body: str, headers: dict[str, str], message: str
) -> None:
    respx.get(URL).respond(status, text=body)
    error = await failure(http, headers=headers)
    assert error.status == status
    assert str(error).startswith(f"api.example: {message}")


@respx.mock
async def test_a_key_in_the_query_counts_as_a_credential(http: Client) -> None:
    respx.get(URL).respond(401)
    assert "credential refused" in str(await failure(http, URL + f"?api_key={KEY}"))


@respx.mock
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx.ConnectError("[Errno -2] Name or service not known"), "cannot connect (Name or s"),
        (httpx.ConnectError(""), "cannot connect"),
        (httpx.ConnectTimeout(""), "no connection within 5 s"),
        (httpx.ReadTimeout(""), "no data for 20 s"),
        (httpx.WriteTimeout(""), "time-out while sending"),
        (httpx.ProxyError("407 http://u:p@proxy"), "the proxy refused the connection: check"),
        (httpx.ReadError("x"), "connection broken"),
        (httpx.TooManyRedirects("x"), "request failed (TooManyRedirects)"),
    ],
)
async def test_failures_in_our_words(http: Client, error: Exception, message: str) -> None:
    respx.get(URL).mock(side_effect=error)
    assert str(await failure(http)).startswith(f"api.example: {message}")


@respx.mock
async def test_a_bad_certificate_is_not_retried(http: Client) -> None:
    route = respx.get(URL).mock(side_effect=httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"))
    assert "TLS certificate" in str(await failure(http))
    assert route.call_count == 1


@pytest.mark.parametrize("url", ["", "api.example/x", "ftp://api.example", "http://", "http://["])
@pytest.mark.parametrize("params", [None, {"a": "1"}])
async def test_addresses_that_are_none(
    http: Client, url: str, params: dict[str, str] | None
) -> None:
    with pytest.raises(FetchError, match=r"not a http\(s\) address: check the provider's base URL"):
        await http.get(url, params=params)


# -- secrets ---------------------------------------------------------------------------------------


@respx.mock
async def test_a_payload_holds_no_secret(http: Client) -> None:
    url = f"https://me:{KEY}@api.example/v1?API_KEY={KEY}&page=2&sig=short&q=configured-secret#f"
    respx.route(host="api.example").respond(
        json={"echo": KEY}, headers={"etag": f'"{KEY}"', "x-request": KEY}
    )
    payload = await http.get(url, headers={"X-Api-Key": KEY})
    assert payload.url == ("https://api.example/v1?API_KEY=REDACTED&page=2&sig=REDACTED&q=REDACTED")
    assert KEY not in repr(payload)
    posted = await http.post(url, json_body={"token": "configured-secret", "key2": KEY})
    assert KEY.encode() not in posted.request_body + posted.body
    assert KEY not in repr(posted)


@respx.mock
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_no_message_or_log_shows_a_secret(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    redactor = Redactor()
    respx.route(host="api.example").respond(status, text=f"key {KEY} is not valid for you")
    async with Client(clock=clock, redactor=redactor) as client:
        error = await failure(client, URL + "?key=" + KEY, headers={"Authorization": KEY})
    assert KEY not in str(error) + repr(error) + caplog.text
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "api.example" in caplog.text
    assert redactor(f"later: {KEY}") == "later: ***"


# -- conditional requests --------------------------------------------------------------------------


@respx.mock
async def test_what_has_not_changed_comes_from_the_cache(http: Client, clock: FakeClock) -> None:
    validators = {"ETag": 'W/"7"', "Last-Modified": "Sun, 01 Mar 2026 10:00:00 GMT"}
    route = respx.get(URL)
    route.side_effect = [httpx.Response(200, json=[7], headers=validators), httpx.Response(304)]
    first = await http.get(URL)
    clock.passed += 60
    second = await http.get(URL)
    sent = route.calls[1].request.headers
    assert sent["if-none-match"] == 'W/"7"'
    assert sent["if-modified-since"] == validators["Last-Modified"]
    assert second.body == first.body == b"[7]"
    assert (second.status, second.fetched_at) == (200, NOW + timedelta(seconds=60))
    assert second.headers == {**first.headers, "x-gpucost-not-modified": "1"}
    assert "x-gpucost-not-modified" not in first.headers
    assert http.stats.not_modified == 1


@respx.mock
async def test_a_changed_answer_replaces_the_cached_one(http: Client) -> None:
    route = respx.get(URL)
    route.side_effect = [
        httpx.Response(200, json=[1], headers={"ETag": '"1"'}),
        httpx.Response(200, json=[2], headers={"ETag": '"2"'}),
        httpx.Response(304),
    ]
    bodies = [(await http.get(URL)).body for _ in range(3)]
    assert bodies == [b"[1]", b"[2]", b"[2]"]
    assert route.calls[2].request.headers["if-none-match"] == '"2"'


@respx.mock
async def test_what_is_answered_differently_is_cached_apart(
    http: Client, cache: MemoryCache
) -> None:
    route = respx.get(url__startswith=URL).respond(json=1, headers={"ETag": '"1"'})
    await http.get(URL)
    await http.get(URL + "?page=2")
    await http.get(URL, headers={"Authorization": KEY})
    await http.get(URL, headers={"Authorization": KEY + "2"})
    await http.stream_lines(URL, lambda line: True, cache_variant="all")
    await http.stream_lines(URL, lambda line: False, cache_variant="none")
    await http.stream_lines(URL, lambda line: False)
    assert not any("if-none-match" in call.request.headers for call in route.calls)
    assert len(cache.kept) == 6
    assert all(len(key) <= 400 and KEY not in key for key in cache.kept)


@respx.mock
@pytest.mark.parametrize(
    "headers", [{}, {"ETag": '"1"', "Cache-Control": "private, no-store"}], ids=["bare", "no-store"]
)
async def test_what_is_not_cached(
    http: Client, cache: MemoryCache, headers: dict[str, str]
) -> None:
    respx.get(URL).respond(json=1, headers=headers)
    await http.get(URL)
    assert cache.kept == {}


@respx.mock
async def test_searches_are_not_conditional(http: Client, cache: MemoryCache) -> None:
    respx.post(URL).respond(json=1, headers={"ETag": '"1"'})
    await http.post(URL, json_body={})
    assert cache.kept == {}


@respx.mock
async def test_a_broken_cache_costs_no_poll(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get(self, key: str) -> CachedResponse | None:
            raise OSError("disk at postgresql://u:hunter22@h is gone")

        def put(self, key: str, response: CachedResponse) -> None:
            raise OSError("full")

    respx.get(URL).respond(json=1, headers={"ETag": '"1"'})
    async with Client(clock=clock, cache=Broken()) as client:
        assert (await client.get(URL)).body == b"1"
    assert "cannot be read" in caplog.text
    assert "cannot be written: full" in caplog.text
    assert "hunter22" not in caplog.text


# -- streams ---------------------------------------------------------------------------------------


@respx.mock
async def test_kept_lines_and_their_cache(http: Client) -> None:
    route = respx.get(URL)
    text = b'"p5.48xlarge",1\r\n"t3.micro",2\n\n"p4d.24xlarge",3'
    first = httpx.Response(200, content=text, headers={"ETag": '"a"'})
    route.side_effect = [first, httpx.Response(304)]
    for _ in range(2):
        payload = await http.stream_lines(
            URL, lambda line: line.startswith(b'"p'), cache_variant="p, version 1"
        )
        assert payload.body == b'"p5.48xlarge",1\n"p4d.24xlarge",3\n'
    assert http.stats.not_modified == 1


@respx.mock
async def test_no_line_may_match(http: Client) -> None:
    respx.get(URL).respond(content=b"a\nb\n")
    assert (await http.stream_lines(URL, lambda line: False)).body == b""


@respx.mock
@pytest.mark.parametrize(
    ("content", "how", "reason"),
    [
        (b"", {}, "empty answer"),
        (b"<!doctype html>", {}, "HTML page where text was due"),
        (b"a" * 100, {"max_bytes": 50}, "answer larger than 50 bytes"),
        (b"ab\n" * 10, {"max_kept_bytes": 29}, "more than 29 bytes of matching lines"),
        (b"a" * (5 * 2**20), {}, "a line longer than 4 MiB: not a text file"),
    ],
)
async def test_streams_have_bounds_too(
    http: Client, content: bytes, how: dict[str, Any], reason: str
) -> None:
    respx.get(URL).respond(content=content)
    with pytest.raises(FetchError, match=f"^api.example: {reason}$"):
        await http.stream_lines(URL, lambda line: True, **how)


async def test_the_client_fulfils_the_contract(http: Client) -> None:
    contract: HttpClient = http  # checked by mypy
    assert contract is http
    assert Limits().attempts == 3
