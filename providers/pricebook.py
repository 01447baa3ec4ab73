"""Price book: prices that a person typed into TOML files (docs/price-book.md).

For negotiated rates, for sellers without an API, and (the shipped book) as a dated fallback while
a seller has no live price. Every price has the day it was read and a day after which it is stale.

    [[price]]
    seller = "acme"              # whose price it is: lower-case slug
    gpu = "H100-SXM-80GB"        # a GPU key, or the seller's own name of it
    gpu_count = 8                # in one machine; 1 unless given
    price = "18.40"
    unit = "machine_hour"        # machine_hour, gpu_hour, machine_month or gpu_month
    valid_as_of = 2026-11-20
    expires = 2027-02-01         # or max_age_days = 60; 90 days unless given

    [[discount]]
    provider = "runpod"          # off all its prices, or of one gpu and market
    percent = 12.5
    valid_as_of = 2026-11-01
    expires = 2027-01-01

``[defaults]`` holds keys that every ``[[price]]`` of the file shares; ``fallback = true`` at the
top marks a whole file as a fallback.
"""

from __future__ import annotations

import asyncio
import stat
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from providers._pricebook_rows import (
    PRICE_KEYS,
    BadRow,
    Book,
    discount_from_row,
    nearest,
    offer_from_row,
)
from tracker.provider import (
    Discount,
    Facts,
    FetchError,
    HttpClient,
    ListedOffer,
    Parsed,
    ParseError,
    Payload,
    Provider,
    ProviderConfig,
    Rejected,
)

MAX_FILE_BYTES = 4 * 2**20
# A date typed in the farthest-ahead time zone may be tomorrow's in UTC.
_AHEAD_OF_UTC = timedelta(hours=14)
_FILE_KEYS = ("fallback", "defaults", "price", "discount")
R = TypeVar("R")


class Config(ProviderConfig):
    """``[providers.pricebook]``: files, or folders of ``*.toml`` files, beside the shipped book."""

    paths: tuple[Path, ...] = ()
    shipped: bool = True


# --- fetch: read the files -------------------------------------------------------------------


async def fetch(http: HttpClient, config: Config) -> Sequence[Payload]:
    """Read the files as payloads: the file's name for url, 404, 403, 413 or 415 where unreadable.

    Makes no request. Raises FetchError when there is nothing to read at all.
    """
    payloads = await asyncio.to_thread(_read_all, config)
    if not payloads:
        raise FetchError("no price book to read: set paths to a file or folder, or shipped = true")
    return payloads


def _read_all(config: Config) -> list[Payload]:
    payloads: list[Payload] = []
    if config.shipped:
        # A packaged data file, read as a resource: no module of the tracker is imported for it.
        folder = resources.files("tracker.data").joinpath("pricebook")
        for file in sorted(_toml_files(folder.iterdir()), key=lambda file: file.name):
            payloads.append(_payload(file.name, file.read_bytes()))
    for path in config.paths:
        payloads += [_read(file) for file in _files_of(path)]
    return payloads


def _files_of(path: Path) -> list[Path]:
    try:
        path = path.expanduser()
        return sorted(_toml_files(path.iterdir())) if path.is_dir() else [path]
    except (OSError, ValueError, RuntimeError):
        return [path]  # reading it then says what is wrong with it


def _toml_files(files: Iterable[R]) -> list[R]:
    return [file for file in files if str(getattr(file, "name", "")).endswith(".toml")]


def _read(path: Path) -> Payload:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait, and a device never ends
            return _payload(path.name, b"not an ordinary file", 415)
        if found.st_size <= MAX_FILE_BYTES:
            with path.open("rb") as file:
                body = file.read(MAX_FILE_BYTES + 1)
            if len(body) <= MAX_FILE_BYTES:
                return _payload(path.name, body)
        return _payload(path.name, b"larger than 4 MiB", 413)
    except (OSError, ValueError) as error:
        status = 403 if isinstance(error, PermissionError) else 404
        reason = getattr(error, "strerror", None) or "cannot be read"
        return _payload(path.name, reason.encode(), status)


def _payload(name: str, body: bytes, status: int = 200) -> Payload:
    return Payload(url=name, body=body, fetched_at=datetime.now(UTC), method="FILE", status=status)


# --- parse: files ----------------------------------------------------------------------------


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers and discounts of all books.

    A file that cannot be used is rejected as one, and the answer is then incomplete (its former
    prices are not closed); raises ParseError when there is no usable file at all. A bad row never
    hides another. What is listed twice is rejected both times: which price holds is unknown.
    """
    books: list[Book] = []
    broken: list[ParseError] = []
    for payload in payloads:
        try:
            books.append(_open(payload))
        except ParseError as error:
            # Without its frames, which hold this list.
            broken.append(error.with_traceback(None))
    if broken and not books:
        raise broken[0]
    rejected = [Rejected("file is not a price book", str(error)[:200]) for error in broken]
    offers: list[tuple[str, ListedOffer]] = []
    discounts: list[Discount] = []
    for book in books:
        offers += _rows(book, "price", book.prices, offer_from_row, rejected)
        discounts += [
            d for _, d in _rows(book, "discount", book.discounts, discount_from_row, rejected)
        ]
    return Parsed(
        offers=_without_duplicates(offers, rejected),
        rejected=tuple(rejected),
        complete=not broken,
        incomplete_reason=f"{broken[0]}"[:200] if broken else None,
        discounts=tuple(discounts),
    )


def _open(payload: Payload) -> Book:
    label = payload.url or "price book"
    if payload.status != 200:
        raise ParseError(label, payload.text()[:100])
    try:
        data = tomllib.loads(payload.body.decode("utf-8-sig"), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ParseError(label, f"not TOML ({' '.join(str(error).split())[:100]})") from None
    for key in data:
        if key not in _FILE_KEYS:
            raise ParseError(label, f"unknown key {nearest(key, _FILE_KEYS)}")
    fallback, defaults = data.get("fallback", False), data.get("defaults", {})
    if not isinstance(fallback, bool):
        raise ParseError(label, "fallback must be true or false")
    if not isinstance(defaults, dict):
        raise ParseError(label, "defaults must be a table")
    for key in defaults:
        if key not in PRICE_KEYS:
            raise ParseError(label, f"defaults: unknown key {nearest(key, PRICE_KEYS)}")
    return Book(
        label=label,
        today=(payload.fetched_at + _AHEAD_OF_UTC).date(),
        fallback=fallback,
        defaults=defaults,
        prices=_tables(data, "price", label),
        discounts=_tables(data, "discount", label),
    )


def _tables(data: Mapping[str, Any], key: str, label: str) -> Sequence[Mapping[str, Any]]:
    rows = data.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ParseError(label, f"{key} must be written as [[{key}]]")
    return rows


def _rows(
    book: Book,
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any], Book], R],
    rejected: list[Rejected],
) -> Iterator[tuple[str, R]]:
    """The rows that could be read, each with a label that finds it in its file."""
    for number, row in enumerate(rows, 1):
        whose = " ".join(str(row.get(k, ""))[:40] for k in ("seller", "provider", "gpu")).strip()
        label = f"{book.label} {kind} {number} ({whose})"
        try:
            yield label, read(row, book)
        except BadRow as bad:
            rejected.append(Rejected(bad.reason, " ".join(f"{label}: {bad}".split())[:200]))


def _without_duplicates(
    offers: Sequence[tuple[str, ListedOffer]], rejected: list[Rejected]
) -> tuple[ListedOffer, ...]:
    rows: dict[str, list[str]] = defaultdict(list)
    for label, offer in offers:
        rows[offer.source_id].append(label)
    for labels in rows.values():
        if len(labels) > 1:
            sample = f"{'; '.join(labels)}: give each its own id, or keep one"
            rejected += [Rejected("listed twice", sample[:200])] * len(labels)
    return tuple(offer for _, offer in offers if len(rows[offer.source_id]) == 1)


provider = Provider(
    name="pricebook",
    every=timedelta(minutes=15),
    config=Config,
    facts=Facts(
        title="Price book (typed by a person)",
        website="",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="as the person who typed it meant it",
        tiers=("standard", "secure", "verified", "dedicated", "vps", "community", "unverified"),
        default_tiers=("standard", "secure", "verified", "dedicated", "vps", "community"),
        key="none",
        key_variable=None,
        terms="local files: nobody is asked",
        verified="nothing is live here: each price has the date and the source it was typed from",
        min_every=timedelta(minutes=1),
    ),
    fetch=fetch,
    parse=parse,
)
