"""The lowest prices of many units are those of all their rows, however they were put together."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracker.store.bulk import lowest
from tracker.store.bulk.unit import Lowest

MONDAY = 4  # days since 1970
# Family, week, seller, price; the ends are the most that numbers and years can be.
rows = st.tuples(
    st.sampled_from([0, 1, 2**15 - 1]),
    st.sampled_from([-102_737, -1, 0, 1, 2_900, 419_000]),
    st.sampled_from([0, 1, 2**15 - 1]),
    st.integers(1, 10**12),
)


@given(units=st.lists(st.lists(rows, max_size=6), max_size=12), many=st.sampled_from([1, 5, 200]))
def test_units_come_to_what_their_rows_come_to(
    units: list[list[tuple[int, int, int, int]]], many: int
) -> None:
    least: dict[tuple[int, int, int], int] = {}
    with mock.patch.object(lowest, "_MANY", many):
        gathered = lowest.Gathered()
        for unit in units:
            told = [(family, MONDAY + 7 * week, seller, usd) for family, week, seller, usd in unit]
            gathered.add(Lowest(*np.array(told, dtype=np.int64).reshape(-1, 4).T))
            for family, monday, seller, usd in told:
                of = family, monday, seller
                least[of] = min(usd, least.get(of, usd))
        found = list(zip(*(column.tolist() for column in gathered.all()), strict=True))
    assert {row[:3]: row[3] for row in found} == least
    assert len(found) == len(least)
