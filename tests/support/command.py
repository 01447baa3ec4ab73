"""The command line in this process: the same entry point, its exit code and its two streams."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tracker.cli.main import _run


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)


class Cli:
    """``cli("poll", "-o", "json")`` runs ``gpucost poll -o json`` in an empty folder.

    ``environment`` holds the variables to run it with; nothing of the caller's is seen.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        self._patch, self._capture = patch, capture
        self.environment: dict[str, str] = {}
        patch.chdir(folder)
        for name in [n for n in os.environ if n.startswith("GPUCOST_")]:
            patch.delenv(name)
        for name in ("HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(folder))

    def __call__(self, *arguments: str) -> Result:
        with self._patch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["gpucost", *arguments])
            self._capture.readouterr()
            code = _run()
        out, err = self._capture.readouterr()
        return Result(code, out, err)
