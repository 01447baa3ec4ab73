"""Which providers exist, and the guard around what their modules do.

Found by entry point and loaded lazily; whatever a module raises or gives back that it should not
becomes an error of that provider alone, named in one line.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from tracker.domain.shape import wrong_type

if TYPE_CHECKING:
    # Its models cost more to import than telling who is installed may take: only where needed.
    from tracker.provider import Parsed, Payload, Provider

GROUP = "gpucost.providers"
MAX_AHEAD, MAX_AGE = timedelta(days=1), timedelta(days=366)  # of an answer's time, by our clock
_MAX_ERROR = 1000  # characters; cut again, shorter, where secrets have been taken out


class UnknownProvider(Exception):
    """No provider of that name is installed. The message names the nearest ones."""


class UnknownTier(UnknownProvider):
    """No provider has a tier of that name. The message names the nearest ones."""


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
    from tracker.provider import Provider

    source = f"{entry.name} ({entry.dist.name if entry.dist else 'unknown package'})"
    try:
        provider = entry.load()
    except (Exception, SystemExit) as error:  # whatever a third-party module raises on import
        if stops_us(error):
            raise
        raise BrokenProvider(f"{source} cannot be loaded: {summary(error)[:200]}") from error
    if not isinstance(provider, Provider):
        raise BrokenProvider(f"{source}: {entry.value} is not a tracker.provider.Provider")
    if provider.name != entry.name:
        raise BrokenProvider(f"{source} calls itself {provider.name!r}; both names must agree")
    return provider


# -- the guard -----------------------------------------------------------------------------------


def parse(provider: Provider[Any], payloads: Sequence[Payload]) -> Parsed:
    """Run a provider's parser and check the types of what it gives.

    Raises ParseError for anything that is wrong with the answer or with the parser.
    """
    from tracker.provider import Parsed, ParseError

    try:
        parsed = provider.parse(payloads)
    except ParseError:
        raise
    except (Exception, SystemExit) as error:  # a third-party module may raise anything
        if stops_us(error):
            raise
        raise ParseError("parse", f"failed with {summary(error)}") from error
    if not isinstance(parsed, Parsed):
        raise ParseError("parse", f"gave {type(parsed).__name__}, not Parsed")
    wrong = wrong_type(parsed)
    if wrong:
        raise ParseError("parse", f"gave a wrong type: {wrong}")
    return parsed


def checked(payloads: object, now: datetime) -> Sequence[Payload]:
    """What a provider's fetch gave, if it is payloads from about *now*; else FetchError."""
    from tracker.provider import FetchError, Payload

    if not isinstance(payloads, list | tuple):
        raise FetchError(f"its fetch gave {type(payloads).__name__}, not a list of Payload")
    for index, payload in enumerate(payloads):
        if not isinstance(payload, Payload):
            wrong: str | None = f" is {type(payload).__name__}, not Payload"
        elif wrong := wrong_type(payload):
            wrong = f".{wrong}"
        elif not now - MAX_AGE <= payload.fetched_at <= now + MAX_AHEAD:
            wrong = f".fetched_at is {payload.fetched_at.isoformat()}; is the clock right?"
        if wrong:
            raise FetchError(f"its fetch gave a wrong answer: payloads[{index}]{wrong}")
    return payloads


def summary(error: BaseException) -> str:
    """An exception of a provider's module in one line: its kind and what it said."""
    try:
        text = " ".join(str(error).split())[:_MAX_ERROR]
    except Exception:  # its own __str__ is a third party's code, too
        text = ""
    return f"{type(error).__name__}{': ' + text if text else ''}"


def stops_us(error: BaseException) -> bool:
    """Whether *error* is this process being told to stop, not a module that calls sys.exit."""
    return isinstance(error, SystemExit) and error.code == 128 + signal.SIGTERM
