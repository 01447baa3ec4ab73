"""What a job cost over time, as a table and a chart that is drawn from that table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tracker.app.answers import Question
from tracker.app.asked import BadQuestion
from tracker.report.dated import not_live
from tracker.report.shapes import history as shape
from tracker.report.shapes import texts
from tracker.web.pages import sorting
from tracker.web.pages.addresses import Address, choice
from tracker.web.pages.fields import job_fields
from tracker.web.pages.health import alert_events
from tracker.web.pages.site import Asked, Empty, PageKind
from tracker.web.pages.sorting import Column, Key, heads, in_order
from tracker.web.pages.unsure import held_points, stale_spans

if TYPE_CHECKING:
    from tracker.app.windows import Window
    from tracker.report.history.answer import HistoryReport
    from tracker.report.history.bucketed import Point
    from tracker.report.history.told import Group, Told

MOST_ROWS = 1500  # of a page; files take more
_SHOW = ("job", "price")
_SCALE = ("linear", "log")
OWN = {"show": _SHOW[0], "scale": _SCALE[0], **sorting.OWN}


class Cell(NamedTuple):
    """A bucket of one series. ``exact`` is what the chart draws, ``shown`` what is written.

    ``low`` and ``high`` are those of the bucket where they differ. ``at_least``: no complete bill
    is known, but that it is no less than this.
    """

    exact: str | None
    shown: str
    low: str | None = None
    high: str | None = None
    band: str | None = None
    at_least: str | None = None
    where: str | None = None


Bucket: TypeAlias = tuple[datetime, datetime, str, list[Cell]]


class Marker(NamedTuple):
    """Something that happened: ``kind`` is fire, clear or estimate."""

    at: datetime
    kind: str
    text: str


def fill(asked: Asked, values: dict[str, Any]) -> None:
    """The values of the template."""
    site, address = asked
    show, scale = choice(address, "show", _SHOW), choice(address, "scale", _SCALE)
    values |= {
        "fields": job_fields(address, HISTORY.known),
        "formats": [
            (form.upper(), address.form(site.api, "history", form)) for form in ("json", "csv")
        ],
        "own": [(name, text) for name, text in address.own.items()],
        "show": show, "scale": scale, "views": _views(address, show, scale),
        "stale": [], "held": [], "table": [], "series": [], "figures": [], "markers": [],
        "remarks": [], "sentence": None,
        "compared": None,
    }  # fmt: skip
    question = Question.parsed("history", address.question)
    told, window = site.answers.history(question)
    if len(window.edges) - 1 > MOST_ROWS:
        raise BadQuestion(
            "bucket", f"{window.bucket} makes {len(window.edges) - 1:,} rows, more than a page "
            f"takes ({MOST_ROWS:,}); take a longer one, or CSV"
        )  # fmt: skip
    report = told.report
    groups = [group for group in shape.groups(told) if group.steps or group.live]
    columns = _columns(groups, window)
    known = _from_first_known(list(_table(groups, window, show)))
    table = in_order(address, columns, known)
    values |= {
        "as_of": report.now, "job": report.question.job.title or report.question.job.name,
        "sentence": shape.sentence(told), "series": [group.label for group in groups],
        "table": table, "unknown_until": known[0][2] if known[0][0] > window.start else None,
        "heads": heads(address, columns, "every"), "zone": window.zone_name,
        "bucket": window.bucket, "figures": [_figures(told, group) for group in groups],
        "markers": list(_markers(asked, told)), "remarks": list(told.remarks()),
        "stat": str(told.stat), "excluded": report.excluded.most_common(),
        "footer": f"Of {texts.counted(report.kinds, 'kind')} of offers the lowest price of each "
        "counts; a kind is a seller's GPU, count, market, tier and terms.",
        "unit": "USD per GPU-hour" if show == "price" else "USD for the job",
        "is_live": told.live is not None,
        "compared": shape.compared_text(told) if told.shares.compared else None,
    }  # fmt: skip
    with site.answers.app.reading() as connection:
        values |= {
            "stale": stale_spans(connection, told, groups, show),
            "held": held_points(asked, connection, told, groups, show),
        }
    if not report.overall:
        values["empty"] = _nothing(report)


HISTORY = PageKind("/history", "Over time", "history", "history.html", fill, OWN)


def _columns(groups: Sequence[Group], window: Window) -> list[Column]:
    """The columns of the table of buckets, of what ``_table`` gives."""

    def of(place: int) -> Key:
        def value(row: Bucket) -> Decimal | None:
            text = row[3][place].exact
            return None if text is None else Decimal(text)

        return value

    last = len(groups) - 1
    return [
        Column("from", f"From ({window.zone_name})", lambda row: row[0]),
        *(
            Column(group.name.replace(" ", "-"), group.label, of(at), number=True,
                   overall=at == last)
            for at, group in enumerate(groups)
        ),
    ]  # fmt: skip


def _views(address: Address, show: str, scale: str) -> list[tuple[str, str | None]]:
    """The other ways to look at it; None for the one that is shown."""
    words = {"job": "job cost", "price": "price of a GPU-hour"}
    ways = [
        (words[one], None if one == show else address.href(show=one)) for one in _SHOW
    ]  # fmt: skip
    return ways + [
        (f"{one} scale", None if one == scale else address.href(scale=one)) for one in _SCALE
    ]


def _nothing(report: HistoryReport) -> Empty:
    if report.begins_at is None:
        return Empty("No prices are on record. Ask for some:", ("gpucost poll", "gpucost daemon"))
    text = shape.nothing(report)
    return Empty(f"{text[0].upper()}{text[1:]}. Older prices can be imported:",
                 ("gpucost import --help",))  # fmt: skip


def _table(groups: Sequence[Group], window: Window, show: str) -> Iterator[Bucket]:
    """Each bucket: its start and end, its name in the zone asked for, and a cell for a series."""
    days = all(edge.astimezone(window.zone).hour == 0 for edge in window.edges)
    for at, (start, end) in enumerate(zip(window.edges, window.edges[1:], strict=False)):
        local = start.astimezone(window.zone)
        name = f"{local:%Y-%m-%d}" if days else f"{local:%Y-%m-%d %H:%M}"
        yield start, end, name, [_cell(group.points[at], show) for group in groups]


def _from_first_known(rows: list[Bucket]) -> list[Bucket]:
    """*rows* without those before the first in which anything is known; all where nothing is."""
    first = next((at for at, row in enumerate(rows) if any(cell.where for cell in row[3])), 0)
    return rows[first:]


def _cell(point: Point, show: str) -> Cell:
    best, bucket = point.best, point.bucket
    where = None if best is None else (
        f"{best.offer.gpu_key} at {best.offer.provider}{not_live(best.offer)}"
    )  # fmt: skip
    if show == "price":
        if best is None:
            return Cell(None, texts.DASH)
        price = best.cost.price_usd_per_gpu_hour
        return Cell(texts.usd_text(price), texts.usd(price, 4), where=where)
    if point.usd is None:
        if best is None:
            return Cell(None, texts.DASH)
        return Cell(
            None, f"≥ {texts.usd(best.usd)}", at_least=texts.usd_text(best.usd), where=where
        )
    band = None
    if bucket.low != bucket.high:
        band = f"{texts.usd(bucket.low)} to {texts.usd(bucket.high)}"
    return Cell(
        texts.usd_text(point.usd), texts.usd(point.usd), texts.usd_text(bucket.low),
        texts.usd_text(bucket.high), band, where=where,
    )  # fmt: skip


def _figures(told: Told, group: Group) -> tuple[str, list[str]]:
    found, report = group.statistics, told.report
    now = texts.usd(group.now_usd)
    least = "≥ " if group.label != group.name else ""
    cells = [f"≥ {now}" if group.now_at_least else now, _age(told, group)]
    cells += [texts.DASH] * 5 if found is None else [
        f"{least}{texts.usd(value)}"
        for value in (found.low, found.p10, found.median, found.p90, found.high)
    ]  # fmt: skip
    length = report.end - report.question.start
    cells += [
        shape.share(told, group.name) if group.name in told.shares.of else texts.DASH,
        f"{100 * (found.known / length):.0f} %" if found else "0 %",
        f"{found.changes:,}" if found else texts.DASH,
        texts.DASH if group.below is None else shape.length_text(group.below),
    ]
    return group.label, cells


def _age(told: Told, group: Group) -> str:
    """How old the price of now is; of one that a person read, the day."""
    offer, seconds = group.now_offer, told.age_of(group)
    if offer is not None and offer.valid_as_of is not None:
        return f"read {offer.valid_as_of}"
    return texts.DASH if seconds is None else texts.duration(seconds)


def _markers(asked: Asked, told: Told) -> Iterator[Marker]:
    """When alerts of this job fired and cleared, and when its estimate changed; in order."""
    report = told.report
    found = [
        Marker(at, "estimate", "the estimate of the hours changed")
        for at in report.estimates.changes
    ]
    names = _rules_of(asked, report.question.job.name)
    for event in alert_events(asked, report.question.start):
        kind = {"fired": "fire", "resolved": "clear"}.get(event.kind)
        if (event.inputs.get("event") or {}).get("firing_until"):
            continue  # told later, and marked where it was
        if kind and event.at <= report.end and event.rule in names:
            found.append(Marker(event.at, kind, f"{event.rule} {event.kind}"))
    yield from sorted(found)


def _rules_of(asked: Asked, job: str) -> set[str]:
    """The alert rules that are about a job of this name, as they were evaluated last."""
    from tracker.app.root import NothingRecorded
    from tracker.store import alerts

    def about(definition: Mapping[str, Any]) -> bool:
        return (definition.get("job") or {}).get("name") == job

    try:
        with asked.site.answers.app.reading() as connection:
            stored = alerts.rules(connection, include_removed=True)
    except NothingRecorded:
        return set()
    return {row.name for row in stored if about(row.definition)}
