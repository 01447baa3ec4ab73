"""Energy of a job: worked figures, and what must hold of every one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.energy import (
    Load,
    co2_kg,
    electricity_usd,
    energy,
    work_per_kwh,
    work_per_watt,
)
from tracker.domain.exact import BadFigure

D = Decimal


def test_training_on_eight_gpus() -> None:
    got = energy(D(700), 8, D(10), Load.TRAINING, pue=D("1.2"))
    assert got is not None
    # 700 x 0.9 x 8 x 10 h = 50.4 kWh, with the building 60.48.
    assert (got.low_kwh, got.kwh, got.high_kwh) == (D("66.528"), D("74.088"), D("81.648"))
    assert got.watts == D("7408.8")
    assert got.assumptions == ("0.9 of the TDP in training", "the host adds 10-35 %")
    assert co2_kg(got.kwh, D(400)) == D("29.6352")
    assert electricity_usd(got.kwh, D("0.25")) == D("18.522")


def test_decoding_draws_less_and_a_missing_pue_is_said() -> None:
    got = energy(D(450), 1, D(1), Load.DECODE, host_factor=D("1.3"))
    assert got is not None
    assert got.low_kwh == got.kwh == got.high_kwh == D("0.351")
    assert got.assumptions == (
        "0.6 of the TDP in decode",
        "PUE not given: cooling is not in it",
    )


def test_a_measured_draw_needs_no_tdp() -> None:
    got = energy(None, 2, D(3), Load.TRAINING, measured_watts=D(500), host_factor=D(1), pue=D(1))
    assert got is not None
    assert (got.kwh, got.assumptions) == (D(3), ())


def test_the_unknown_stays_unknown() -> None:
    assert energy(None, 1, D(1), Load.TRAINING) is None
    assert co2_kg(D(1), None) is None


def test_work_for_each_watt() -> None:
    assert work_per_watt(D(3000), D(600)) == 5  # samples per second and watt: per joule
    assert work_per_kwh(D(36_000_000), D(2)) == 18_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tdp_watts": D(0)}, "TDP in watts must be above 0"),
        ({"gpus": 0}, "1 GPU or more"),
        ({"hours": D(-1)}, "hours must be 0 or more"),
        ({"pue": D("0.9")}, "PUE must be 1 or more"),
        ({"host_factor": D("NaN")}, "host factor must be 1 or more"),
        ({"measured_watts": D(-5)}, "measured watts must be above 0"),
    ],
)
def test_figures_that_cannot_be_are_refused(arguments: dict[str, Decimal], message: str) -> None:
    known = {"tdp_watts": D(400), "gpus": 1, "hours": D(1), "load": Load.TRAINING}
    with pytest.raises(BadFigure, match=message):
        energy(**known | arguments)  # type: ignore[arg-type]


amounts = st.decimals("0.01", "10000", places=2)
factors = st.none() | st.decimals("1", "2", places=2)


@given(amounts, st.integers(1, 64), amounts, st.sampled_from(Load), factors, factors)
def test_energy_grows_with_everything_and_its_range_holds_it(
    tdp: Decimal, gpus: int, hours: Decimal, load: Load, host: Decimal | None, pue: Decimal | None
) -> None:
    got = energy(tdp, gpus, hours, load, host_factor=host, pue=pue)
    longer = energy(tdp, gpus, hours + 1, load, host_factor=host, pue=pue)
    wider = energy(tdp, gpus + 1, hours, load, host_factor=host, pue=pue)
    hotter = energy(tdp + 1, gpus, hours, load, host_factor=host, pue=pue)
    assert got is not None
    assert got.low_kwh <= got.kwh <= got.high_kwh
    assert got.kwh * 1000 == got.watts * hours
    assert got.kwh >= tdp * D("0.6") * gpus * hours / 1000
    for more in (longer, wider, hotter):
        assert more is not None
        assert more.kwh > got.kwh
