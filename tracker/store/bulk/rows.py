"""Spans as rows of PostgreSQL's binary COPY: put together from pieces that many rows share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.bulk.cells import Ints, in_order, numbered
from tracker.store.series.binary import PG_EPOCH_MICROS

# In the order of the pieces.
COLUMNS = (
    "offer_id", "source_id", "seller_id", "gpu_key", "market", "tier", "gpu_count", "region",
    "price_native", "fx_rate", "fx_date", "valid_as_of", "expires_at", "fallback",
    "price_micro_usd", "valid_from", "valid_to",
)  # fmt: skip


class Pieces(NamedTuple):
    """Bytes that rows share, and for each row the place of its own among them."""

    all: Sequence[bytes]
    codes: NDArray[np.integer[Any]]


class Spans(NamedTuple):
    """Spans, as columns: times in microseconds since 1970, ``gpus`` numbers to keep together.

    ``pieces`` are the fields between the id and the price in micro-USD, in their order.
    """

    ids: Ints
    pieces: tuple[Pieces, ...]
    micro_usd: Ints
    starts: Ints
    ends: Ints
    gpus: Ints


class _Table:
    """Pieces as one array, with how long each of them is."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.bytes = np.array(pieces, dtype="S")
        self.widths = np.fromiter(map(len, pieces), np.int64, len(pieces))


def encode(spans: Spans, rows: Ints) -> Iterator[bytes]:
    """These *rows* of *spans*, in some order: those of one GPU are near one another."""
    tables = [_Table(pieces.all) for pieces in spans.pieces]
    codes = [pieces.codes[rows] for pieces in spans.pieces]
    kind, kinds = np.zeros(len(rows), dtype=np.int64), min(len(rows), 1)
    for table, of in zip(tables, codes, strict=True):
        different, width = np.unique(table.widths, return_inverse=True)
        count = len(different)
        if count > 1:
            first, kind = numbered(kind * count + width[of], kinds * count)
            kinds = len(first)
    gpus = spans.gpus[rows]
    key = kind * (int(gpus.max(initial=0)) + 1) + gpus
    if key.max(initial=0) < 2**15:
        order = np.argsort(key.astype(np.int16), kind="stable")
    else:
        order = in_order(key)
    bounds = np.searchsorted(kind[order], np.arange(kinds + 1))
    for low, high in pairwise(bounds.tolist()):
        part = order[low:high]
        here = rows[part]
        fields = [table.bytes[of[part]] for table, of in zip(tables, codes, strict=True)]
        widths = [int(table.widths[of[part[0]]]) for table, of in zip(tables, codes, strict=True)]
        yield _alike(spans, here, fields, widths)


_HEAD = [("columns", ">i2"), ("size", ">i4"), ("id", ">i8")]
_TAIL = [(f"{part}_{name}", f">i{size}") for name in ("micro_usd", "starts", "ends")
         for part, size in (("size", 4), ("of", 8))]  # fmt: skip


def _alike(
    spans: Spans, here: Ints, fields: Sequence[NDArray[np.bytes_]], widths: Sequence[int]
) -> bytes:
    """Rows whose pieces are of the same lengths."""
    pieces = [(f"piece{n}", f"S{width}") for n, width in enumerate(widths)]
    rows = np.empty(len(here), dtype=[*_HEAD, *pieces, *_TAIL])
    rows["columns"], rows["size"], rows["id"] = len(COLUMNS), 8, spans.ids[here]
    for n, field in enumerate(fields):
        rows[f"piece{n}"] = field
    for name in ("micro_usd", "starts", "ends"):
        values = getattr(spans, name)[here]
        rows[f"size_{name}"] = 8
        rows[f"of_{name}"] = values if name == "micro_usd" else values - PG_EPOCH_MICROS
    return rows.tobytes()
