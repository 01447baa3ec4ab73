"""gpucost is on no package index: whoever is told to install an extra is told what works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TOLD = re.compile(r"pip\s+install\s+(?:\"\s*\")?['\"]?([^\s'\"`]*\[[a-z0-9]+\])")


def test_extras_are_installed_from_a_checkout_and_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys()
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    files += [*(ROOT / "tracker").rglob("*.py"), *(ROOT / "providers").rglob("*.py")]
    told = {}
    for path in files:
        text = re.sub(r'"\n\s*f?"', "", path.read_text(encoding="utf-8"))
        told |= {(path.name, found): path for found in _TOLD.findall(text)}
    assert len(told) > 10
    for name, found in told:
        assert found in {f".[{extra}]" for extra in extras}, name
