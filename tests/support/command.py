"""The command line in this process, in an environment that holds only what a test gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.harness import Result, run

__all__ = ["Cli", "Result"]


class Cli:
    """``cli("poll", "-o", "json")`` runs ``gpucost poll -o json`` in an empty folder.

    ``environment`` holds the variables to run it with; nothing of the caller's is seen.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch = patch
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
            return run(*arguments)
