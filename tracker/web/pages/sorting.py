"""Tables that are sorted by a column: by a link in its head, so that it works without a script.

``sort=age`` in the address is ascending, ``sort=-age`` descending; without it rows stand in the
order of their page. Unknown values come last either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tracker.app.asked import BadQuestion
from tracker.web.pages.addresses import Address

SORT = "sort"
OWN = {SORT: ""}
Item = TypeVar("Item")
Key = Callable[[Any], Any]


class Column(NamedTuple):
    """A column: its name in the address, its label, and what it sorts by (None: not sorted by).

    ``overall``: what is drawn over all others in a chart.
    """

    name: str
    label: str
    key: Key | None = None
    number: bool = False
    overall: bool = False


class Head(NamedTuple):
    """The head of a column; ``direction`` is that of ``aria-sort``, None for no sorting by it."""

    label: str
    number: bool
    href: str | None
    direction: str | None
    overall: bool = False


def heads(address: Address, columns: Sequence[Column], anchor: str) -> list[Head]:
    """The heads, each a link to the same page sorted by it: up, then down, then as it was."""
    name, down = _wanted(address)
    found = []
    for column in columns:
        mine = column.name == name and column.key is not None
        following = f"-{column.name}" if mine and not down else None if mine else column.name
        found.append(
            Head(
                column.label, column.number,
                None if column.key is None else f"{address.href(sort=following)}#{anchor}",
                ("descending" if down else "ascending") if mine else None, column.overall,
            )
        )  # fmt: skip
    return found


def in_order(address: Address, columns: Sequence[Column], items: Iterable[Item]) -> list[Item]:
    """*items* in the order that the address asks for. Raises BadQuestion."""
    items = list(items)
    name, down = _wanted(address)
    if not name:
        return items
    key = next((one.key for one in columns if one.name == name), None)
    if key is None:
        known = ", ".join(one.name for one in columns if one.key is not None)
        raise BadQuestion(SORT, f"there is no column {name[:40]!r} to sort by; known: {known}")
    of: Key = key
    known_ones = [item for item in items if of(item) is not None]
    known_ones.sort(key=of, reverse=down)
    return known_ones + [item for item in items if of(item) is None]


def _wanted(address: Address) -> tuple[str, bool]:
    text = address.own.get(SORT, "").strip()
    return text.removeprefix("-"), text.startswith("-")
