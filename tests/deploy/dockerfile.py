"""A Dockerfile as data, as far as ours goes: stages of instructions, and what they copy."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
IGNORE = ROOT / "deploy" / "Dockerfile.dockerignore"


@dataclass(frozen=True)
class Instruction:
    """One instruction with its continued lines joined."""

    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """What follows, flags left out."""
        return [w for w in shlex.split(self.rest) if not w.startswith("--")]

    @property
    def command(self) -> list[str]:
        """The exec form: a JSON list. Raises ValueError for any other form."""
        found = json.loads(self.rest[self.rest.index("[") :])
        assert isinstance(found, list)
        return [str(word) for word in found]


@dataclass
class Stage:
    """From one FROM to the next."""

    image: str
    name: str | None
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, word: str) -> list[Instruction]:
        return [i for i in self.instructions if i.word == word]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, build arguments at their defaults."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for instruction in _instructions(text):
        if instruction.word == "ARG" and not found:
            name, _, value = instruction.rest.partition("=")
            arguments[name] = value
        elif instruction.word == "FROM":
            image, *alias = instruction.rest.split()
            image = re.sub(r"\$\{(\w+)\}", lambda m: arguments[m[1]], image)
            found.append(Stage(image, alias[1] if alias else None))
        else:
            found[-1].instructions.append(instruction)
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield Instruction(word, rest.strip())


def let_in(path: str, rules: Iterable[str]) -> bool:
    """Whether the ignore file's *rules* leave *path* in the build's context: the last one wins."""
    kept = True
    for rule in rules:
        wanted, pattern = rule.startswith("!"), rule.lstrip("!")
        parts = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
        tail = pattern.removeprefix("**/")
        hit = any(
            fnmatch(part, pattern) or (tail != pattern and fnmatch(Path(part).name, tail))
            for part in parts
        )
        if hit:
            kept = wanted
    return kept


def ignore_rules() -> list[str]:
    lines = IGNORE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
