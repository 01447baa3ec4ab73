"""All mistakes of a job file at once: each is found, set aside, and the rest read again."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.job import GpuCatalogue, JobError
from tracker.domain.job_fields import BOM
from tracker.domain.job_text import job_from_toml

if TYPE_CHECKING:
    from tracker.domain.job_workload import Knowledge

_MOST = 50
_MEANT = re.compile("unknown key; did you mean '([^']+)'")
_QUOTED = re.compile("['\"]([^'\"]+)['\"]")


def mistakes(
    text: str, catalogue: GpuCatalogue | None = None, knowledge: Knowledge | None = None
) -> list[str]:
    """One line for each mistake in a job file, in the order in which it is read.

    A key that is wrong is left out, one that is misspelt renamed, and the rest is read again. What
    is then said of the gap that it leaves is no mistake of the file's: the part with the gap is
    left out, and the others are looked at.
    """
    try:
        data = tomllib.loads(text.removeprefix(BOM), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        return [f"not TOML: {error}"]
    found: list[str] = []
    gone: set[tuple[str, ...]] = set()
    renamed: set[tuple[str, ...]] = set()
    for _ in range(_MOST):
        try:
            job_from_toml(data, catalogue, knowledge)
        except JobError as error:
            said = str(error)
            path = _path(said, data)
            # Said of a gap that was made here, or of what that gap was needed for.
            follows = bool(gone) and (path is None or _in_gap(path, gone))
            if not follows and path not in renamed:
                found.append(said)
            meant = _MEANT.search(said)
            if path is not None and meant and _renamed(data, path, meant[1]):
                renamed.add((*path[:-1], meant[1]))
                continue
            left = _without(data, path, gone, part=follows)
            if left is None:
                break
            data = left
        else:
            break
    return found


def _renamed(data: dict[str, Any], path: tuple[str, ...], meant: str) -> bool:
    """Whether the misspelt key at *path* could be given the name that was meant."""
    table: Any = data
    for key in path[:-1]:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict) or path[-1] not in table or meant in table:
        return False
    table[meant] = table.pop(path[-1])
    return True


def _path(said: str, data: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The key that a message begins with: its parts, as far as the file has them."""
    name = said.partition(": ")[0]
    top, _, rest = name.partition(".")
    if top not in data and top not in ("name", "hours", "workload", "limits", "spot", "download"):
        return None
    table = data.get(top)
    if not rest and isinstance(table, Mapping):
        # A GPU that nobody knows is named in the sentence.
        quoted = next((word for word in _QUOTED.findall(said) if word in table), None)
        return (top,) if quoted is None else (top, quoted)
    if not rest:
        return (top,)
    if isinstance(table, Mapping):
        # A name of a GPU may have a dot in it: the longest key that fits.
        for key in sorted(table, key=len, reverse=True):
            if rest == key:
                return top, key
            if rest.startswith(f"{key}."):
                inner = rest[len(key) + 1 :]
                return (top, key, inner) if isinstance(table[key], Mapping) else (top, key)
    return top, rest


def _in_gap(path: tuple[str, ...], gone: set[tuple[str, ...]]) -> bool:
    return any(gap[: len(path)] == path or path[: len(gap)] == gap for gap in gone) or (
        # A required key that is missing in a part that has gaps, such as hours without a workload.
        (path[0],) in gone or path == ("hours",)
    )


def _without(
    data: Mapping[str, Any], path: tuple[str, ...] | None, gone: set[tuple[str, ...]], *, part: bool
) -> dict[str, Any] | None:
    """*data* without the key at *path*, or without the whole part of it; None: nothing is left."""
    if path is None:
        return None
    left: dict[str, Any] = copy.deepcopy(dict(data))
    if path[0] == "name":
        left["name"] = "unnamed"
        done = ("name",) in gone
        gone.add(("name",))
        return None if done else left
    table: Any = left
    for key in path[:-1]:
        table = table.get(key) if isinstance(table, dict) else None
    if not part and isinstance(table, dict) and path[-1] in table:
        del table[path[-1]]
        gone.add(path)
        return left
    if path[0] in left and path[0] != "hours":
        del left[path[0]]
        gone.add((path[0],))
        if path[0] == "workload":  # rates and family names of hours go with it
            left["hours"] = _plain_hours(left.get("hours"))
        return left
    if (path[0],) not in gone:
        # Something must be there for the rest to be read.
        left["hours"] = {"A100": 1}
        gone.add((path[0],))
        return left
    return None


def _plain_hours(hours: Any) -> dict[str, Any]:
    """The entries that can be read without a workload; one where there is none."""
    kept = {}
    for name, entry in hours.items() if isinstance(hours, dict) else ():
        if not isinstance(entry, dict) or "hours" in entry:
            kept[name] = entry
    return kept or {"A100": 1}
