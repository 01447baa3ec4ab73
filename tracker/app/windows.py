"""The window, the buckets and the time zone of a question about the past, as they are asked for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from tracker.app.asked import BadQuestion
from tracker.domain.bounds import OutOfRange, lasting, shown

if TYPE_CHECKING:
    from tracker.domain.series_buckets import Calendar

MOST_BUCKETS = 10_000
_AGO = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*(m|h|d|w|y)")
_LENGTH = re.compile(r"(\d{1,6})\s*(s|m|h|d|w|mo)")
_UNITS = {
    "s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1),
    "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365),
}  # fmt: skip
# Sizes to offer, and about how long they are.
SIZES = {
    "5m": timedelta(minutes=5), "15m": timedelta(minutes=15), "1h": timedelta(hours=1),
    "6h": timedelta(hours=6), "1d": timedelta(days=1), "1w": timedelta(weeks=1),
    "1mo": timedelta(days=30),
}  # fmt: skip
# What is taken by itself, so that a table stays readable.
_BY_ITSELF = 100


class Window(NamedTuple):
    """From *start* until before *end* (UTC) in buckets of ``bucket`` between ``edges``.

    ``start`` is the first edge; the last bucket goes on after *end*.
    """

    start: datetime
    end: datetime
    bucket: str
    edges: tuple[datetime, ...]
    zone: tzinfo
    zone_name: str


def window_of(
    since: str, until: str | None, bucket: str | None, zone_name: str, now: datetime
) -> Window:
    """The window that the words of a question mean at *now*. Raises BadQuestion."""
    from tracker.domain.series_buckets import bucket_edges

    zone = _zone(zone_name)
    end = now if until is None else _moment(until, "until", now, zone)
    start = _start(since, end, now if until is None or _is_length(until) else end, now, zone)
    if start >= end:
        raise BadQuestion(
            None, f"{{since}} ({start:%Y-%m-%d %H:%M}) must lie before {{until}}"
            f" ({end:%Y-%m-%d %H:%M} UTC)"
        )  # fmt: skip
    name = bucket or _by_itself(end - start)
    every, about = _length(name)
    refuse_too_many(end - start, about, name)
    try:
        edges = bucket_edges(start, end, every, zone)
    except OverflowError:
        raise BadQuestion("since", "lies before the calendar begins") from None
    return Window(edges[0], end, name, tuple(edges), zone, zone_name)


def _start(
    since: str, end: datetime, from_end: datetime, now: datetime, zone: tzinfo
) -> datetime:  # fmt: skip
    """The moment that *since* names. A length is before now; one that reaches no further back than
    the *end* is before *from_end*, so that a date alone has the usual length before it."""
    start = _moment(since, "since", now, zone)
    return _moment(since, "since", from_end, zone) if start >= end and _is_length(since) else start


def _is_length(text: str) -> bool:
    return _AGO.fullmatch(text.strip().lower()) is not None


def since_moment(
    text: str, end: datetime, now: datetime, until: str | None = None
) -> datetime:  # fmt: skip
    """The moment that ``since`` names, in UTC; before *end*, as *until* names it. Raises
    BadQuestion."""
    start = _start(text, end, now if until is None or _is_length(until) else end, now, UTC)
    if start >= end:
        raise BadQuestion("since", f"{start:%Y-%m-%d %H:%M} UTC is no earlier than the end")
    return start


def refuse_too_many(length: timedelta, about: timedelta, name: str) -> None:
    """Refuse a bucket that makes too many points, and name the next larger one that does not."""
    count = length // about + 1
    if count <= MOST_BUCKETS:
        return
    fitting = next((s for s, long in SIZES.items() if length / long <= MOST_BUCKETS), None)
    instead = f"take {{bucket}} {fitting}" if fitting else "take a shorter window"
    raise BadQuestion(
        None,
        f"{{bucket}} {name} makes {count:,} points of this window, more than"
        f" {MOST_BUCKETS:,}; {instead}",
    )


def _by_itself(length: timedelta) -> str:
    return next((name for name, long in list(SIZES.items())[2:] if length / long <= _BY_ITSELF),
                "1mo")  # fmt: skip


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadQuestion(
            "tz", f"{shown(name)} is not a time zone such as UTC or Europe/Berlin"
        ) from None


def _moment(text: str, parameter: str, now: datetime, zone: tzinfo) -> datetime:
    """A length before now, or a date (its midnight) or time in the zone."""
    text = text.strip()
    match = _AGO.fullmatch(text.lower())
    try:
        if match:
            return now - lasting(Decimal(match[1]), _UNITS[match[2]])
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        moment = moment.astimezone(UTC)
    except (OverflowError, OutOfRange):
        raise BadQuestion(parameter, f"{shown(text)} is too long ago") from None
    except ValueError:
        raise BadQuestion(
            parameter, f"{shown(text)} is neither a length such as 12h, 90d or 1y nor a time"
            " such as 2026-03-01 or 2026-03-01T12:00Z"
        ) from None  # fmt: skip
    if moment > now:
        raise BadQuestion(
            parameter, f"{shown(text)} lies in the future (it is {now:%Y-%m-%d %H:%M} UTC)"
        )
    return moment


def _length(text: str) -> tuple[timedelta | Calendar, timedelta]:
    """The length of a bucket, and about how long that is."""
    from tracker.domain.series_buckets import Calendar

    calendar = {"1d": Calendar.DAY, "day": Calendar.DAY, "24h": Calendar.DAY,
                "1w": Calendar.WEEK, "week": Calendar.WEEK, "7d": Calendar.WEEK,
                "1mo": Calendar.MONTH, "month": Calendar.MONTH}  # fmt: skip
    about = {Calendar.DAY: "1d", Calendar.WEEK: "1w", Calendar.MONTH: "1mo"}
    name = text.strip().lower()
    if found := calendar.get(name):
        return found, SIZES[about[found]]
    match = _LENGTH.fullmatch(name)
    if not match or match[2] in ("mo", "w") or not int(match[1]):
        raise BadQuestion(
            "bucket", f"{shown(text)} is not a length such as 15m, 1h, 6h, 1d, 1w or 1mo"
        )
    length = int(match[1]) * _UNITS[match[2]]
    if timedelta(days=1) % length:
        raise BadQuestion(
            "bucket", f"{text} does not divide a day; take 15m, 1h, 6h, 1d, 1w or 1mo"
        )
    return length, length
