"""The names of the providers that this project ships, whatever else is installed beside it."""

from __future__ import annotations

from importlib.metadata import entry_points

from tracker import registry

OURS = tuple(
    sorted(
        entry.name
        for entry in entry_points(group=registry.GROUP)
        if entry.dist is not None and entry.dist.name == "gpucost"
    )
)


def disabled(*but: str) -> str:
    """The lines of a configuration that turn off all providers *but* these."""
    return "".join(f"[providers.{name}]\nenabled = false\n" for name in OURS if name not in but)
