"""What stands for texts and offers within one import: the same for the same ones, and no others."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracker.store.bulk import NotByColumns, cells, marks, offers
from tracker.store.bulk.cells import Column, Entry, Names, Packed

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=40)
SHORT = st.sampled_from(["", "a", "b", "a\x1f", "\x1f", "a\x1fb", "ab", "1.5"])


@given(TEXTS)
@example([])
@example(["", "a", "a\0", "\0", "a" * 8, "a" * 9, "a" * 8 + "\0"])
def test_texts_have_the_same_marks_where_they_are_the_same(texts: list[str]) -> None:
    packed = Packed.of(texts)
    assert list(packed) == texts
    assert packed[1:3] == texts[1:3]
    found = marks.of_texts(packed.data, packed.bounds)
    with mock.patch.object(marks, "_AT_ONCE", 16):
        assert (marks.of_texts(packed.data, packed.bounds) == found).all()
    for lane in found.T:
        assert len(set(lane.tolist())) == len(set(texts))
    assert [text for n, text in enumerate(texts) if n in set(packed.with_byte(97))] == [
        text for text in texts if "a" in text
    ]


def test_a_text_without_utf_8_is_left_to_the_way_row_by_row() -> None:
    with pytest.raises(NotByColumns):
        Packed.of(["\ud800"])


def columns_of(rows: list[tuple[str, ...]]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for name, told in zip(offers.IDENTITY, zip(*rows, strict=True), strict=True):
        of = cells.coded(told)
        if name == "native_id":
            found[name] = Names(Packed.of(of.texts), of.codes)  # type: ignore[arg-type]
        else:
            entries = [Entry(text, text, b"", cells._mark(text)) for text in of.texts]
            found[name] = Column(entries, of.codes)
    return found


@given(st.lists(st.lists(SHORT, min_size=25, max_size=25).map(tuple), min_size=1, max_size=12))
@example([("a",) * 25, ("a",) * 24 + ("b",), ("b",) + ("a",) * 24])
@example([("a\x1fb", "a") + ("",) * 23, ("a", "b\x1fa") + ("",) * 23])
def test_marks_of_offers_are_the_same_where_their_keys_are(rows: list[tuple[str, ...]]) -> None:
    """Also where two identities are one text, as the character between its parts is in them."""
    columns, every = columns_of(rows), np.arange(len(rows))
    keys = [tuple(key) for key in offers.keys_of(columns, every).tolist()]
    found = [tuple(mark) for mark in offers.marks_of(columns, every).tolist()]
    for one, other in itertools.combinations(range(len(rows)), 2):
        assert (keys[one] == keys[other]) == (found[one] == found[other])
    alone = [offers.marks_of(columns_of([row]), np.arange(1))[0] for row in rows]
    assert found == [tuple(mark.tolist()) for mark in alone]  # whatever else is in the columns


@given(
    st.lists(st.lists(SHORT, min_size=3, max_size=3).map(tuple), min_size=1, max_size=30),
    st.sampled_from([8, 0]),
)
def test_rows_alike_are_grouped_by_their_first(rows: list[tuple[str, ...]], sparse: int) -> None:
    columns = []
    for column in zip(*rows, strict=True):
        of = cells.coded(column)
        columns.append(Column([Entry(text, text, b"") for text in of.texts], of.codes))
    some = np.arange(len(rows))[::2]
    with mock.patch.object(cells, "_SPARSE", sparse):
        first, group = cells.alike(columns, some)
    assert len(set(first.tolist())) == len(first) == len({rows[n] for n in some})
    for n, of_row in zip(some.tolist(), first[group].tolist(), strict=True):
        assert of_row == min(m for m in some.tolist() if rows[m] == rows[n])


@given(st.lists(st.integers(0, 9)))
def test_in_order_is_stable(numbers: list[int]) -> None:
    found = cells.in_order(np.array(numbers, dtype=np.int64))
    assert found.tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)
