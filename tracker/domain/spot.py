"""Jobs on machines that may be taken away: expected hours, billed hours, chance to be in time.

The model. A job of W hours of work starts with a set-up of S hours. A checkpoint of c hours is
written after every interval of work but the last; without checkpoints there is one interval. While
a machine runs it is interrupted at a constant rate; a job on m machines stops when any of them
goes, so L = m x rate. After an interruption nothing runs (or is billed) for D hours until there
is another machine; then it is set up and the last checkpoint read for R = S + r hours, which may be
interrupted too, and the work goes on from that checkpoint. With A the hours until the checkpoint of
an interval of length l are written first time round (l, and S more in the first interval):

    billed hours of an interval  = (1 - exp(-L A)) / L x exp(L (R + l))
    expected interruptions       = L x billed hours
    wall-clock hours             = billed hours + D x interruptions

With A = l and D paid for, this is the expectation of Daly (Future Generation Computer Systems 22,
2006, pages 303-312), which follows Young (Communications of the ACM 17, 1974). The chance to be
done by a time comes from the same model by numerical inversion of the Laplace transform of the
wall-clock time (Abate and Whitt, ORSA Journal on Computing 7, 1995), to about 1e-4.

Left out: a warning before the interruption, rates that change by the hour, and machines that are
billed in long steps: each of the 1 + interruptions runs is rounded up for itself.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import NamedTuple

from tracker.domain.exact import EXACT, BadFigure, hours_up, not_negative, plain, positive, whole_up
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour

# A job that is this unlikely to be done within so many times its plain hours is refused.
TIMES_PLAIN_HOURS = 4
LEAST_CHANCE = 0.10

# AWS's classes end at 20 %; the last one is open. Its middle stands for it.
_OPEN_CLASS_ABOVE = 20
_OPEN_CLASS_PERCENT = 60

_ZERO = Decimal(0)


class Rate(NamedTuple):
    """Interruptions of one machine in an hour of running (>= 0), and where that comes from."""

    per_hour: float
    basis: str

    @property
    def percent_per_month(self) -> float:
        """The share of machines that would not run for a month (730 h), in %."""
        return -100 * math.expm1(-self.per_hour * float(HOURS_PER_MONTH))


def stated_rate(per_hour: float) -> Rate:
    """The user's own figure. Raises BadFigure below 0 and for what is no finite number."""
    if not (math.isfinite(per_hour) and per_hour >= 0):
        raise BadFigure(f"interruptions per hour must be 0 or more, not {per_hour}")
    return Rate(float(per_hour), f"{per_hour:g} interruptions per hour, as stated")


def advisor_rate(percent_max: int) -> Rate:
    """From the upper end in % of a class of AWS's Spot Instance Advisor (5, 10, 15, 20, 100).

    AWS gives the share of machines reclaimed in the trailing month. It is read as the chance of
    losing a machine that runs all month: rate = -ln(1 - share) / 730 h, of the upper end of the
    class. The open class above 20 % is taken for 60 %, its middle. Raises BadFigure outside 1..100.
    """
    if not 1 <= percent_max <= 100:
        raise BadFigure(f"the advisor's class ends between 1 and 100 %, not {percent_max}")
    if percent_max > _OPEN_CLASS_ABOVE:
        taken, words = _OPEN_CLASS_PERCENT, f"over {_OPEN_CLASS_ABOVE} %, taken for 60 %"
    else:
        taken, words = percent_max, f"up to {percent_max} %"
    per_hour = -math.log1p(-taken / 100) / float(HOURS_PER_MONTH)
    return Rate(per_hour, f"AWS advisor: {words} reclaimed in a month")


def reliability_rate(reliability: Decimal) -> Rate | None:
    """From a provider's score in 0..1, read as the chance to run for a month (730 h).

    A marketplace's score tells of failures, not of being outbid. None for a score of 0, which says
    nothing of when. Raises BadFigure outside 0..1.
    """
    if not 0 <= reliability <= 1:
        raise BadFigure(f"reliability must lie between 0 and 1, not {reliability}")
    if reliability == 0:
        return None
    per_hour = abs(math.log(reliability)) / float(HOURS_PER_MONTH)
    words = f"reliability {plain(reliability, 4)}, read as the chance to run for a month"
    return Rate(per_hour, f"{words}; being outbid is not in it")


def interruption_rate(
    *,
    stated_per_hour: float | None = None,
    advisor_percent_max: int | None = None,
    reliability: Decimal | None = None,
) -> Rate | None:
    """The best of what is known: the user's word, the advisor's class, the provider's score.

    None where nothing is: no rate is ever assumed.
    """
    if stated_per_hour is not None:
        return stated_rate(stated_per_hour)
    if advisor_percent_max is not None:
        return advisor_rate(advisor_percent_max)
    return None if reliability is None else reliability_rate(reliability)


class Checkpoints(NamedTuple):
    """A checkpoint after every ``interval_hours`` (> 0) of work takes ``cost_hours`` (>= 0)."""

    interval_hours: Decimal
    cost_hours: Decimal = _ZERO


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job is run. Hours; ``work_hours`` > 0 without set-up, checkpoints and interruptions.

    ``setup_hours`` are billed at every start, ``restart_hours`` beside them after an interruption
    (reading the checkpoint). ``wait_hours`` pass unbilled until there is another machine. Without
    ``checkpoints`` an interruption costs all the work. Raises BadFigure on what cannot be.
    """

    work_hours: Decimal
    setup_hours: Decimal = _ZERO
    restart_hours: Decimal = _ZERO
    wait_hours: Decimal = _ZERO
    checkpoints: Checkpoints | None = None
    machines: int = 1

    def __post_init__(self) -> None:
        positive("the hours of work", self.work_hours)
        not_negative("the hours of set-up", self.setup_hours)
        not_negative("the hours of a restart", self.restart_hours)
        not_negative("the hours of waiting", self.wait_hours)
        if self.checkpoints is not None:
            positive("the hours between checkpoints", self.checkpoints.interval_hours)
            not_negative("the hours of a checkpoint", self.checkpoints.cost_hours)
        if self.machines < 1:
            raise BadFigure(f"a job runs on 1 machine or more, not {self.machines}")

    @property
    def plain_hours(self) -> Decimal:
        """Set-up and work, without checkpoints or interruptions: what on demand takes."""
        return EXACT.add(self.setup_hours, self.work_hours)


class Expected(NamedTuple):
    """What to expect. Hours are those of one machine, rounded up to the billionth.

    ``interruptions`` is their expected number, ``chance`` that of being done within four times
    ``plain_hours`` (0.10..1). ``notes`` say what was assumed.
    """

    plain_hours: Decimal
    billed_hours: Decimal
    wall_hours: Decimal
    interruptions: float
    chance: float
    rate: Rate
    notes: tuple[str, ...] = ()

    @property
    def rerun_hours(self) -> Decimal:
        """Billed beyond the plain hours: checkpoints, repeated work, repeated set-up."""
        return EXACT.subtract(self.billed_hours, self.plain_hours)


class Refused(NamedTuple):
    """The job will hardly finish: no price is given. ``chance`` is below 0.10."""

    reason: str
    chance: float


def expect(plan: Plan, rate: Rate) -> Expected | Refused:
    """Expected hours of *plan* at *rate*; refused when it will hardly finish.

    Never below the plain hours. Monotone: more work, more machines, longer set-up or restarts and
    a higher rate never make it shorter.
    """
    deadline = EXACT.multiply(plan.plain_hours, Decimal(TIMES_PLAIN_HOURS))
    chance = chance_within(plan, rate, deadline)
    billed = _billed(plan, rate.per_hour)
    if chance < LEAST_CHANCE or math.isinf(billed):
        return Refused(_hardly(plan, rate, chance), chance)
    interruptions = rate.per_hour * plan.machines * billed
    billed_hours = max(hours_up(billed), hours_up(plan.plain_hours))
    wall = max(hours_up(billed + float(plan.wait_hours) * interruptions), billed_hours)
    notes = tuple(_notes(plan, rate))
    return Expected(plan.plain_hours, billed_hours, wall, interruptions, chance, rate, notes)


def _hardly(plan: Plan, rate: Rate, chance: float) -> str:
    if plan.checkpoints is None:
        how = "without checkpoints: write some, or rent on demand"
    else:
        how = "with these checkpoints: try another interval, or rent on demand"
    return (
        f"{chance:.1%} chance to be done within {TIMES_PLAIN_HOURS} times the "
        f"{plain(plan.plain_hours)} h it takes uninterrupted ({rate.basis}), {how}"
    )


def _notes(plan: Plan, rate: Rate) -> list[str]:
    notes = [f"spot: {rate.basis}"]
    if plan.checkpoints is None:
        notes.append("no checkpoints: an interruption costs all the work done")
    if not plan.wait_hours:
        notes.append("another machine is taken to be had at once")
    return notes


# --- the expectation ------------------------------------------------------------------------


class _Interval(NamedTuple):
    """``times`` intervals of ``length`` hours, the first try of each takes ``first``."""

    length: float
    first: float
    times: int


def _intervals(plan: Plan) -> tuple[_Interval, ...]:
    work, setup, every = plan.work_hours, float(plan.setup_hours), plan.checkpoints
    count = 1 if every is None else whole_up(work, every.interval_hours)
    if every is None or count == 1:
        return (_Interval(float(work), setup + float(work), 1),)
    with localcontext(EXACT):
        full = float(every.interval_hours + every.cost_hours)
        last = float(work - (count - 1) * every.interval_hours)
    found = [_Interval(full, setup + full, 1), _Interval(last, last, 1)]
    if count > 2:
        found.insert(1, _Interval(full, full, count - 2))
    return tuple(found)


def _billed(plan: Plan, per_hour: float) -> float:
    """Expected billed hours; infinite where they exceed what a float holds."""
    rate = per_hour * plan.machines
    again = float(plan.setup_hours + plan.restart_hours)
    total = 0.0
    for length, first, times in _intervals(plan):
        try:
            tries = math.exp(rate * (again + length))
        except OverflowError:
            return math.inf
        total += times * max(first, _lived(rate, first) * tries)
    return total


def _lived(rate: float, hours: float) -> float:
    """The mean hours until an interruption or *hours*, whichever is sooner."""
    # Below, the difference is less than a float tells, and the smallest rates have no digits left.
    return -math.expm1(-rate * hours) / rate if rate * hours > 1e-15 else hours


# --- the chance to be in time ---------------------------------------------------------------


def chance_within(plan: Plan, rate: Rate, hours: Decimal) -> float:
    """The chance that the job is done *hours* of wall-clock time after its start, to about 1e-4."""
    intervals = _intervals(plan)
    least = math.fsum(one.first * one.times for one in intervals)
    left, per_hour = float(hours) - least, rate.per_hour * plan.machines
    if left < -1e-12 * least:
        return 0.0
    undisturbed = math.exp(-per_hour * least)
    if per_hour == 0 or left <= 1e-12 * least:
        return undisturbed
    again, wait = float(plan.setup_hours + plan.restart_hours), float(plan.wait_hours)

    def delay(s: complex) -> complex:
        """Transform of the delay's distribution function, less its step at no delay at all."""
        product = 1 + 0j
        for one in intervals:
            product *= _delay(s, per_hour, one, again, wait) ** one.times
        return (product - undisturbed) / s

    return min(1.0, max(undisturbed, undisturbed + _inverted(delay, left)))


def _delay(s: complex, rate: float, one: _Interval, again: float, wait: float) -> complex:
    """E[exp(-s x delay)] of an interval: tries that fail, then one that does not."""
    retry = again + one.length
    lost = rate / (s + rate) * cmath.exp(-s * wait)
    first_lost = lost * (1 - cmath.exp(-(s + rate) * one.first))
    again_lost = lost * (1 - cmath.exp(-(s + rate) * retry))
    longer = cmath.exp(-s * (retry - one.first) - rate * retry)
    return math.exp(-rate * one.first) + first_lost * longer / (1 - again_lost)


_DISCRETISATION = 18.4  # the error of the sum is about exp(-18.4) = 1e-8
_EULER_TERMS = 12
_TERMS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_AGREEMENT = 2e-5


def _inverted(transform: Callable[[complex], complex], at: float) -> float:
    """The function with this Laplace transform, at *at* > 0: Fourier series, Euler summation.

    Terms are doubled until two sums agree, for a distribution narrow beside *at* needs many.
    """
    step, real = math.pi / at, _DISCRETISATION / (2 * at)
    weights = [math.comb(_EULER_TERMS, j) / 2**_EULER_TERMS for j in range(_EULER_TERMS + 1)]
    total, sign, k = 0.5 * transform(complex(real, 0)).real, 1, 0
    before = found = math.inf
    for terms in _TERMS:
        tail: list[float] = []
        while len(tail) < len(weights):
            k, sign = k + 1, -sign
            total += sign * transform(complex(real, k * step)).real
            if k >= terms:
                tail.append(total)
        mean = math.fsum(w * x for w, x in zip(weights, tail, strict=True))
        before, found = found, math.exp(_DISCRETISATION / 2) / at * mean
        if abs(found - before) < _AGREEMENT:
            break
    return found


# --- the break-even -------------------------------------------------------------------------


class BreakEvenRate(NamedTuple):
    """The rate of interruptions up to which spot costs no more than on demand.

    ``interruptions`` is how many of them the job then meets on average.
    """

    per_hour: float
    interruptions: float

    @property
    def percent_per_month(self) -> float:
        """The same as the share of machines that would not run for a month, in %."""
        return Rate(self.per_hour, "").percent_per_month


def break_even_rate(
    plan: Plan, spot: PerMachineHour, on_demand: PerMachineHour
) -> BreakEvenRate | None:
    """Where the expected spot bill equals the plain hours on demand, by machine-hours alone.

    None when spot is no cheaper even if never interrupted (checkpoints cost time). The rate is
    rounded down. Raises BadFigure for prices that are not above 0.
    """
    positive("the spot price", spot.usd)
    positive("the on-demand price", on_demand.usd)
    with localcontext(EXACT) as context:
        context.prec = 50
        allowed = float(plan.plain_hours * on_demand.usd / spot.usd)
    if _billed(plan, 0.0) > allowed:
        return None
    low, high = 0.0, 1 / float(plan.plain_hours)
    while _billed(plan, high) <= allowed:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _billed(plan, middle) <= allowed:
            low = middle
        else:
            high = middle
    return BreakEvenRate(low, low * plan.machines * _billed(plan, low))
