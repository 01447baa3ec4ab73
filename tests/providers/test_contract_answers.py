"""What must hold of every provider when its answers change shape: no price that was not there.

Beside test_contract.py: cut pages, fields that are gone or have another name, rows twice and ten
times over, other currencies and absurd amounts. What may change is which offers there are, never
what one of them costs, unless its own words have changed.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from tests.providers.test_contract import CASES, PROVIDERS, _digest
from tracker import registry
from tracker.provider import ParseError, Payload, Provider

CUTS = 60  # per fixture
_FRACTION = re.compile(rb"\d+\.\d+")
Price = tuple[str, str, Decimal, str, str]

# Fields without which a documented rule gives another machine, or another price, and says so.
SILENT: dict[str, set[str]] = {
    "cudo": {"minVcpuPerMemoryGib", "maxVcpuPerMemoryGib", "minVcpuPerGpu", "maxVcpuPerGpu"},
    "gcp": {"units"},  # may be missing: then it is 0, and the price stands in nanos
    "jarvislabs": {"region"},  # of one place twice what is in stock is taken
    # The price on demand holds, which is dearer; a disk that is not told of is not in the sum.
    "primeintellect": {"communityPrice", "defaultCount", "defaultIncludedInPrice", "disk"},
    "tensordock": {"resources", "max_vcpus", "max_ram_gb", "max_storage_gb"},  # a larger machine
    "runpod": {"maxGpuCountCommunityCloud"},
}


def _prices(provider: Provider[Any], payload: Payload) -> dict[Price, set[Decimal]]:
    """USD per machine-hour by what is sold; nothing for an answer that is refused."""
    found: dict[Price, set[Decimal]] = defaultdict(set)
    try:
        accepted = _digest(provider, [payload]).accepted
    except ParseError as error:
        assert "\n" not in str(error)
        return found
    for o in accepted:
        sold = o.listed.source_id, o.gpu.family, o.listed.gpu_count, str(o.listed.market)
        found[*sold, o.listed.tier].add(round(o.price.usd, 6))
    return found


@cache
def _answers(name: str) -> tuple[tuple[Payload, dict[Price, set[Decimal]]], ...]:
    """The recorded answers that give offers by themselves, and the prices in each."""
    provider = registry.load(name)
    payloads = [p for case in CASES if case.provider == name for p in case.payloads()]
    told = [(payload, _prices(provider, payload)) for payload in payloads]
    return tuple((payload, prices) for payload, prices in told if prices)


def _in_json(name: str) -> Iterator[tuple[Payload, Any, dict[Price, set[Decimal]]]]:
    for payload, prices in _answers(name):
        try:
            yield payload, json.loads(payload.body, parse_float=Decimal), prices
        except ValueError:
            continue  # a page, or a price book


def _as_json(payload: Payload, value: Any) -> Payload:
    return dataclasses.replace(payload, body=json.dumps(value, default=float).encode())


def _wrong(
    before: dict[Price, set[Decimal]], after: dict[Price, set[Decimal]]
) -> dict[Price, set[Decimal]]:
    """What is sold in both at a price that only the later one has."""
    return {sold: usd for sold, usd in after.items() if sold in before and not usd <= before[sold]}


def _changed(value: Any, change: Callable[[str, Any], dict[str, Any]]) -> Any:
    """*value* with every key and its value replaced by what *change* gives, all the way down."""
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for key, below in value.items():
            out |= change(key, _changed(below, change))
        return out
    return [_changed(one, change) for one in value] if isinstance(value, list) else value


def _keys(value: Any) -> set[str]:
    found: set[str] = set()
    _changed(value, lambda key, below: found.add(key) or {key: below})  # type: ignore[func-returns-value]
    return found


every_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)


@every_provider
def test_some_recorded_answer_gives_offers_by_itself(provider: Provider[Any]) -> None:
    assert _answers(provider.name), "then the tests below say nothing of it"


@every_provider
def test_its_fixtures_show_what_is_read_what_is_refused_and_what_is_broken(
    provider: Provider[Any],
) -> None:
    expected = [case.expected() for case in CASES if case.provider == provider.name]
    assert any(one.get("offers") for one in expected)
    assert any(one.get("rejected") for one in expected)
    assert any("parse_error" in one for one in expected)


def _cuts(body: bytes) -> list[int]:
    """Places all over an answer, and places within its decimal fractions, where it hurts most."""
    within = [at for found in _FRACTION.finditer(body) for at in range(*found.span())]
    return sorted({*within[:: len(within) // CUTS + 1], *range(0, len(body), len(body) // 20 + 1)})


@every_provider
def test_a_cut_answer_has_no_price_that_the_whole_one_has_not(provider: Provider[Any]) -> None:
    for payload, before in _answers(provider.name):
        for cut in _cuts(payload.body):
            after = _prices(provider, dataclasses.replace(payload, body=payload.body[:cut]))
            assert _wrong(before, after) == {}, payload.body[max(0, cut - 60) : cut]


@every_provider
@pytest.mark.parametrize("renamed", [False, True])
def test_a_field_that_is_gone_or_renamed_changes_no_price(
    provider: Provider[Any], renamed: bool
) -> None:
    for payload, value, before in _in_json(provider.name):
        for gone in sorted(_keys(value) - SILENT.get(provider.name, set())):
            other = _changed(
                value,
                lambda key, below, gone=gone: {  # type: ignore[misc]
                    f"{key}V2" if key == gone else key: below
                } if renamed or key != gone else {},
            )  # fmt: skip
            after = _prices(provider, _as_json(payload, other))
            assert _wrong(before, after) == {}, gone


def _ten_times(value: Any) -> Any:
    """*value* with its outermost lists of objects ten times over."""
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return value * 10
    if isinstance(value, dict):
        return {key: _ten_times(below) for key, below in value.items()}
    return value


@every_provider
def test_rows_that_come_ten_times_change_no_price(provider: Provider[Any]) -> None:
    for payload, value, before in _in_json(provider.name):
        after = _prices(provider, _as_json(payload, _ten_times(value)))
        assert _wrong(before, after) == {}
        assert after.keys() <= before.keys()


@every_provider
def test_another_currency_is_never_taken_for_the_one_before(provider: Provider[Any]) -> None:
    if provider.name == "databasemart":
        return  # the structured data may be left out of a page: its lines say "$" themselves
    for payload, before in _answers(provider.name):
        text = payload.text()
        for old in ("USD", "EUR", "INR"):
            changed = text.replace(f'"{old}"', '"XYZ"').replace(f'"{old.lower()}"', '"xyz"')
            if changed == text:
                continue
            body = changed.encode()
            after = _prices(provider, dataclasses.replace(payload, body=body))
            assert _wrong(before, after) == {}


@every_provider
def test_absurd_prices_are_held_back_or_refused(provider: Provider[Any]) -> None:
    for payload, value, _ in _in_json(provider.name):
        other = _changed(
            value,
            lambda key, below: {
                key: below * 10**7
                if isinstance(below, int | Decimal) and not isinstance(below, bool)
                and any(word in key.lower() for word in ("price", "cost", "hour", "amount"))
                else below
            },
        )  # fmt: skip
        if other == value:
            continue
        try:
            result = _digest(provider, [_as_json(payload, other)])
        except ParseError:
            continue
        for offer in result.accepted:
            # Slices have no band, and are ranked only where they are asked for.
            assert offer.gpu.is_slice or offer.price_per_gpu.usd < 100
