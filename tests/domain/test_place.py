"""Regions, and zones in them."""

from __future__ import annotations

import pytest

from tracker.domain.place import is_in, region_of


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
