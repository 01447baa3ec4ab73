"""GCP, Lambda, OCI, Verda and Crusoe asked by the real client, at a local server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from providers import crusoe, gcp, lambdacloud, oci, verda
from tests.support.fixtures import Case, cases
from tests.support.replay import Answer, ReplayServer, json_answer
from tracker.http import HostGate, make_client
from tracker.provider import FetchError, ParseError, Payload, Provider, SecretStr
from tracker.settings import Settings

KEY = SecretStr("planted-secret")
BASES = ("base_url", "page_url", "open_data_url")

# fixture -> the configuration that asks for it
FIXTURES: dict[str, tuple[Provider[Any], dict[str, Any]]] = {
    "gcp-two_pages": (gcp.provider, {"api_key": KEY}),
    "gcp-open_data": (gcp.provider, {}),
    "lambda-api": (lambdacloud.provider, {"api_key": KEY}),
    "lambda-page": (lambdacloud.provider, {}),
    "oci-normal": (oci.provider, {}),
    "verda-list": (verda.provider, {}),
    "verda-page": (verda.provider, {}),
    "verda-with_availability": (verda.provider, {"client_id": "me", "api_key": KEY}),
    "crusoe-page": (crusoe.provider, {}),
}
CASES = {str(case): case for case in cases()}


def fetched(server: ReplayServer, provider: Provider[Any], **config: Any) -> Sequence[Payload]:
    bases = {name: server.url for name in BASES if name in provider.config.model_fields}
    settings = Settings(data_dir=Path("/nowhere"), http={"attempts": 1})

    async def run() -> Sequence[Payload]:
        made = provider.config(**bases, **config)
        async with make_client(provider, made, settings, gate=HostGate()) as client:
            return await provider.fetch(client, made)

    return asyncio.run(run())


def serve(server: ReplayServer, case: Case) -> None:
    server.replay(case.payloads())
    token = {"access_token": "planted-token", "expires_in": 3600}
    server.handle("POST", verda.TOKEN_PATH, lambda _: json_answer(token))


@pytest.mark.parametrize("name", FIXTURES)
def test_the_requests_are_the_recorded_ones_and_hold_no_secret(name: str) -> None:
    provider, config = FIXTURES[name]
    with ReplayServer() as server:
        serve(server, CASES[name])
        payloads = fetched(server, provider, **config)
    recorded = CASES[name].payloads()
    assert [p.body for p in payloads] == [p.body for p in recorded]
    assert [o.price for o in provider.parse(payloads).offers] == [
        o.price for o in provider.parse(recorded).offers
    ]
    for kept in payloads:
        text = f"{kept.url} {dict(kept.headers)} {kept.body!r} {kept.request_body!r}"
        assert "planted" not in text


@pytest.mark.parametrize("name", FIXTURES)
def test_a_page_for_people_where_data_was_due_is_a_failure(name: str) -> None:
    provider, config = FIXTURES[name]
    with ReplayServer() as server:
        shell = Answer(b"<html><body>maintenance</body></html>", 200, {"content-type": "text/html"})
        for payload in CASES[name].payloads():
            path = payload.url.partition("//")[2].partition("/")[2].partition("?")[0]
            server.handle("GET", f"/{path}", lambda _: shell)
        try:
            payloads = fetched(server, provider, **config)
        except FetchError as error:
            assert "\n" not in str(error)
            return
        with pytest.raises(ParseError):
            provider.parse(payloads)
