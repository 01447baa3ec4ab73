"""Answers as documents and as tables: what JSON, CSV and NDJSON are made of."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.answers import Answers, EstimateReport, Question
from tracker.app.asked import BadQuestion
from tracker.app.standing import COLUMNS as ALERT_COLUMNS
from tracker.app.standing import SILENCE_COLUMNS
from tracker.report.held import COLUMNS as HELD_COLUMNS
from tracker.report.listing import PROVIDER_COLUMNS
from tracker.report.shapes import compared, estimated, texts, waiting
from tracker.report.shapes import history as past
from tracker.report.shapes import rows as shapes
from tracker.report.shapes import versus as over_time
from tracker.report.shapes.jobs import listed_row

if TYPE_CHECKING:
    from tracker.report.cheapest import Row

FORMATS = {
    "json": "application/json", "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
}  # fmt: skip
MOST_ROWS = 1000
ESTIMATE_COLUMNS = (
    "gpu", "gpus", "runs", "hours", "low_hours", "high_hours", "basis", "lower_bound", "bound",
    "vram_gib", "price_usd_per_gpu_hour", "total_usd", "at_least_usd", "low_usd", "high_usd",
    "machines", "gpus_per_machine", "billed_hours", "market", "provider", "reason",
)  # fmt: skip
JOB_COLUMNS = ("job", "kind", "from", "title", "problem")


class View(NamedTuple):
    """An answer: the document around its ``rows`` (in JSON under ``name``), and the columns of
    the rows as a table. ``footer`` says what was left out, ``more`` whether there is a next page,
    ``sources`` whose word the prices are, where a row is of several offers.
    """

    document: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    footer: str = ""
    more: bool | None = None
    name: str = "rows"
    sources: Sequence[str] | None = None


def cheapest(answers: Answers, question: Question, offset: int) -> View:
    """The ranking, from *offset* on."""
    top = _page(question)
    wanted = question._replace(values={**question.values, "top": offset + top + 1})
    report = answers.cheapest(wanted)
    page = report.rows[offset : offset + top]
    rows = [shapes.row(r, report.now) for r in page]
    footer = texts.footer(report.considered, report.total_offers, report.excluded)
    more = len(report.rows) > offset + top
    shown = report._replace(
        rows=report.rows[: offset + top], best_by_gpu=_placed(report.best_by_gpu, offset + top),
        unbeaten=_placed(report.unbeaten, offset + top),
    )  # fmt: skip
    document = shapes.document(shown)
    return View(document, rows, shapes.csv_columns(rows), footer, more)


def _placed(rows: Iterable[Row], shown: int) -> tuple[Row, ...]:
    """*rows* with their places among those *shown* so far; 0: not one of them."""
    return tuple(row if row.rank <= shown else row._replace(rank=0) for row in rows)


def offers(answers: Answers, question: Question, offset: int) -> View:
    """What can be rented, from *offset* on."""
    if question.values["group_by"]:
        return _groups(answers, question, offset)
    top = _page(question)
    report = answers.offers(question)
    page = report._replace(offers=report.offers[offset : offset + top])
    footer = texts.footer(len(report.offers), report.total_offers, report.excluded)
    more = len(report.offers) > offset + top
    document = report.document() | _sorted(question)
    return View(document, page.rows(), shapes.OFFER_COLUMNS, footer, more)


def _groups(answers: Answers, question: Question, offset: int) -> View:
    """What can be rented in groups, from *offset* on."""
    top = _page(question)
    report, grouping = answers.groups(question)
    page = grouping._replace(groups=grouping.groups[offset : offset + top])
    footer = texts.footer(len(report.offers), report.total_offers, report.excluded)
    more = len(grouping.groups) > offset + top
    document = report.document() | grouping.document()
    if in_order := _sorted(question):
        document |= {**in_order, "ranked_by": None}
    sources = sorted({o.source for group in page.groups for o in group.offers})
    return View(document, page.rows(report.now), grouping.columns, footer, more, sources=sources)


def _sorted(question: Question) -> dict[str, str]:
    """What the rows are sorted by, where that is asked for."""
    text = question.values["sort"]
    return {} if text is None else {"sort": text}


def compare(answers: Answers, question: Question, _offset: int) -> View:
    """Two GPUs."""
    report = answers.compare(question)
    rows = [shapes.row(r, report.left.now) for r in compared.rows(report)]
    footer = "; ".join(
        f"{name}: {compared.footer(side)}"
        for name, side in (("left", report.left), ("right", report.right))
    )
    return View(compared.document(report), rows, shapes.csv_columns(rows), footer)


def history(answers: Answers, question: Question, _offset: int) -> View:
    """A job's cost over time."""
    told, window = answers.history(question)
    document = past.document(told, window.bucket, window.zone_name)
    return View(document, past.rows(told), past.COLUMNS, "; ".join(document["remarks"]))


def versus(answers: Answers, question: Question, _offset: int) -> View:
    """Two GPUs over time: a row for each time within which nothing changes."""
    found = answers.versus(question)
    asked = found.report.question
    document = over_time.document(found)
    steps = document.pop("steps")
    document = {
        "as_of": found.report.now, "answer": " ".join(over_time.lines(found)),
        "job": asked.job.name, "left": found.left, "right": found.right,
        "filters": asked.filters.echo(), **document, "excluded": dict(found.report.excluded),
    }  # fmt: skip
    return View(document, steps, over_time.COLUMNS, "; ".join(document["remarks"]), name="steps")


def when(answers: Answers, question: Question, _offset: int) -> View:
    """Start now, or wait: a row for each rule that was played."""
    asked = answers.when(question)
    if asked.found is None:
        document = dict(
            waiting.nothing_known(asked.job.name, asked.filters, asked.end, asked.deadline)
        )
    else:
        document = waiting.document(asked.found)
    rules = document.pop("rules")
    return View(document, rules, waiting.RULE_COLUMNS, document["reason"], name="rules")


def estimate(answers: Answers, question: Question, _offset: int) -> View:
    """Hours on each GPU."""
    found: EstimateReport = answers.estimate(question)
    document = estimated.document(found.job, found.found, found.remark)
    rows = document.pop("estimates")
    return View(document, rows, ESTIMATE_COLUMNS, document["remark"] or "", name="estimates")


def providers(answers: Answers, question: Question, _offset: int) -> View:
    """Each provider."""
    report = answers.providers(question)
    return View(report.document(), report.rows(), PROVIDER_COLUMNS)


def jobs(answers: Answers, question: Question, _offset: int) -> View:
    """The jobs known by name."""
    return View({}, [listed_row(*one) for one in answers.jobs(question)], JOB_COLUMNS, name="jobs")


def alerts(answers: Answers, question: Question, _offset: int) -> View:
    """Each rule."""
    report = answers.alerts(question)
    return View(report.document(), report.rows, ALERT_COLUMNS, "; ".join(report.remarks))


def silences(answers: Answers, question: Question, _offset: int) -> View:
    """Each silence."""
    report = answers.silences(question)
    return View(report.document(), report.rows, SILENCE_COLUMNS)


def quarantined(answers: Answers, question: Question, offset: int) -> View:
    """What the gates hold back, from *offset* on."""
    top = _page(question)
    report = answers.quarantined(question)
    rows = report.rows(offset + top)[offset:]
    more = len(report.held) > offset + top
    document = {"as_of": report.now, **report.document()}
    return View(document, rows, HELD_COLUMNS, report.footer, more)


VIEWS: Mapping[str, Callable[[Answers, Question, int], View]] = {
    "cheapest": cheapest, "compare": compare, "versus": versus, "history": history, "when": when,
    "estimate": estimate, "offers": offers, "quarantined": quarantined, "providers": providers,
    "jobs": jobs, "alerts": alerts, "silences": silences,
}  # fmt: skip


def _page(question: Question) -> int:
    top: int = question.values["top"]
    if top > MOST_ROWS:
        raise BadQuestion("top", f"at most {MOST_ROWS:,} rows at once; go on with {{offset}}")
    return top


def body(view: View, form: str, next_page: str | None) -> bytes:
    """The view in one of FORMATS; *next_page* is the address of what follows."""
    if form == "csv":
        return _csv(view).encode()
    if form == "ndjson":
        return "".join(f"{_line(row)}\n" for row in view.rows).encode()
    document = {"schema_version": texts.SCHEMA_VERSION, **view.document}
    if view.more is not None:
        document["next"] = next_page
    document[view.name] = view.rows
    return (texts.json_text(document) + "\n").encode()


def _line(row: Mapping[str, Any]) -> str:
    return texts.json_text({"schema_version": texts.SCHEMA_VERSION, **row})


def _csv(view: View) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(view.columns)
    for row in view.rows:
        writer.writerow([texts.csv_cell(texts.plain(row.get(name))) for name in view.columns])
    return out.getvalue()
