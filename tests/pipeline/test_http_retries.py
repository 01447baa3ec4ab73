"""What is asked again, when, and how long a poll waits for a host."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
import respx

from tests.pipeline.http_world import URL, failure
from tests.support.web import NOW, FakeClock, FixedJitter
from tracker.http import Client, HostGate, Limits

pytestmark = pytest.mark.anyio


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
