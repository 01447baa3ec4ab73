"""The offers that have a bill, one by one: how a question that is asked once is answered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from tracker.domain.job import Job
from tracker.domain.pareto import Goal
from tracker.domain.rank import Ranked, Ranking
from tracker.domain.terms import Market
from tracker.report.costing import Bounded, Costing
from tracker.report.priced import Priced


class Listed:
    """The offers that have a bill, one by one. Both this and ``Racked`` are what a report asks."""

    def __init__(self, costing: Costing, bounded: Sequence[Bounded]) -> None:
        self._costing = costing
        self._bounded = bounded

    def __len__(self) -> int:
        return len(self._bounded)

    def first(self, top: int, goal: Goal | None = None) -> Ranking[Priced]:
        """See ``Racked``."""
        return self._costing.first(self._bounded, top, goal)

    def all(self) -> Ranking[Priced]:
        """All of them, by exact bills."""
        return self._costing.all(self._bounded)

    def unbeaten(self) -> tuple[Ranked[Priced], ...]:
        """See ``Racked``."""
        return self._costing.unbeaten(self._bounded)

    def by_family(self) -> list[Listed]:
        """See ``Racked``."""
        found: dict[str, list[Bounded]] = {}
        for one in self._bounded:
            found.setdefault(one.offer.gpu_family, []).append(one)
        return [Listed(self._costing, of_family) for of_family in found.values()]

    def of(self, gpu_keys: Collection[str]) -> Listed:
        """See ``Racked``."""
        of_keys = [one for one in self._bounded if one.offer.gpu_key in gpu_keys]
        return Listed(self._costing, of_keys)

    def on_demand(self) -> dict[tuple[str, Decimal], Decimal]:
        """See ``Racked``."""
        found: dict[tuple[str, Decimal], Decimal] = {}
        for _, o, usd in self._bounded:
            if o.market == Market.ON_DEMAND:
                machine = (o.gpu_key, o.gpu_count)
                found[machine] = min(found.get(machine, usd), usd)
        return found


def looks_at_all(job: Job) -> bool:
    """Whether *job* can be answered by looking at every offer's bill alone: it has a budget."""
    return job.limits is not None and job.limits.budget_usd is not None
