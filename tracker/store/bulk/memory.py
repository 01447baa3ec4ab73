"""Memory that was needed for a while goes back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Have the C library give back what is free, where it knows how to (glibc does).

    By itself it keeps what threads have freed. What an import by columns takes for its offers would
    come on top of what building the floors takes.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
