"""The plane of two prices: the ray on which both bills are the same, and where prices were.

All of it in the units of a drawing, so that it needs no script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

WIDTH, HEIGHT = 640, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 52
_STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


class Bound(NamedTuple):
    """A bill as a line in the price of a GPU-hour: ``fixed_usd`` + price x ``gpu_hours``.

    ``low`` and ``high`` are the shares of the hours at the ends of their range; both 1 without one.
    """

    fixed_usd: Decimal
    gpu_hours: Decimal
    low: Decimal = Decimal(1)
    high: Decimal = Decimal(1)

    def usd(self, price: Decimal, share: Decimal = Decimal(1)) -> Decimal:
        """The bill at that price of a GPU-hour, if the job took that share of its hours."""
        return self.fixed_usd + price * self.gpu_hours * share


Points = Sequence[tuple[Decimal, Decimal]]


class Tick(NamedTuple):
    """A mark of an axis: where, and what is written."""

    at: str
    text: str


class Plane(NamedTuple):
    """A drawing: ``ray`` and ``trail`` are lists of points as SVG has them, ``band`` a polygon.

    x is the price of the right GPU and y that of the left one, in USD for a GPU-hour.
    """

    width: int
    height: int
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    ray: str
    band: str
    trail: str
    now: tuple[str, str] | None
    slope: Decimal
    box: tuple[int, int, int, int]  # x, y, width, height


def break_even_price(left: Bound, right: Bound, price: Decimal) -> Decimal:
    """The price of the left GPU at which its bill is that of the right one at *price*."""
    return (right.usd(price) - left.fixed_usd) / left.gpu_hours


def plane(
    left: Bound, right: Bound, trail: Points, now: tuple[Decimal, Decimal] | None
) -> Plane | None:
    """Draw it around the prices there were; None where there are none, or whole months are billed.

    Points are (price of the right GPU, price of the left GPU).
    """
    every = [*trail, *([now] if now is not None else [])]
    if not every or not left.gpu_hours or not right.gpu_hours:
        return None
    most_x = _beyond(max(x for x, _ in every))
    ray_at_now = break_even_price(left, right, every[-1][0])
    highest = max(y for _, y in every)
    most_y = _beyond(max(highest, min(ray_at_now, 3 * highest)))  # the ray is seen, if it is near

    def point(x: Decimal, y: Decimal) -> str:
        return f"{_x(x, most_x)},{_y(y, most_y)}"

    def line(share_left: Decimal, share_right: Decimal) -> list[tuple[Decimal, Decimal]]:
        hours = left.gpu_hours * share_left
        ends = []
        for x in (Decimal(0), most_x):
            ends.append((x, (right.usd(x, share_right) - left.fixed_usd) / hours))
        return ends

    band = ""
    if {left.low, left.high, right.low, right.high} != {Decimal(1)}:
        upper, lower = line(left.low, right.high), line(left.high, right.low)
        band = " ".join(point(*end) for end in (*upper, *reversed(lower)))
    return Plane(
        WIDTH, HEIGHT,
        [Tick(_x(at, most_x), text) for at, text in _ticks(most_x)],
        [Tick(_y(at, most_y), text) for at, text in _ticks(most_y)],
        " ".join(point(*end) for end in line(Decimal(1), Decimal(1))), band,
        " ".join(_stairs([(_x(x, most_x), _y(y, most_y)) for x, y in trail])),
        None if now is None else (_x(now[0], most_x), _y(now[1], most_y)),
        right.gpu_hours / left.gpu_hours,
        (LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM),
    )  # fmt: skip


def _stairs(points: Sequence[tuple[str, str]]) -> Iterator[str]:
    for x, y in points:
        yield f"{x},{y}"


def _beyond(value: Decimal) -> Decimal:
    """A little more than *value*, so that nothing lies on the edge."""
    return value * Decimal("1.2") if value > 0 else Decimal(1)


def _x(value: Decimal, most: Decimal) -> str:
    return f"{LEFT + value / most * (WIDTH - LEFT - RIGHT):.1f}"


def _y(value: Decimal, most: Decimal) -> str:
    return f"{HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM):.1f}"


def _ticks(most: Decimal) -> Iterator[tuple[Decimal, str]]:
    """Round values from 0 on, six or so."""
    rough = most / 6
    unit = Decimal(10) ** rough.adjusted()
    step = next(s * unit for s in _STEPS if s * unit >= rough)
    count = int((most / step).to_integral_value(ROUND_CEILING))
    for at in range(count):
        value = step * at
        if value <= most:
            yield value, f"${value.normalize():f}" if value else "$0"
