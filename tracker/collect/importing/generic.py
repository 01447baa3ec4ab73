"""A table of somebody else, read by its mapping: rows in, observations out."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from tracker.collect.importing import words
from tracker.collect.importing.mapping import Mapping
from tracker.collect.importing.observation import Observation, Snapshot, placeholder
from tracker.collect.importing.tables import CUT_SHORT, CutShort
from tracker.collect.importing.words import Unreadable
from tracker.domain.offer import ListedOffer, Market, PriceKind, PriceUnit, Terms

NO_SELLER = "no seller"
NO_GPU_NAME = "no GPU name"
UNKNOWN_MARKET = "a market that the mapping does not name"
NO_RATE = "no exchange rate for the currency"
INVENTED = "an estimated, simulated or copied price, not an observation"
SHORT_ROW = "the row has fewer cells than the header"

# Where a table says of a row that nobody observed it: in a column so called, or by such a word.
_FLAGS = frozenset({"seed", "synthetic", "simulated", "is_estimate", "estimated", "backfilled"})
_MARKS = re.compile(r"historical_estimate|simulated|synthetic|back-?fill|random[_ ]walk", re.I)
_MARKED = frozenset({"source", "method", "origin", "kind", "type", "provenance", "note"})
_YEARS = re.compile(r"\b(\d)\s*-?\s*y(?:ea)?rs?\b|\b(\d)y\b", re.IGNORECASE)
_MONTHS = re.compile(r"\b(\d{1,2})\s*mo(?:nths?)?\b", re.IGNORECASE)
_HOURS_PER_MONTH = 730
_CACHED = 50_000
_TERM = frozenset({Market.RESERVED, Market.MONTHLY, Market.CAPACITY_BLOCK})


@functools.lru_cache(maxsize=_CACHED)
def _is_marked(text: str) -> bool:
    return _MARKS.search(text) is not None


class _Known(NamedTuple):
    """What the cells that name an offer say: the offer, its seller and how long a price holds."""

    offers: dict[PriceUnit, ListedOffer]
    seller: str
    market: Market


class Reader:
    """Reads rows of one table. ``missing`` are columns of the mapping that the table lacks."""

    def __init__(self, mapping: Mapping, header: Sequence[str], now: datetime) -> None:
        self._mapping = mapping
        self._now = now
        index = {name: position for position, name in enumerate(header)}
        self.missing = tuple(name for name in mapping.wanted if name not in index)
        self._width = len(header)
        self._at: dict[str, tuple[int, ...]] = {}
        for name, column in mapping.columns.items():
            of = (column,) if isinstance(column, str) else column
            self._at[name] = tuple(index[c] for c in of if c in index)
        self._refuse = [(index[c], values) for c, values in mapping.refuse.items() if c in index]
        self._flags = [position for name, position in index.items() if name.lower() in _FLAGS]
        self._marked = [position for name, position in index.items() if name.lower() in _MARKED]
        moving = ("observed_at", "price", "usd_per_unit")
        self._naming = [n for n in self._at if n not in moving]
        self._known: dict[tuple[str, ...], _Known | str] = {}
        self._stripped = functools.lru_cache(maxsize=_CACHED)(self._strip)

    def read(self, row: Sequence[str], where: str, into: Snapshot) -> None:
        """Add one row to *into*: an observation, or the reason why it is none."""
        into.rows += 1
        try:
            if isinstance(row, CutShort):
                raise Unreadable(CUT_SHORT)
            if len(row) < self._width:
                raise Unreadable(SHORT_ROW)
            into.observations.append(self._observation(row, where, into))
        except Unreadable as problem:
            into.refuse(str(problem), f"{where}: {','.join(row)}")

    def _observation(self, row: Sequence[str], where: str, into: Snapshot) -> Observation:
        self._check_observed(row)
        mapping = self._mapping
        at = words.moment(self._cell(row, "observed_at"), mapping.zone, self._now)
        amount = words.price(self._cell(row, "price"))
        # Of the texts as they name the offer: an origin's changes with every version of its file.
        cells = tuple([self._text(row, name) for name in self._naming])
        known = self._known.get(cells)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[cells] = self._name(row)
        if isinstance(known, str):
            raise Unreadable(known)
        unit = mapping.unit_at(at)
        offer = known.offers.get(unit)
        if offer is None:
            offer = known.offers[unit] = self._offer(row, known, unit)
        rate, day = self._rate(row, offer.price.currency, at)
        if mapping.complete:
            into.moments.add((known.seller, at))
        until = at + mapping.holds_for(known.seller, known.market)
        return Observation(at, until, amount, offer, rate, day, where=where)

    def _check_observed(self, row: Sequence[str]) -> None:
        if any(row[i] in values for i, values in self._refuse):
            raise Unreadable(INVENTED)
        if any(row[i].strip().lower() in ("true", "1", "yes") for i in self._flags):
            raise Unreadable(INVENTED)
        if any(_is_marked(row[i]) for i in self._marked):
            raise Unreadable(INVENTED)

    def _cell(self, row: Sequence[str], name: str) -> str:
        at = self._at.get(name)
        if at is None:
            return self._mapping.constants.get(name, "")
        if len(at) == 1:
            return row[at[0]]
        return " ".join([row[i] for i in at if row[i]])

    def _text(self, row: Sequence[str], name: str) -> str:
        return self._stripped(name, self._cell(row, name))

    def _strip(self, name: str, text: str) -> str:
        pattern = self._mapping.strip.get(name)
        return (pattern.sub("", text) if pattern else text).strip()

    def _name(self, row: Sequence[str]) -> _Known | str:
        """Who sells on which market, or why the row cannot say it."""
        seller = words.seller(self._cell(row, "seller"))
        if not seller:
            return NO_SELLER
        market = self._mapping.markets.get(self._cell(row, "market").strip().lower())
        if market is None:
            return UNKNOWN_MARKET
        if words.is_nothing(self._text(row, "gpu")):
            return NO_GPU_NAME
        try:
            words.count(self._cell(row, "gpu_count"))
        except Unreadable as problem:
            return str(problem)
        return _Known({}, seller, market)

    def _offer(self, row: Sequence[str], known: _Known, unit: PriceUnit) -> ListedOffer:
        gpus = words.count(self._cell(row, "gpu_count"))
        name, form = self._text(row, "gpu"), self._text(row, "form_factor")
        own_id = self._text(row, "id") or f"{gpus}x {name} {form}".strip()
        origin = self._text(row, "origin")
        vram_gb = words.number(self._cell(row, "vram_gb")) or None
        currency = self._text(row, "currency").upper() or self._mapping.currency
        return ListedOffer(
            source_id=f"{own_id} [{origin}]" if origin else own_id,
            gpu_name=name,
            gpu_count=gpus,
            price=placeholder(currency, unit),
            market=known.market,
            tier=self._text(row, "tier").lower() or "standard",
            price_kind=PriceKind.DYNAMIC if known.market is Market.SPOT else PriceKind.FIXED,
            vram_gb=vram_gb,
            vram_mib=words.number(self._cell(row, "vram_mib")) or None,
            form_factor=None if words.is_nothing(form) else form,
            region=self._text(row, "region") or None,
            country=self._text(row, "country").upper() or None,
            vcpus=words.number(self._cell(row, "vcpus")) or None,
            ram_gib=words.number(self._cell(row, "ram_gib")) or None,
            seller=known.seller,
            terms=self._terms(row, known.market, own_id),
            source_url=self._text(row, "source_url") or None,
        )

    def _terms(self, row: Sequence[str], market: Market, own_id: str) -> Terms:
        if market not in _TERM:
            return Terms()
        hours = words.number(self._cell(row, "commitment_hours"))
        if hours:
            return Terms(commitment_hours=int(hours))
        if years := _YEARS.search(own_id):
            return Terms(commitment_hours=int(years[1] or years[2]) * 12 * _HOURS_PER_MONTH)
        if months := _MONTHS.search(own_id):
            return Terms(commitment_hours=int(months[1]) * _HOURS_PER_MONTH)
        return Terms(commitment_unknown=True)

    def _rate(
        self, row: Sequence[str], currency: str, at: datetime
    ) -> tuple[Decimal | None, date | None]:  # fmt: skip
        if currency == "USD":
            return None, None
        told = words.number(self._cell(row, "usd_per_unit"))
        if told and told > 0:
            return told, at.date()
        rate = self._mapping.rates.get(currency)
        if rate is None:
            raise Unreadable(NO_RATE)
        return rate.usd_per_unit, rate.on
