"""Two GPUs over time: in words, and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tracker.domain.crossings import Crossing, Side
from tracker.domain.exact import plain
from tracker.report.dated import not_live, whose
from tracker.report.history.told import of_the_past
from tracker.report.history.versus import Even, Versus
from tracker.report.shapes import texts
from tracker.report.shapes.rows import ref

COLUMNS = (
    "start", "end", "cheaper", "left_usd", "right_usd", "ratio",
    "left_price_usd_per_gpu_hour", "break_even_usd_per_gpu_hour", "left_gpu", "left_provider",
    "right_gpu", "right_provider", "left_source", "right_source", "left_valid_as_of",
    "right_valid_as_of",
)  # fmt: skip
MOST_SHOWN = 20
_MINUTE = "%Y-%m-%d %H:%M"


def lines(found: Versus) -> Iterator[str]:
    """What happened, for people."""
    report = found.report
    window = f"{report.question.start:%Y-%m-%d} to {report.end:%Y-%m-%d}"
    if not found.steps:
        yield f"{window}: never were bills of both known at one time."
        return
    shares = ", ".join(
        f"{name} {_percent(found.share(side))}"
        for name, side in ((found.left, Side.LEFT), (found.right, Side.RIGHT), ("a tie", Side.TIE))
    )
    yield f"{window}, cheaper for a share of the {_days(found.compared)} both are known: {shares}"
    if found.crossings.initial is not None and found.crossings.since is not None:
        first = found.left if found.crossings.initial is Side.LEFT else found.right
        yield f"{found.crossings.since:%Y-%m-%d %H:%M} UTC: {first} is the cheaper one at first"
    changes = found.crossings.changes
    if len(changes) > MOST_SHOWN:
        yield f"({len(changes) - MOST_SHOWN:,} earlier changes; -o json has all)"
    minutes = Counter(f"{one.at:{_MINUTE}}" for one in changes)
    for one in changes[-MOST_SHOWN:]:
        several = minutes[f"{one.at:{_MINUTE}}"] > 1  # then the seconds tell them apart
        yield _change(found, one, f"{_MINUTE}:%S" if several else _MINUTE)
    if not changes:
        yield "It never changed."
    yield _figures(found)


def _change(found: Versus, one: Crossing, clock: str) -> str:
    left = one.to is Side.LEFT
    name = found.left if left else found.right
    usd, other = (one.left, one.right) if left else (one.right, one.left)
    text = (
        f"{one.at:{clock}} UTC: {name} becomes the cheaper one, {texts.usd(usd)} against"
        f" {texts.usd(other)}"
    )
    if one.gap:
        text += f" (not known at all times since {one.last_seen:%Y-%m-%d %H:%M}: perhaps earlier)"
    elif one.last_seen < one.at:
        text += f" (a tie since {one.last_seen:%Y-%m-%d %H:%M})"
    return text


def _figures(found: Versus) -> str:
    last = found.steps[-1]
    ratios = [step.ratio for step in found.steps if step.ratio is not None]
    when = "at the end" if last.end >= found.report.end else f"last, on {last.end:%Y-%m-%d},"
    text = f"Ratio of the bills {when} {_ratio(last.ratio)}"
    if ratios:
        text += f", within {_ratio(min(ratios))} and {_ratio(max(ratios))}"
    even = last.break_even_usd
    if even is None:
        return text + f"; no price of {found.left} would be as cheap as {found.right}."
    price = last.left.cost.price_usd_per_gpu_hour
    return text + (
        f"; break-even of {found.left} {texts.usd(even, 4)} per GPU-hour, its price"
        f" {texts.usd(price, 4)}{not_live(last.left.offer)}: a margin of"
        f" {100 * (even / price - 1):+.1f} %."
    )


def document(found: Versus) -> dict[str, Any]:
    """The same for programs."""
    report, changes = found.report, found.crossings
    return {
        "since": report.question.start, "until": report.end,
        "compared_seconds": int(found.compared.total_seconds()),
        "shares": {
            "left": texts.quantity(found.share(Side.LEFT)),
            "right": texts.quantity(found.share(Side.RIGHT)),
            "tie": texts.quantity(found.share(Side.TIE)),
        },
        "initial": changes.initial, "initial_since": changes.since,
        "crossings": [
            {"at": one.at, "cheaper": one.to, "left_usd": texts.usd_text(one.left),
             "right_usd": texts.usd_text(one.right), "last_seen": one.last_seen, "gap": one.gap}
            for one in changes.changes
        ],
        "steps": [step_row(step) for step in found.steps],
        "remarks": list(remarks(found)),
    }  # fmt: skip


def step_row(step: Even) -> dict[str, Any]:
    """A time within which nothing changes."""
    price = step.left.cost.price_usd_per_gpu_hour
    return {
        "start": step.start, "end": step.end, "cheaper": step.side,
        "left_usd": texts.usd_text(step.left.usd), "right_usd": texts.usd_text(step.right.usd),
        "ratio": texts.quantity(step.ratio),
        "left_price_usd_per_gpu_hour": texts.usd_text(price),
        "break_even_usd_per_gpu_hour": texts.usd_text(step.break_even_usd),
        "left_gpu": step.left.offer.gpu_key, "left_provider": step.left.offer.provider,
        "right_gpu": step.right.offer.gpu_key, "right_provider": step.right.offer.provider,
        "left_offer": ref(step.left.offer.key),
        "right_offer": ref(step.right.offer.key),
        "left_source": step.left.offer.source, "right_source": step.right.offer.source,
        "left_valid_as_of": step.left.offer.valid_as_of,
        "right_valid_as_of": step.right.offer.valid_as_of,
    }  # fmt: skip


def remarks(found: Versus) -> Iterator[str]:
    """What a reader of it must know."""
    yield from of_the_past(found.report)
    if found.steps:
        last = found.steps[-1]
        sides = ((found.left, last.left.offer), (found.right, last.right.offer))
        yield from whose("At the end by" if last.end >= found.report.end else "Last by", sides)


def _percent(share: Decimal | None) -> str:
    return texts.DASH if share is None else f"{plain(share * 100, 1)} %"


def _ratio(ratio: Decimal | None) -> str:
    return texts.DASH if ratio is None else f"{ratio:.3f}"


def _days(length: timedelta) -> str:
    return f"{plain(Decimal(length // timedelta(hours=1)) / 24, 1)} days for which"
