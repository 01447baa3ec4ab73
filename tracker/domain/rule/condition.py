"""The ``when`` line of a rule: what is watched, as text and as data.

    cost(H100) < cost(A100)               a job costs less on one selection than on the other
    cost(H100) < $40                      a job costs less than so many USD
    cost(H100) drops 10% in 7d            a job costs so much less than it did so many days ago
    price(H100) < $2.00                   a GPU-hour costs less than so many USD
    cheapest(H100, A100, RTX4090) changes another selection is the cheapest for the job
    cheapest changes                      the same among all GPUs
    provider(vastai) stale                a provider's prices are too old (``any``: of any of them)
    new offer(H100) < $2.00               an offer below so many USD per GPU-hour appears

Words may be in upper or lower case and spaces may be left out. A selection is the name of a GPU as
its user writes it, or ``any``; whether such a GPU exists is for the catalogue to say, not for this
module.

Most conditions become one number, so that margins mean the same for every one of them: a ratio
that is below 1 while the condition holds.

    CostAgainstCost   cost of the left / cost of the right
    CostBelow         cost / the number
    CostDrops         cost now / cost so many days ago (1 is "no drop": see ``policy_for``)
    PriceBelow        price per GPU-hour / the number
    ProviderStale     how long its prices hold (ttl) / how old they are; 1 or less is stale

CheapestChanges is a label instead (and, where known, the ratio of the new label's cost to the old
one's), NewOfferBelow a set of offer keys: ``machine.step_for`` names the step for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from tracker.domain.bounds import in_full
from tracker.domain.rule.types import Policy

__all__ = [
    "ANY",
    "EXAMPLES",
    "CheapestChanges",
    "Condition",
    "ConditionError",
    "CostAgainstCost",
    "CostBelow",
    "CostDrops",
    "Margins",
    "NewOfferBelow",
    "PriceBelow",
    "ProviderStale",
    "default_margins",
    "parse",
    "policy_for",
    "selections_of",
]

ANY = "any"  # the selection of every GPU, or the name of every provider

# One of each kind, in canonical form.
EXAMPLES = (
    "cost(H100) < cost(A100)",
    "cost(H100) < $40",
    "cost(H100) drops 10% in 7d",
    "price(H100) < $2",
    "cheapest(H100, A100, RTX4090) changes",
    "cheapest changes",
    "provider(vastai) stale",
    "new offer(H100) < $2",
)


class ConditionError(ValueError):
    """A ``when`` line that cannot be read.

    Its text is one line that says what is wrong, where, and shows a line that is right.
    ``position`` counts characters from 0; it is the length of the line where something is missing
    at its end.
    """

    def __init__(self, problem: str, position: int, example: str) -> None:
        super().__init__(f"at character {position + 1}: {problem}; for example: {example}")
        self.problem = problem
        self.position = position
        self.example = example


@dataclass(frozen=True, slots=True)
class CostAgainstCost:
    """The job costs less on *left* than on *right*."""

    left: str
    right: str

    def __str__(self) -> str:
        return f"cost({self.left}) < cost({self.right})"


@dataclass(frozen=True, slots=True)
class CostBelow:
    """The job costs less than *usd*."""

    selection: str
    usd: Decimal

    def __str__(self) -> str:
        return f"cost({self.selection}) < {usd_text(self.usd)}"


@dataclass(frozen=True, slots=True)
class CostDrops:
    """The job costs *percent* (above 0, below 100) less than *days* (1 to 365) days ago."""

    selection: str
    percent: Decimal
    days: int

    def __str__(self) -> str:
        return f"cost({self.selection}) drops {in_full(self.percent)}% in {self.days}d"


@dataclass(frozen=True, slots=True)
class PriceBelow:
    """A GPU-hour costs less than *usd_per_gpu_hour*."""

    selection: str
    usd_per_gpu_hour: Decimal

    def __str__(self) -> str:
        return f"price({self.selection}) < {usd_text(self.usd_per_gpu_hour)}"


@dataclass(frozen=True, slots=True)
class CheapestChanges:
    """Another of *selections* becomes the cheapest for the job. None listed: of all GPUs."""

    selections: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = f"({', '.join(self.selections)})" if self.selections else ""
        return f"cheapest{listed} changes"


@dataclass(frozen=True, slots=True)
class ProviderStale:
    """The prices of provider *name* (``any``: of the stalest) are older than they may be."""

    name: str

    def __str__(self) -> str:
        return f"provider({self.name}) stale"


@dataclass(frozen=True, slots=True)
class NewOfferBelow:
    """An offer below *usd_per_gpu_hour* appears that was not there before."""

    selection: str
    usd_per_gpu_hour: Decimal

    def __str__(self) -> str:
        return f"new offer({self.selection}) < {usd_text(self.usd_per_gpu_hour)}"


Condition: TypeAlias = (
    CostAgainstCost
    | CostBelow
    | CostDrops
    | PriceBelow
    | CheapestChanges
    | ProviderStale
    | NewOfferBelow
)


def parse(text: str) -> Condition:
    """The condition that *text* says; ``str`` of it is its canonical text. ConditionError."""
    from tracker.domain.rule.parser import read

    return read(text)


def selections_of(condition: Condition) -> tuple[str, ...]:
    """The GPU selections that *condition* names, left before right. Empty: none (any GPU)."""
    match condition:
        case CostAgainstCost(left, right):
            return (left, right)
        case CheapestChanges(selections):
            return selections
        case ProviderStale():
            return ()
        case _:
            return (condition.selection,)


def usd_text(usd: Decimal) -> str:
    """``$40``, ``$2.50``, ``$1.234``: whole, or with two decimals and more where needed."""
    text = in_full(usd)
    whole, point, decimals = text.partition(".")
    return f"${whole}{point}{decimals.ljust(2, '0') if point else ''}"


HAIR = Decimal("1E-9")
"""The least dead band: an edge at which a rule fires cannot be one at which it clears, too."""


@dataclass(frozen=True, slots=True)
class Margins:
    """How far beyond the line a ratio must be to fire and to clear, in percent of it.

    ``enter_percent``: 0 to below 100. ``exit_percent``: 0 to 1000. ValueError outside of that.
    """

    enter_percent: Decimal = Decimal(2)
    exit_percent: Decimal = Decimal(2)

    def __post_init__(self) -> None:
        for name, top in (("enter_percent", Decimal(100)), ("exit_percent", Decimal(1000))):
            percent = getattr(self, name)
            if not percent.is_finite() or percent < 0 or percent > top or percent == 100 == top:
                raise ValueError(f"{name} is {percent}; it may be from 0 to {top - 1}")


def default_margins(condition: Condition) -> Margins:
    """The margins of a rule that names none.

    Against a number only the way back has one: who writes ``price(H100) < 2.00`` means 2.00.
    """
    if isinstance(condition, CostBelow | PriceBelow):
        return Margins(enter_percent=Decimal(0))
    return Margins()


def policy_for(condition: Condition, margins: Margins | None = None) -> Policy:
    """The policy of a rule for *condition* that asks for nothing but *margins*
    (default: ``default_margins``).

    What a rule sets beyond that (durations, counts, cooldown …) replaces it field by field, with
    ``dataclasses.replace``. Fires at ``enter = 1 - enter%``, clears at ``exit = 1 + exit%``, but:

    * a drop names its own edge: ``enter = 1 - percent``, ``exit = enter x (1 + exit%)``;
    * a stale provider has its margin in its time to live: it fires at 1, without further waiting,
      and clears just above;
    * an offer that appears may be gone in half an hour: it is told at once, the next ones after
      an hour; one that was away for 6 hours is new again (``keep_firing``).

    With both margins 0, exit lies HAIR above enter.
    """
    margins = margins or default_margins(condition)
    exit_factor = 1 + margins.exit_percent / 100
    policy = Policy()
    match condition:
        case ProviderStale():
            return replace(
                policy,
                enter=Decimal(1),
                exit=1 + HAIR,
                min_duration=timedelta(0),
                min_count=1,
                keep_firing=timedelta(0),
            )
        case NewOfferBelow():
            return replace(
                policy,
                min_duration=timedelta(0),
                min_count=1,
                keep_firing=timedelta(hours=6),
                cooldown=timedelta(hours=1),
            )
        case CostDrops():
            enter = 1 - condition.percent / 100
            exit_ = enter * exit_factor
        case _:
            enter = 1 - margins.enter_percent / 100
            exit_ = exit_factor
    return replace(policy, enter=enter, exit=max(exit_, enter + HAIR))
