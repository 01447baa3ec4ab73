"""How long a job takes on each GPU: one that is known by name, or one that a form describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.answers import EstimateReport, Question
from tracker.app.asked import BadQuestion
from tracker.domain.job import JobError, NoEstimate, RuntimeEstimate
from tracker.report.shapes import texts, words
from tracker.report.shapes.estimated import billed, remarks, span, worked_out
from tracker.web.pages import sorting
from tracker.web.pages.addresses import Address
from tracker.web.pages.site import Asked, PageKind
from tracker.web.pages.sorting import Column, heads, in_order

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.estimates import OnGpu

MAX_TEXT = 200
_TRAINED = ("method", "precision", "tokens", "seq_len", "batch")
_SERVED = ("precision", "input_tokens", "output_tokens", "requests")
# What kind of job a method is, and the fields that it takes.
_METHODS = {
    "lora": ("finetune", _TRAINED), "qlora": ("finetune", _TRAINED), "full": ("finetune", _TRAINED),
    "pretraining": ("training", _TRAINED), "inference": ("inference", _SERVED),
}  # fmt: skip
_WHOLE = ("seq_len", "batch", "input_tokens", "output_tokens")
_LABELS = {
    "model": "Model", "method": "Method", "precision": "Precision", "tokens": "Tokens trained on",
    "seq_len": "Sequence, tokens", "batch": "Batch", "input_tokens": "Tokens in, a request",
    "output_tokens": "Tokens out, a request", "requests": "Requests",
}  # fmt: skip
_COUNT = re.compile(r"[0-9][0-9.,]* *[kmgbt]?", re.IGNORECASE)
_PRECISIONS = ("bf16", "fp16", "fp8", "int8", "int4", "tf32", "fp32")
OWN = dict.fromkeys(_LABELS, "") | sorting.OWN


class Field(NamedTuple):
    """A field of the form; ``choices`` are what a select has, ``listed`` what is suggested."""

    name: str
    label: str
    value: str
    choices: Sequence[str] = ()
    listed: Sequence[str] = ()


class Shown(NamedTuple):
    """A GPU on which the job runs."""

    gpu: str
    gpus: int
    hours: str
    band: str | None
    basis: str
    bound: str | None
    memory: str
    price: str
    usd: str
    usd_band: str | None
    rented: str
    market: str | None
    billed: str
    provider: str


def fill(asked: Asked, values: dict[str, Any]) -> None:
    """The values of the template."""
    site, address = asked
    described = any(name in address.own for name in _LABELS)
    values |= {
        "fields": list(_fields(asked)), "gpu": address.value("gpu"), "gpus": address.value("gpus"),
        "rows": [], "without": [], "remarks": [], "path": [], "first": None, "file": None,
        "notes": [],
    }  # fmt: skip
    if not described:
        values["formats"] = [("JSON", address.form(site.api, "estimate", "json")),
                             ("CSV", address.form(site.api, "estimate", "csv"))]  # fmt: skip
    question = Question.parsed("estimate", address.question)
    job = None
    if described:
        if address.value("job"):
            raise BadQuestion("job", "name a job, or describe one with a model: not both")
        text = _job_file(address)
        job = _read(asked, text)
    report = site.answers.estimate(question, job)
    if described:
        values["file"] = text.splitlines()
    values |= _shown(report, address) | {"as_of": question.now}


ESTIMATE = PageKind("/estimate", "Estimate", "estimate", "estimate.html", fill, OWN)


def _fields(asked: Asked) -> Iterator[Field]:
    own = asked.address.own
    for name, label in _LABELS.items():
        choices: Sequence[str] = ()
        listed: Sequence[str] = ()
        if name == "method":
            choices = tuple(_METHODS)
        elif name == "precision":
            choices = _PRECISIONS
        elif name == "model":
            listed = asked.site.answers.app.models.names()
        yield Field(name, label, own.get(name, ""), choices, listed)


def _job_file(address: Address) -> str:
    """The job that the fields describe, as a job file. Raises BadQuestion."""
    own = {name: text.strip() for name, text in address.own.items() if name in _LABELS}
    for name, text in own.items():
        if len(text) > MAX_TEXT or not text.isprintable():
            raise BadQuestion(name, f"is no text of at most {MAX_TEXT} characters")
    model, method = own.get("model"), own.get("method", "lora")
    if not model:
        raise BadQuestion("model", "name one, such as Llama 3.1 8B, or say its size, such as 7B")
    if model.lower().endswith(".json"):  # a file of this machine, which no page reads
        raise BadQuestion("model", "name a model; a config.json goes with gpucost estimate FILE")
    if method not in _METHODS:
        raise BadQuestion("method", f"{method!r} is not one of {', '.join(_METHODS)}")
    kind, takes = _METHODS[method]
    own = {"seq_len": "2048", **own} if kind != "inference" else own
    lines = ['name = "described"', f"title = {_text(f'{model}, {method}')}", "", "[workload]",
             f'kind = "{kind}"', f"model = {_model(model)}"]  # fmt: skip
    for name, text in own.items():
        if name in ("model", "method"):
            continue
        if name not in takes:
            raise BadQuestion(name, f"has no meaning for {method}; leave it empty")
        if name in _WHOLE:
            if not (text.isascii() and text.isdigit() and len(text) <= 9):
                raise BadQuestion(name, f"{text!r} is not a whole number")
            lines.append(f"{name} = {int(text)}")
        else:
            lines.append(f"{name} = {_text(text)}")
    if kind == "finetune":
        lines.append(f'method = "{method}"')
    return "\n".join(lines) + "\n"


def _model(text: str) -> str:
    """A model's name, or how many parameters it has, as a job file has the one and the other."""
    return f"{{ params = {_text(text)} }}" if _COUNT.fullmatch(text) else _text(text)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _read(asked: Asked, text: str) -> Job:
    """The job of a job file that was made here. Raises JobError."""
    from tracker.app.jobs import described_job

    try:
        return described_job(text, asked.site.answers.app)
    except JobError as error:  # the form has fields, and no tables around them
        raise JobError(str(error).replace("workload.", "")) from None


def _shown(report: EstimateReport, address: Address) -> dict[str, Any]:
    job = report.job
    fits = [on for on in report.found if isinstance(on.hours, RuntimeEstimate)]
    first = fits[0] if fits else None
    made = worked_out(first) if first is not None else None
    return {
        "job": job.title or job.name,
        "sentence": _sentence(fits),
        "heads": heads(address, _COLUMNS, "on-each"), "sorted": sorting.SORT in address.own,
        "rows": [
            _row(on, on.hours)
            for on in in_order(address, _COLUMNS, fits)
            if isinstance(on.hours, RuntimeEstimate)
        ],
        "without": [
            (on.gpu, on.hours.reason) for on in report.found if isinstance(on.hours, NoEstimate)
        ],
        "remarks": remarks(job, report.remark, report.found),
        "first": None if first is None else f"{first.gpus} x {first.gpu}",
        "path": [] if made is None else [
            (step.name, step.formula, f"{_figure(step.value)} {step.unit}") for step in made.steps
        ],
        "notes": [] if made is None else list(made.notes),
    }  # fmt: skip


def _priced(on: OnGpu) -> Decimal | None:
    return None if on.row is None else on.row.bill.at_least_usd


def _memory(on: OnGpu) -> float | None:
    made = worked_out(on)
    return float(made.memory.total) if made is not None and made.memory else None


def _rented(on: OnGpu) -> Decimal | None:
    return None if on.row is None else on.row.bill.gpu_count * on.row.bill.machines


_COLUMNS = (
    Column("gpu", "GPU", lambda on: on.gpu),
    Column("cost", "Job, $", _priced, number=True),
    Column("gpus", "GPUs", lambda on: on.gpus, number=True),
    Column("hours", "Hours", lambda on: on.hours.hours, number=True),
    Column("provider", "Provider", lambda on: on.row and on.row.offer.provider),
    Column("rented", "GPUs rented", _rented, number=True,
           under=(Column("market", "market", lambda on: on.row and str(on.row.offer.market)),)),
    Column("billed", "Billed h", lambda on: on.row and on.row.bill.billed_hours, number=True),
    Column("price", "$/GPU-h", lambda on: on.row and on.row.bill.price.usd / on.row.bill.gpu_count,
           number=True),
    Column("basis", "Rests on", lambda on: str(on.hours.basis)),
    Column("memory", "GiB/GPU", _memory, number=True),
)  # fmt: skip


def _sentence(fits: Sequence[OnGpu]) -> str | None:
    priced = [on for on in fits if on.row is not None]
    if not fits:
        return "It runs on none of these GPUs; why is below."
    best = min(
        priced,
        key=lambda on: (bool(on.row.bill.partial), on.row.bill.at_least_usd) if on.row else (),
        default=None,
    )
    if best is None or best.row is None or not isinstance(best.hours, RuntimeEstimate):
        fastest = fits[0]
        assert isinstance(fastest.hours, RuntimeEstimate)  # noqa: S101 - those that fit have hours
        return (
            f"The fastest is {fastest.gpus} x {fastest.gpu}: {texts.hours(fastest.hours.hours)}. "
            "No price of any is known; gpucost poll asks for some."
        )
    return (
        f"The cheapest is {best.gpus} x {best.gpu} at {best.row.offer.provider}: "
        f"{words.total(best.row.bill)}. It runs {texts.hours(best.hours.hours)}; billed: "
        f"{billed(best.row)}."
    )


def _row(on: OnGpu, hours: RuntimeEstimate) -> Shown:
    made, row = worked_out(on), on.row
    price = row.bill.price.per_gpu(row.bill.gpu_count).usd if row else None
    usd = texts.DASH
    if row is not None:
        usd = ("≥ " if words.open_ended(row.bill) else "") + texts.usd(row.bill.at_least_usd)
    return Shown(
        on.gpu, on.gpus, ("≥ " if hours.lower_bound else "") + f"{hours.hours:,.2f}", span(hours),
        str(hours.basis), str(made.bound) if made else None,
        f"{made.memory.total:.1f}" if made and made.memory else texts.DASH,
        texts.usd(price, 4), usd,
        words.range_text(row) if row is not None and row.low_usd is not None else None,
        words.gpus_rented(row) if row else texts.DASH,
        row.offer.market.replace("_", "-") if row else None,
        f"{row.bill.billed_hours:,.2f}" if row else texts.DASH,
        row.offer.provider if row else texts.DASH,
    )  # fmt: skip


def _figure(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.4g}"
