"""The client and its answers, mocked: what is asked, what is no answer, what stays secret."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
import respx

from tests.pipeline.http_world import KEY, URL, failure
from tests.support.web import NOW, FakeClock, MemoryCache
from tracker import __version__
from tracker.http import Client, Limits, user_agent
from tracker.provider import FetchError, HttpClient
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio


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


async def test_the_client_fulfils_the_contract(http: Client) -> None:
    contract: HttpClient = http  # checked by mypy
    assert contract is http
    assert Limits().attempts == 3


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
