"""Text that somebody typed: what of it no database takes."""

from __future__ import annotations

import re
from typing import Any

# PostgreSQL stores neither NUL nor half of a surrogate pair, in text and in JSON alike.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def unstorable(text: str) -> str | None:
    """The first character of *text* that cannot be stored, as ``U+0000``; None: all can."""
    found = _UNSTORABLE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


def storable(value: Any) -> Any:
    """*value* (plain JSON) with U+FFFD in place of every character that cannot be stored."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
