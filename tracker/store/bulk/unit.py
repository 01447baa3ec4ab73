"""A stretch of rows: which of them are spans, of which offers, and what can go on as it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from tracker.store.bulk import NotByColumns
from tracker.store.bulk.cells import (
    Cells,
    Column,
    Flags,
    Ints,
    Whole,
    alike,
    as_field,
    in_order,
    numbered,
)
from tracker.store.bulk.offers import ANY_PRICE, Offers
from tracker.store.bulk.rows import Pieces, Spans

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_LONGEST = 2_000  # bytes of a piece of a row
# 10^12 micro-USD per machine-hour times what a fraction of a GPU is counted in fits into an int8,
# and leaves the server's division exact.
_DEAREST = 10**12
REST = ("fx_rate", "fx_date", "valid_as_of", "expires_at", "fallback")


class Unit(NamedTuple):
    """Rows as a file has them. Times are microseconds since 1970, prices micro-USD per
    machine-hour; ``cells`` has all other columns."""

    cells: Mapping[str, Cells]
    starts: Whole
    ends: Whole
    micro_usd: Whole


class Lowest(NamedTuple):
    """Sellers' lowest list prices of GPU families: micro-USD per GPU-hour in weeks, the days since
    1970 of whose Mondays are given. Families and sellers are numbers of ``Offers``."""

    families: Ints
    mondays: Ints
    sellers: Ints
    micro_usd: Ints


class Judged(NamedTuple):
    """What became of a unit's rows: the places of those refused, by why, and of those kept.

    ``new`` are the rows with which new offers came, ``places`` those offers' and ``offers`` each
    kept row's. ``odd`` are the offers found odd here.
    """

    unreadable: Ints
    empty: Ints
    outside: Ints
    out_of_range: Ints
    kept: Ints
    offers: Ints
    odd: Ints
    lowest: Lowest


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


class Sorted(NamedTuple):
    """The rows of a unit by what is wrong with them; ``inside`` is what is left."""

    unreadable: Ints
    empty: Ints
    outside: Ints
    inside: Ints


def sort_out(
    unit: Unit, columns: Mapping[str, Column], since: datetime | None, until: datetime | None
) -> Sorted:
    """Set aside what cannot be read, what ends before it begins, and what is outside the dates."""
    wrong = np.zeros(len(unit.starts.values), dtype=bool)
    for flags in (*(c.wrong() for c in columns.values()), unit.starts.wrong, unit.ends.wrong,
                  unit.micro_usd.wrong):  # fmt: skip
        if flags is not None:
            wrong |= flags
    empty = ~wrong & (unit.ends.values <= unit.starts.values)
    outside = np.zeros(len(wrong), dtype=bool)
    if since is not None:
        outside |= unit.starts.values < micros(since)
    if until is not None:
        outside |= unit.starts.values >= micros(until)
    outside &= ~(wrong | empty)
    inside = ~(wrong | empty | outside)
    return Sorted(*map(np.flatnonzero, (wrong, empty, outside, inside)))


def judge(unit: Unit, columns: Mapping[str, Column], found: Sorted, offers: Offers,
          of: Ints) -> Judged:  # fmt: skip
    """What becomes of the rows that are ``inside``; *of* are their offers, which are told what
    their latest spans are now."""
    paid = unit.micro_usd.values[found.inside] > 0
    dear = unit.micro_usd.values[found.inside][paid]
    if len(dear) and dear.max() > _DEAREST:
        raise NotByColumns("a price of more than a million USD an hour")
    kept, mine = found.inside[paid], of[paid]
    odd = _follow(unit, _prices(columns["price_native"], kept), kept, mine, offers)
    # An offer that nobody could pay for is known all the same: by words of a row that is refused.
    odd[of[~paid]] = True
    lowest = _lowest(unit, kept, mine, offers)
    found_odd = np.flatnonzero(odd & ~offers.known.odd)
    offers.known.odd[found_odd] = True
    return Judged(
        found.unreadable, found.empty, found.outside, found.inside[~paid], kept, mine, found_odd,
        lowest,
    )  # fmt: skip


def _prices(column: Column, rows: Ints) -> Ints:
    """A number for each price: the same for the same amount (and seldom for another)."""
    same = np.fromiter([entry.same for entry in column.entries], np.int64, len(column.entries))
    return same[column.codes[rows]]


def _follow(unit: Unit, prices: Ints, rows: Ints, of: Ints, offers: Offers) -> Flags:
    """Which offers' spans do not follow one another: one begins before the one before has ended,
    or when it ends and at its price."""
    known = offers.known
    order = in_order(of)
    of, prices = of[order], prices[order]
    starts, ends = unit.starts.values[rows][order], unit.ends.values[rows][order]
    first = np.ones(len(of), dtype=bool)
    first[1:] = of[1:] != of[:-1]
    before, price = np.empty_like(ends), np.empty_like(prices)
    before[1:], price[1:] = ends[:-1], prices[:-1]
    before[first], price[first] = known.until[of[first]], known.price[of[first]]
    same = (prices == price) | (price == ANY_PRICE)
    wrong = (starts < before) | ((starts == before) & same)
    last = np.append(np.flatnonzero(first)[1:], len(of)) - 1
    if len(of):
        known.until[of[last]], known.price[of[last]] = ends[last], prices[last]
    odd = np.zeros(offers.count, dtype=bool)
    odd[of[wrong]] = True
    return odd


def _lowest(unit: Unit, rows: Ints, of: Ints, offers: Offers) -> Lowest:
    known = offers.known
    listed = known.listed[of]
    rows, of = rows[listed], of[listed]
    per_gpu = unit.micro_usd.values[rows] * known.parts[of] // known.counts[of]
    np.minimum.at(known.lowest, of, per_gpu)
    days = unit.starts.values[rows] // _DAY
    mondays = days - (days + 3) % 7  # 1970 began on a Thursday
    weeks = mondays // 7
    first = int(weeks.min()) if len(weeks) else 0
    families, sellers = len(offers.families.all), len(offers.sellers.all)
    key = (weeks - first) * families + known.families[of]
    key = key * sellers + known.sellers[of]
    at, place = numbered(key, int(key.max(initial=-1)) + 1)
    least = np.full(len(at), np.iinfo(np.int64).max)
    np.minimum.at(least, place, per_gpu)
    families_of, sellers_of = known.families[of[at]], known.sellers[of[at]]
    return Lowest(families_of.astype(np.int64), mondays[at], sellers_of.astype(np.int64), least)


def spans_of(unit: Unit, columns: Mapping[str, Column], judged: Judged, offers: Offers) -> Spans:
    """The kept rows, to be sent."""
    known, rows, of = offers.known, judged.kept, judged.offers
    first, rest = alike([columns[name] for name in REST], rows)
    told = [columns[name].at(first, as_field) for name in REST]
    words = list(map(b"".join, zip(*told, strict=True)))
    price = columns["price_native"]
    amounts = [entry.field for entry in price.entries]
    heads, tails = tuple(offers.heads.all), tuple(offers.tails.all)  # of now: more are to come
    for pieces in (heads, tails, words, amounts):
        if max(map(len, pieces), default=0) > _LONGEST:
            raise NotByColumns("a text of thousands of letters")
    return Spans(
        known.ids[of],
        (Pieces(heads, known.heads[of]), Pieces(tails, known.tails[of]),
         Pieces(amounts, price.codes[rows]), Pieces(words, rest)),
        unit.micro_usd.values[rows], unit.starts.values[rows], unit.ends.values[rows],
        known.gpus[of].astype(np.int64),
    )  # fmt: skip
