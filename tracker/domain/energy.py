"""Energy of a job: kWh, CO2, work per watt, and what the electricity costs.

    watts of a GPU = TDP x load (0.9 in training, 0.6 in decoding), or the mean that was measured
    kWh            = watts x GPUs x hours x host factor x PUE / 1000
    CO2 in kg      = kWh x g/kWh of the grid / 1000

The loads are those of published runs: training on H100 at 621-649 W, 89-93 % of the TDP (OLMo-3);
whole servers in MLPerf Inference at about half of it and more (not verified by MLCommons
Association). The host (CPU, memory, fans, power supply) adds 10 to 35 %; the point is the middle.
PUE is what the building takes for each unit that the machines take; not given, it is left out, and
said to be. Unknown TDP: None, never 0.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.exact import (
    EXACT,
    BadFigure,
    not_negative,
    plain,
    positive,
    ratio_up,
)

HOST_LOW, HOST, HOST_HIGH = Decimal("1.1"), Decimal("1.225"), Decimal("1.35")

NO_PUE = "PUE not given: cooling is not in it"

_KILO = Decimal(1000)
_JOULES_PER_KWH = Decimal(3_600_000)


class Load(StrEnum):
    """What a GPU is busy with, which decides how much of its TDP it draws."""

    TRAINING = "training"
    DECODE = "decode"


LOAD_SHARE = {Load.TRAINING: Decimal("0.9"), Load.DECODE: Decimal("0.6")}


class Energy(NamedTuple):
    """Energy of a job with its share of host and, where given, building.

    ``low_kwh`` <= ``kwh`` <= ``high_kwh``. ``watts`` is the mean draw of all GPUs with
    that share. ``assumptions`` are to be shown with it.
    """

    kwh: Decimal
    low_kwh: Decimal
    high_kwh: Decimal
    watts: Decimal
    assumptions: tuple[str, ...]


def energy(
    tdp_watts: Decimal | None,
    gpus: int,
    hours: Decimal,
    load: Load,
    *,
    measured_watts: Decimal | None = None,
    host_factor: Decimal | None = None,
    pue: Decimal | None = None,
) -> Energy | None:
    """Energy of *gpus* GPUs busy for *hours*; None when neither TDP nor a measured mean is known.

    *measured_watts* is the mean draw of one GPU. A *host_factor* given (>= 1) has no range. GPUs
    that are rented and idle are not in it. Raises BadFigure on what cannot be.
    """
    watts = _gpu_watts(tdp_watts, load, measured_watts)
    if watts is None:
        return None
    if gpus < 1:
        raise BadFigure(f"a job runs on 1 GPU or more, not {gpus}")
    not_negative("hours", hours)
    for name, factor in (("the host factor", host_factor), ("PUE", pue)):
        if factor is not None and not (factor.is_finite() and factor >= 1):
            raise BadFigure(f"{name} must be 1 or more, not {factor}")
    factors = (HOST_LOW, HOST, HOST_HIGH) if host_factor is None else (host_factor,) * 3
    with localcontext(EXACT):
        bare = watts * gpus * (1 if pue is None else pue)
        low, kwh, high = (bare * hours * factor / _KILO for factor in factors)
        drawn = bare * factors[1]
    return Energy(
        kwh, low, high, drawn, tuple(_assumptions(load, measured_watts, host_factor, pue))
    )


def _gpu_watts(tdp: Decimal | None, load: Load, measured: Decimal | None) -> Decimal | None:
    if measured is not None:
        positive("the measured watts", measured)
        return measured
    if tdp is None:
        return None
    positive("the TDP in watts", tdp)
    return EXACT.multiply(tdp, LOAD_SHARE[load])


def _assumptions(
    load: Load, measured: Decimal | None, host: Decimal | None, pue: Decimal | None
) -> list[str]:
    found = []
    if measured is None:
        found.append(f"{plain(LOAD_SHARE[load])} of the TDP in {load}")
    if host is None:
        found.append(
            f"the host adds {plain(100 * HOST_LOW - 100)}-{plain(100 * HOST_HIGH - 100)} %"
        )
    if pue is None:
        found.append(NO_PUE)
    return found


def co2_kg(kwh: Decimal, grid_g_per_kwh: Decimal | None) -> Decimal | None:
    """CO2 in kg; None where no factor of the grid (g/kWh, >= 0) is given. Exact."""
    if grid_g_per_kwh is None:
        return None
    not_negative("the grid's g/kWh", grid_g_per_kwh)
    return EXACT.divide(EXACT.multiply(kwh, grid_g_per_kwh), _KILO)


def electricity_usd(kwh: Decimal, usd_per_kwh: Decimal) -> Decimal:
    """What *kwh* cost at *usd_per_kwh* (>= 0). Exact."""
    not_negative("the price of a kWh", usd_per_kwh)
    return EXACT.multiply(kwh, usd_per_kwh)


def work_per_watt(per_second: Decimal, watts: Decimal) -> Decimal:
    """Tokens, samples or other work per second for each watt: work per joule. Upwards, 28 digits.

    Raises BadFigure for watts that are not above 0.
    """
    not_negative("work per second", per_second)
    positive("watts", watts)
    return ratio_up(per_second, watts)


def work_per_kwh(work: Decimal, kwh: Decimal) -> Decimal:
    """Tokens, samples or jobs for each kWh. Upwards, 28 digits. *kwh* must be > 0."""
    not_negative("the work", work)
    positive("kWh", kwh)
    return ratio_up(work, kwh)


def per_watt(per_kwh: Decimal) -> Decimal:
    """Work per second for each watt (work per joule) of the work for each kWh: / 3,600,000."""
    return ratio_up(per_kwh, _JOULES_PER_KWH)
