"""What must hold of every provider: its fixtures, its facts, and that bad input cannot hurt."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.fixtures import Case, cases
from tests.support.providers import OURS
from tracker import registry
from tracker.collect import Digest, digest
from tracker.domain.normalize import FxRate
from tracker.domain.quality import Known, Rules
from tracker.provider import ParseError, Payload, Provider

PROVIDERS = [registry.load(name) for name in OURS]
CASES = list(cases())
FOREIGN = [
    b"",
    b"<html><body>maintenance</body></html>",
    b"[]",
    b"{}",
    b"null",
    b"error code: 1010",
    b"\xff\xfe\x00",
    b'"text"',
]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
# Round ones, so that the prices of a fixture can be reckoned by hand.
RATES = {
    currency: FxRate(Decimal(usd), NOW.date())
    for currency, usd in {"EUR": "1.10", "INR": "0.012", "CNY": "0.14"}.items()
}


def _digest(provider: Provider[Any], payloads: list[Payload]) -> Digest:
    return digest(provider, payloads, catalogue(), fx=RATES, known=Known(), rules=Rules())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fixture_gives_the_offers_worked_out_by_hand(case: Case) -> None:
    expected = case.expected()
    provider = registry.load(case.provider)
    if "parse_error" in expected:
        with pytest.raises(ParseError, match=expected["parse_error"]):
            _digest(provider, case.payloads())
        return
    result = _digest(provider, case.payloads())
    offers = [*result.accepted, *(h.offer for h in result.held)]
    fields = expected["offers"][0].keys() if expected["offers"] else []
    assert sorted((_row(o, fields) for o in offers), key=json.dumps) == sorted(
        ({k: _number(v) for k, v in row.items()} for row in expected["offers"]), key=json.dumps
    )
    assert Counter(r.reason for r in result.parsed.rejected) == Counter(expected["rejected"])
    assert result.parsed.complete == expected["complete"]
    if not result.parsed.complete:
        assert expected["incomplete_reason"] in (result.parsed.incomplete_reason or "")


def _row(offer: Any, fields: Any) -> dict[str, Any]:
    """The offer's fields by the names that expected.json uses."""
    flat: dict[str, Any] = {
        "gpu": offer.gpu.key,
        "provider": offer.provider,
        "price_usd_per_machine_hour": round(offer.price.usd, 6),
        "flags": list(offer.flags),
    }
    for part in (offer.listed, offer.listed.terms, offer.listed.extras):
        flat |= {
            f.name: getattr(part, f.name)
            for f in dataclasses.fields(part)
            if f.name not in {"price", "terms", "extras"} | flat.keys()
        }
    return {name: _number(flat[name]) for name in fields}


def _number(value: Any) -> Any:
    if isinstance(value, Decimal | int | float) and not isinstance(value, bool):
        return format(round(Decimal(str(value)), 6).normalize(), "f")
    if isinstance(value, str):
        try:
            return format(round(Decimal(value), 6).normalize(), "f")
        except ArithmeticError:
            return str(value)
    return value if value is None or isinstance(value, bool | list) else str(value)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
def test_every_provider_has_a_normal_an_edge_and_a_broken_fixture(provider: Provider[Any]) -> None:
    assert len([case for case in CASES if case.provider == provider.name]) >= 3


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
def test_facts_are_complete(provider: Provider[Any]) -> None:
    facts = provider.facts
    assert facts.title
    assert facts.website.startswith("https://") or provider.name == "pricebook"
    assert set(facts.default_tiers) <= set(facts.tiers)
    assert (facts.key_variable is None) == (facts.key == "none")
    assert bool(facts.key_adds) == (facts.key == "optional"), "say what the key would add"
    assert facts.verified
    assert facts.terms
    assert provider.every >= facts.min_every
    assert asyncio.iscoroutinefunction(provider.fetch)
    assert not asyncio.iscoroutinefunction(provider.parse)
    assert inspect.getdoc(inspect.getmodule(provider.parse)), "say what the source is"


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
def test_configuration_works_without_any_setting(provider: Provider[Any]) -> None:
    # One that is off until it is enabled says why.
    assert provider.config().enabled or "enabled = true" in provider.facts.terms


def _bodies(provider: Provider[Any]) -> list[Payload]:
    return [p for case in CASES if case.provider == provider.name for p in case.payloads()]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_cut_anywhere_it_never_raises_anything_but_a_parse_error(
    provider: Provider[Any], data: st.DataObject
) -> None:
    payload = data.draw(st.sampled_from(_bodies(provider)))
    cut = data.draw(st.integers(0, len(payload.body)))
    _parse_safely(provider, dataclasses.replace(payload, body=payload.body[:cut]))


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_wrong_types_in_any_field_give_no_wrong_offer(
    provider: Provider[Any], data: st.DataObject
) -> None:
    payloads = [p for p in _bodies(provider) if p.body.lstrip()[:1] in (b"{", b"[")]
    if not payloads:
        return  # not a JSON source
    payload = data.draw(st.sampled_from(payloads))
    try:
        value = json.loads(payload.body)
    except ValueError:
        return  # a fixture of truncated JSON
    path: Any = value
    holder: tuple[Any, Any] | None = None
    for _ in range(data.draw(st.integers(1, 8))):
        if isinstance(path, dict) and path:
            key: Any = data.draw(st.sampled_from(sorted(path)))
        elif isinstance(path, list) and path:
            key = data.draw(st.integers(0, len(path) - 1))
        else:
            break
        holder = (path, key)
        path = path[key]
    if holder is None:
        return
    junk = st.sampled_from([None, "", "x", [], {}, True, -1, 0, 1e30, [[]], {"a": 1}, "NaN", "1e9"])
    holder[0][holder[1]] = data.draw(junk)
    _parse_safely(provider, dataclasses.replace(payload, body=json.dumps(value).encode()))


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
@pytest.mark.parametrize("body", FOREIGN)
def test_foreign_answers_are_refused_or_give_nothing(provider: Provider[Any], body: bytes) -> None:
    try:
        parsed = provider.parse([Payload(url="", body=body, fetched_at=NOW)])
    except ParseError as error:
        assert str(error)
        assert "\n" not in str(error)
    else:
        assert not parsed.offers


def _parse_safely(provider: Provider[Any], payload: Payload) -> None:
    try:
        result = _digest(provider, [payload])
    except ParseError as error:
        assert "\n" not in str(error)
        return
    for offer in result.accepted:
        assert offer.price.usd > 0
        band = catalogue().band(offer.gpu.family, offer.listed.market)
        assert offer.gpu.is_slice or band is None or offer.price_per_gpu.usd <= band[1]
