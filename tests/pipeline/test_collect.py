"""The collector: whatever a provider's module does, the others and the history stay whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.support.clouds import case, query
from tests.support.lab import Lab, at
from tracker import registry
from tracker.collect import collector as collect
from tracker.collect import exchange
from tracker.domain.normalize import FxRate
from tracker.provider import (
    FetchError,
    HttpClient,
    ListedOffer,
    Market,
    NativePrice,
    Parsed,
    ParseError,
    Payload,
    PriceUnit,
    Provider,
    ProviderConfig,
)
from tracker.store.errors import StoreError

Fetch = Callable[[HttpClient, ProviderConfig], Awaitable[Sequence[Payload]]]


def listed(name: str, amount: str, currency: str = "USD") -> ListedOffer:
    return ListedOffer(
        source_id=name,
        gpu_name="H100 SXM",
        gpu_count=Decimal(1),
        price=NativePrice(Decimal(amount), currency, PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        vram_gb=Decimal(80),
    )


def module(
    lab: Lab, parsed: Any = None, *, fetch: Fetch | None = None,
    parse: Callable[..., Any] | None = None,
) -> Provider[ProviderConfig]:  # fmt: skip
    """A third party's provider that makes no request."""

    async def no_request(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
        return [Payload("https://acme.test/prices", b"{}", lab.clock.now())]

    def given(payloads: Sequence[Payload]) -> Any:
        return parsed

    return Provider(
        name="acme", every=timedelta(minutes=10), config=ProviderConfig,
        facts=replace(registry.load("runpod").facts, key="none", key_variable=None),
        fetch=fetch or no_request, parse=parse or given, poll_deadline=timedelta(seconds=0.2),
    )  # fmt: skip


def two(*offers: ListedOffer) -> Parsed:
    return Parsed(offers or (listed("a", "2.5"), listed("b", "3")))


async def _crash(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
    raise KeyError("gpus")


async def _unreachable(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
    raise FetchError("acme.test: too many requests", status=429, retry_after_s=30)


async def _hang(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
    await asyncio.sleep(60)
    return []


def _wrong_key(payloads: Sequence[Payload]) -> Parsed:
    raise ParseError("data.gpus[].price", "missing in all 12 rows")


def _bug(payloads: Sequence[Payload]) -> Parsed:
    raise ZeroDivisionError("a\nlong\tstory")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"fetch": _crash}, "its fetch failed: KeyError: 'gpus'"),
        ({"fetch": _unreachable}, "acme.test: too many requests"),
        ({"fetch": _hang}, "no complete answer within 0 s"),
        ({"parse": _wrong_key}, "data.gpus[].price: missing in all 12 rows"),
        ({"parse": _bug}, "parse: failed with ZeroDivisionError: a long story"),
        ({"parse": lambda payloads: None}, "parse: gave NoneType, not Parsed"),
    ],
    ids=["fetch", "refused", "hangs", "field", "parse", "nothing"],
)
def test_a_module_may_do_what_it_wants(
    monkeypatch: pytest.MonkeyPatch, lab: Lab, broken: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(collect, "GRACE_S", 0.0)
    lab.poll_all([module(lab, two()), "runpod"], 0)
    before = lab.prices()
    acme, runpod = lab.poll_all([module(lab, **broken), "runpod"], 5)
    assert (acme.status, runpod.status) == ("failed", "complete")
    assert reason in (acme.reason or "")
    assert "\n" not in (acme.reason or "")
    assert lab.prices() == before
    [(error, failures)] = query(
        lab.url, "SELECT last_error, consecutive_failures FROM provider WHERE slug = 'acme'"
    )
    assert (error, failures) == (acme.reason, 1)


def test_a_changed_answer_says_which_recording_to_send(lab: Lab) -> None:
    reason = lab.poll(module(lab, parse=_wrong_key), 0).reason
    assert reason is not None
    assert reason.startswith("unexpected answer: data.gpus[].price: ")
    assert "gpucost provider record acme" in reason


def test_how_long_to_wait_is_passed_on(lab: Lab) -> None:
    assert lab.poll(module(lab, fetch=_unreachable), 0).retry_after_s == 30


def test_a_database_that_fails_is_not_the_providers_fault(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    def refuse(poll: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(lab.collector.recorder, "record", refuse)
    with pytest.raises(StoreError, match="the disk is full"):
        lab.poll_all(["runpod", "azure"], 0)


def test_answers_that_come_late_change_nothing(lab: Lab) -> None:
    lab.poll(module(lab, two()), 10)
    before = lab.prices()
    other = module(lab, two(listed("a", "2.6"), listed("c", "3")))
    outcomes = [lab.poll(other, 5), lab.poll(other, 10)]
    assert [o.status for o in outcomes] == ["late", "duplicate"]
    assert all(o.ok for o in outcomes), "another process was faster: no failure of the provider"
    assert lab.prices() == before
    assert [o.seen_at for o in lab.live()] == [at(10), at(10)]


def test_prices_are_of_the_moment_the_first_answer_came(lab: Lab) -> None:
    async def slow(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
        first = Payload("https://acme.test/1", b"{}", lab.clock.now())
        lab.clock.passed += 90
        return [first, Payload("https://acme.test/2", b"{}", lab.clock.now())]

    lab.poll(module(lab, two(), fetch=slow), 0)
    assert {o.seen_at for o in lab.live()} == {at(0)}


def _rate(usd: str) -> Callable[..., Any]:
    async def rates(http: HttpClient) -> dict[str, FxRate]:
        return {"EUR": FxRate(Decimal(usd), date(2026, 3, 1))}

    return rates


async def _no_rates(http: HttpClient) -> dict[str, FxRate]:
    raise FetchError("www.ecb.europa.eu: cannot be reached")


def test_a_moving_exchange_rate_is_no_price_change(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    monkeypatch.setattr(exchange, "fetch_rates", _rate("1.10"))
    assert lab.poll(euro, 0).opened == 2
    assert lab.prices()["a", "on_demand", 1, "standard"] == 2_200_000
    monkeypatch.setattr(exchange, "fetch_rates", _rate("1.20"))
    again = lab.poll(euro, 10)
    assert (again.opened, again.changed, again.closed) == (0, 0, 0)
    assert query(lab.url, "SELECT count(*) FROM price_span") == [(0,)]


def test_without_exchange_rates_a_foreign_price_is_unknown_not_gone(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    monkeypatch.setattr(exchange, "fetch_rates", _rate("1.10"))
    lab.poll(euro, 0)
    monkeypatch.setattr(exchange, "fetch_rates", _no_rates)
    outcome = lab.poll(euro, 10)
    assert outcome.status == "partial"
    assert "exchange rates" in (outcome.reason or "")
    assert outcome.rejected == {"no exchange rate for the currency": 1}
    assert outcome.closed == 0
    assert {o.native_id: o.seen_at for o in lab.live()} == {"a": at(0), "b": at(10)}


def test_only_a_foreign_price_needs_exchange_rates(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    monkeypatch.setattr(exchange, "fetch_rates", _no_rates)
    assert lab.poll(module(lab, two()), 0).status == "complete"


def test_one_hash_stands_for_all_answers_of_a_poll(lab: Lab) -> None:
    since = "SELECT content_since FROM provider WHERE slug = 'azure'"
    lab.poll("azure", 0)
    lab.poll("azure", 60)
    assert query(lab.url, since) == [(at(0),)]
    first, *others = case("azure").payloads()
    page = json.loads(first.body)
    page["CustomerEntityType"] = "Other"  # no price, but another answer
    lab.server.replay([replace(first, body=json.dumps(page).encode()), *others])
    assert lab.poll("azure", 120).changed == 0
    assert query(lab.url, since) == [(at(120),)]
