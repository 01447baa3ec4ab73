"""A row that cannot be read costs itself alone, and rows may come in any order: every provider.

Checked on the outermost lists of every recorded JSON answer, as those hold the rows that are sold.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from tests.providers.test_contract import CASES, PROVIDERS, _digest
from tests.support.fixtures import Case
from tracker import registry
from tracker.provider import ParseError, Payload, Provider

JUNK: tuple[Any, ...] = (None, 7, "sold out", [], {})
Offers = frozenset[tuple[Any, ...]]


def _offers(case: Case, payloads: list[Payload]) -> Offers:
    found = _digest(registry.load(case.provider), payloads)
    return frozenset(
        (o.listed.source_id, o.gpu.key, o.listed.gpu_count, o.listed.market, o.listed.tier,
         o.listed.region, o.price.usd)
        for o in (*found.accepted, *(held.offer for held in found.held))
    )  # fmt: skip


@cache
def _worlds(name: str) -> tuple[tuple[Case, Offers], ...]:
    """The provider's fixtures that give offers, with what they give."""
    found = []
    for case in CASES:
        if case.provider == name and "parse_error" not in case.expected():
            found.append((case, _offers(case, case.payloads())))
    return tuple((case, offers) for case, offers in found if offers)


def _outermost(value: Any) -> Iterator[list[Any]]:
    """The lists of objects in an answer that are in no other row."""
    if isinstance(value, list) and any(isinstance(row, dict) for row in value):
        yield value
    elif isinstance(value, dict):
        below = list(value.values())
        if len(below) > 1 and all(isinstance(one, dict) for one in below):
            return  # rows by their names
        for one in below:
            yield from _outermost(one)


def _answers(case: Case) -> Iterator[tuple[int, Any]]:
    """The case's answers in JSON, with their place among all of them."""
    for at, payload in enumerate(case.payloads()):
        try:
            yield at, json.loads(payload.body)
        except ValueError:
            continue


def _with(case: Case, at: int, value: Any) -> list[Payload]:
    payloads = case.payloads()
    payloads[at] = replace(payloads[at], body=json.dumps(value).encode())
    return payloads


every_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)


@every_provider
def test_rows_of_junk_cost_no_other_row(provider: Provider[Any]) -> None:
    for case, whole in _worlds(provider.name):
        for at, value in _answers(case):
            for rows in _outermost(value):
                rows[1:1] = JUNK
            try:
                found = _offers(case, _with(case, at, value))
            except ParseError as error:
                pytest.fail(f"{case}, answer {at}: {error}")
            assert found == whole, (case, at)


@every_provider
def test_rows_may_come_in_any_order(provider: Provider[Any]) -> None:
    for case, whole in _worlds(provider.name):
        for at, value in _answers(case):
            for rows in _outermost(value):
                random.Random(7).shuffle(rows)  # noqa: S311
            assert _offers(case, _with(case, at, value)) == whole, (case, at)


def _answer(value: Any, url: str = "https://example.org/") -> Payload:
    return Payload(url, json.dumps(value).encode(), datetime(2026, 11, 30, tzinfo=UTC))


def test_a_group_of_machines_that_cannot_be_read_closes_no_offer() -> None:
    """The others are read, and the poll is partial: what the group holds is not known."""
    flavor = {"name": "n3-H100x1", "gpu": "H100-80G-PCIe", "gpu_count": 1}
    groups = [{"gpu": "L40", "flavors": "none"}, {"gpu": flavor["gpu"], "flavors": [flavor]}]
    parsed = registry.load("hyperstack").parse(
        [_answer([{"name": flavor["gpu"], "value": "2"}]), _answer({"data": groups})]
    )
    assert [offer.source_id for offer in parsed.offers] == ["n3-H100x1"]
    assert (parsed.complete, parsed.incomplete_reason) == (
        False, "a group of machines that cannot be read",
    )  # fmt: skip
    assert [r.reason for r in parsed.rejected] == ["a group of machines that cannot be read"]


def test_a_place_that_cannot_be_read_closes_no_offer() -> None:
    [case] = [c for c in CASES if str(c) == "verda-with_availability"]
    payloads = case.payloads()
    whole = registry.load("verda").parse(payloads)
    places = json.loads(payloads[1].body)
    spoilt = [{**places[0], "availabilities": None}, *places[1:]]
    found = registry.load("verda").parse(_with(case, 1, spoilt))
    assert whole.complete
    assert not found.complete
    assert {r.reason for r in found.rejected} - {r.reason for r in whole.rejected} == {
        "a place whose machines cannot be read"
    }
    assert {o.price for o in found.offers} == {o.price for o in whole.offers}
