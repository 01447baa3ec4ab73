"""What a job cost over time: in words, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tracker.domain.exact import plain
from tracker.report.dated import not_live
from tracker.report.history.bucketed import Point
from tracker.report.history.steps import CostStep
from tracker.report.history.told import Group, Told
from tracker.report.history.told import length_text as length_text
from tracker.report.shapes import texts
from tracker.report.shapes.rows import job_values, ref

if TYPE_CHECKING:
    from tracker.report.history.answer import HistoryReport

COLUMNS = (
    "start", "end", "series", "usd", "low_usd", "high_usd", "mean_usd", "known_seconds", "at_least",
    "gpu", "gpus", "provider", "tier", "market", "region", "price_usd_per_gpu_hour", "hours",
    "basis", "offer", "source", "valid_as_of",
)  # fmt: skip


# Shares of less, as after the very first poll, say nothing that is worth the sentence.
_WORTH_A_SHARE = timedelta(minutes=1)


def groups(told: Told) -> Iterator[Group]:
    """All series, the cheapest of all last."""
    yield from told.groups
    yield told.overall


def rows(told: Told) -> list[dict[str, Any]]:
    """Every bucket of every series."""
    return [row(point, group.name) for group in groups(told) for point in group.points]


def row(point: Point, name: str) -> dict[str, Any]:
    """A bucket of a series. What is not known is null; ``at_least``: only such a bill is known."""
    bucket = point.bucket
    return {
        "start": bucket.start, "end": bucket.end, "series": name,
        "usd": texts.usd_text(point.usd), "low_usd": texts.usd_text(bucket.low),
        "high_usd": texts.usd_text(bucket.high), "mean_usd": texts.usd_text(bucket.mean),
        "known_seconds": int(bucket.known.total_seconds()),
        **(way(point.best) if point.best else {}),
    }  # fmt: skip


def way(step: CostStep) -> dict[str, Any]:
    """The cheapest way of a step."""
    line, offer = step.cost.line, step.offer
    open_ended = step.cost.partial or line.lower_bound
    return {
        "at_least": texts.usd_text(step.usd) if open_ended else None,
        "gpu": offer.gpu_key, "gpus": texts.quantity(offer.gpu_count), "provider": offer.provider,
        "tier": offer.tier, "market": offer.market, "region": offer.region,
        "price_usd_per_gpu_hour": texts.usd_text(step.cost.price_usd_per_gpu_hour),
        "hours": texts.quantity(line.estimate.hours), "basis": str(line.estimate.basis),
        "offer": ref(offer.key), "source": offer.source, "valid_as_of": offer.valid_as_of,
    }  # fmt: skip


def document(told: Told, bucket: str, zone_name: str) -> dict[str, Any]:
    """The answer around the rows."""
    report = told.report
    question = report.question
    return {
        "as_of": report.now,
        "answer": sentence(told),
        "job": job_values(question.job),
        "filters": question.filters.echo(),
        "since": question.start, "until": report.end, "bucket": bucket,
        "time_zone": zone_name, "stat": str(told.stat), "per": question.per,
        "estimate_version": question.estimates,
        "estimates": {"first": report.estimates.first, "changes": report.estimates.changes},
        "history_begins_at": report.begins_at,
        "series": [_values(told, group) for group in groups(told)],
        "compared_seconds": int(told.shares.compared.total_seconds()),
        "kinds_considered": report.kinds, "excluded": dict(report.excluded),
        "replaced": report.replaced,
        "remarks": list(told.remarks()),
    }  # fmt: skip


def _values(told: Told, group: Group) -> dict[str, Any]:
    found = group.statistics
    shared, offer = told.shares.of.get(group.name), group.now_offer
    figures = {} if found is None else {
        f"{name}_usd": texts.usd_text(getattr(found, field))
        for name, field in (("min", "low"), ("p10", "p10"), ("median", "median"),
                            ("mean", "mean"), ("p90", "p90"), ("max", "high"))
    }  # fmt: skip
    return {
        "name": group.name,
        "now_usd": texts.usd_text(group.now_usd), "now_at_least": group.now_at_least,
        "now_is_live": group.live is not None,
        "now_source": None if offer is None else offer.source,
        "now_age_seconds": told.age_of(group),
        "now_valid_as_of": None if offer is None else offer.valid_as_of,
        **figures,
        "changes": found.changes if found else None,
        "volatility_per_day": found.volatility if found else None,
        "known_seconds": int(found.known.total_seconds()) if found else 0,
        "below_seconds": None if group.below is None else int(group.below.total_seconds()),
        "cheapest_alone_seconds": int(shared.alone.total_seconds()) if shared else None,
        "cheapest_tied_seconds": int(shared.tied.total_seconds()) if shared else None,
        "compared_seconds": int(shared.compared.total_seconds()) if shared else None,
    }  # fmt: skip


def nothing(report: HistoryReport) -> str:
    """Why a window has no price, in words."""
    from tracker.report.record import begins

    if report.begins_at is None:
        return "no prices on record; ask for some with: gpucost poll"
    if not report.record:
        return "nothing of what is asked for was ever on record; gpucost offers has what is"
    if report.record[0].at >= report.end:
        return f"no price is known in this window; {begins(report.record)}"
    return "no price on record in this window matches"


def sentence(told: Told) -> str:
    """The answer in a sentence."""
    report = told.report
    job = report.question.job
    days = length_text(report.end - report.question.start)
    text = f"{job.title or job.name}, {report.question.start:%Y-%m-%d} to {report.end:%Y-%m-%d}"
    text += f" ({days}): "
    overall = told.overall
    if overall.statistics is None:
        return text + "no complete bill is known."
    low = overall.statistics.low
    at = next(step for step in overall.steps if step.usd == low and not step.cost.partial)
    text += (
        f"the cheapest was {texts.usd(low)} on {at.offer.gpu_key} at {at.offer.provider}, first on"
        f" {at.start:%Y-%m-%d}{not_live(at.offer)}"
    )
    best = _most_often(told)
    if best is not None:
        text += f"; {best} was the cheapest for {share(told, best)} of {compared_text(told)}"
    if overall.now_usd is not None:
        least = "at least " if overall.now_at_least else ""
        when = "now" if overall.live else "at the end"
        whose = "" if overall.now_offer is None else not_live(overall.now_offer)
        text += f"; {when} it is {least}{texts.usd(overall.now_usd)}{whose}"
    return text + "."


def compared_text(told: Told) -> str:
    """The time that shares are of."""
    who = "both are" if len(told.shares.of) == 2 else "two or more are"
    return f"the {length_text(told.shares.compared)} for which {who} known"


def _most_often(told: Told) -> str | None:
    if told.shares.compared < _WORTH_A_SHARE:
        return None
    return max(told.shares.of, key=lambda name: told.shares.of[name].alone)


def share(told: Told, name: str) -> str:
    """For how much of the time compared *name* alone was the cheapest."""
    found = told.shares.alone(name)
    return texts.DASH if found is None else f"{plain(found * 100, 1)} %"
