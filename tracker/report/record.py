"""Since when prices are on record: what an answer about the past says of its own limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracker.store.beginnings import Beginning

# Providers polled side by side begin together.
_TOGETHER = timedelta(hours=1)
_NAMED = 5


def begins(record: Sequence[Beginning]) -> str | None:
    """When history begins, source by source where they differ; None where nothing is on record."""
    if not record:
        return None
    first = record[0].at
    later = [one for one in record if one.at - first > _TOGETHER]
    text = f"history begins at {_moment(first)}"
    if not later:
        return text
    at_first = [one.source for one in record if one not in later]
    return f"{text} ({_names(at_first)}); {_each(later)}"


def before_record(record: Sequence[Beginning], start: datetime) -> Iterator[str]:
    """What of a window from *start* on lies before anything, or some source, was on record."""
    if not record:
        return
    if start < record[0].at:
        text = str(begins(record))
        yield f"{text[0].upper()}{text[1:]}; before that is a gap."
    elif later := [one for one in record if one.at - start > _TOGETHER]:
        yield f"Not on record from the beginning: {_each(later)}."


def then(record: Sequence[Beginning], moment: datetime) -> Iterator[str]:
    """Who was not on record yet at a past *moment*, and whose single prices are not any more."""
    later = [one for one in record if one.at > moment]
    if 0 < len(later) < len(record):
        yield f"Not on record yet: {_each(later)}."
    if text := not_whole(record, moment):
        yield f"{text[0].upper()}{text[1:]}; of before, gpucost history has the lowest."


def nothing_then(record: Sequence[Beginning], moment: datetime) -> str | None:
    """Why nothing was found as of a past *moment*, where the record is why; None: it is not."""
    if not record:
        return None
    if moment < record[0].at:
        return f"no price is on record from then; {begins(record)}"
    if text := not_whole(record, moment):
        return f"no price is kept from then: {text}; of before, gpucost history has the lowest"
    return None


def not_whole(record: Sequence[Beginning], start: datetime) -> str | None:
    """Since when single offers' prices are kept, where they are not from *start* on."""
    lacking = [one for one in record if one.whole_from is not None and one.whole_from > start]
    if not lacking:
        return None
    moments = sorted({one.whole_from for one in lacking if one.whole_from is not None})
    kept = ", ".join(
        f"{_moment(moment)}" + (
            f" ({_names([one.source for one in lacking if one.whole_from == moment])})"
            if len(moments) > 1 or len(lacking) < len(record) else ""
        )
        for moment in moments
    )  # fmt: skip
    return f"prices of single offers are kept from {kept} on"


def _each(later: Sequence[Beginning]) -> str:
    named = ", ".join(f"{one.source} from {_moment(one.at)}" for one in later[:_NAMED])
    more = len(later) - _NAMED
    return named if more <= 0 else f"{named}, {more} more until {_moment(later[-1].at)}"


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
