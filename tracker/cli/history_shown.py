"""A history for people (tables, charts) and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any

from tracker.cli import bills, render
from tracker.cli.render_chart import Drawn, chart, narrowed, sparkline
from tracker.report.history.bucketed import Point
from tracker.report.history.told import Group, Told
from tracker.report.shapes import history as shape

_SPARK_WIDTH = 24


def show(told: Told, options: dict[str, Any]) -> None:
    """Print *told* as the options ask."""
    output = options["output"]
    zone = options["window"].zone
    if output in ("table", "wide"):
        _table(told, options, zone, wide=output == "wide")
        return
    document = shape.document(told, options["window"].bucket, options["window"].zone_name)
    footer = "; ".join(document["remarks"])
    render.print_rows(output, shape.rows(told), shape.COLUMNS, document, footer)


# --- for people ---------------------------------------------------------------------------------


def _table(told: Told, options: dict[str, Any], zone: tzinfo, *, wide: bool) -> None:
    report = told.report
    render.say(shape.sentence(told))
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


def _figures(told: Told, *, wide: bool) -> None:
    label = "GPU" if told.report.question.per == "gpu" else "PROVIDER"
    now = "NOW" if told.live is not None else "LAST"
    columns = [
        render.Column(label), render.Column(now, right=True), render.Column("AGE", 2),
        render.Column("MIN", right=True),
        render.Column("P10", 3, right=True), render.Column("MEDIAN", right=True),
        render.Column("P90", 3, right=True), render.Column("MAX", 2, right=True),
        render.Column("BELOW", 1, right=True), render.Column("CHEAPEST", right=True),
        render.Column("KNOWN", 2, right=True), render.Column("CHANGES", 6, right=True),
        render.Column("VOLATILITY", 5, right=True), render.Column("TREND", 4),
    ]  # fmt: skip
    rows = [_figure_cells(told, group) for group in shape.groups(told)]
    if told.overall.below is None:
        at = next(i for i, c in enumerate(columns) if c.name == "BELOW")
        columns.pop(at)
        for cells in rows:
            cells.pop(at)
    render.print_table(columns, rows, wide=wide)


def _figure_cells(told: Told, group: Group) -> list[str]:
    found, report = group.statistics, told.report
    length = report.end - report.question.start
    now, offer = render.usd(group.now_usd), group.now_offer
    read_on = None if offer is None else offer.valid_as_of
    figures = [render.DASH] * 5 if found is None else [
        render.usd(value)
        for value in (found.low, found.p10, found.median, found.p90, found.high)
    ]  # fmt: skip
    volatility = found.volatility if found else None
    return [
        group.name,
        f"≥ {now}" if group.now_at_least else now,
        bills.age_text(read_on, told.age_of(group), stale=False),
        *figures,
        shape.length_text(group.below) if group.below is not None else render.DASH,
        shape.share(told, group.name) if group.name in told.shares.of else render.DASH,
        f"{100 * (found.known / length):.0f} %" if found else "0 %",
        f"{found.changes:,}" if found else render.DASH,
        f"{100 * volatility:.1f} %/day" if volatility is not None else render.DASH,
        sparkline(narrowed([point.usd for point in group.points], _SPARK_WIDTH)),
    ]


def _buckets(told: Told, options: dict[str, Any], zone: tzinfo, *, wide: bool) -> None:
    bucket = options["window"].bucket
    columns = [render.Column(f"FROM ({options['window'].zone_name})")]
    places = _in_order_of_interest(told)
    columns += [
        render.Column(group.name, place and place + 1, right=True)
        for group, place in zip(told.groups, places, strict=True)
    ]
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


def _in_order_of_interest(told: Told) -> list[int]:
    """The place of each group: where a terminal has no room for all, who was never the cheapest
    goes first."""

    def order(at: int) -> tuple[bool, Decimal, Decimal]:
        group = told.groups[at]
        low = group.statistics.low if group.statistics else Decimal("Infinity")
        return group.statistics is None, -(told.shares.alone(group.name) or Decimal(0)), low

    ranked = sorted(range(len(told.groups)), key=order)
    return [ranked.index(at) for at in range(len(told.groups))]


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
        Drawn(group.label, [point.usd for point in group.points])
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
