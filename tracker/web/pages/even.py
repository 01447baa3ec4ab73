"""Two GPUs for one job: which is the cheaper one, since when, and below which price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.answers import QUESTIONS, Answers, Question
from tracker.app.asked import BadQuestion
from tracker.app.past import NOW_ONLY
from tracker.domain.bounds import bounded
from tracker.report.compare import compare_report
from tracker.report.shapes import compared as shape
from tracker.report.shapes import texts
from tracker.report.shapes import versus as versus_shape
from tracker.web.pages import sorting
from tracker.web.pages.addresses import Address, Pairs
from tracker.web.pages.fields import job_fields
from tracker.web.pages.plane import Bound, plane
from tracker.web.pages.site import Asked, Empty, PageKind, in_page_words, only_stale
from tracker.web.pages.sorting import Column, heads, in_order

if TYPE_CHECKING:
    from tracker.report.cheapest import Row
    from tracker.report.compare import Compared, CompareReport
    from tracker.report.history.versus import Even, Versus

# What a ratio must leave before anybody is told: the usual margins of an alert (docs/alerts.md).
DEAD_BAND = Decimal("0.02")
TRAIL = timedelta(days=30)
MOST_STEPS = 500
LEAST_SPEED_UP, MOST_SPEED_UP = Decimal("0.1"), Decimal(20)
_PAIR = (("left", "H100"), ("right", "A100"))


class Step(NamedTuple):
    """A time in which neither bill changes; ``ratio`` is what the chart draws."""

    start: datetime
    end: datetime
    cheaper: str
    left: str
    right: str
    ratio: str | None
    ratio_text: str
    price: str
    even: str


class WhatIf(NamedTuple):
    """The slider: ``value`` is how many times as fast the left GPU is taken to be."""

    value: str
    had: str
    least: str
    most: str
    hidden: Pairs
    without: str | None


def fill(asked: Asked, values: dict[str, Any]) -> None:
    """The values of the template."""
    site = asked.site
    address = _with_pair(asked.address)
    values |= {
        "address": address, "fields": job_fields(address, EVEN.known),
        "formats": _formats(asked, address), "steps": [], "plane": None, "figures": [],
        "remarks": [], "lines": [], "sentence": None, "what_if": None, "excluded": [],
        "hidden": list(address.own.items()), "more": 0, "trail": [],
        "dead_low": 1 - DEAD_BAND, "dead_high": 1 + DEAD_BAND,
        "names": (address.value("left"), address.value("right")),
    }  # fmt: skip
    with site.answers.together() as answers:  # a poll in between would tell of two prices as now
        _fill_from(answers, address, values)


def _fill_from(answers: Answers, address: Address, values: dict[str, Any]) -> None:
    wanted = _speed_up(address)
    over_time = answers.versus(Question.parsed("versus", _over_time(address)))
    report = answers.compare(Question.parsed("compare", _comparable(address)))
    if report.compared is not None:
        values["what_if"] = _what_if(report, address, wanted)
        if wanted is not None and values["what_if"] is not None:
            pairs = _at_speed_up(report.compared, address, wanted)
            left = answers.cheapest(Question.parsed("cheapest", pairs))
            report = compare_report(left, report.right)
            # Programs are told of what there is.
            values["formats"] = [(f"{name} as it is", to) for name, to in values["formats"]]
    values |= _now(report, wanted if values["what_if"] else None)
    values |= _past(over_time, address)
    if report.compared is not None:
        points = _trail(over_time, report.left.now)
        values["trail"] = points
        values["plane"] = _plane(report.compared, [(x, y) for _, x, y in points])
    elif over_time.steps:
        values["sentence"] = "Now there is no offer of both; what was is below."
    asked_now = [name for name, _ in address.question if name in EVEN.also]
    if asked_now and over_time.steps:
        told = " and ".join(one.replace("_", " ") for one in dict.fromkeys(asked_now))
        values["past_remarks"].append(f"Over time nothing is left out or added for: {told}.")
    if report.compared is None and report.only_stale:
        values["empty"] = only_stale(address, expired=report.only_expired)
    elif report.compared is None and not over_time.steps:
        values["empty"] = Empty(
            "There is no offer of both. Ask for prices, or name two other GPUs below:",
            ("gpucost poll",),
        )


# What is only known for now, of which the past is another thing.
_NOW = {name: QUESTIONS["compare"][name] for name in NOW_ONLY if name != "as_of"}
EVEN = PageKind(
    "/break-even", "Break-even", "versus", "even.html", fill, {"speed_up": "", **sorting.OWN},
    also=_NOW,
)  # fmt: skip


def _with_pair(address: Address) -> Address:
    """The address with both GPUs: those that the built-in example is about, unless named."""
    missing = [pair for pair in _PAIR if not address.value(pair[0])]
    return address._replace(question=[*address.question, *missing])


def _comparable(address: Address) -> list[tuple[str, str]]:
    known = QUESTIONS["compare"]
    return [pair for pair in address.question
            if pair[0] in known]  # fmt: skip


def _over_time(address: Address) -> list[tuple[str, str]]:
    """What is asked of the past; what nobody knows too, to be refused there."""
    return [pair for pair in address.question if pair[0] not in EVEN.also]


def _formats(asked: Asked, address: Address) -> list[tuple[str, str]]:
    now = address._replace(question=_comparable(address))
    past = address._replace(question=_over_time(address))
    forms = ("json", "csv")
    return [
        *((form.upper(), now.form(asked.site.api, "compare", form)) for form in forms),
        *(
            (f"{form.upper()} over time", past.form(asked.site.api, "versus", form))
            for form in forms
        ),
    ]


# --- now --------------------------------------------------------------------------------------


def _now(report: CompareReport, speed_up: Decimal | None) -> dict[str, Any]:
    c = report.compared
    found: dict[str, Any] = {
        "as_of": report.left.now, "job": report.left.job.title or report.left.job.name,
        "remarks": [in_page_words(line) for line in shape.remarks(report)],
        "sides": [
            (side.filters.gpus[0], shape.footer(side)) for side in (report.left, report.right)
        ],
    }  # fmt: skip
    if c is None:
        return found
    text = shape.verdict(c)
    if speed_up is not None:
        text = f"if the {c.left.offer.gpu_key} were {texts.number(speed_up)} times as fast: {text}"
    found["sentence"] = f"{text[0].upper()}{text[1:]}"
    found["figures"] = list(shape.figures(c))
    return found


def _plane(c: Compared, trail: Sequence[tuple[Decimal, Decimal]]) -> Any:
    now = (_price(c.right), _price(c.left))
    if c.left.bill.partial or c.right.bill.partial:
        return None
    return plane(_bound(c.left), _bound(c.right), trail, now)


def _price(row: Row) -> Decimal:
    return row.bill.price.per_gpu(row.bill.gpu_count).usd


def _bound(row: Row) -> Bound:
    b, e = row.bill, row.estimate
    low = high = Decimal(1)
    if e.low_hours is not None and e.high_hours is not None and e.hours:
        low, high = e.low_hours / e.hours, e.high_hours / e.hours
    return Bound(b.extras_usd, b.machines * b.billed_hours * b.gpu_count, low, high)


# --- what if ----------------------------------------------------------------------------------


def _speed_up(address: Address) -> Decimal | None:
    """The speed-up that the slider asks for. Raises BadQuestion."""
    text = address.own.get("speed_up", "").strip()
    if not text:
        return None
    try:
        value = bounded(Decimal(text))
    except (ValueError, ArithmeticError):
        raise BadQuestion("speed_up", f"{text[:40]!r} is not a number") from None
    if not LEAST_SPEED_UP <= value <= MOST_SPEED_UP:
        raise BadQuestion("speed_up", f"must lie within {LEAST_SPEED_UP} and {MOST_SPEED_UP}")
    return value


def _what_if(report: CompareReport, address: Address, wanted: Decimal | None) -> WhatIf | None:
    """The slider around the speed-up that there is; None where hours typed would not mean it."""
    c = report.compared
    needed = max(report.left.job.gpus_needed, 1)
    if c is None or c.left.offer.is_slice:  # hours are for whole GPUs
        return None
    if {max(c.left.estimate.gpus, 1), max(c.right.estimate.gpus, 1)} != {needed}:
        return None
    had = round(c.speed.had, 2)
    value = wanted if wanted is not None else min(max(had, LEAST_SPEED_UP), MOST_SPEED_UP)
    most = min(MOST_SPEED_UP, max(value, had * 2, Decimal(2)))
    return WhatIf(
        texts.number(value), texts.number(had), texts.number(LEAST_SPEED_UP),
        texts.number(most.to_integral_value("ROUND_CEILING")), address.question,
        address.href(speed_up=None) if wanted is not None else None,
    )  # fmt: skip


def _at_speed_up(c: Compared, address: Address, speed_up: Decimal) -> list[tuple[str, str]]:
    """The question of the left GPU alone, with hours at which it is so many times as fast as the
    right one. The part that is named now is asked for: hours of a family are those of another."""
    gpu, hours = c.left.offer.gpu_key, c.right.estimate.hours / speed_up
    asked = {
        "gpu": gpu, "hours": f"{gpu}={hours:.12f}", "gpus": str(max(c.left.estimate.gpus, 1)),
        "top": "1",
    }  # fmt: skip
    known = QUESTIONS["compare"].keys() & QUESTIONS["cheapest"].keys() - asked.keys()
    return [*(pair for pair in address.question if pair[0] in known), *asked.items()]


# --- over time --------------------------------------------------------------------------------


def _past(found: Versus, address: Address) -> dict[str, Any]:
    steps = list(_joined(found.steps))
    columns = _columns(found)
    shown = in_order(address, columns, steps[-MOST_STEPS:])
    lines = [] if not found.steps else list(versus_shape.lines(found))
    return {
        "steps": [_step(found, *one) for one in shown], "more": len(steps) - len(shown),
        "heads": heads(address, columns, "every"), "lines": lines,
        "past_remarks": list(versus_shape.remarks(found)),
    }  # fmt: skip


def _columns(found: Versus) -> list[Column]:
    """The columns of the steps, of what ``_joined`` gives."""
    left, right = found.left, found.right
    price = f"{left}, $/GPU-h"
    return [
        Column("from", "From (UTC)", lambda one: one[0]),
        Column("until", "Until (UTC)", lambda one: one[1]),
        Column("cheaper", "Cheaper", lambda one: str(one[2].side)),
        Column("left", f"Job on {left}", lambda one: one[2].left.usd, number=True),
        Column("right", f"Job on {right}", lambda one: one[2].right.usd, number=True),
        Column("ratio", "Ratio", lambda one: one[2].ratio, number=True),
        Column("price", price, lambda one: one[2].left.cost.price_usd_per_gpu_hour, number=True),
        Column("even", "Break-even, $/GPU-h", lambda one: one[2].break_even_usd, number=True),
    ]


def _joined(steps: Sequence[Even]) -> Iterator[tuple[datetime, datetime, Even]]:
    """Steps that follow one another with the same bills and prices, as one."""
    held: tuple[datetime, datetime, Even] | None = None
    for step in steps:
        if held is not None and held[1] == step.start and _same(held[2], step):
            held = held[0], step.end, held[2]
            continue
        if held is not None:
            yield held
        held = step.start, step.end, step
    if held is not None:
        yield held


def _same(one: Even, other: Even) -> bool:
    return (one.left.usd, one.right.usd, one.break_even_usd, one.side) == (
        other.left.usd, other.right.usd, other.break_even_usd, other.side,
    )  # fmt: skip


def _step(found: Versus, start: datetime, end: datetime, step: Even) -> Step:
    cheaper = {"left": found.left, "right": found.right}.get(str(step.side), "a tie")
    ratio = step.ratio
    return Step(
        start, end, cheaper, texts.usd(step.left.usd), texts.usd(step.right.usd),
        None if ratio is None else f"{ratio:.6f}", texts.DASH if ratio is None else f"{ratio:.3f}",
        texts.usd(step.left.cost.price_usd_per_gpu_hour, 4), texts.usd(step.break_even_usd, 4),
    )  # fmt: skip


def _trail(found: Versus, now: datetime) -> list[tuple[datetime, Decimal, Decimal]]:
    """Both prices (right, left) within the last 30 days, whenever one of them changed."""
    points: list[tuple[datetime, Decimal, Decimal]] = []
    for step in found.steps:
        if step.end <= now - TRAIL:
            continue
        x = step.right.cost.price_usd_per_gpu_hour
        y = step.left.cost.price_usd_per_gpu_hour
        if not points or points[-1][1:] != (x, y):
            points.append((max(step.start, now - TRAIL), x, y))
    return points[-MOST_STEPS:]
