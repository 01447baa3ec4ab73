"""Charts of text: step functions with their gaps, on any terminal, without a library.

A price holds until it changes: neighbouring columns at different heights are joined by a vertical
line, and nothing is drawn where no price is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from tracker.cli.render import usd

MARKS = "●○▲△■□◆◇"
SEVERAL = "✳"  # more than one series in a cell
JOIN = "│"
_SPARKS = "▁▂▃▄▅▆▇█"
NOTHING = "·"

Values = Sequence[Decimal | None]


# From this ratio of the highest to the lowest value on the scale is logarithmic.
WIDE = 20


class Drawn(NamedTuple):
    """A series to be drawn: its name, and its value in each column (None: not known)."""

    name: str
    values: Values


def sparkline(values: Values) -> str:
    """*values* as blocks from the lowest to the highest; a dot where none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING * len(values)
    low, span = min(known), max(known) - min(known)

    def block(value: Decimal | None) -> str:
        if value is None:
            return NOTHING
        return (
            _SPARKS[int((value - low) / span * (len(_SPARKS) - 1) + Decimal("0.5"))]
            if span
            else _SPARKS[3]
        )

    return "".join(block(value) for value in values)


def narrowed(values: Values, width: int) -> list[Decimal | None]:
    """*values* in at most *width* columns, each with the lowest that is known of its share."""
    if len(values) <= width:
        return list(values)
    bounds = [len(values) * column // width for column in range(width + 1)]
    return [
        min((v for v in values[a:b] if v is not None), default=None)
        for a, b in itertools.pairwise(bounds)
    ]


def chart(
    series: Sequence[Drawn], begin: str, end: str, *, width: int = 72, height: int = 12
) -> Iterator[str]:
    """Lines of text: the series over one another, their scale, the ends of time, the legend.

    All have as many values. *begin* and *end* name the ends of the time that they are of.
    """
    drawn = [one._replace(values=narrowed(one.values, width)) for one in series]
    known = [value for one in drawn for value in one.values if value is not None]
    if not known:
        yield "(no price is known in this window)"
        return
    low, high = min(known), max(known)
    columns = max(len(one.values) for one in drawn)
    rows = _rows(drawn, low, high, columns, height)
    labels = _labels(low, high, height)
    margin = max(map(len, labels.values()))
    for row in range(height - 1, -1, -1):
        label = labels.get(row, "").rjust(margin)
        yield f"{label} {'┤' if row in labels else '│'}{''.join(rows[row]).rstrip()}"
    yield f"{' ' * margin} └{'─' * columns}"
    space = max(1, columns - len(begin) - len(end))
    yield f"{' ' * margin}  {begin}{' ' * space}{end}"
    if is_wide(low, high):
        yield f"{' ' * margin}  (the scale is logarithmic)"
    legend = "   ".join(f"{_mark(place)} {one.name}" for place, one in enumerate(drawn))
    yield f"{' ' * margin}  {legend}"


def _mark(place: int) -> str:
    return MARKS[place % len(MARKS)]


def _rows(
    drawn: Sequence[Drawn], low: Decimal, high: Decimal, columns: int, height: int
) -> list[list[str]]:
    rows = [[" "] * columns for _ in range(height)]
    heights = [[_height(v, low, high, height) for v in one.values] for one in drawn]
    for mine in heights:
        for column in range(1, len(mine)):
            before, here = mine[column - 1], mine[column]
            if before is not None and here is not None:
                for row in range(min(before, here) + 1, max(before, here)):
                    rows[row][column] = JOIN
    for place, mine in enumerate(heights):
        for column, at in enumerate(mine):
            if at is not None:
                taken = rows[at][column] not in (" ", JOIN)
                rows[at][column] = SEVERAL if taken else _mark(place)
    return rows


def is_wide(low: Decimal, high: Decimal) -> bool:
    """Whether the scale from *low* to *high* is logarithmic."""
    return 0 < low * WIDE <= high


def _height(value: Decimal | None, low: Decimal, high: Decimal, height: int) -> int | None:
    if value is None:
        return None
    if low == high:
        return height // 2
    if is_wide(low, high):
        share = math.log(value / low) / math.log(high / low)
    else:
        share = float((value - low) / (high - low))
    return int(share * (height - 1) + 0.5)


def _labels(low: Decimal, high: Decimal, height: int) -> dict[int, str]:
    if low == high:
        return {height // 2: usd(low)}
    rows = sorted({0, (height - 1) // 2, height - 1})
    if is_wide(low, high):
        return {row: usd(low * (high / low) ** (Decimal(row) / (height - 1))) for row in rows}
    return {row: usd(low + (high - low) * row / (height - 1)) for row in rows}
