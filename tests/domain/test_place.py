"""Regions, and zones in them."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.place import is_in, region_of, within


@pytest.mark.parametrize(
    ("place", "region"),
    [("us-east-1", "us-east-1"), ("us-east-1/use1-az4", "us-east-1"), (None, None), ("", "")],
)
def test_the_region_of_a_zone(place: str | None, region: str | None) -> None:
    assert region_of(place) == region


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("us-east-1", True), ("US-East-1", True), ("us-*", True), ("us-east-1/use1-az4", True),
     ("us-east-1/*", True), ("*az4", True), ("us-east-?", True), ("us-east", False),
     ("use1-az4", False), ("us-east-1/use1-az1", False), ("", False)],
)  # fmt: skip
def test_a_zone_is_in_its_region(pattern: str, found: bool) -> None:
    assert is_in("us-east-1/use1-az4", [pattern]) is found
    assert is_in("us-east-1/use1-az4", ["eu-*", pattern]) is found


def test_a_region_is_not_in_its_zone() -> None:
    assert is_in("us-east-1", ["us-east-1"])
    assert not is_in("us-east-1", ["us-east-1/use1-az4", "us-east-1/*"])
    assert not is_in("us-east-1", [])


_NAMES = st.text("ab-/*?[]!Ü", max_size=6)


@given(_NAMES, st.lists(_NAMES, max_size=3))
def test_patterns_are_those_of_fnmatch(place: str, patterns: list[str]) -> None:
    names = {name.lower() for name in (place, region_of(place)) if name}
    found = any(fnmatch.fnmatchcase(name, p.lower()) for p in patterns for name in names)
    assert within(patterns)(place) is found
    assert is_in(place, patterns) is found


def test_patterns_are_not_kept_for_ever() -> None:
    before = fnmatch._compile_pattern.cache_info().currsize  # type: ignore[attr-defined]
    for number in range(2000):
        assert is_in(f"r{number}x", [f"r{number}*", f"{number}*", f"*{number}"])
        assert not within([f"r{number}*", f"*{number}"])("elsewhere")
    assert fnmatch._compile_pattern.cache_info().currsize == before  # type: ignore[attr-defined]
    assert len(re._cache) <= 512  # type: ignore[attr-defined]
