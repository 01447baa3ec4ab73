"""One thing twice in an answer: at one price it is one thing, at two nobody knows which holds."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pytest

from providers._lists import unique
from providers._rows import told_once
from tests.support.catalogue import catalogue
from tracker.domain.normalize import normalise
from tracker.domain.offer import Offer
from tracker.domain.quality import Gate, Known, Rules, assess
from tracker.provider import (
    Availability,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceUnit,
    Rejected,
)

YES, NO, UNKNOWN = Availability.YES, Availability.NO, Availability.UNKNOWN


def listed(usd: str, stock: Availability = UNKNOWN, name: str = "a") -> ListedOffer:
    return ListedOffer(
        source_id=name, gpu_name="H100 SXM5 80GB", gpu_count=Decimal(1),
        price=NativePrice(Decimal(usd), "USD", PriceUnit.MACHINE_HOUR), market=Market.ON_DEMAND,
        tier="standard", extras=Extras(availability=stock),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([("3", YES), ("3", YES)], {"3"}),
        ([("3", YES), ("3", NO)], {"3"}),
        # A price that is out of stock hides none that is to be had, whichever is the cheaper.
        ([("3", YES), ("1.5", NO)], {"3"}),
        ([("3", UNKNOWN), ("4", NO)], {"3"}),
        ([("3", YES), ("1.5", YES)], {"3", "1.5"}),
        ([("3", YES), ("1.5", UNKNOWN), ("3", YES)], {"3", "1.5"}),
        ([("3", NO), ("1.5", NO)], {"3", "1.5"}),
    ],
)
def test_what_stays_of_one_thing(rows: list[tuple[str, Availability]], kept: set[str]) -> None:
    for order in permutations(rows):
        offers, rejected = unique(listed(usd, stock) for usd, stock in order)
        assert {str(o.price.amount) for o in offers} == kept
        assert len(offers) == len(kept)
        assert [r.reason for r in rejected] == ["listed twice"] * (len(rows) - len(kept))
        refused: list[Rejected] = []
        assert told_once([[listed(*row) for row in order]], "listed twice", refused) == offers


def test_of_two_prices_neither_is_ranked() -> None:
    """The cheaper one was taken: half a price from a broken row would have won."""
    offers, _ = unique([listed("3", YES), listed("1.5", YES), listed("2.9", YES, "b")])
    found = [normalise("acme", offer, catalogue(), {}) for offer in offers]
    judged = assess(
        [offer for offer in found if isinstance(offer, Offer)], Known(), catalogue(), Rules(),
        marketplace=False, complete=True,
    )  # fmt: skip
    assert [str(o.price.usd) for o in judged.accepted] == ["2.9"]
    assert {h.gate for h in judged.held} == {Gate.DUPLICATE}
    assert {str(h.offer.price.usd) for h in judged.held} == {"3", "1.5"}


def test_alternatives_without_an_id_may_have_prices_of_their_own() -> None:
    rows = [listed("3", YES), listed("1.5", NO), listed("2.5", YES)]
    for order in permutations(rows):
        offers, rejected = unique(order, alternatives=True)
        assert [str(o.price.amount) for o in offers] == ["2.5"]
        assert len(rejected) == 2
