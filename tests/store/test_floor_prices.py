"""Amounts as their places among all of them: in the order of numbers, however they are written."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tracker.store.floor_prices import numbered

amounts = st.decimals("0.00000001", 10**9, allow_nan=False, places=8).map(
    lambda amount: f"{amount:f}"
)
words = st.one_of(
    amounts, amounts.map(lambda word: word.rstrip("0").rstrip(".")), st.just(""),
    st.sampled_from(["9", "10", "1.5", "1.50", "100", "0.33333333333333333333333333333333333"]),
)  # fmt: skip


@given(st.lists(words, max_size=30))
def test_places_are_those_of_numbers(texts: list[str]) -> None:
    found = numbered(texts)
    told = [Decimal(text) if text else None for text in texts]
    assert [found.all[place] for place in found.places.tolist()] == told
    assert set(found.all) == set(told)
    known = [number for number in found.all if number is not None]
    assert known == sorted(set(known))
    assert None not in found.all[1:]
    assert list(map(str, found.all)) == list(map(str, numbered(texts[::-1]).all))
