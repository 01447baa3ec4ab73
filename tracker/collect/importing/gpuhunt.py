"""gpuhunt's catalogues (dstackai/gpuhunt): zips of one ``<provider>.csv`` each provider and day.

Three layouts are read: v1 and v2 (``v2/20240508/catalog.zip``, all providers in one zip) and v3
(``v3/aws/20260818-42/catalog.zip``, one provider). The provider is the file's name, the day is in
the path. A row is one instance in one location, either on demand or spot; its price is USD per hour
for the whole instance, its ``gpu_memory`` GB of one GPU. Columns are read by name: older files lack
some, and have no spot column at all before there were spot prices.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from tracker.collect.importing import words
from tracker.collect.importing.observation import (
    NO_GPU,
    Observation,
    Snapshot,
    placeholder,
)
from tracker.collect.importing.words import Unreadable
from tracker.domain.offer import ListedOffer, Market, PriceKind

PUBLIC = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com"
HOLD = timedelta(days=3)  # published daily
V3_SINCE = date(2026, 8, 18)  # v1 and v2 are not published any more from that day on

MAX_MEMBER_BYTES = 128 * 2**20
MAX_MEMBERS = 100

BAD_ZIP = "the catalogue is no zip, or a damaged one"
NOT_A_CATALOGUE = "the file has no columns of a gpuhunt catalogue"
SHORT_ROW = "the row has fewer cells than the header"

_NEEDED = {"instance_name", "location", "price", "gpu_count", "gpu_name"}
_DATED = re.compile(r"(?<!\d)(20\d{2})(\d{2})(\d{2})(?:-(\d{1,6}))?(?!\d)")
_LAYOUT = re.compile(r"(?:^|/)v([123])/")


class Catalogue(NamedTuple):
    """Where one catalogue is: ``path`` below the root, its day, its run of that day and layout."""

    day: date
    run: int
    layout: int
    path: str

    @property
    def at(self) -> datetime:
        """The moment its prices count from: the beginning of its day, as no hour is stated."""
        return datetime.combine(self.day, datetime.min.time(), UTC)


def catalogue_at(path: str) -> Catalogue | None:
    """The catalogue that *path* names (``v3/aws/20260818-42/catalog.zip``), or None: no day in it.

    A loose zip may have its day in its own name: ``catalog-20240508.zip``.
    """
    found = list(_DATED.finditer(path))
    if not path.endswith(".zip") or not found:
        return None
    year, month, day, run = found[-1].groups()
    try:
        when = date(int(year), int(month), int(day))
    except ValueError:
        return None
    layout = _LAYOUT.search(path)
    return Catalogue(when, int(run or 0), int(layout[1]) if layout else 2, path)


def last_of_day(catalogues: list[Catalogue]) -> list[Catalogue]:
    """In the order of time; of several runs of one provider and day the last, and v2 before v1.

    Nothing in a catalogue says at which hour it was made, so that earlier runs of a day have no
    moment of their own.
    """
    best: dict[tuple[date, str], Catalogue] = {}
    for c in sorted(catalogues, key=lambda c: (c.day, c.layout, c.run, c.path)):
        whose = c.path.split("/")[-3] if c.layout == 3 and c.path.count("/") >= 2 else ""
        best[(c.day, whose)] = c
    return sorted(best.values(), key=lambda c: (c.day, c.path))


def parse_zip(body: bytes, catalogue: Catalogue, hold: timedelta = HOLD) -> Snapshot:
    """The observations of one zip. What is no catalogue at all is one refused row."""
    snapshot = Snapshot()
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".csv")]
            for member in sorted(members[:MAX_MEMBERS], key=lambda m: m.filename):
                if member.file_size > MAX_MEMBER_BYTES:
                    snapshot.refuse(BAD_ZIP, f"{catalogue.path}: {member.filename} is too large")
                    continue
                with archive.open(member) as file:
                    text = file.read(MAX_MEMBER_BYTES).decode("utf-8-sig", errors="replace")
                name = member.filename.rsplit("/", 1)[-1].removesuffix(".csv")
                seller = words.seller(name)
                if parse_csv(text, seller, catalogue.at, hold, snapshot, catalogue.path):
                    snapshot.moments.add((seller, catalogue.at))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        snapshot.refuse(BAD_ZIP, catalogue.path)
        return Snapshot(refused=snapshot.refused)
    if not members:
        snapshot.refuse(BAD_ZIP, f"{catalogue.path}: no CSV in it")
    return snapshot


def parse_csv(
    text: str, seller: str, at: datetime, hold: timedelta, into: Snapshot, where: str = ""
) -> bool:
    """Add the rows of one provider's file to *into*; whether it is a catalogue that has rows."""
    reader = csv.DictReader(io.StringIO(text))
    if not set(reader.fieldnames or ()) >= _NEEDED:
        into.refuse(NOT_A_CATALOGUE, f"{where} {seller}.csv")
        return False
    before = into.rows
    for row in reader:
        into.rows += 1
        sample = f"{where} {seller}.csv line {reader.line_num}: {','.join(map(str, row.values()))}"
        if None in row.values():
            short = [name for name in _NEEDED if row[name] is None]
            if short:
                into.refuse(SHORT_ROW, sample)
                continue
        try:
            into.observations.append(_observation(row, seller, at, at + hold, sample))
        except Unreadable as problem:
            into.refuse(str(problem), sample)
    return into.rows > before


def _observation(
    row: dict[str, str], seller: str, at: datetime, until: datetime, where: str
) -> Observation:
    gpus = words.number(row["gpu_count"])
    if words.is_nothing(row["gpu_name"]) or not gpus:
        raise Unreadable(NO_GPU)
    if (row.get("gpu_vendor") or "").lower() == "google" or row["gpu_name"].startswith("tpu"):
        raise Unreadable("a TPU, not a GPU")
    amount = words.price(row["price"])
    spot = (row.get("spot") or "").strip().lower() == "true"
    flags = (row.get("flags") or "").split()
    offer = ListedOffer(
        source_id=row["instance_name"].strip(),
        gpu_name=row["gpu_name"],
        gpu_count=gpus,
        price=placeholder(),
        market=Market.SPOT if spot else Market.ON_DEMAND,
        tier="standard",
        price_kind=PriceKind.DYNAMIC if spot else PriceKind.FIXED,
        vram_gb=words.number(row.get("gpu_memory")) or None,
        region=row["location"].strip() or None,
        vcpus=_positive(row.get("cpu")),
        ram_gib=_positive(row.get("memory")),
        seller=seller,
        notes=tuple(f"gpuhunt flag: {flag}" for flag in flags),
    )
    return Observation(at, until, amount, offer, where=where)


def _positive(text: str | None) -> Decimal | None:
    return words.number(text) or None
