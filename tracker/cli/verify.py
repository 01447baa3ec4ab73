"""``gpucost cheapest --verify``: ask the leading offers' providers again before answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.app import App, enabled
from tracker.cli import bills, render

if TYPE_CHECKING:
    from tracker.report.cheapest import CheapestReport, Row

LEADING = 3
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What asking again found of one leading offer."""

    offer: str
    gpu: str
    provider: str
    outcome: str  # confirmed, changed, vanished, unchecked
    before_usd: Decimal
    after_usd: Decimal | None
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
        what = f"verify: {self.gpu} at {self.provider} ({self.offer})"
        if self.outcome == "changed":
            return f"{what} changed: {render.usd(self.before_usd)} -> {render.usd(self.after_usd)}"
        return f"{what} {self.outcome}" + (f": {self.reason}" if self.reason else "")


def verify(app: App, answer: Callable[[], CheapestReport]) -> list[Verdict]:
    """Poll the providers of the leading offers once more, and compare the bills.

    The offer is looked up again by its id. A provider that does not answer leaves its offers
    ``unchecked``: their prices are as old as before, and the answer shows that age.
    """
    leading = answer().rows[:LEADING]
    if not leading:
        return []
    failures = _poll_again(app, leading)
    after = {r.offer.key: r for r in _everything(app, answer)}
    return [_verdict(row, after.get(row.offer.key), failures) for row in leading]


def _everything(app: App, answer: Callable[[], CheapestReport]) -> tuple[Row, ...]:
    report = answer()
    return report.rows + report.best_by_gpu


def _poll_again(app: App, rows: tuple[Row, ...]) -> dict[str, str]:
    """Poll each leading offer's source; the reasons of those that did not work."""
    from tracker.collect import poll_all

    sources = sorted({row.offer.source for row in rows})
    chosen, left_out = enabled(app, sources)
    failures = dict(left_out)
    with (
        app.collector() as collector,
        render.progress("asking again", [p.name for p, _ in chosen]) as done,
    ):
        outcomes = asyncio.run(
            poll_all(collector, chosen, deadline_s=DEADLINE_S, on_done=lambda o: done(o.provider))
        )
    failures.update({o.provider: o.reason or o.status for o in outcomes if not o.ok})
    return failures


def _verdict(before: Row, after: Row | None, failures: dict[str, str]) -> Verdict:
    offer = before.offer
    reason = failures.get(offer.source)
    if reason is not None:
        outcome, now = "unchecked", None
    elif after is None:
        outcome, now = "vanished", None
        reason = "no longer among the leading offers"
    else:
        now = after.bill.at_least_usd
        outcome = "confirmed" if now == before.bill.at_least_usd else "changed"
    return Verdict(
        bills.ref(offer.key), offer.gpu_key, offer.provider, outcome, before.bill.at_least_usd,
        now, reason,
    )  # fmt: skip
