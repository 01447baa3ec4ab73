"""Our own exports, read back: every row is a span of one offer, with all that identifies it.

They are recorded under a source of their own, ``import-<source>``: what was polled here stays apart
from what came from elsewhere. An export of an import keeps its source's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any, TypeVar

from tracker.collect.importing.observation import Observation, Snapshot, placeholder
from tracker.collect.importing.tables import CUT_SHORT, CutShort
from tracker.domain.gpu import Gpu
from tracker.domain.money import parse_decimal, to_micro_usd
from tracker.domain.offer import ListedOffer, Market, PriceKind, PriceUnit, Terms
from tracker.store.exporting import FLOOR, HISTORY, POLLS

PREFIX = "import-"
UNREADABLE = "a row of an export that cannot be read"
EMPTY_SPAN = "a price that ends before it begins"
SHORT_ROW = "the row has fewer cells than the header"
NAMES = tuple(column.name for column in HISTORY)
_CACHED = 50_000
_OFFER = NAMES[: NAMES.index("price_native")] + NAMES[NAMES.index("gpu_raw") :]
_SPAN = (
    "valid_from", "valid_to", "price_native", "fx_rate", "fx_date", "price_usd_per_machine_hour",
    "valid_as_of", "expires_at", "fallback",
)  # fmt: skip
_FORMULA = "=+-@\t\r'"

T = TypeVar("T")


def is_own(header: Sequence[str]) -> bool:
    """Whether a table's columns are those of an export of offers or history."""
    return set(NAMES) <= set(header)


def other_export(header: Sequence[str]) -> str | None:
    """``floor`` or ``polls`` when the columns are those of such an export."""
    for kind, columns in (("floor", FLOOR), ("polls", POLLS)):
        if {column.name for column in columns} <= set(header):
            return kind
    return None


def guarded(text: str) -> str:
    """*text* for a CSV cell: a quote before what a spreadsheet would run as a formula."""
    return f"'{text}" if text and text[0] in _FORMULA else text


def unguarded(text: str) -> str:
    """The inverse of ``guarded``."""
    return text[1:] if text[:1] == "'" and text[1:2] and text[1] in _FORMULA else text


class Reader:
    """Reads rows of an export. *quoted*: it is CSV, whose texts are guarded."""

    def __init__(self, header: Sequence[str], *, quoted: bool) -> None:
        self._of_offer, self._of_span = (
            itemgetter(*(header.index(name) for name in names)) for names in (_OFFER, _SPAN)
        )
        self._width = len(header)
        self._quoted = quoted
        self._offers: dict[tuple[str, ...], tuple[str, Gpu, ListedOffer]] = {}

    def read(self, row: Sequence[str], where: str, into: Snapshot) -> None:
        """Add one row to *into*: a span, or the reason why it is none."""
        into.rows += 1
        if isinstance(row, CutShort):
            into.refuse(CUT_SHORT, f"{where}: {','.join(row)}")
            return
        if len(row) < self._width:
            into.refuse(SHORT_ROW, f"{where}: {','.join(row)}")
            return
        try:
            observation = self._observation(row, where)
        except (ValueError, ArithmeticError, KeyError, TypeError) as error:
            into.refuse(UNREADABLE, f"{where}: {str(error)[:60]}: {','.join(row)}")
            return
        if observation.until <= observation.at:
            into.refuse(EMPTY_SPAN, f"{where}: {','.join(row)}")
        else:
            into.observations.append(observation)

    def _observation(self, row: Sequence[str], where: str) -> Observation:
        named = self._of_offer(row)
        known = self._offers.get(named)
        if known is None:
            texts = map(unguarded, named) if self._quoted else named
            if len(self._offers) >= _CACHED:
                self._offers.clear()
            known = self._offers[named] = _offer(dict(zip(_OFFER, texts, strict=True)))
        source, gpu, offer = known
        at, until, amount, rate, rate_day, usd, read_on, expires_at, fallback = self._of_span(row)
        return Observation(
            at=moment(at),
            until=moment(until),
            amount=_positive(amount),
            offer=offer,
            usd_per_unit=parse_decimal(rate) if rate else None,
            fx_date=date.fromisoformat(rate_day) if rate_day else None,
            exact=True,
            micro_usd=micro_usd(usd),
            valid_as_of=date.fromisoformat(read_on) if read_on else None,
            expires_at=moment(expires_at) if expires_at else None,
            fallback=_flag(fallback),
            source=source,
            gpu=gpu,
            where=where,
        )


def _offer(texts: dict[str, str]) -> tuple[str, Gpu, ListedOffer]:
    cells = {name: read(texts[name]) for name, read in OFFER_CELLS.items()}
    gpu = Gpu(
        cells["gpu_key"], cells["gpu_family"], cells["form_factor"], cells["vram_gb"],
        cells["is_slice"],
    )  # fmt: skip
    offer = ListedOffer(
        source_id=cells["native_id"],
        gpu_name=cells["gpu_raw"],
        price=placeholder(cells["currency"], cells["price_unit"]),
        seller=cells["provider"],
        terms=Terms(**{name: cells[name] for name in _TERMS}),
        **{name: cells[name] for name in _SAME},
    )
    return cells["source"], gpu, offer


def _positive(text: str) -> Decimal:
    number = parse_decimal(text)
    if number <= 0:
        raise ValueError(f"{text} is not above zero")
    return number


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text]


def moment(text: str) -> datetime:
    """A time with an offset, as UTC. Raises ValueError."""
    told = datetime.fromisoformat(text)
    if told.tzinfo is None:
        raise ValueError(f"{text} has no offset")
    return told.astimezone(UTC)


def _or(empty: T, read: Callable[[str], T]) -> Callable[[str], T]:
    return lambda text: read(text) if text else empty


def _maybe(read: Callable[[str], T]) -> Callable[[str], T | None]:
    return lambda text: read(text) if text else None


def _needed(text: str) -> str:
    if not text:
        raise ValueError("source, provider, native_id or gpu_key is empty")
    return text


def _source(text: str) -> str:
    return _needed(text) if text.startswith(PREFIX) else f"{PREFIX}{_needed(text)}"


def _notes(text: str) -> tuple[str, ...]:
    notes = json.loads(text)
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("notes is no list of texts")
    return tuple(notes)


def micro_usd(text: str) -> int:
    """The price of a machine-hour in USD as integer micro-USD. Raises ValueError."""
    return to_micro_usd(_positive(text))


# How the cells that name an offer are read. In this order: the first that cannot be is shown.
OFFER_CELLS: dict[str, Callable[[str], Any]] = {
    "source": _source, "provider": _needed, "native_id": _needed, "gpu_key": _needed,
    "gpu_family": str, "form_factor": _maybe(str), "vram_gb": _maybe(int), "is_slice": _flag,
    "notes": _or((), _notes), "gpu_raw": str, "gpu_count": _positive, "currency": str,
    "price_unit": PriceUnit, "market": Market, "tier": str, "price_kind": PriceKind,
    "region": _maybe(str), "country": _maybe(str), "interconnect": _maybe(str),
    "vcpus": _maybe(parse_decimal), "ram_gib": _maybe(parse_decimal), "dedicated": _maybe(_flag),
    "datacenter": _maybe(_flag), "upstream": _maybe(str),
    "billing_increment_seconds": _maybe(int), "minimum_seconds": _maybe(int),
    "commitment_hours": _maybe(int), "commitment_unknown": _flag,
    "disk_included_gb": _maybe(parse_decimal), "disk_usd_per_gb_hour": _maybe(parse_decimal),
    "egress_usd_per_gb": _maybe(parse_decimal), "source_url": _maybe(str),
}  # fmt: skip
# And those of its prices, but for the times and the price in USD.
PRICE_CELLS: dict[str, Callable[[str], Any]] = {
    "price_native": _positive, "fx_rate": _maybe(parse_decimal),
    "fx_date": _maybe(date.fromisoformat), "valid_as_of": _maybe(date.fromisoformat),
    "expires_at": _maybe(moment), "fallback": _flag,
}  # fmt: skip
_TERMS = (
    "billing_increment_seconds", "minimum_seconds", "commitment_hours", "commitment_unknown",
    "disk_included_gb", "disk_usd_per_gb_hour", "egress_usd_per_gb",
)  # fmt: skip
_SAME = (
    "gpu_count", "market", "tier", "price_kind", "region", "country", "interconnect", "vcpus",
    "ram_gib", "dedicated", "datacenter", "upstream", "source_url", "notes",
)  # fmt: skip


def header_problem(header: Sequence[str]) -> str:
    """What to do about a table that is neither ours nor mapped."""
    other = other_export(header)
    if other:
        return f"this is an export of {other}; what can be imported is one of history or offers"
    missing: list[Any] = [name for name in NAMES if name not in header]
    return f"not an export of ours (no column {missing[0]}); describe it with --mapping FILE"
