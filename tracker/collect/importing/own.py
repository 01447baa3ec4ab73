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
            at=_moment(at),
            until=_moment(until),
            amount=_positive(amount),
            offer=offer,
            usd_per_unit=_or_none(parse_decimal, rate),
            fx_date=_or_none(date.fromisoformat, rate_day),
            exact=True,
            micro_usd=to_micro_usd(_positive(usd)),
            valid_as_of=_or_none(date.fromisoformat, read_on),
            expires_at=_or_none(_moment, expires_at),
            fallback=_flag(fallback),
            source=source,
            gpu=gpu,
            where=where,
        )


def _offer(cells: dict[str, str]) -> tuple[str, Gpu, ListedOffer]:
    source = cells["source"]
    if not source or not cells["provider"] or not cells["native_id"] or not cells["gpu_key"]:
        raise ValueError("source, provider, native_id or gpu_key is empty")
    form, vram_gb = cells["form_factor"] or None, _or_none(int, cells["vram_gb"])
    gpu = Gpu(cells["gpu_key"], cells["gpu_family"], form, vram_gb, _flag(cells["is_slice"]))
    notes = json.loads(cells["notes"]) if cells["notes"] else []
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("notes is no list of texts")
    offer = ListedOffer(
        source_id=cells["native_id"],
        gpu_name=cells["gpu_raw"],
        gpu_count=_positive(cells["gpu_count"]),
        price=placeholder(cells["currency"], PriceUnit(cells["price_unit"])),
        market=Market(cells["market"]),
        tier=cells["tier"],
        price_kind=PriceKind(cells["price_kind"]),
        region=cells["region"] or None,
        country=cells["country"] or None,
        interconnect=cells["interconnect"] or None,
        vcpus=_or_none(parse_decimal, cells["vcpus"]),
        ram_gib=_or_none(parse_decimal, cells["ram_gib"]),
        dedicated=_or_none(_flag, cells["dedicated"]),
        datacenter=_or_none(_flag, cells["datacenter"]),
        seller=cells["provider"],
        upstream=cells["upstream"] or None,
        terms=_terms(cells),
        source_url=cells["source_url"] or None,
        notes=tuple(notes),
    )
    return source if source.startswith(PREFIX) else f"{PREFIX}{source}", gpu, offer


def _terms(cells: dict[str, str]) -> Terms:
    return Terms(
        billing_increment_seconds=_or_none(int, cells["billing_increment_seconds"]),
        minimum_seconds=_or_none(int, cells["minimum_seconds"]),
        commitment_hours=_or_none(int, cells["commitment_hours"]),
        commitment_unknown=_flag(cells["commitment_unknown"]),
        disk_included_gb=_or_none(parse_decimal, cells["disk_included_gb"]),
        disk_usd_per_gb_hour=_or_none(parse_decimal, cells["disk_usd_per_gb_hour"]),
        egress_usd_per_gb=_or_none(parse_decimal, cells["egress_usd_per_gb"]),
    )


def _or_none(read: Callable[[str], T], text: str) -> T | None:
    return read(text) if text else None


def _positive(text: str) -> Decimal:
    number = parse_decimal(text)
    if number <= 0:
        raise ValueError(f"{text} is not above zero")
    return number


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no offset")
    return moment.astimezone(UTC)


def header_problem(header: Sequence[str]) -> str:
    """What to do about a table that is neither ours nor mapped."""
    other = other_export(header)
    if other:
        return f"this is an export of {other}; what can be imported is one of history or offers"
    missing: list[Any] = [name for name in NAMES if name not in header]
    return f"not an export of ours (no column {missing[0]}); describe it with --mapping FILE"
