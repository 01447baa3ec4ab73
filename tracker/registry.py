"""Which providers exist: found by entry point, loaded lazily, a broken one isolated and named."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tracker.provider import Provider

GROUP = "gpucost.providers"


class UnknownProvider(Exception):
    """No provider of that name is installed. The message names the nearest ones."""


class BrokenProvider(Exception):
    """A provider that cannot be loaded: which package it comes from and what it said."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A provider that could not be loaded, and why, in one line."""

    name: str
    reason: str


def names() -> list[str]:
    """The slugs of all installed providers, sorted; nothing is imported."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load(name: str) -> Provider[Any]:
    """Import one provider.

    Raises UnknownProvider when none has that name, BrokenProvider when it cannot be imported, is
    not a Provider, or calls itself something else than its entry point does.
    """
    entries = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not entries:
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(names())}"
        raise UnknownProvider(f"no provider is called {name!r}{hint}")
    if len({entry.value for entry in entries}) > 1:
        raise BrokenProvider(f"{name}: two installed packages claim this name")
    return _load(entries[0])


def load_all(wanted: Iterable[str] | None = None) -> tuple[list[Provider[Any]], list[Broken]]:
    """Import every provider (or only the *wanted* ones); a broken one never hides the others.

    Raises UnknownProvider when a wanted name is not installed.
    """
    good: list[Provider[Any]] = []
    broken: list[Broken] = []
    for name in names() if wanted is None else list(dict.fromkeys(wanted)):
        try:
            good.append(load(name))
        except BrokenProvider as error:
            broken.append(Broken(name, str(error)))
    return good, broken


def _load(entry: EntryPoint) -> Provider[Any]:
    source = f"{entry.name} ({entry.dist.name if entry.dist else 'unknown package'})"
    try:
        provider = entry.load()
    except Exception as error:  # whatever a third-party module raises on import
        detail = str(error).splitlines()[0][:120] if str(error) else ""
        raise BrokenProvider(
            f"{source} cannot be loaded: {type(error).__name__} {detail}".strip()
        ) from error
    if not isinstance(provider, Provider):
        raise BrokenProvider(f"{source}: {entry.value} is not a tracker.provider.Provider")
    if provider.name != entry.name:
        raise BrokenProvider(f"{source} calls itself {provider.name!r}; both names must agree")
    return provider
