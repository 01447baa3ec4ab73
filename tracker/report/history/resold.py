"""Machines that a reseller lists: counted once, as in the live answer, at every moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracker.store.series.keys import Reading

if TYPE_CHECKING:
    import psycopg


def without_resold(connection: psycopg.Connection[Any], reading: Reading) -> Reading:
    """TODO"""
    return reading
