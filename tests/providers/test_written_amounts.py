"""Prices on pages for people are read as written in the US, and refused in any other writing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers._rows import BadRow, us_number
from tests.providers.test_contract import CASES, _digest
from tests.support.fixtures import Case
from tracker import registry
from tracker.provider import ParseError, Payload

_DOLLARS = re.compile(r"(\$\s*)(\d+)\.(\d+)")
# What another locale, or a careless edit, makes of $3.20.
WRITINGS: dict[str, Callable[[re.Match[str]], str]] = {
    "3,20": lambda m: f"{m[1]}{m[2]},{m[3]}",
    "3.000,20": lambda m: f"{m[1]}{m[2]}.000,{m[3]}",
    "3'000.20": lambda m: f"{m[1]}{m[2]}'000.{m[3]}",
    "3 000.20": lambda m: f"{m[1]}{m[2]} 000.{m[3]}",
    "3.20.0": lambda m: f"{m[1]}{m[2]}.{m[3]}.0",
}


def _prices(case: Case, payload: Payload) -> dict[tuple[str, str], Decimal]:
    try:
        found = _digest(registry.load(case.provider), [payload])
    except ParseError:
        return {}
    offers = (*found.accepted, *(held.offer for held in found.held))
    return {(o.listed.source_id, str(o.listed.market)): o.price.usd for o in offers}


PAGES = [
    (case, at)
    for case in CASES
    for at, payload in enumerate(case.payloads())
    if payload.body.lstrip()[:1] == b"<" and _DOLLARS.search(payload.text())
]


def test_every_page_with_prices_is_among_them() -> None:
    assert {case.provider for case, _ in PAGES} >= {
        "crusoe", "databasemart", "digitalocean", "hyperstack", "lambda", "nebius",
    }  # fmt: skip


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize(("case", "at"), PAGES, ids=lambda x: str(x))
def test_another_writing_is_no_other_price(case: Case, at: int, writing: str) -> None:
    payload = case.payloads()[at]
    before = _prices(case, payload)
    other = _DOLLARS.sub(WRITINGS[writing], payload.text())
    after = _prices(case, replace(payload, body=other.encode()))
    assert {sold: usd for sold, usd in after.items() if before.get(sold, usd) != usd} == {}


@given(st.decimals(0, 10**9, places=3))
def test_an_amount_as_written_in_the_us_is_exact(amount: Decimal) -> None:
    assert us_number(f"{amount:,f}") == us_number(f"{amount:f}") == amount


@pytest.mark.parametrize(
    "text",
    ["3,20", "1,6", "1.600,50", "1.600.000", "1,60,000", "1'600", "1 600", "3.20.0", "3.", ".5",
     "1,600,", "", "3e2", "-3", "\u0663"],
)  # fmt: skip
def test_any_other_writing_is_refused(text: str) -> None:
    with pytest.raises(BadRow, match="price cannot be read"):
        us_number(text)
