"""Redirects: which are followed, and what goes along."""

from __future__ import annotations

import pytest
import respx

from tests.pipeline.http_world import KEY, URL, failure
from tracker.http import Client
from tracker.provider import FetchError

pytestmark = pytest.mark.anyio


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
