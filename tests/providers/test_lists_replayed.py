"""Ten clouds asked by the real client, at a local server that answers from their fixtures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.fixtures import cases
from tests.support.replay import Answer, ReplayServer
from tracker import registry
from tracker.http import HostGate, make_client
from tracker.provider import FetchError, ParseError, Payload, Provider, SecretStr
from tracker.settings import Settings

KEY = {"api_key": SecretStr("planted-secret")}
BASES = ("base_url", "base_url_us", "docs_url")
# Fixture -> the configuration that asks for it.
FIXTURES: dict[str, dict[str, Any]] = {
    "scaleway-prices_and_stock_of_two_zones": {"zones": ("fr-par-2", "pl-waw-2")},
    "ovh-hours_and_months_of_two_entities": {},
    "digitalocean-sizes_on_two_pages": KEY,
    "digitalocean-price_page": {},
    "jarvislabs-rupees": KEY,
    "cudo-parts_put_together": KEY,
    "hyperbolic-options": KEY,
    "lium-hosts_whole_and_in_part": {},
    "cloudrift-variants_by_data_centre": {},
    "thundercompute-two_modes": KEY,
    "salad-priorities": KEY | {"organization": "acme"},
}
CASES = {str(case): case for case in cases()}


def _provider(name: str) -> Provider[Any]:
    return registry.load(CASES[name].provider)


def _fetched(server: ReplayServer, name: str) -> Sequence[Payload]:
    provider, config = _provider(name), FIXTURES[name]
    bases = {base: server.url for base in BASES if base in provider.config.model_fields}
    settings = Settings(data_dir=Path("/nowhere"), http={"attempts": 1})
    made = provider.config(**bases, **config)

    async def run() -> Sequence[Payload]:
        async with make_client(provider, made, settings, gate=HostGate()) as client:
            return await provider.fetch(client, made)

    return asyncio.run(run())


@pytest.mark.parametrize("name", FIXTURES)
def test_the_requests_are_the_recorded_ones_and_hold_no_secret(name: str) -> None:
    recorded = CASES[name].payloads()
    with ReplayServer() as server:
        server.replay(recorded)
        payloads = _fetched(server, name)
        sent = [dict(request.headers) for request in server.requests]
    assert sorted(p.body for p in payloads) == sorted(p.body for p in recorded)
    parsed, due = _provider(name).parse(payloads), _provider(name).parse(recorded)
    assert [o.price for o in parsed.offers] == [o.price for o in due.offers]
    assert (parsed.complete, len(parsed.rejected)) == (due.complete, len(due.rejected))
    for kept in payloads:
        text = f"{kept.url} {dict(kept.headers)} {kept.body!r} {kept.request_body!r}"
        assert "planted" not in text
    if "api_key" in FIXTURES[name]:
        assert all("planted-secret" in str(headers) for headers in sent)


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("status", [200, 401, 503])
def test_a_page_for_people_where_data_was_due_is_a_failure(name: str, status: int) -> None:
    page = Answer(b"<html><body>sign in</body></html>", status, {"content-type": "text/html"})
    with ReplayServer() as server:
        for payload in CASES[name].payloads():
            server.handle(payload.method, urlsplit(payload.url).path, lambda _: page)
        try:
            payloads = _fetched(server, name)
        except FetchError as error:
            assert "\n" not in str(error)
            return
        assert status == 200
        with pytest.raises(ParseError):
            _provider(name).parse(payloads)
