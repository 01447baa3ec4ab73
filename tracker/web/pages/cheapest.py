"""The main page: the cheapest way to run a job, every line of its bill, and what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.answers import Question
from tracker.app.asked import BadQuestion
from tracker.domain.kind import KIND_TEXTS
from tracker.domain.pareto import Goal
from tracker.report.ages import age_of, age_seconds
from tracker.report.filters import STALE, nothing_left, rented_kind
from tracker.report.record import nothing_then
from tracker.report.shapes import goals, texts, words
from tracker.report.shapes.rows import ref
from tracker.report.shapes.units import lines as unit_lines
from tracker.web.api.views import MOST_ROWS
from tracker.web.pages import sorting
from tracker.web.pages.addresses import Address
from tracker.web.pages.fields import job_fields
from tracker.web.pages.site import Asked, Empty, PageKind, in_page_words, only_stale
from tracker.web.pages.sorting import Column, heads, in_order

if TYPE_CHECKING:
    from tracker.app.root import App
    from tracker.domain.job import Job
    from tracker.report.cheapest import CheapestReport, Row


class Shown(NamedTuple):
    """A row as it is shown; ``place`` is its rank, or that it has none among the rows."""

    place: str
    tie: bool
    unbeaten: bool
    gpu: str
    gpus: str
    machines: str | None
    provider: str
    region: str
    tier: str
    market: str
    per_gpu_hour: str
    hours: str
    basis: str
    billed: str
    usd: str
    band: str | None
    age: str
    stale: bool
    stock: str
    fit: str
    offer: str
    bill: Sequence[tuple[str, str, str]]
    notes: Sequence[str]


def fill(asked: Asked, values: dict[str, Any]) -> None:
    """The values of the template."""
    site, address = asked
    values |= {
        "fields": job_fields(address, CHEAPEST.known),
        "formats": [
            (form.upper(), address.form(site.api, "cheapest", form)) for form in ("json", "csv")
        ],
        "own": list(address.own.items()), "rows": [], "others": [], "sentence": None,
        "remarks": [], "excluded": [], "footer": None,
    }  # fmt: skip
    question = Question.parsed("cheapest", address.question)
    if question.values["top"] > MOST_ROWS:
        raise BadQuestion("top", f"at most {MOST_ROWS:,} rows at once; filter instead")
    report = site.answers.cheapest(question)
    app = site.answers.app
    shown = {row.offer.key for row in report.rows}
    others = [row for row in report.best_by_gpu if row.offer.key not in shown]
    columns = _columns(report.now)
    # Of all GPUs there are nobody asked for each.
    others = in_order(address, columns, others if report.filters.gpus else ())
    values |= {
        "heads": heads(address, columns, "ranking"),
        "rows": list(_rows(in_order(address, columns, report.rows), report, app)),
        "others": list(_rows(others, report, app)),
        "sentence": words.sentence(report) if report.rows else None,
        "ranking": goals.ranking(report.goal),
        "remarks": [*goals.unbeaten(report), *map(in_page_words, words.remarks(report))],
        "excluded": [(reason, n) for reason, n in report.excluded.most_common() if n],
        "footer": texts.footer(report.considered, report.total_offers, report.excluded),
        "more": max(0, report.considered - len(report.rows)),
        "more_href": address.href(top=str(min(1000, question.values["top"] * 5))),
        "top": question.values["top"],
        "as_of": report.now,
        "is_past": question.values["as_of"] is not None,
        "job": report.job.title or report.job.name,
        "goal": Goal(report.goal),
        "stale": report.excluded[STALE],
    }
    if not report.rows:
        values["empty"] = _nothing(report, address)
    values["with_stale"] = address.href(include_stale="true")


CHEAPEST = PageKind("/", "Cheapest", "cheapest", "cheapest.html", fill, sorting.OWN)

_STOCK = {"yes": 0, "unknown": 1, "no": 2}


def _columns(now: datetime) -> list[Column]:
    """The columns of the ranking, of ``Row``."""
    return [
        Column("rank", "Rank", lambda r: r.rank or None, number=True),
        Column("gpu", "GPU", lambda r: r.offer.gpu_key,
               under=(Column("memory", "memory", lambda r: r.offer.vram_gb),)),
        Column("cost", "Job, $", lambda r: r.bill.at_least_usd, number=True),
        Column("provider", "Provider", lambda r: r.offer.provider),
        Column("region", "Region", lambda r: r.offer.region,
               under=(Column("tier", "tier", lambda r: r.offer.tier),)),
        Column("market", "Market", lambda r: r.offer.market),
        Column("gpus", "GPUs", lambda r: r.offer.gpu_count * r.bill.machines, number=True),
        Column("price", "$/GPU-h", lambda r: r.bill.price.usd / r.bill.gpu_count, number=True),
        Column("hours", "Hours", lambda r: r.bill.runtime_hours, number=True),
        Column("billed", "Billed h", lambda r: r.bill.billed_hours, number=True),
        Column("age", "Age", lambda r: age_of(r.offer, now), number=True,
               under=(Column("stock", "stock", lambda r: _STOCK[r.offer.availability]),)),
        Column("bill", "Bill"),
    ]  # fmt: skip


def _nothing(report: CheapestReport, address: Address) -> Empty:
    if report.only_stale:
        return only_stale(address, expired=report.only_expired)
    if why := nothing_then(report.record, report.now):
        return Empty(f"{why[0].upper()}{why[1:]}.")
    if not report.total_offers:
        return Empty("No offer is on record. Ask the providers for some:", ("gpucost poll",))
    text = nothing_left(report.excluded)
    return Empty(f"{text[0].upper()}{text[1:]}. What was left out, and why, is below.")


def _rows(rows: Iterable[Row], report: CheapestReport, app: App) -> Iterator[Shown]:
    fits: dict[tuple[str, int], str] = {}
    for row in rows:
        machine = row.offer.gpu_key, row.estimate.gpus
        if machine not in fits:
            fits[machine] = _fit(row, report.job, app)
        yield _shown(row, report.now, fits[machine])


def _shown(row: Row, now: datetime, fit: str) -> Shown:
    o, b = row.offer, row.bill
    band = None if row.low_usd is None else words.range_text(row)
    return Shown(
        place=str(row.rank) if row.rank else "not ranked",
        tie=row.tie, unbeaten=row.unbeaten, gpu=o.gpu_key,
        gpus=texts.count(o.gpu_count * b.machines),
        machines=None if b.machines == 1 else words.gpus_rented(row),
        provider=o.provider, region=o.region or texts.DASH, tier=o.tier,
        market=o.market.replace("_", "-"),
        per_gpu_hour=texts.usd(b.price.per_gpu(b.gpu_count).usd, 4)
        + ("*" if row.discount_percent else ""),
        hours=("≥ " if b.lower_bound else "") + _hours(b.runtime_hours), basis=str(b.basis),
        billed=_hours(b.billed_hours),
        usd=("≥ " if words.open_ended(b) else "") + texts.usd(b.at_least_usd), band=band,
        age=_age(o.valid_as_of, age_seconds(o, now)), stale=row.stale,
        stock=words.stock(o.availability, o.stock_label),
        fit=fit, offer=ref(o.key), bill=list(_bill(row)), notes=list(_notes(row)),
    )  # fmt: skip


def _hours(value: Decimal) -> str:
    return f"{value:,.2f}"


def _age(valid_as_of: date | None, age_s: float | None) -> str:
    """How old a price is, a dash where nobody knows; for a typed one the day it was read."""
    if valid_as_of is not None:
        return f"read {valid_as_of.isoformat()}"
    return texts.DASH if age_s is None else texts.duration(age_s)


def _bill(row: Row) -> Iterator[tuple[str, str, str]]:
    """Each line: what, how it is reckoned, how much."""
    for line in row.bill.lines:
        rate = f"{texts.number(round(line.quantity, 4))} {line.unit} x "
        yield line.label, rate + texts.usd(line.unit_price_usd, 6), texts.usd(line.amount_usd, 4)
    what = "At least, in all" if words.open_ended(row.bill) else "Total"
    yield what, "", texts.usd(row.bill.at_least_usd, 4)


def _notes(row: Row) -> Iterator[str]:
    e = row.estimate
    note = f" ({e.note})" if e.note else ""
    source = f"; source: {e.source}" if e.source else ""
    calibration = f"; calibration {e.version}" if e.version else ""
    hours = f"{texts.hours(row.bill.runtime_hours)} {row.bill.basis}"
    yield f"Hours: {hours}{note}{source}{calibration}"
    yield f"The provider's id: {row.offer.native_id}"
    kind = rented_kind(row.offer)
    yield f"Kind: {kind} ({KIND_TEXTS[kind]}){words.listed(row.offer.availability)}"
    if row.spot_break_even is not None:
        yield words.spot_break_even(row.spot_break_even)
    yield from unit_lines(row)
    yield from row.bill.partial
    yield from row.bill.notes


def _fit(row: Row, job: Job, app: App) -> str:
    """How much of a GPU's memory the job takes, where anybody knows."""
    have = row.offer.vram_gb
    if job.task is None:
        have_text = texts.DASH if have is None else f"{texts.count(have)} GB"
        if job.min_vram_gb is None:
            return have_text
        return f"{texts.count(job.min_vram_gb)} of {have_text}"
    from tracker.domain.runtime.types import Estimate
    from tracker.report.estimates import estimates

    one = replace(job, gpus_needed=max(row.estimate.gpus, 1), count_given=True)
    found = estimates(one, [row.offer.gpu_key], app.catalogue)
    answer = found[0].answer if found else None
    if not isinstance(answer, Estimate) or not answer.memory:
        return texts.DASH if have is None else f"{texts.count(have)} GB"
    return f"{answer.memory.total:.1f} GiB" + (
        "" if have is None else f" of {texts.count(have)} GB"
    )
