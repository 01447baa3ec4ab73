"""A provider's client is paced and bounded as its Provider and the settings say."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import respx

from tests.support.web import FakeClock, MemoryCache
from tracker import __version__
from tracker.http import Client, HostGate, make_client, make_gate
from tracker.provider import Facts, FetchError, Parsed, Provider, ProviderConfig, SecretStr
from tracker.settings import HttpSettings, Settings
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio


class Shop(ProviderConfig):
    api_key: SecretStr | None = None


async def _fetch(http: object, config: Shop) -> list[object]:
    return []


SHOP = Provider(
    name="shop",
    every=timedelta(hours=1),
    config=Shop,
    facts=Facts(
        title="Shop",
        website="https://shop.example",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=1,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable=None,
        terms="unknown",
        verified="nothing",
    ),
    fetch=_fetch,  # type: ignore[arg-type]
    parse=lambda payloads: Parsed(()),
    min_seconds_between_requests=6,
    poll_deadline=timedelta(seconds=50),
)


@respx.mock
async def test_settings_reach_the_requests() -> None:
    settings = Settings(
        data_dir=Path("/nowhere"),
        http=HttpSettings(user_agent_contact="https://me.example", attempts=1),
    )
    redactor = Redactor()
    config = Shop(api_key=SecretStr("shop-key-0123456"))
    cache = MemoryCache()
    route = respx.get("https://shop.example/").respond(json=1, headers={"ETag": '"1"'})
    async with make_client(SHOP, config, settings, cache=cache, redactor=redactor) as client:
        await client.get("https://shop.example/")
        sent = route.calls[0].request.headers["user-agent"]
    assert sent == f"gpucost/{__version__} (+https://me.example)"
    assert len(cache.kept) == 1
    assert redactor("shop-key-0123456") == "***"


@respx.mock
async def test_a_gate_is_kept_between_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    respx.get("https://shop.example/").respond(json=1)
    settings = Settings(data_dir=Path("/nowhere"))
    clock = FakeClock()
    # One clock for both: deadlines of the machine's own mean nothing to a gate on another.
    monkeypatch.setattr("tracker.http.client.SystemClock", lambda: clock)
    gate = HostGate(SHOP.min_seconds_between_requests, clock=clock)
    for _ in range(2):
        async with make_client(SHOP, Shop(), settings, gate=gate) as client:
            await client.get("https://shop.example/")
    assert clock.slept == [6]
    assert isinstance(make_gate(SHOP, settings), HostGate)


@respx.mock
@pytest.mark.parametrize(("own", "asked"), [(None, 51), (30, 31)])
async def test_the_deadline_is_the_settings_or_else_the_providers(
    own: float | None, asked: int
) -> None:
    route = respx.get("https://shop.example/").respond(429, headers={"Retry-After": str(asked)})
    settings = Settings(data_dir=Path("/nowhere"), poll_deadline_seconds=own)
    async with make_client(SHOP, Shop(), settings) as client:
        with pytest.raises(FetchError) as caught:
            await client.get("https://shop.example/")
    assert caught.value.retry_after_s == asked
    assert route.call_count == 1


def test_the_shape_of_a_cached_answer_costs_no_import_of_httpx() -> None:
    code = (
        "import sys; from tracker.http import CachedResponse;"
        "print({'httpx', 'asyncio', 'pydantic'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_unknown_name_of_the_package() -> None:
    import tracker.http as package

    assert package.Client is Client
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018
