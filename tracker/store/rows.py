"""Loading many rows quickly. Cursors fetch text: decimals load three times faster than binary."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

_BATCH = 500  # rows that are turned into something else while they are still in the cache


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cycle collector while a million small values are made.

    None of them is part of a cycle, but it would walk them again and again: it doubles the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def in_batches(cursor: psycopg.Cursor[Any]) -> Iterator[Any]:
    """The rows of an executed cursor, made in batches rather than all before the first is used."""
    while rows := cursor.fetchmany(_BATCH):
        yield from rows
