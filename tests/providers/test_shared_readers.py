"""What provider modules share: countries, upstream names, and data in Next.js pages."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers._countries import country_of
from providers._flight import objects, unescaped
from providers._rows import in_stock
from providers._upstreams import _SAME, upstream_of
from tests.support.providers import OURS
from tracker.provider import Availability


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("United States", "US"), ("united_states", "US"), ("UNITED-KINGDOM", "GB"), ("UK", "GB"),
        ("NO", "NO"), (" Norway ", "NO"), ("no", None), ("Narnia", None), ("", None), (None, None),
        (47, None),
    ],
)  # fmt: skip
def test_a_country_by_its_name_or_code(text: Any, code: str | None) -> None:
    assert country_of(text) == code


@given(st.text(max_size=30))
def test_whatever_a_country_is_called_its_code_is_two_letters(text: str) -> None:
    code = country_of(text)
    assert code is None or (len(code) == 2 and code.isascii() and code.isupper())


@pytest.mark.parametrize(
    ("name", "cloud"),
    [
        ("LambdaLabs", "lambda"), ("datacrunch", "verda"), ("crusoecloud", "crusoe"),
        ("runpod", "runpod"), ("Massed Compute", "massed_compute"), ("dc_roan", "dc_roan"),
        ("", None), (None, None), (3, None),
    ],
)  # fmt: skip
def test_an_upstream_has_the_name_under_which_it_is_polled(name: Any, cloud: str | None) -> None:
    assert upstream_of(name) == cloud


def test_other_names_are_those_of_providers_that_are_there() -> None:
    nobody_polls = {"latitude.sh", "voltagepark"}
    assert set(_SAME.values()) - set(OURS) <= nobody_polls
    assert not _SAME.keys() & set(OURS)


TREES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=6), st.one_of(st.text(max_size=12), st.integers(), st.booleans()), max_size=4
)


@given(rows=st.lists(TREES, max_size=4), cuts=st.lists(st.integers(0, 400), max_size=3))
def test_objects_are_found_wherever_a_page_cuts_its_text(
    rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    rows = [{"kind": "row"} | {f"x{name}": value for name, value in row.items()} for row in rows]
    text = f"7:{json.dumps(rows, separators=(',', ':'))}"
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(ends)]
    page = "".join(f"<script>self.__next_f.push([1,{json.dumps(p)}])</script>" for p in pieces)
    assert unescaped(page) == text
    assert list(objects(unescaped(page), '{"kind":"row"')) == rows
    escaped = json.dumps(text)[1:-1]
    if "\\u" not in escaped and "\\n" not in escaped:
        assert list(objects(unescaped(escaped), '{"kind":"row"')) == rows


def test_an_object_that_is_cut_off_is_passed_over() -> None:
    assert list(objects('{"a":1 {"a":2}', '{"a"')) == [{"a": 2}]
    assert list(objects("", '{"a"')) == []


def test_stock_that_is_neither_true_nor_false_is_unknown() -> None:
    assert in_stock(True) is Availability.YES
    assert in_stock(False) is Availability.NO
    assert {in_stock(flag) for flag in (None, 1, 0, "yes", [])} == {Availability.UNKNOWN}
