"""A poll of many times the usual number of offers: what is new in it waits for the next poll."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_quality import gates, judge
from tests.support.offers import offer
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Offer
from tracker.domain.quality import Gate, Known
from tracker.domain.surge import Sizes, surge


def many(n: int, usd: str = "2.50", word: str = "m") -> list[Offer]:
    return [offer(usd, source_id=f"{word}{i}") for i in range(n)]


def known(offers: list[Offer], **sizes: int) -> Known:
    prices = {o.key: to_micro_usd(o.price.usd) for o in offers}
    return Known(prices, complete_count=len(offers), sizes=Sizes(**sizes))


@pytest.mark.parametrize(
    ("offers", "usual", "latest", "held"),
    [
        (5000, None, None, False),  # nothing is usual yet
        (601, 100, 100, True), (600, 100, 100, False),  # 500 more
        (2501, 500, 500, True), (2500, 500, 500, False),  # five times
        (601, 100, None, True),
        (3000, 100, 2400, False), (3000, 100, 2399, True),  # the poll before agrees
        (3000, 100, 90_000, False),
    ],
)  # fmt: skip
def test_how_many_are_too_many(
    offers: int, usual: int | None, latest: int | None, held: bool
) -> None:
    assert (surge(offers, Sizes(usual, latest)) is not None) is held


@given(
    offers=st.integers(0, 10**6),
    usual=st.integers(0, 10**5),
    latest=st.integers(0, 10**6) | st.none(),
)
def test_a_size_seen_twice_is_never_a_surge(offers: int, usual: int, latest: int | None) -> None:
    assert surge(offers, Sizes(usual, offers)) is None
    if surge(offers, Sizes(usual, latest)) is None:
        assert surge(max(0, offers - 1), Sizes(usual, latest)) is None


def test_what_was_known_before_is_recorded_and_what_is_new_is_held() -> None:
    before = many(100)
    moved = [replace(o, price=type(o.price)(Decimal("2.60"))) for o in before]
    found = judge(moved + many(600, "0.70", "new"), known(before, usual=100, latest=100))
    assert found.verdict is None
    assert {o.key for o in found.accepted} == {o.key for o in before}
    assert set(gates(found)) == {Gate.SURGE}
    assert len(found.held) == 600
    assert found.held[0].reason == "new in a poll of 700 offers where 100 are usual"
    again = judge(moved + many(600, "0.70", "new"), known(before, usual=100, latest=700))
    assert (len(again.accepted), again.held) == (700, ())


def test_new_offers_of_a_surge_do_not_outvote_the_known_ones() -> None:
    before = many(20)
    prices = known(before, usual=20, latest=20)
    found = judge(before + many(600, "14", "new"), prices, marketplace=True)
    assert {o.key for o in found.accepted} == {o.key for o in before}
    # Believed, they are the market, and the old ones are its outliers.
    believed = judge(before + many(600, "14", "new"), known(before, usual=20, latest=620),
                     marketplace=True)  # fmt: skip
    assert {h.offer.key for h in believed.held} == {o.key for o in before}


def test_other_gates_name_their_quarantine_first_and_typed_prices_never_surge() -> None:
    prices = known(many(10), usual=10, latest=10)
    found = judge([*many(10), *many(600, "0.01", "cheap")], prices)
    assert set(gates(found)) == {Gate.BAND}
    typed = [replace(o, source="pricebook") for o in many(700, word="typed")]
    assert judge(typed, prices).held == ()
