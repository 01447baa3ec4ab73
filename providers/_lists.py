"""From a list of rows to offers, for the modules whose answers are one plain list.

What they have in common: one bad row is rejected and the others go on, a field that no row has is
a changed format, and one thing listed twice is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from providers._rows import BadRow, number, rentable_first, sample, told_once
from tracker.provider import ListedOffer, ParseError, Rejected, SecretStr

SIZES = (1, 2, 4, 8)  # GPUs of a machine, where a price per GPU holds for machines of any size
_MOST_GPUS = 1024
_MOST_ROWS = 200_000  # the longest list has some thousand; millions of rows of nothing fill memory

Item = ListedOffer | Rejected


def bearer(key: SecretStr | None) -> dict[str, str]:
    """The header that sends *key*; nothing without one."""
    return {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}


def listed(answer: Any, *path: str) -> list[Any]:
    """The list at *path* of an answer. Raises ParseError, naming the field."""
    found = answer
    for depth, name in enumerate(path):
        if not isinstance(found, dict) or name not in found:
            raise ParseError(".".join(path[: depth + 1]), f"missing{said(answer)}")
        found = found[name]
    if not isinstance(found, list):
        where = ".".join(path) or "body"
        raise ParseError(where, f"a list was due, not {type(found).__name__}{said(answer)}")
    if len(found) > _MOST_ROWS:
        raise ParseError(".".join(path) or "body", f"{len(found):,} rows: no list of machines")
    return found


def said(answer: Any) -> str:
    """What an error answer says, for the message that it is none of the answers expected."""
    if not isinstance(answer, dict):
        return ""
    for name in ("message", "error", "detail", "msg"):
        text = answer.get(name)
        if isinstance(text, str) and text.strip():
            return f" (the answer says: {' '.join(text.split())[:100]})"
    return ""


def require(rows: Sequence[Any], where: str, names: Iterable[str]) -> None:
    """Raise ParseError when there are rows and none of them is an object with each of *names*."""
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError(where, "an object was due")
    for name in names:
        if objects and all(name not in row for row in objects):
            raise ParseError(f"{where}.{name}", f"missing in all {len(objects)} rows")


def read(
    rows: Iterable[Any],
    item: Callable[[Mapping[str, Any]], Iterable[Item]],
    *,
    alternatives: bool = False,
) -> tuple[tuple[ListedOffer, ...], tuple[Rejected, ...]]:
    """The offers of *rows* and what was rejected; *item* reads one row and may raise BadRow.

    Of one thing that is listed twice that in stock stays; both, to be held, where their prices
    differ. *alternatives*: rows have no id, so that two may be two things: the cheaper stays.
    """
    return unique(_items(rows, item), alternatives=alternatives)


def _items(
    rows: Iterable[Any], item: Callable[[Mapping[str, Any]], Iterable[Item]]
) -> Iterator[Item]:
    for row in rows:
        if not isinstance(row, dict):
            yield Rejected("row is not an object", sample(row))
            continue
        found: list[Item] = []
        try:
            found.extend(item(row))
        except BadRow as bad:
            found.append(Rejected(str(bad), sample(row)))
        yield from found


def unique(
    items: Iterable[Item], *, alternatives: bool = False
) -> tuple[tuple[ListedOffer, ...], tuple[Rejected, ...]]:
    """Offers without doubles, and the rejected. See ``read`` for *alternatives*."""
    groups: dict[tuple[object, ...], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for offer in items:
        if isinstance(offer, Rejected):
            rejected.append(offer)
            continue
        key = (offer.source_id, offer.tier, offer.market, offer.gpu_count, offer.region,
               offer.price.currency, offer.price.unit)  # fmt: skip
        groups.setdefault(key, []).append(offer)
    if alternatives:
        best = (min(same, key=rentable_first) for same in groups.values())
        rejected += [
            Rejected("listed twice", f"{other.source_id} {other.price.amount}")
            for same in groups.values()
            for other in sorted(same, key=rentable_first)[1:]
        ]
        return tuple(best), tuple(rejected)
    return told_once(groups.values(), "listed twice", rejected), tuple(rejected)


def text(row: Mapping[str, Any], name: str) -> str:
    """The text under *name*, on one line. Raises BadRow where there is none."""
    found = optional_text(row, name)
    if found is None:
        raise BadRow(f"{name} is missing")
    return found


def optional_text(row: Mapping[str, Any], name: str) -> str | None:
    """The text under *name*, on one line; None where there is none."""
    found = row.get(name)
    return (" ".join(found.split()) or None) if isinstance(found, str) else None


def part(row: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The object at *path* of a row; an empty one where there is none."""
    found: Any = row
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def gpus(row: Mapping[str, Any], name: str) -> int:
    """A number of whole GPUs, 1 or more. Raises BadRow."""
    found = count(row, name)
    if not found:
        raise BadRow(f"{name} is missing or zero")
    if found > _MOST_GPUS:
        raise BadRow(f"{name} is out of all range")
    return found


def count(row: Mapping[str, Any], name: str) -> int | None:
    """A whole number of 0 or more; None where there is none. Raises BadRow."""
    found = number(row, name)
    if found is None:
        return None
    if found < 0 or found != found.to_integral_value():
        raise BadRow(f"{name} is not a whole number")
    return int(found)


def flag(row: Mapping[str, Any], name: str) -> bool | None:
    """True or false; None for anything else."""
    found = row.get(name)
    return found if isinstance(found, bool) else None


def times(figure: Decimal | None, how_many: int) -> Decimal | None:
    """A figure of one GPU for *how_many* of them; None, and 0, stay unknown."""
    return figure * how_many if figure else None
