"""Recorded answers and the offers that must come of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracker.provider import Payload, payload_from_dict

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "providers" / "payloads"

# Recorded answers of the live services that are not part of this repository, where they exist.
SHARED = ROOT.parent / "shared"
NO_SHARED = "the recorded live answers are not beside this checkout"


@dataclass(frozen=True)
class Case:
    """One fixture folder: a recording and, beside it, what was worked out by hand."""

    provider: str
    name: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.provider}-{self.name}"

    def payloads(self) -> list[Payload]:
        data = json.loads((self.folder / "recording.json").read_text())
        assert data["format"] == "gpucost-recording/1"
        assert data["provider"] == self.provider
        return [payload_from_dict(payload) for payload in data["payloads"]]

    def expected(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "expected.json").read_text())
        return loaded


def cases() -> Iterator[Case]:
    """Every fixture of every provider."""
    for recording in sorted(FIXTURES.glob("*/*/recording.json")):
        folder = recording.parent
        yield Case(folder.parent.name, folder.name, folder)
