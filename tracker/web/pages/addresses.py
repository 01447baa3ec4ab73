"""Everything that a page shows is in its address: read from it, and written into links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from tracker.app.asked import Parameter

Pairs = Sequence[tuple[str, str]]

# By which a site tells where its readers came from; utm_... is the other one.
_APPENDED = frozenset((
    "dclid", "fbclid", "gclid", "igshid", "mc_cid", "mc_eid", "msclkid", "twclid", "yclid",
))  # fmt: skip


class Address(NamedTuple):
    """An address taken apart.

    ``question`` holds what is asked of the answers, ``own`` what only the page knows (what is
    drawn, a what-if); names are as the questions spell them. ``tidy``: nothing in it was left
    empty, as fields of a form are, or appended by another site.
    """

    path: str
    question: Pairs
    own: Mapping[str, str]
    tidy: bool = True

    def value(self, name: str) -> str:
        """The text of a parameter as it was given, for the field of a form; "" for none."""
        return ",".join(text for spelt, text in self.question if spelt == name)

    def href(self, **changes: str | None) -> str:
        """The address with other values of some parameters; None leaves one out."""
        kept = [
            (name, text)
            for name, text in (*self.question, *self.own.items())
            if name not in changes
        ]
        return written(self.path, [*kept, *((k, v) for k, v in changes.items() if v is not None)])

    def to(self, path: str, known: Collection[str]) -> str:
        """The address of another page with what is asked here, as far as it can be asked there:
        by the parameters *known*."""
        return written(path, [pair for pair in self.question if pair[0] in known])

    def form(self, api: str, name: str, form: str, leave_out: Iterable[str] = ()) -> str:
        """The address of the same answer for programs."""
        out = frozenset(leave_out)
        kept = [pair for pair in self.question if pair[0] not in out]
        return written(f"{api}/{name}", [*kept, ("format", form)])


def parsed(
    path: str, items: Iterable[tuple[str, str]], known: Mapping[str, Parameter],
    own: Mapping[str, str],
) -> Address:  # fmt: skip
    """Read the *items* of a query. *known* are the parameters of the question, *own* those of the
    page with their defaults. What other sites append to links is left out."""
    asked: list[tuple[str, str]] = []
    mine: dict[str, str] = {}
    tidy = True
    for spelt, text in items:
        name = _name(spelt)
        appended = name not in known and (name.startswith("utm_") or name in _APPENDED)
        if appended or (not text.strip() and not _may_be_empty(known.get(name))):
            tidy = False
        elif name in own and name not in known:
            mine[name] = text
        else:
            asked.append((name, text))
    return Address(path, asked, mine, tidy)


def written(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """*path* with a query; commas and colons stay readable."""
    query = urlencode(list(pairs), safe=",:*")
    return f"{path}?{query}" if query else path


def choice(address: Address, name: str, known: Sequence[str]) -> str:
    """One of the *known* values of a parameter of the page's own; the first for any other."""
    found = address.own.get(name, known[0])
    return found if found in known else known[0]


def _name(spelt: str) -> str:
    return spelt.lower().replace("-", "_")


def _may_be_empty(parameter: Parameter | None) -> bool:
    return parameter is not None and parameter.kind == "boolean"
