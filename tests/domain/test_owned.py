"""Machines that one owns: the price of their hour, their shares, and tables that cannot be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.exact import BadFigure
from tracker.domain.owned import (
    Site,
    check_watts,
    machine_watts,
    owned_from_tables,
    site_from_table,
)

D = Decimal
ONE: dict[str, Any] = {"gpu": "L4-24GB", "usd_per_kwh": D("0.3")}


def test_an_hour_is_electricity_and_wear() -> None:
    [got] = owned_from_tables([ONE | {"count": 4, "pue": D("1.2"), "wear_usd_per_hour": D("0.1")}])
    # 72 W x 0.9 x 1.225 x 4 = 317.52 W; x 1.2 x 0.30 / 1,000 + 0.10
    assert machine_watts(D(72), 4) == D("317.52")
    assert got.price(D(72)).usd == D("0.2143072")
    assert (got.name, got.machines, got.counts()) == ("4 x L4-24GB", 1, (1, 2, 4))
    [stated] = owned_from_tables([ONE | {"watts": 100}])
    assert stated.price(None).usd == D("0.03")
    assert stated.counts() == (1,)


@given(st.integers(1, 1024))
def test_shares_are_powers_of_two_and_the_whole(gpus: int) -> None:
    [got] = owned_from_tables([ONE | {"count": gpus}])
    counts = got.counts()
    assert counts[-1] == gpus
    assert list(counts) == sorted(set(counts))
    assert set(counts[:-1]) == {1 << n for n in range(10) if 1 << n < gpus}


@given(
    st.decimals("0.001", "2", places=3), st.decimals("1", "3", places=2),
    st.decimals("20", "280", places=0), st.decimals("0", "10", places=2),
)  # fmt: skip
def test_dearer_power_cooling_draw_or_wear_never_costs_less(
    kwh: Decimal, pue: Decimal, watts: Decimal, wear: Decimal
) -> None:
    table = ONE | {"usd_per_kwh": kwh, "pue": pue, "watts": watts, "wear_usd_per_hour": wear}
    [base] = owned_from_tables([table])
    hour = base.price(D(72)).usd
    assert hour == watts * pue * kwh / 1000 + wear
    for key, more in (("usd_per_kwh", D(2)), ("pue", D(3)), ("watts", D(288))):
        [dear] = owned_from_tables([table | {key: more}])
        assert dear.price(D(72)).usd >= hour


def test_what_nobody_knows_is_asked_for() -> None:
    [got] = owned_from_tables([ONE])
    with pytest.raises(BadFigure, match="no source gives the power of L4-24GB; give them"):
        got.price(None)
    check_watts(D(1), None, 1)  # nothing to hold it against
    for watts in ("10", "300"):
        with pytest.raises(BadFigure, match="is it per GPU"):
            check_watts(D(watts), D(72), 1)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "must be written as \\[\\[own\\]\\]"),
        ([1], "must be written as"),
        ([{}], "table 1: gpu: must name the GPU"),
        ([ONE, {"gpu": "T4-16GB"}], "table 2: usd_per_kwh: must be given"),
        ([ONE, ONE], "table 2: there are two called 1 x L4-24GB"),
        ([ONE | {"usd_per_kwh": "0"}], "above 0 and at most 2"),
        ([ONE | {"usd_per_kwh": "NaN"}], "must be a number"),
        ([ONE | {"usd_per_kwh": "1e400"}], "must be a number"),
        ([ONE | {"pue": "0.9"}], "pue: 0.9 must be from 1 to 3"),
        ([ONE | {"watts": 0}], "watts: 0 must be above 0"),
        ([ONE | {"wear_usd_per_hour": -1}], "must be from 0 to 1000"),
        ([ONE | {"usd_per_kwh": "1E-999999999"}], "usd_per_kwh: must be a number"),
        ([ONE | {"watts": "1" + "." + "1" * 40}], "watts: must be a number"),
        ([ONE | {"count": True}], "count: must be a whole number"),
        ([ONE | {"machines": "two"}], "machines: must be a whole number"),
        ([ONE | {"name": " "}], "name: must be text"),
        ([ONE | {"cuont": 2}], 'unknown key "cuont", did you mean "count"'),
    ],
)
def test_tables_that_cannot_be(tables: object, said: str) -> None:
    with pytest.raises(BadFigure, match=said):
        owned_from_tables(tables)


def test_a_place_says_what_it_knows() -> None:
    assert site_from_table({}) == Site()
    assert not Site().known
    assert site_from_table({"grid_g_per_kwh": 0}) == Site(None, D(0))
    assert site_from_table({"pue": "1.25"}).pue == D("1.25")
    for table, said in (
        ({"pue": 4}, "from 1 to 3"),
        ({"grid_g_per_kwh": 9000}, "from 0 to 2000 g per kWh"),
        ({"grid": 1}, "did you mean"),
        ([], "must be a table"),
    ):
        with pytest.raises(BadFigure, match=said):
            site_from_table(table)
