"""What the tests of settings share: the environment of an ordinary user, and a secret."""

from __future__ import annotations

from pathlib import Path

URL = "postgresql://me:hunter22@db.example/gpucost"


def env_of(home: Path, **more: str) -> dict[str, str]:
    """The variables of a user whose home is *home*, and *more*."""
    return {"HOME": str(home), **more}
