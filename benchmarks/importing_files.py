"""The history of ``history_world.py`` as files like those of ``gpucost export history``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from benchmarks.history_world import (
    COUNTS,
    GPUS,
    MARKETS,
    REGIONS,
    TIERS,
    Ints,
    Provider,
    Spans,
    micros,
    world,
)
from tracker.report import exported
from tracker.store import partitions
from tracker.store.exporting import HISTORY

SCHEMA = pyarrow.schema([(c.name, exported.arrow_type(pyarrow, c)) for c in HISTORY])
_FAMILIES = [gpu.split("-")[0] for gpu in GPUS]
SPANS_A_YEAR, _YEARS = 6_200_000, 2
_VCPUS, _RAM = (8, 16, 24, 32, 48, 64), (32, 64, 128, 256, 512)


def histories(spans: int) -> list[Provider]:
    """Two years of the world with about so many spans, as polls would have left it: to come to a
    new price that is the old one is no change."""
    return [
        replace(provider, spans=_joined(provider.spans))
        for provider in world(_YEARS, spans / (_YEARS * SPANS_A_YEAR))
    ]


def _joined(spans: Spans) -> Spans:
    order = np.lexsort((spans.start, spans.offer))
    offer, start, end, cents = (column[order] for column in spans)
    goes_on = np.zeros(len(offer) + 1, dtype=bool)
    goes_on[1:-1] = (offer[1:] == offer[:-1]) & (start[1:] == end[:-1]) & (cents[1:] == cents[:-1])
    first, last = np.flatnonzero(~goes_on[:-1]), np.flatnonzero(~goes_on[1:])
    return Spans(offer[first], start[first], end[last], cents[first])


def write(folder: Path, providers: list[Provider]) -> int:
    """Write all spans, month by month in the order of their ends; how many there are."""
    count = 0
    for month, rows in _months(providers):
        place = folder / f"month={month:%Y-%m}"
        place.mkdir(parents=True)
        with parquet.ParquetWriter(str(place / "prices.parquet"), SCHEMA) as writer:
            for first in range(0, rows.num_rows, exported.BATCH):
                writer.write_table(rows.slice(first, exported.BATCH))
        count += rows.num_rows
    return count


def _months(providers: list[Provider]) -> Iterator[tuple[datetime, pyarrow.Table]]:
    ends = [np.minimum(p.spans.end, p.now) for p in providers]  # what is open ends with the export
    order = [np.argsort(end, kind="stable") for end in ends]
    ends = [end[of] for end, of in zip(ends, order, strict=True)]
    first = min(int(end[0]) for end in ends)
    month = partitions.month_of(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=first))
    last = max(int(end[-1]) for end in ends)
    while micros(month) <= last:
        after = partitions.next_month(month)
        parts = []
        for number, (provider, end, of) in enumerate(zip(providers, ends, order, strict=True)):
            low, high = np.searchsorted(end, (micros(month), micros(after)))
            here = of[low:high][end[low:high] > provider.spans.start[of[low:high]]]
            parts.append(_rows(number, provider, here))
        table = pyarrow.concat_tables(parts).sort_by(
            [("valid_to", "ascending"), ("valid_from", "ascending"), ("native_id", "ascending")]
        )
        if table.num_rows:
            yield month, table
        month = after


def _rows(number: int, provider: Provider, here: Ints) -> pyarrow.Table:
    spans, offers = provider.spans, provider.offers
    of = spans.offer[here]
    ids = [f"{n:09}" for n in (number * 10_000_000 + of).tolist()]
    columns: dict[str, Any] = {
        "source": _words(provider.slug), "provider": _words(provider.slug), "native_id": ids,
        "gpu_key": _words(GPUS, offers.gpu[of]), "gpu_family": _words(_FAMILIES, offers.gpu[of]),
        "vram_gb": 24, "is_slice": False,
        "gpu_count": np.array(COUNTS)[offers.count[of]],
        "market": _words(MARKETS, offers.market[of]), "tier": _words(TIERS, offers.tier[of]),
        "price_kind": _words("fixed"), "currency": _words("USD"),
        "price_unit": _words("machine_hour"), "region": _words(REGIONS, offers.region[of]),
        "vcpus": np.array(_VCPUS)[of % len(_VCPUS)], "ram_gib": np.array(_RAM)[of % len(_RAM)],
        "billing_increment_seconds": provider.increment, "commitment_unknown": False,
        "price_native": _cents(spans.cents[here]),
        "price_usd_per_machine_hour": _money(spans.cents[here] * 10_000),
        "fallback": False, "valid_from": _time(spans.start[here]),
        "valid_to": _time(np.minimum(spans.end[here], provider.now)),
        "open": spans.end[here] > provider.now, "gpu_raw": _words(GPUS, offers.gpu[of]),
    }  # fmt: skip
    arrays = [_array(columns.get(field.name), field.type, len(here)) for field in SCHEMA]
    return pyarrow.Table.from_arrays(arrays, schema=SCHEMA)


def _words(words: str | tuple[str, ...] | list[str], codes: Ints | None = None) -> Any:
    if isinstance(words, str):
        return words
    return pyarrow.DictionaryArray.from_arrays(codes, list(words))


def _cents(values: Ints) -> pyarrow.Array:
    """Amounts as the export words them: 1.5 and 2, not 1.50 and 2.00."""
    distinct, place = np.unique(values, return_inverse=True)
    texts = [f"{v / 100:.2f}".rstrip("0").rstrip(".") for v in distinct.tolist()]
    return _words(texts, place)


def _money(micro_usd: Ints) -> pyarrow.Array:
    sent = np.zeros((len(micro_usd), 2), dtype=np.int64)
    sent[:, 0] = micro_usd
    buffers = [None, pyarrow.py_buffer(sent.tobytes())]
    return pyarrow.Array.from_buffers(pyarrow.decimal128(18, 6), len(micro_usd), buffers)


def _time(values: Ints) -> pyarrow.Array:
    return pyarrow.array(values).cast(pyarrow.timestamp("us", tz="UTC"))


def _array(values: Any, kind: Any, count: int) -> pyarrow.Array:
    if values is None and pyarrow.types.is_list(kind):
        return pyarrow.array([[]] * count, type=kind)
    if values is None or isinstance(values, str | int | bool):
        return pyarrow.repeat(pyarrow.scalar(values, type=kind), count)
    if isinstance(values, list):
        return pyarrow.array(values, type=kind)
    if isinstance(values, np.ndarray):
        values = pyarrow.array(values)
    return values.cast(kind)


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), histories(int(sys.argv[2]))))
