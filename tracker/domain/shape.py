"""Whether a dataclass holds what its annotations say: for what other people's modules make."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

# Subclasses that stand for something else than their base does.
_NOT_ITS_BASE = (bool, datetime)


class _Field(NamedTuple):
    name: str
    allowed: tuple[type, ...]
    item: type | None  # of what a tuple holds
    deep: bool  # whether there is more to check than its type


class _Plan(NamedTuple):
    fields: tuple[_Field, ...]
    deep: tuple[tuple[int, _Field], ...]
    values: Callable[[Any], tuple[Any, ...]]
    good: set[tuple[type, ...]]  # types found right before: thousands of offers have the same


def wrong_type(it: Any) -> str | None:
    """The first field of the dataclass *it* that is of another type than annotated, in one line.

    Looks into nested dataclasses and tuples of them. A list passes for a tuple; a bool is no int,
    a datetime no date, and one without time zone is refused.
    """
    whole: Any = type(it)
    plan = _plan(whole)
    values = plan.values(it)
    kinds = tuple(map(type, values))
    if kinds not in plan.good:
        for field, value, kind in zip(plan.fields, values, kinds, strict=True):
            if not _fits(value, kind, field.allowed):
                return f"{field.name} is {kind.__name__}, not {_shown(field.allowed)}"
        plan.good.add(kinds)
    for index, field in plan.deep:
        value = values[index]
        inner = None if value is None else _wrong_inside(value, field.item)
        if inner:
            return field.name + inner
    return None


def _fits(value: Any, kind: type, allowed: tuple[type, ...]) -> bool:
    return kind in allowed or (kind not in _NOT_ITS_BASE and isinstance(value, allowed))


def _wrong_inside(value: Any, item: type | None) -> str | None:
    if item is not None:
        return _wrong_item(value, item)
    if isinstance(value, datetime):
        return " has no time zone" if value.tzinfo is None else None
    return _dotted(wrong_type(value))


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
def _plan(kind: type[Any]) -> _Plan:
    fields = tuple(_field(name, hint) for name, hint in get_type_hints(kind).items())
    get = attrgetter(*(field.name for field in fields))
    deep = tuple((index, field) for index, field in enumerate(fields) if field.deep)
    return _Plan(fields, deep, get if len(fields) > 1 else lambda it: (get(it),), set())


def _field(name: str, hint: Any) -> _Field:
    if get_origin(hint) is tuple:
        return _Field(name, (tuple, list), get_args(hint)[0], deep=True)
    if get_origin(hint) is Mapping:
        return _Field(name, (Mapping,), None, deep=False)
    options = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    deep = any(is_dataclass(option) or option is datetime for option in options)
    return _Field(name, options, None, deep)
