"""Where several recurring jobs run best, together: each by itself, or some on one machine.

A machine by the month is paid for once, so what is cheapest for each job alone need not be so for
all of them. The search begins with each job's own best offer. Then it tries, for every offer by the
month, to move any of the jobs onto it, takes the move that saves most, and goes on until none does:
the best plan with one shared offer, and a good one with several. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from tracker.domain.recurring import MonthBill, Recurring, month_bill

# Of more jobs not every set is tried, only those of the jobs that cost most.
_EVERY_SET = 6

_Cost = tuple[bool, Decimal, bool]


def cost(bill: MonthBill) -> _Cost:
    """What plans are compared by: whole bills first, then the amount, then certain ones."""
    return bool(bill.partial), bill.at_least_usd, bill.lower_bound


def alone(options: Sequence[Recurring]) -> Recurring:
    """The best of a job's *options* (one or more) if it were the only job; of equals the first."""
    return min(options, key=lambda one: cost(month_bill([one])))


def plan(options: Sequence[Sequence[Recurring]]) -> tuple[Recurring, ...]:
    """One of each job's *options*, in the order of the jobs: together the lowest bill found.

    Raises BadFigure as ``month_bill`` does.
    """
    chosen = [alone(of_job) for of_job in options]
    best = cost(month_bill(chosen))
    while True:
        found: tuple[_Cost, list[Recurring]] | None = None
        for moved in _moves(chosen, options):
            now = cost(month_bill(moved))
            if now < (best if found is None else found[0]):
                found = now, moved
        if found is None:
            return tuple(chosen)
        best, chosen = found


def _moves(
    chosen: Sequence[Recurring], options: Sequence[Sequence[Recurring]]
) -> Iterator[list[Recurring]]:
    """Plans that differ in the jobs on one offer by the month, or in the offer of one job."""
    onto: dict[bytes, dict[int, Recurring]] = {}
    for index, of_job in enumerate(options):
        for one in of_job:
            if one.by_the_month:
                onto.setdefault(one.offer, {})[index] = one
            else:
                yield _with(chosen, {index: one})
    dear = sorted(range(len(chosen)), key=lambda index: -month_bill([chosen[index]]).at_least_usd)
    for jobs in onto.values():
        for together in _sets([index for index in dear if index in jobs]):
            yield _with(chosen, {index: jobs[index] for index in together})


def _sets(jobs: Sequence[int]) -> Iterator[Sequence[int]]:
    """The sets of *jobs* to try, which are sorted by what they cost now."""
    few = jobs[:_EVERY_SET]
    for size in range(1, len(few) + 1):
        yield from combinations(few, size)
    for size in range(len(few) + 1, len(jobs) + 1):
        yield jobs[:size]


def _with(chosen: Sequence[Recurring], moved: dict[int, Recurring]) -> list[Recurring]:
    return [moved.get(index, one) for index, one in enumerate(chosen)]
