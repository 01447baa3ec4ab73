"""Write docs/providers.md from what the providers say of themselves (``Facts``).

``python -m tools.providers_page`` rewrites the page; a test compares it with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tracker import registry
from tracker.provider import Provider

PAGE = Path(__file__).resolve().parents[1] / "docs" / "providers.md"

_HEAD = """\
# Providers

Written by `make docs` from each provider's `Facts`; do not edit it here.

Where a column says "not said", the provider does not say it and gpucost takes it for unknown.
Tiers in **bold** are ranked unless `--tier` asks for others. "Polled every" is the default
interval; the shortest allowed one stands behind it.

"""
_COLUMNS = (
    "name", "provider", "price per", "billed by", "at least", "interruptible", "tiers", "key",
    "polled every",
)  # fmt: skip


def page() -> str:
    """The whole page. Providers of other packages that happen to be installed are left out."""
    own = {
        entry.name
        for entry in entry_points(group=registry.GROUP)
        if entry.dist is not None and entry.dist.name == "gpucost"
    }
    providers = [registry.load(name) for name in sorted(own)]
    lines = [_row(_COLUMNS), _row("---" for _ in _COLUMNS), *(_row(_cells(p)) for p in providers)]
    return _HEAD + "\n".join(lines) + "\n" + "".join(map(_section, providers))


def _cells(provider: Provider[Any]) -> Iterator[str]:
    facts = provider.facts
    yield f"`{provider.name}`"
    yield f"[{facts.title}]({facts.website})" if facts.website else facts.title
    yield f"{facts.price_per}, {facts.currency}"
    yield _seconds(facts.billing_increment_seconds)
    yield _seconds(facts.minimum_seconds)
    yield "no" if facts.spot == "none" else "yes"
    yield ", ".join(f"**{t}**" if t in facts.default_tiers else t for t in facts.tiers)
    yield facts.key if facts.key_variable is None else f"{facts.key}: `{facts.key_variable}`"
    yield f"{_time(provider.every)} ({_time(facts.min_every)})"


def _section(provider: Provider[Any]) -> str:
    facts = provider.facts
    lines = [f"\n## {facts.title}\n"]
    if facts.spot != "none":
        lines.append(f"- What its interruptible price is: {_sentence(facts.spot)}")
    lines.append(f"- Terms: {_sentence(facts.terms)}")
    lines.append(f"- Verified: {_sentence(facts.verified)}")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _seconds(seconds: int | None) -> str:
    return "not said" if seconds is None else _time(timedelta(seconds=seconds))


def _time(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _row(cells: Any) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
