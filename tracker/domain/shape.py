"""Whether a dataclass holds what its annotations say: for what other people's modules make."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

# Subclasses that stand for something else than their base does.
_NOT_ITS_BASE = (bool, datetime)


class _Field(NamedTuple):
    name: str
    allowed: tuple[type, ...]
    item: type | None  # of what a tuple holds
    nested: bool


def wrong_type(it: Any) -> str | None:
    """The first field of the dataclass *it* that is of another type than annotated, in one line.

    Looks into nested dataclasses and tuples of them. A list passes for a tuple; a bool is no int,
    a datetime no date, and one without time zone is refused.
    """
    whole: Any = type(it)
    for name, allowed, item, nested in _fields(whole):
        value = getattr(it, name)
        kind = type(value)
        if kind not in allowed and (kind in _NOT_ITS_BASE or not isinstance(value, allowed)):
            return f"{name} is {kind.__name__}, not {_shown(allowed)}"
        if kind is datetime and value.tzinfo is None:
            return f"{name} has no time zone"
        if item is not None:
            inner = _wrong_item(value, item)
        elif nested and value is not None:
            inner = _dotted(wrong_type(value))
        else:
            continue
        if inner:
            return name + inner
    return None


def _wrong_item(values: tuple[Any, ...] | list[Any], item: type) -> str | None:
    deep = is_dataclass(item)
    for index, value in enumerate(values):
        if not isinstance(value, item):
            return f"[{index}] is {type(value).__name__}, not {item.__name__}"
        inner = _dotted(wrong_type(value)) if deep else None
        if inner:
            return f"[{index}]{inner}"
    return None


def _dotted(problem: str | None) -> str | None:
    return problem and f".{problem}"


def _shown(allowed: tuple[type, ...]) -> str:
    names = ("None" if kind is types.NoneType else kind.__name__ for kind in allowed)
    return " or ".join(name for name in names if name != "list")


@cache
def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    return tuple(_field(name, hint) for name, hint in get_type_hints(kind).items())


def _field(name: str, hint: Any) -> _Field:
    if get_origin(hint) is tuple:
        return _Field(name, (tuple, list), get_args(hint)[0], nested=False)
    if get_origin(hint) is Mapping:
        return _Field(name, (Mapping,), None, nested=False)
    options = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return _Field(name, options, None, nested=any(is_dataclass(option) for option in options))
