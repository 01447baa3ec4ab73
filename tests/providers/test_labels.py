"""What a price is called: what spot means, whether anybody quoted it, where it can be read."""

from __future__ import annotations

from functools import cache

import pytest

from tests.providers.test_contract import CASES, _digest
from tests.providers.test_contract_answers import every_provider
from tests.support.fixtures import Case
from tracker import registry
from tracker.domain.offer import Market, Offer, PriceKind
from tracker.provider import ParseError, Provider, ProviderConfig


@cache
def _offers(case: Case) -> tuple[Offer, ...]:
    try:
        found = _digest(registry.load(case.provider), case.payloads())
    except ParseError:
        return ()
    return (*found.accepted, *(held.offer for held in found.held))


def _of(name: str) -> list[Offer]:
    return [offer for case in CASES if case.provider == name for offer in _offers(case)]


@every_provider
def test_who_sells_spot_says_what_its_price_is(provider: Provider[ProviderConfig]) -> None:
    if any(offer.listed.market is Market.SPOT for offer in _of(provider.name)):
        assert provider.facts.spot


@every_provider
def test_every_price_has_an_address_to_read_it_at(provider: Provider[ProviderConfig]) -> None:
    """For whoever thinks it wrong. What a person typed may have a source that is none."""
    for case in CASES:
        asked = case.provider == provider.name and all(p.url for p in case.payloads())
        if asked and provider.name != "pricebook":
            for offer in _offers(case):
                url = offer.listed.source_url or ""
                assert url.startswith(("https://", "http://")), (case, offer.listed.source_id)


@pytest.mark.parametrize(
    ("provider", "kind", "label"),
    [
        ("azure", PriceKind.DYNAMIC, "list price of the spot meter; the portal may show another"),
        ("vastai", PriceKind.AUCTION, "min_bid: a floor, not a quote"),
    ],
)
def test_a_spot_price_that_nobody_quoted_is_labelled(
    provider: str, kind: PriceKind, label: str
) -> None:
    spot = [offer for offer in _of(provider) if offer.listed.market is Market.SPOT]
    assert spot
    for offer in spot:
        assert label in offer.listed.notes
        assert offer.listed.price_kind is kind
    others = [offer for offer in _of(provider) if offer.listed.market is not Market.SPOT]
    assert others
    assert not any(label in offer.listed.notes for offer in others)
