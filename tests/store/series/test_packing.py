"""Packed months give back what went into them, and say so when they are damaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.store.series.packing import PackedSteps, pack, unpack

HUGE = 2**62
STEPS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(-5, 5),
        st.integers(1, 3),
        st.sampled_from([1, 2, 2**32 - 1, 2**32, HUGE]),
        st.sampled_from([1, 7, HUGE]),
    ),
    max_size=12,
)


def packed(rows: list[tuple[int, ...]]) -> PackedSteps:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 5).T
    key, start, length, price, offer = columns
    return PackedSteps(key, start, start + length, price, offer)


def as_rows(steps: PackedSteps) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in steps), strict=True))


@given(STEPS)
def test_what_is_packed_comes_back(rows: list[tuple[int, ...]]):
    steps = packed(rows)
    back = unpack(pack(steps))
    assert as_rows(back) == as_rows(steps)
    assert len(back) == len(steps) == len(rows)
    assert {column.dtype for column in back} == {np.dtype(np.int64)}
    order = list(zip(back.key_ids.tolist(), back.starts.tolist(), strict=True))
    assert order == sorted(order)


def test_steps_that_go_on_take_sixteen_bytes():
    count = 1000
    times = np.arange(count + 1)
    ones = np.ones(count, dtype=np.int64)
    body = pack(PackedSteps(ones, times[:-1], times[1:], ones, ones))
    assert len(body) == 16 * count + 16 + 12 + 12  # header, key and count, the last end


def test_a_damaged_pack_is_refused():
    body = pack(packed([(1, 0, 1, 1, 1), (1, 5, 1, 1, 1)]))
    damaged = {
        "nothing": b"",
        "cut short": body[:-1],
        "too long": body + b"\0",
        "another version": b"\x09" + body[1:],
        "prices of three bytes": body[:1] + b"\x03" + body[2:],
        "a key with more steps than there are": body[:24] + b"\x07" + body[25:],
    }
    for bytes_ in damaged.values():
        with pytest.raises(ValueError, match="pack"):
            unpack(bytes_)


def test_negative_prices_are_not_packed():
    with pytest.raises(ValueError, match="negative"):
        pack(packed([(1, 0, 1, -1, 1)]))
