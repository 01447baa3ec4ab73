"""The gates over a reseller's offers: each of the clouds it sells for has prices of its own."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tracker.domain.offer import Offer
from tracker.domain.quality import Assessment, Known, Rules, assess


def _sold(name: str, usd: str, gpus: int, upstream: str | None) -> Offer:
    return make_offer(name, usd, gpu_count=Decimal(gpus), upstream=upstream)


def _assess(*offers: Offer) -> Assessment:
    return assess(offers, Known(), catalogue(), Rules(), marketplace=False, complete=True)


@pytest.mark.parametrize(("other", "odd"), [("first", True), ("second", False)])
def test_sizes_are_compared_within_one_cloud(other: str, odd: bool) -> None:
    found = _assess(_sold("one", "3", 1, "first"), _sold("two", "3", 2, other))
    held = {item.offer.listed.source_id for item in found.held}
    assert bool(held) == odd
    assert not any(offer.flags for offer in found.accepted)


def test_a_cloud_at_half_the_price_is_no_remark_on_the_other() -> None:
    found = _assess(_sold("dear", "4", 1, "first"), _sold("cheap", "14", 8, "second"))
    assert [offer.flags for offer in found.accepted] == [(), ()]
    same = _assess(_sold("dear", "4", 1, "first"), _sold("cheap", "14", 8, "first"))
    assert any(offer.flags for offer in same.accepted)
