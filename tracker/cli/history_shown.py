"""A history for people (tables, charts) and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from tracker.cli import bills, render
from tracker.cli.render_chart import Drawn, chart, narrowed, sparkline
from tracker.domain.exact import plain
from tracker.report.history.bucketed import Point
from tracker.report.history.steps import CostStep
from tracker.report.history.told import Group, Told

COLUMNS = (
    "start", "end", "series", "usd", "low_usd", "high_usd", "mean_usd", "known_seconds", "at_least",
    "gpu", "gpus", "provider", "tier", "market", "region", "price_usd_per_gpu_hour", "hours",
    "basis", "offer",
)  # fmt: skip
_SPARK_WIDTH = 24
_DAY = timedelta(days=1)


def show(told: Told, options: dict[str, Any]) -> None:
    """Print *told* as the options ask."""
    output = options["output"]
    zone = options["window"].zone
    if output in ("table", "wide"):
        _table(told, options, zone, wide=output == "wide")
        return
    rows = [row(point, group.name) for group in _all(told) for point in group.points]
    document = _document(told, options)
    render.print_rows(output, rows, COLUMNS, document, "\n".join(document["remarks"]))


def _all(told: Told) -> Iterator[Group]:
    yield from told.groups
    yield told.overall


# --- for programs -------------------------------------------------------------------------------


def row(point: Point, name: str) -> dict[str, Any]:
    """A bucket of a series. What is not known is null; ``at_least``: only such a bill is known."""
    bucket = point.bucket
    return {
        "start": bucket.start, "end": bucket.end, "series": name,
        "usd": render.usd_text(point.usd), "low_usd": render.usd_text(bucket.low),
        "high_usd": render.usd_text(bucket.high), "mean_usd": render.usd_text(bucket.mean),
        "known_seconds": int(bucket.known.total_seconds()),
        **(way(point.best) if point.best else {}),
    }  # fmt: skip


def way(step: CostStep) -> dict[str, Any]:
    """The cheapest way of a step."""
    line, offer = step.cost.line, step.offer
    open_ended = step.cost.partial or line.lower_bound
    return {
        "at_least": render.usd_text(step.usd) if open_ended else None,
        "gpu": offer.gpu_key, "gpus": render.quantity(offer.gpu_count), "provider": offer.provider,
        "tier": offer.tier, "market": offer.market, "region": offer.region,
        "price_usd_per_gpu_hour": render.usd_text(step.cost.price_usd_per_gpu_hour),
        "hours": render.quantity(line.estimate.hours), "basis": str(line.estimate.basis),
        "offer": bills.ref(offer.key),
    }  # fmt: skip


def _document(told: Told, options: dict[str, Any]) -> dict[str, Any]:
    report, window = told.report, options["window"]
    question = report.question
    return {
        "as_of": report.now,
        "answer": sentence(told),
        "job": bills.job_values(question.job),
        "filters": question.filters.echo(),
        "since": question.start, "until": report.end, "bucket": window.bucket,
        "time_zone": window.zone_name, "stat": str(told.stat), "per": question.per,
        "estimate_version": question.estimates,
        "estimates": {"first": report.estimates.first, "changes": report.estimates.changes},
        "history_begins_at": report.begins_at,
        "series": [_values(told, group) for group in _all(told)],
        "compared_seconds": int(told.shares.compared.total_seconds()),
        "kinds_considered": report.kinds, "excluded": dict(report.excluded),
        "replaced": report.replaced,
        "remarks": list(told.remarks()),
    }  # fmt: skip


def _values(told: Told, group: Group) -> dict[str, Any]:
    found = group.statistics
    share = told.shares.of.get(group.name)
    figures = {} if found is None else {
        f"{name}_usd": render.usd_text(getattr(found, field))
        for name, field in (("min", "low"), ("p10", "p10"), ("median", "median"),
                            ("mean", "mean"), ("p90", "p90"), ("max", "high"))
    }  # fmt: skip
    return {
        "name": group.name,
        "now_usd": render.usd_text(group.now_usd), "now_at_least": group.now_at_least,
        "now_is_live": group.live is not None,
        **figures,
        "changes": found.changes if found else None,
        "volatility_per_day": found.volatility if found else None,
        "known_seconds": int(found.known.total_seconds()) if found else 0,
        "below_seconds": None if group.below is None else int(group.below.total_seconds()),
        "cheapest_alone_seconds": int(share.alone.total_seconds()) if share else None,
        "cheapest_tied_seconds": int(share.tied.total_seconds()) if share else None,
    }  # fmt: skip


# --- for people ---------------------------------------------------------------------------------


def _table(told: Told, options: dict[str, Any], zone: tzinfo, *, wide: bool) -> None:
    report = told.report
    render.say(sentence(told))
    render.say()
    if any(group.steps or group.live for group in told.groups):
        _figures(told, wide=wide)
        render.say()
        if options["chart"]:
            for line in chart_lines(told, zone):
                render.say(line)
        else:
            _buckets(told, options, zone, wide=wide)
        render.say()
    for text in told.remarks():
        render.say(text)
    render.say(_footer(told))
    if report.question.per == "gpu":
        render.say("Figures are weighed by time and count only moments at which a price is known.")


def sentence(told: Told) -> str:
    """The answer in a sentence."""
    report = told.report
    job = report.question.job
    days = _length(report.end - report.question.start)
    text = f"{job.title or job.name}, {report.question.start:%Y-%m-%d} to {report.end:%Y-%m-%d}"
    text += f" ({days}): "
    overall = told.overall
    if overall.statistics is None:
        return text + "no complete bill is known."
    low = overall.statistics.low
    at = next(step for step in overall.steps if step.usd == low and not step.cost.partial)
    text += (
        f"the cheapest was {render.usd(low)} on {at.offer.gpu_key} at {at.offer.provider}, first on"
        f" {at.start:%Y-%m-%d}"
    )
    best = _most_often(told)
    if best is not None:
        text += f"; {best} was the cheapest for {_share(told, best)} of the time compared"
    if overall.now_usd is not None:
        least = "at least " if overall.now_at_least else ""
        when = "now" if overall.live else "at the end"
        text += f"; {when} it is {least}{render.usd(overall.now_usd)}"
    return text + "."


def _most_often(told: Told) -> str | None:
    if not told.shares.compared:
        return None
    return max(told.shares.of, key=lambda name: told.shares.of[name].alone)


def _share(told: Told, name: str) -> str:
    share = told.shares.alone(name)
    return render.DASH if share is None else f"{plain(share * 100, 1)} %"


def _figures(told: Told, *, wide: bool) -> None:
    label = "GPU" if told.report.question.per == "gpu" else "PROVIDER"
    now = "NOW" if told.live is not None else "LAST"
    columns = [
        render.Column(label), render.Column(now, right=True), render.Column("MIN", right=True),
        render.Column("P10", 3, right=True), render.Column("MEDIAN", right=True),
        render.Column("P90", 3, right=True), render.Column("MAX", 2, right=True),
        render.Column("BELOW", 1, right=True), render.Column("CHEAPEST", right=True),
        render.Column("KNOWN", 2, right=True), render.Column("CHANGES", 6, right=True),
        render.Column("VOLATILITY", 5, right=True), render.Column("TREND", 4),
    ]  # fmt: skip
    rows = [_figure_cells(told, group) for group in _all(told)]
    if told.overall.below is None:
        at = next(i for i, c in enumerate(columns) if c.name == "BELOW")
        columns.pop(at)
        for cells in rows:
            cells.pop(at)
    render.print_table(columns, rows, wide=wide)


def _figure_cells(told: Told, group: Group) -> list[str]:
    found, report = group.statistics, told.report
    length = report.end - report.question.start
    now = render.usd(group.now_usd)
    figures = [render.DASH] * 5 if found is None else [
        render.usd(value)
        for value in (found.low, found.p10, found.median, found.p90, found.high)
    ]  # fmt: skip
    volatility = found.volatility if found else None
    return [
        group.name,
        f"≥ {now}" if group.now_at_least else now,
        *figures,
        _length(group.below) if group.below is not None else render.DASH,
        _share(told, group.name) if group.name in told.shares.of else render.DASH,
        f"{100 * (found.known / length):.0f} %" if found else "0 %",
        f"{found.changes:,}" if found else render.DASH,
        f"{100 * volatility:.1f} %/day" if volatility is not None else render.DASH,
        sparkline(narrowed([point.usd for point in group.points], _SPARK_WIDTH)),
    ]


def _buckets(told: Told, options: dict[str, Any], zone: tzinfo, *, wide: bool) -> None:
    bucket = options["window"].bucket
    columns = [render.Column(f"FROM ({options['window'].zone_name})")]
    columns += [render.Column(group.name, right=True) for group in told.groups]
    columns += [render.Column("CHEAPEST"), render.Column("AT", 1)]
    rows = []
    for place, overall in enumerate(told.overall.points):
        cells = [_cell(group.points[place]) for group in told.groups]
        best = overall.best
        rows.append([
            _moment(overall.bucket.start, zone, bucket), *cells,
            best.offer.gpu_key if best else render.DASH,
            best.offer.provider if best else render.DASH,
        ])  # fmt: skip
    render.print_table(columns, rows, wide=wide)


def _cell(point: Point) -> str:
    if point.usd is None:
        return f"≥ {render.usd(point.best.usd)}" if point.best else render.DASH
    bound = point.best is not None and point.best.cost.line.lower_bound
    return f"{'≥ ' if bound else ''}{render.usd(point.usd)}"


def _moment(moment: datetime, zone: tzinfo, bucket: str) -> str:
    local = moment.astimezone(zone)
    if bucket in ("1d", "day", "1w", "week", "7d", "24h", "1mo", "month"):
        return f"{local:%Y-%m-%d}"
    # With the offset, so that an hour which a changing clock repeats is told from itself.
    return f"{local:%Y-%m-%d %H:%M%z}"


def chart_lines(told: Told, zone: tzinfo) -> Iterator[str]:
    """The groups as a chart of text."""
    width = min(100, (render.terminal_width() or 90) - 14)
    drawn = [
        Drawn(group.name, [point.usd for point in group.points])
        for group in told.groups
        if group.statistics
    ]
    start, end = told.report.question.start.astimezone(zone), told.report.end.astimezone(zone)
    yield f"{_STATS[told.stat]} of each bucket, in USD for the job"
    yield from chart(drawn, f"{start:%Y-%m-%d}", f"{end:%Y-%m-%d}", width=max(20, width))


_STATS = {"min": "lowest bill", "median": "median", "p10": "10th percentile",
          "p90": "90th percentile"}  # fmt: skip


def _footer(told: Told) -> str:
    report = told.report
    text = render.counted(report.kinds, "kind") + " of offers"
    reasons = [f"{n:,} {reason}" for reason, n in report.excluded.most_common() if n]
    return text + ("; left out: " + ", ".join(reasons) if reasons else "")


def _length(length: timedelta) -> str:
    if length >= 2 * _DAY:
        return f"{plain(Decimal(length // timedelta(hours=1)) / 24, 1)} days"
    return f"{plain(Decimal(length // timedelta(minutes=1)) / 60, 1)} h"
