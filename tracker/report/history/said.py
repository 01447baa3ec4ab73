"""Whose word each step of a history is: typed by a person and when, or confirmed by a poll."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tracker.report.history.steps import CostStep
from tracker.store.past_said import Said, said
from tracker.store.stored import Connection

Series = Mapping[str, Sequence[CostStep]]


def with_said(
    connection: Connection, series: Series, overall: Sequence[CostStep],
    start: datetime, end: datetime,
) -> tuple[dict[str, list[CostStep]], list[CostStep]]:  # fmt: skip
    """The steps, each with the date, the kind and the last confirmation of its price.

    Only who speaks for another types prices: those of a provider's own need not be looked up, but
    for the last ones, of which it is known when they were seen.
    """
    every = [*series.values(), overall]
    typed = {
        step.offer.offer_id for steps in every for step in steps
        if step.offer.source != step.offer.provider
    }  # fmt: skip
    last = {steps[-1].offer.offer_id for steps in every if steps and steps[-1].end >= end}
    found = said(connection, typed, last, start, end)

    def told(steps: Sequence[CostStep]) -> list[CostStep]:
        return [_told(step, found.get(step.offer.offer_id, ()), end) for step in steps]

    return {name: told(steps) for name, steps in series.items()}, told(overall)


def _told(step: CostStep, known: Sequence[Said], end: datetime) -> CostStep:
    """*step* with what its price said of itself at its end, as far as that is on record."""
    offer = step.offer
    before = [one for one in known if one.start < step.end]
    same = [one for one in before if one.price_micro_usd == offer.price_micro_usd] or [
        one for one in before if one.valid_as_of is not None
    ]
    if not same:
        return step._replace(offer=offer._replace(seen_at=None))
    one = same[-1]
    seen_at = one.seen_at if one.seen_at is not None and one.seen_at <= end <= step.end else None
    return step._replace(
        offer=offer._replace(valid_as_of=one.valid_as_of, fallback=one.fallback, seen_at=seen_at)
    )
