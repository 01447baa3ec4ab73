"""AWS: a price list that was cut at a line's end is told by where its SKUs stop."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.aws import bulk, parse, plans
from providers.aws.truncation import ENOUGH, ends_early
from tests.providers.aws_answers import bulk_csv, payload, plans_csv

# All that have been seen in SKUs.
_CHARACTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"


def skus(count: int, seed: int = 0) -> list[str]:
    dice = random.Random(seed)  # noqa: S311
    return sorted("".join(dice.choices(_CHARACTERS, k=16)) for _ in range(count))


@given(st.integers(0, 5000), st.integers(0, 10**9))
def test_a_whole_list_is_never_taken_for_a_cut_one(count: int, seed: int) -> None:
    assert not ends_early(skus(count, seed))


@given(st.integers(800, 3000), st.integers(0, 10**9), st.floats(0.1, 0.9))
def test_a_list_that_lacks_its_end_is_told(count: int, seed: int, kept: float) -> None:
    assert ends_early(skus(count, seed)[: int(count * kept)])


@given(st.integers(800, 3000), st.integers(0, 10**9), st.floats(0.1, 0.9))
def test_every_row_of_a_sku_counts_once(count: int, seed: int, kept: float) -> None:
    rows = [sku for sku in skus(count, seed) for _ in range(3)]
    assert not ends_early(rows)
    assert ends_early(rows[: int(len(rows) * kept)])


def test_without_order_or_with_few_rows_nothing_is_said() -> None:
    half = skus(1000)[:500]
    assert ends_early(half)
    assert not ends_early([*half[1:], half[0]])
    assert not ends_early(half[: ENOUGH - 1])
    assert not ends_early([])


def _bulk_file(rows: list[str]) -> bytes:
    plain = [{"SKU": sku, "Instance Type": "m7i.large"} for sku in rows]
    plain[len(rows) // 5] |= {"Instance Type": "p5.48xlarge"}
    plain[-1] |= {"Instance Type": "g6.xlarge", "PricePerUnit": "0.8"}
    return bulk_csv(*plain)


def test_a_bulk_list_cut_at_a_line_closes_no_offer() -> None:
    whole = _bulk_file(skus(1000))
    lines = whole.splitlines(keepends=True)
    assert parse([payload(whole)]).complete
    cut = parse([payload(b"".join(lines[:700]))])
    assert [o.source_id for o in cut.offers] == ["p5.48xlarge"]
    assert not cut.complete
    assert "bulk list is cut off (its SKUs end at" in str(cut.incomplete_reason)


def test_of_a_bulk_list_enough_lines_are_kept_to_tell() -> None:
    lines = _bulk_file(skus(20_000)).splitlines(keepends=True)
    kept = [line for line in lines if bulk.keep_line(line)]
    assert len(kept) < len(lines) / 80
    assert parse([payload(b"".join(kept))]).complete
    fewer = [line for line in lines[:16_000] if bulk.keep_line(line)]
    assert "cut off" in str(parse([payload(b"".join(fewer))]).incomplete_reason)


def test_a_savings_plan_list_cut_at_a_line_closes_no_offer() -> None:
    # Of each plan some discounted things, one of them of the kind that is kept as a sample.
    things = [*skus(9), "ZZ" * 8]
    rows = [
        {"SKU": plan, "RateCode": f"{plan}.{thing}", "DiscountedInstanceType": "m7i.large"}
        for plan in skus(300) for thing in things
    ]  # fmt: skip
    rows[5] |= {"DiscountedInstanceType": "p5.48xlarge"}
    lines = plans_csv(*rows).splitlines(keepends=True)
    for part, complete in ((lines, True), (lines[: len(lines) * 2 // 3], False)):
        kept = [line for line in part if plans.keep_line(line)]
        assert len(kept) < len(part) / 9, "one of ten, and the header"
        for text in (part, kept):
            parsed = parse([payload(b"".join(text))])
            assert len(parsed.offers) == 1
            assert parsed.complete is complete, parsed.incomplete_reason


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_savings_plan_list_cut_inside_a_row_is_incomplete(cut: int) -> None:
    body = plans_csv({}, {"DiscountedInstanceType": "g6.48xlarge"}).rstrip()
    parsed = parse([payload(body[: -cut * 13])])
    assert not parsed.complete or len(parsed.rejected) == 1
    assert {o.source_id.partition("/")[0] for o in parsed.offers} == {"p5.48xlarge"}
