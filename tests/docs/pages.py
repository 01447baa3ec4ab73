"""The documentation as data: fenced blocks with what the comment above them says, and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md"))
    if path.name != "CHANGELOG.md"  # speaks of other versions' commands
)

_BLOCK = re.compile(
    r"(?:^<!--\s*(?P<comment>[^\n]*?)\s*-->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_QUOTED = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block. ``comment`` is what the HTML comment right above it says."""

    page: Path
    line: int
    comment: str
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that this block is, if it is one."""
        return self.comment.removeprefix("file: ") if self.comment.startswith("file: ") else None

    @property
    def run(self) -> bool:
        return self.comment == "run"

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of *page*, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        yield Block(page, line, match["comment"] or "", match["language"], match["text"])


def links(page: Path) -> Iterator[str]:
    """Where the links of *page* lead that do not lead to another site."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            yield target


def quoted(page: Path) -> Iterator[str]:
    """What stands between backticks in *page*, outside of blocks."""
    yield from _QUOTED.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
