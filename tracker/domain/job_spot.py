"""What a job does when its machine is taken away: ``[spot]`` of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from tracker.domain import spot
from tracker.domain.exact import ratio_up
from tracker.domain.job_fields import JobError, known_keys, plain, read_number
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour

_WHERE = "spot."
_MINUTES = Decimal(60)
_MOST_MINUTES = Decimal(30 * 24 * 60)
_MOST_PER_HOUR = Decimal(60)


class OnSpot(NamedTuple):
    """How the job gets over interruptions. Hours, except the rate; None and 0: not there.

    ``interruptions_per_hour`` is of one machine and goes before what is known of the offer.
    ``checkpoint_hours`` lie between two checkpoints; writing one takes ``write_hours``.
    """

    interruptions_per_hour: Decimal | None = None
    checkpoint_hours: Decimal | None = None
    write_hours: Decimal = Decimal(0)
    restart_hours: Decimal = Decimal(0)
    wait_hours: Decimal = Decimal(0)


KEYS = (
    "interruptions_per_hour", "interruptions_per_month", "checkpoint_minutes",
    "checkpoint_write_minutes", "restart_minutes", "wait_minutes",
)  # fmt: skip


def spot_from_toml(data: Mapping[str, Any]) -> OnSpot:
    """The table as parsed. Raises JobError naming the key."""
    known_keys(data, KEYS, _WHERE)
    checkpoint = _hours(data, "checkpoint_minutes")
    if checkpoint == 0:
        raise JobError(f"{_WHERE}checkpoint_minutes: 0 is not above 0; leave it out for none")
    write = _hours(data, "checkpoint_write_minutes")
    if write is not None and checkpoint is None:
        raise JobError(f"{_WHERE}checkpoint_write_minutes: there is no checkpoint_minutes")
    return OnSpot(
        _rate(data), checkpoint, write or Decimal(0),
        _hours(data, "restart_minutes") or Decimal(0), _hours(data, "wait_minutes") or Decimal(0),
    )  # fmt: skip


def _rate(data: Mapping[str, Any]) -> Decimal | None:
    by_hour, by_month = "interruptions_per_hour", "interruptions_per_month"
    if by_hour in data and by_month in data:
        raise JobError(f"{_WHERE}{by_hour} and {by_month} say the same thing; keep one")
    key = by_hour if by_hour in data else by_month
    if key not in data:
        return None
    rate = read_number(data[key], f"{_WHERE}{key}")
    most = _MOST_PER_HOUR * (1 if key == by_hour else HOURS_PER_MONTH)
    if not 0 <= rate <= most:
        raise JobError(f"{_WHERE}{key}: {plain(rate)} is not between 0 and {plain(most)}")
    return rate if key == by_hour else ratio_up(rate, HOURS_PER_MONTH)


def _hours(data: Mapping[str, Any], key: str) -> Decimal | None:
    if key not in data:
        return None
    minutes = read_number(data[key], f"{_WHERE}{key}")
    if not 0 <= minutes <= _MOST_MINUTES:
        raise JobError(
            f"{_WHERE}{key}: {plain(minutes)} is not between 0 and {plain(_MOST_MINUTES)}"
        )
    return ratio_up(minutes, _MINUTES)


def rate_on(
    on_spot: OnSpot, interruption_percent_max: int | None, reliability: Decimal | None
) -> spot.Rate | None:
    """The rate of one machine of an offer, by the job's word before the offer's figures; None:
    nobody knows. Reliability is taken down to the thousandth."""
    stated = on_spot.interruptions_per_hour
    if reliability is not None:
        reliability = Decimal(int(reliability * 1000)) / 1000
    return spot.interruption_rate(
        stated_per_hour=None if stated is None else float(stated),
        advisor_percent_max=interruption_percent_max,
        reliability=reliability,
    )


def expected(
    on_spot: OnSpot, work: Decimal, setup: Decimal, machines: int, rate: spot.Rate
) -> spot.Expected | spot.Refused:
    """What to expect of *work* hours on *machines* that are interrupted at *rate* each."""
    return _expected(_plan(on_spot, work, setup, machines), rate)


def break_even(
    on_spot: OnSpot | None, work: Decimal, setup: Decimal, machines: int,
    prices: tuple[PerMachineHour, PerMachineHour],
) -> spot.BreakEvenRate | None:  # fmt: skip
    """The rate up to which spot costs no more than on demand (their *prices*); None: at no rate.

    Without ``on_spot`` there are no checkpoints.
    """
    return _break_even(_plan(on_spot or OnSpot(), work, setup, machines), *prices)


def _plan(on_spot: OnSpot, work: Decimal, setup: Decimal, machines: int) -> spot.Plan:
    every = on_spot.checkpoint_hours
    return spot.Plan(
        work_hours=work,
        setup_hours=setup,
        restart_hours=on_spot.restart_hours,
        wait_hours=on_spot.wait_hours,
        checkpoints=None if every is None else spot.Checkpoints(every, on_spot.write_hours),
        machines=machines,
    )


# Many offers have the same hours and the same rate, and the chance to finish takes a while.
_expected = lru_cache(maxsize=4096)(spot.expect)
_break_even = lru_cache(maxsize=1024)(spot.break_even_rate)
