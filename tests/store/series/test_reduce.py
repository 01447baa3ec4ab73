"""The reducers of NumPy against looking at every interval at every moment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.store.series.reduce import bucket_minima, lowest_steps

ROWS = st.lists(
    st.tuples(
        st.integers(0, 40),  # start
        st.integers(0, 40),  # length: none at all, too
        st.integers(1, 5),
        st.integers(0, 2),  # group
    ),
    max_size=14,
)
EDGES = st.sets(st.integers(-3, 60), min_size=2, max_size=12).map(sorted) | st.builds(
    lambda start, step, count: [start + step * i for i in range(count)],
    st.integers(-5, 20), st.integers(1, 7), st.integers(2, 40),
)  # fmt: skip

Row = tuple[int, int, int, int]


def columns(rows: list[Row]) -> list[np.ndarray]:
    """Starts, ends, values and groups."""
    start, length, value, group = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
    return [start, start + length, value, group]


@given(ROWS, EDGES)
def test_a_bucket_has_the_lowest_of_all_that_overlap_it(rows: list[Row], edges: list[int]):
    starts, ends, values, _ = columns(rows)
    lowest, known = bucket_minima(starts, ends, values, np.array(edges))
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = [v for s, n, v, _ in rows if max(s, low) < min(s + n, high)]
        assert known[i] == bool(inside)
        assert not inside or lowest[i] == min(inside)


@given(ROWS)
def test_steps_are_the_minimum_of_each_group_at_every_moment(rows: list[Row]):
    found = lowest_steps(*columns(rows))
    steps = list(zip(*(column.tolist() for column in found), strict=True))
    assert [(group, start) for start, _, _, _, group in steps] == sorted(
        (group, start) for start, _, _, _, group in steps
    )
    for group in range(3):
        for at in range(85):
            inside = [
                (v, i) for i, (s, n, v, g) in enumerate(rows) if g == group and s <= at < s + n
            ]
            here = [step for step in steps if step[4] == group and step[0] <= at < step[1]]
            assert len(here) == bool(inside)
            if inside:
                start, _, value, chosen, _ = here[0]
                assert value == min(inside)[0]
                s, n, v, g = rows[chosen]  # had the value when the step began
                assert (v, g) == (value, group)
                assert s <= start < s + n
    for before, after in itertools.pairwise(steps):
        assert before[4] != after[4] or before[1] < after[0] or before[2] != after[2]


@given(ROWS, st.sampled_from([1, 2**50]), st.sampled_from([1, 2**50]), st.sampled_from([0, 7]))
def test_steps_of_numbers_too_large_for_one_are_the_same(
    rows: list[Row], longer: int, dearer: int, later: int
):
    starts, ends, values, groups = columns(rows)
    found = lowest_steps(starts, ends, values, groups)
    large = lowest_steps(
        (starts - later) * longer, (ends - later) * longer, (values - 2) * dearer,
        (groups - 1) * 2**40,
    )  # fmt: skip
    assert large.starts.tolist() == ((found.starts - later) * longer).tolist()
    assert large.ends.tolist() == ((found.ends - later) * longer).tolist()
    assert large.values.tolist() == ((found.values - 2) * dearer).tolist()
    assert large.groups.tolist() == ((found.groups - 1) * 2**40).tolist()
    assert large.chosen.tolist() == found.chosen.tolist()


def test_intervals_over_many_buckets_and_far_outside() -> None:
    edges = np.arange(0, 1001)
    far = np.array([-(10**15), 500]), np.array([10**15, 501]), np.array([7, 3])
    lowest, known = bucket_minima(*far, edges)
    assert known.all()
    assert lowest.tolist() == [7] * 500 + [3] + [7] * 499


@pytest.mark.parametrize("edges", [[0], [0, 0], [1, 0]])
def test_edges_that_do_not_rise_are_refused(edges: list[int]) -> None:
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(ValueError, match="must rise"):
        bucket_minima(none, none, none, np.array(edges))
