"""Tables that are sorted by a column: by a link in its head, so that it works without a script.

``sort=age`` in the address is ascending, ``sort=-age`` descending; without it rows stand in the
order of their page. Unknown values come last either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tracker.app import ordering
from tracker.web.pages.addresses import Address

SORT = ordering.SORT
OWN = {SORT: ""}
Item = TypeVar("Item")
Key = Callable[[Any], Any]


class Column(NamedTuple):
    """A column: its name in the address, its label, and what it sorts by (None: not sorted by).

    ``overall``: what is drawn over all others in a chart. ``under``: what its cells say on a
    second line, sorted by as well.
    """

    name: str
    label: str
    key: Key | None = None
    number: bool = False
    overall: bool = False
    under: tuple[Column, ...] = ()


class Head(NamedTuple):
    """The head of a column; ``direction`` is that of ``aria-sort``, None for no sorting by it."""

    label: str
    number: bool
    href: str | None
    direction: str | None
    overall: bool = False
    under: tuple[Head, ...] = ()


def heads(address: Address, columns: Sequence[Column], anchor: str) -> list[Head]:
    """The heads, each a link to the same page sorted by it: up, then down, then as it was.

    The direction of a head is also that of what stands under it.
    """
    name, down = ordering.wanted(address.own.get(SORT, ""))
    found = []
    for column in columns:
        mine = column.name == name and column.key is not None
        following = f"-{column.name}" if mine and not down else None if mine else column.name
        under = tuple(heads(address, column.under, anchor))
        direction = ("descending" if down else "ascending") if mine else None
        found.append(
            Head(
                column.label, column.number,
                None if column.key is None else f"{address.href(sort=following)}#{anchor}",
                direction or next(filter(None, (one.direction for one in under)), None),
                column.overall, under,
            )
        )  # fmt: skip
    return found


def in_order(address: Address, columns: Sequence[Column], items: Iterable[Item]) -> list[Item]:
    """*items* in the order that the address asks for. Raises BadQuestion."""
    every = [one for column in columns for one in (column, *column.under)]
    keys = {one.name: one.key for one in every if one.key is not None}
    return ordering.in_order(address.own.get(SORT, ""), keys, items)
