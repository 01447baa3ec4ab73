"""One GPU against another: in words, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracker.domain.break_even import Bound
from tracker.report.compare import Winner
from tracker.report.shapes import texts, words
from tracker.report.shapes.rows import job_values
from tracker.report.shapes.rows import row as row_values

if TYPE_CHECKING:
    from tracker.report.cheapest import CheapestReport, Row
    from tracker.report.compare import Compared, CompareReport


def footer(side: CheapestReport) -> str:
    """What was left out of one side, and why."""
    return texts.footer(side.considered, side.total_offers, side.excluded)


def rows(report: CompareReport) -> list[Row]:
    """The left and the right row, each with its rank among the two."""
    c = report.compared
    if c is None:
        return [*report.left.rows, *report.right.rows]
    tie = c.winner is Winner.TIE
    dearer = _standing(c.left) > _standing(c.right)
    return [
        c.left._replace(rank=1 + dearer, tie=tie and dearer),
        c.right._replace(rank=2 - dearer, tie=tie and not dearer),
    ]


def _standing(row: Row) -> tuple[Any, ...]:
    b = row.bill
    return bool(b.partial), b.at_least_usd, b.lower_bound


def document(report: CompareReport) -> dict[str, Any]:
    """The answer around the rows."""
    c = report.compared
    return {
        "as_of": report.left.now,
        "answer": verdict(c) if c is not None else None,
        "job": job_values(report.left.job),
        "filters": report.left.filters._replace(gpus=()).echo(),
        "comparison": _values(c, report) if c is not None else None,
        "remarks": list(remarks(report)),
        "sides": {
            name: {"gpu": side.filters.gpus[0], "offers_total": side.total_offers,
                   "offers_considered": side.considered, "excluded": dict(side.excluded)}
            for name, side in (("left", report.left), ("right", report.right))
        },
    }  # fmt: skip


def _values(c: Compared, report: CompareReport) -> dict[str, Any]:
    even, now = c.break_even, report.left.now
    left, right = rows(report)
    return {
        "winner": c.winner,
        "sooner": c.sooner,
        "left": row_values(left, now),
        "right": row_values(right, now),
        "speed_up_had": texts.quantity(c.speed.had),
        "speed_up_needed": texts.quantity(c.speed.needed),
        "break_even_usd_per_machine_hour": texts.usd_text(even.price.usd) if even else None,
        "break_even_usd_per_gpu_hour": texts.usd_text(even.per_gpu.usd) if even else None,
        "break_even_bound": even.bound if even else None,
        "break_even_unknown": c.break_even_unknown,
        "margin_percent": texts.quantity(c.margin_percent),
        "unknown": list(c.unknown),
        "decided_by": list(c.beside),
    }


def remarks(report: CompareReport) -> Iterator[str]:
    """What a reader of either side must know, but for the break-even."""
    left, right = (list(words.remarks(side)) for side in (report.left, report.right))
    for mine, others, side in ((left, right, report.left), (right, left, report.right)):
        for line in mine:
            if line not in others:
                yield f"{side.filters.gpus[0]}: {line}"
    yield from (line for line in left if line in right)


def figures(c: Compared) -> Iterator[tuple[str, str]]:
    """The figures behind the verdict."""
    left = c.left.offer.gpu_key
    yield "speed-up had", f"{_bounded(c)}{c.speed.had:.2f}"
    yield "speed-up needed", f"{c.speed.needed:.2f}, by the price of the hours alone"
    if c.break_even is None:
        why = "not known" if c.break_even_unknown else f"at no price of the {left}"
        yield "break-even", why
        return
    bound = {Bound.AT_LEAST: "at least ", Bound.AT_MOST: "at most ", Bound.OPEN: "about "}
    yield (
        "break-even",
        f"{bound.get(c.break_even.bound, '')}{texts.usd(c.break_even.per_gpu.usd, 4)} per GPU-hour"
        f" of the {left}, now {texts.usd(_price(c.left), 4)}",
    )
    if c.margin_percent is not None:
        way = "it may rise by so much" if c.margin_percent >= 0 else "it has to fall by so much"
        yield "margin", f"{c.margin_percent:+.1f} %: {way}"


def _bounded(c: Compared) -> str:
    """What the speed-up is where hours are lower bounds."""
    left, right = c.left.bill.lower_bound, c.right.bill.lower_bound
    if left and right:
        return "perhaps "
    return "at most " if left else "at least " if right else ""


def verdict(c: Compared) -> str:
    """Which of them and why, and when the other."""
    if c.winner is Winner.UNKNOWN:
        why = "; ".join(c.unknown)
        return f"which is the cheaper one is not known ({why}): {_both(c)}. {_when(c)}"
    if c.winner is Winner.TIE:
        return f"a tie, as far as anybody can tell: {_both(c, ranges=True)}{_equal(c)}. {_when(c)}"
    best, other = (c.left, c.right) if c.winner is Winner.LEFT else (c.right, c.left)
    return (
        f"take the {best.offer.gpu_key}: {_cost(best)} against {_cost(other)} on the "
        f"{other.offer.gpu_key}, since {_since(c)}. {_when(c)}"
    )


def _both(c: Compared, *, ranges: bool = False) -> str:
    one, other = (f"{_cost(r, ranges=ranges)} on the {r.offer.gpu_key}" for r in (c.left, c.right))
    return f"{one} against {other}"


def _equal(c: Compared) -> str:
    if c.left.low_usd is None and c.right.low_usd is None:
        return ", the same"
    return "; the ranges overlap"


def _cost(row: Row, *, ranges: bool = False) -> str:
    text = words.total(row.bill)
    spread = ranges and row.low_usd != row.high_usd
    return f"{text} ({words.range_text(row)})" if spread else text


def _price(row: Row) -> Any:
    return row.bill.price.per_gpu(row.bill.gpu_count).usd


def _since(c: Compared) -> str:
    """The reason, told of the left GPU."""
    left = c.left.offer.gpu_key
    speed = f"the {left} is {_bounded(c)}{c.speed.had:.2f} times as fast"
    needed = f"{c.speed.needed:.2f} times"
    if c.beside:
        return f"{', '.join(c.beside)} outweigh that {speed} and costs {needed} as much an hour"
    if _alike(c):
        return f"both take as long and the {left} costs {needed} as much an hour"
    if c.winner is Winner.LEFT:
        return f"{speed} and needs no more than {needed}"
    return f"{speed} and would need {needed}"


def _alike(c: Compared) -> bool:
    """As services do, which run as long as they are kept up."""
    return c.speed.had == 1 and not _bounded(c)


def _when(c: Compared) -> str:
    """When the one and when the other."""
    from tracker.domain.break_even import Bound

    left, right = c.left.offer.gpu_key, c.right.offer.gpu_key
    parts = []
    even = c.break_even
    if even is not None and c.winner is not Winner.UNKNOWN and even.bound is Bound.EXACT:
        price = f"{texts.usd(even.per_gpu.usd, 4)} per GPU-hour"
        middle = c.winner is Winner.TIE and c.left.low_usd is not None
        the = "By the middle of the ranges the" if middle else "The"
        parts.append(
            f"{the} {left} is the cheaper one while it costs less than {price} (now "
            f"{texts.usd(_price(c.left), 4)}), the {right} above that"
        )
    elif even is None and not c.break_even_unknown:
        parts.append(f"At no price would the {left} be the cheaper one")
    if not _alike(c) or not parts:
        parts.append(_sooner(c))
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _sooner(c: Compared) -> str:
    if c.sooner not in (Winner.LEFT, Winner.RIGHT):
        return "nobody knows which is done sooner" if c.sooner is Winner.UNKNOWN else (
            "both take as long, as far as anybody can tell"
        )  # fmt: skip
    first, last = (c.left, c.right) if c.sooner is Winner.LEFT else (c.right, c.left)
    saved = texts.hours(last.estimate.hours - first.estimate.hours)
    if last.estimate.lower_bound:
        saved = f"at least {saved}"
    text = f"the {first.offer.gpu_key} is done {saved} sooner"
    more = first.bill.at_least_usd - last.bill.at_least_usd
    if c.winner in (Winner.LEFT, Winner.RIGHT) and c.winner is not c.sooner:
        text += f", worth it where that is worth {texts.usd(more)} to you"
    return text
