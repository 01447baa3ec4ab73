"""Start now, or wait for a lower price: the answer as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.waiting import Advice, Rule, Spread
from tracker.report.ages import age_seconds
from tracker.report.dated import not_live, whose
from tracker.report.history.told import typed_text
from tracker.report.shapes import texts

if TYPE_CHECKING:
    from tracker.report.filters import Filters
    from tracker.report.waiting import Waiting

RULE_COLUMNS = (
    "drop_percent", "mean", "p10", "median", "p90", "times", "gained", "lost", "sure_gained_share",
)  # fmt: skip
NOTHING_KNOWN = "no complete bill of the job is on record in that time"


def document(found: Waiting) -> dict[str, Any]:
    """The answer; figures of rules are shares of what starting at once cost (0.9: a tenth less)."""
    j, now = found.judged, found.now
    return {
        "as_of": found.end, "job": found.report.question.job.name,
        "filters": found.report.question.filters.echo(),
        "advice": j.advice, "reason": j.reason,
        "deadline_seconds": int(found.deadline.total_seconds()),
        "wait_seconds": int(found.wait.total_seconds()), "latest_start": found.latest_start,
        "now": None if now is None else {
            "job_cost_usd": texts.usd_text(now.usd), "gpu": now.offer.gpu_key,
            "provider": now.offer.provider, "market": now.offer.market,
            "basis": now.cost.line.estimate.basis, "source": now.offer.source,
            "age_seconds": age_seconds(now.offer, found.end),
            "valid_as_of": now.offer.valid_as_of,
        },
        "wait_for_usd": texts.usd_text(found.target_usd) if found.target_usd is not None else None,
        "history": {
            "start": found.begin, "end": found.end,
            "known_seconds": int(found.known.total_seconds()),
            "below_now_seconds": None if found.below is None else int(found.below.total_seconds()),
            "moments": found.starts, "moments_without_an_end": found.lost_starts,
            "windows_that_do_not_overlap": j.windows,
        },
        "lowest": None if j.lowest is None else _spread(j.lowest),
        "last_moment": None if j.last is None else {**_spread(j.last), "lost": j.last_lost},
        "rules": [_rule(rule) for rule in j.rules],
        "earlier": None if j.earlier is None else _rule(j.earlier),
        "later": None if j.later is None else _rule(j.later),
        "remarks": list(typed(found)),
    }  # fmt: skip


def nothing_known(
    job: str, filters: Filters, end: datetime, deadline: timedelta
) -> Mapping[str, Any]:
    """The answer where no complete bill is on record: nobody can tell."""
    unknown = ("wait_seconds", "latest_start", "now", "wait_for_usd", "history", "lowest",
               "last_moment")  # fmt: skip
    return {
        "as_of": end, "job": job, "filters": filters.echo(), "advice": Advice.UNKNOWN,
        "reason": NOTHING_KNOWN, "deadline_seconds": int(deadline.total_seconds()),
        **dict.fromkeys(unknown), "rules": [], "earlier": None, "later": None, "remarks": [],
    }  # fmt: skip


def now_text(found: Waiting, usd: Callable[[Decimal], str]) -> str:
    """What the job costs at the end, and whether that price is live."""
    now = found.now
    if now is None:
        return "no price is known now"
    offer = now.offer
    return f"now {usd(now.usd)} on the {offer.gpu_key} at {offer.provider}{not_live(offer)}"


def typed(found: Waiting) -> Iterator[str]:
    """What of the answer rests on prices that are not live."""
    yield from typed_text(found.report)
    if found.now is not None:
        yield from whose("Now by", [(found.now.offer.gpu_key, found.now.offer)])


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "drop_percent": float(rule.drop_percent), **_spread(rule.paid), "times": rule.times,
        "gained": rule.gained, "lost": rule.lost,
        "sure_gained_share": round(rule.sure_gained, 4),
    }  # fmt: skip


def _spread(one: Spread) -> dict[str, Any]:
    """Shares of what starting at once cost."""
    return {name: round(float(value), 6) for name, value in one._asdict().items()}
