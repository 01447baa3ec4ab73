"""``gpucost cheapest --verify``: ask the leading offers' providers again before answering."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.app import App, enabled
from tracker.cli import bills, render
from tracker.domain.job import Job

if TYPE_CHECKING:
    import psycopg

    from tracker.report.cheapest import Row
    from tracker.report.discounts import DiscountBook
    from tracker.store.reads import StoredOffer

LEADING = 3
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What asking again found of one leading offer.

    ``outcome``: ``confirmed`` at the same bill, ``changed`` (bill or stock), ``vanished`` (no
    longer offered), ``quarantined`` (a gate holds its new price back), ``replaced`` (a typed
    price whose seller has live ones now) or ``unchecked``. Bills are in USD.
    """

    offer: str
    gpu: str
    provider: str
    outcome: str
    before_usd: Decimal
    after_usd: Decimal | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values; bills as text in USD."""
        return {
            "offer": self.offer, "gpu": self.gpu, "provider": self.provider,
            "outcome": self.outcome, "before_usd": render.usd_text(self.before_usd),
            "after_usd": render.usd_text(self.after_usd), "reason": self.reason,
        }  # fmt: skip

    def sentence(self) -> str:
        """One line for people."""
        text = f"verify: {self.gpu} at {self.provider} ({self.offer}) {self.outcome}"
        if self.after_usd is not None and self.after_usd != self.before_usd:
            text += f": {render.usd(self.before_usd)} -> {render.usd(self.after_usd)}"
        return text + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Asked:
    """Who was asked again, from when on, and why some gave nothing."""

    since: datetime
    answered: frozenset[str]
    failures: dict[str, str] = field(default_factory=dict)


def verify(app: App, job: Job, rows: Sequence[Row]) -> list[Verdict]:
    """Poll the providers of the first *rows* once more, look each offer up, compare the bills.

    A provider that does not answer leaves its offers ``unchecked``: their prices are as old as
    before, and the answer shows that age. For a typed price its seller is asked.
    """
    leading = rows[:LEADING]
    if not leading:
        return []
    asked = _poll_again(app, sorted({_whom(row.offer) for row in leading}))
    from tracker.report.discounts import DiscountBook
    from tracker.store import reads

    now = datetime.now(UTC)
    with app.reading() as connection:
        discounts = DiscountBook.at(reads.discounts(connection, now), now)
        return [_verdict(connection, app, job, row, asked, discounts) for row in leading]


def _whom(offer: StoredOffer) -> str:
    return offer.source if offer.valid_as_of is None else offer.provider


def _poll_again(app: App, names: Sequence[str]) -> Asked:
    """Poll each of *names*; the reasons of those that did not work."""
    from tracker import registry
    from tracker.collect import poll_all

    since = datetime.now(UTC)
    known = set(registry.names())
    failures = {name: "there is nobody to ask" for name in names if name not in known}
    chosen, left_out = enabled(app, [name for name in names if name in known])
    failures.update(left_out)
    if not chosen:
        return Asked(since, frozenset(), failures)
    with (
        app.collector() as collector,
        render.progress("asking again", [p.name for p, _ in chosen]) as done,
    ):
        outcomes = asyncio.run(
            poll_all(collector, chosen, deadline_s=DEADLINE_S, on_done=lambda o: done(o.provider))
        )
    failures.update({o.provider: o.reason or o.status for o in outcomes if not o.ok})
    return Asked(since, frozenset(o.provider for o in outcomes if o.ok), failures)


def _verdict(
    connection: psycopg.Connection[Any], app: App, job: Job, before: Row, asked: Asked,
    discounts: DiscountBook,
) -> Verdict:  # fmt: skip
    from tracker.report.costing import bill_now
    from tracker.store import reads

    offer, was = before.offer, before.bill.at_least_usd

    def verdict(
        outcome: str, reason: str | None = None, after_usd: Decimal | None = None
    ) -> Verdict:
        return Verdict(
            bills.ref(offer.key), offer.gpu_key, offer.provider, outcome, was, after_usd, reason
        )

    whom = _whom(offer)
    if whom not in asked.answered:
        return verdict("unchecked", asked.failures.get(whom, "not asked"))
    if offer.valid_as_of is not None:
        return verdict(*_of_typed(connection, offer, asked.since))
    found = [f.offer for f in reads.find_offer(connection, offer.key.hex()) if f.live]
    if not found:
        held = [q for q in reads.quarantined(connection) if q.offer_key == offer.key]
        return verdict("quarantined", held[0].reason) if held else verdict("vanished")
    now = found[0]
    if now.confirmed_at < asked.since:
        return verdict("unchecked", f"the answer of {whom} was incomplete and lacked it")
    bill = bill_now(now, job, app.catalogue, discounts)
    if now.availability == "no" and offer.availability != "no":
        return verdict("changed", "not in stock any more", bill.at_least_usd if bill else None)
    if bill is None:
        return verdict("changed", "the job cannot be run on it any more")
    return verdict("confirmed" if bill.at_least_usd == was else "changed", None, bill.at_least_usd)


def _of_typed(
    connection: psycopg.Connection[Any], offer: StoredOffer, since: datetime
) -> tuple[str, str]:
    from tracker.store import reads

    live = reads.live_offers(connection, providers=[offer.provider])
    if any(
        o.gpu_family == offer.gpu_family and o.source == offer.provider and o.confirmed_at >= since
        for o in live
    ):
        return "replaced", f"{offer.provider} has live prices of this GPU now"
    return "unchecked", f"{offer.provider} lists no live price of this GPU"
