"""How much of a kept answer is its question: what anybody may ask is never free to keep."""

from __future__ import annotations


def text_in(key: object) -> int:
    """Characters of all texts in *key*, a text or a tuple, a set or a list of such; 100
    for whatever else stands in it."""
    if isinstance(key, str):
        return len(key)
    if isinstance(key, tuple | frozenset | list):
        return 16 + sum(map(text_in, key))
    return 0 if key is None or isinstance(key, bool | int) else 100
