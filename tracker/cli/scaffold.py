"""``gpucost provider new``: the files of a provider that does not exist yet.

What it makes works as it is (a made-up service, its fixtures, and what must come of them), so that
every step from there is one from something that passes its tests.
"""

from __future__ import annotations

import keyword
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tracker.cli.exits import EXIT_USAGE, Exit

CASES = ("normal", "edge", "broken")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,30}")
_TABLE = re.compile(r'^\[project\.entry-points\."gpucost\.providers"\]\n((?:(?!\[).*\n?)*)', re.M)
_ENTRY = re.compile(r'^([\w-]+) = "[^"\n]*"$')
_MODULES, _FIXTURES = Path("providers"), Path("tests") / "providers" / "payloads"


def make(name: str, folder: Path) -> list[Path]:
    """Make the module, the fixtures and the entry point of *name* in the checkout at *folder*.

    Gives what was written, relative to *folder*; nothing that is there is overwritten, and after a
    failure nothing is left. Raises Exit (usage).
    """
    _check(name, folder)
    pyproject = folder / "pyproject.toml"
    try:
        with_entry = add_entry(pyproject.read_text(encoding="utf-8"), name)
    except (OSError, ValueError) as error:
        raise Exit(EXIT_USAGE, f"{pyproject}: {_why(error)}") from None
    files = rendered(name)
    mine = (*files, _MODULES / name, _FIXTURES / name)
    taken = [path for path in mine if (folder / path).exists()]
    if taken:
        raise Exit(EXIT_USAGE, f"{taken[0]} is there already; nothing was written")
    whole = pyproject.with_name("pyproject.toml.new")  # a full disk must not leave half a file
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        whole.write_text(with_entry, encoding="utf-8")
        whole.replace(pyproject)
    except OSError as error:
        whole.unlink(missing_ok=True)
        (folder / _MODULES / f"{name}.py").unlink(missing_ok=True)
        shutil.rmtree(folder / _FIXTURES / name, ignore_errors=True)
        raise Exit(EXIT_USAGE, f"{error.filename}: {_why(error)}") from None
    return [*files, Path("pyproject.toml")]


def _check(name: str, folder: Path) -> None:
    from tracker import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise Exit(
            EXIT_USAGE,
            f"{name!r} cannot name a provider: 2 to 31 small letters, digits and underscores, a "
            "letter first, and no word of Python's",
        )
    if name in registry.names():
        raise Exit(EXIT_USAGE, f"a provider called {name} is installed already")
    for part in (_MODULES, _FIXTURES):
        if not (folder / part).is_dir():
            raise Exit(
                EXIT_USAGE,
                f"{folder} is no checkout of gpucost (it has no {part}): give one with --in; a "
                "package of your own is described in docs/adding-a-provider.md",
            )


def rendered(name: str) -> dict[Path, str]:
    """The new files and their text."""
    from tracker import data

    words = {
        "CLASS": "".join(part.capitalize() for part in name.split("_")),
        "TITLE": name.replace("_", " ").title(),
        "HOST": name.replace("_", "-"),
        "NAME": name,
    }
    files = {_MODULES / f"{name}.py": _fill(data.text("provider/module.txt"), words)}
    for case in CASES:
        for part in ("recording", "expected"):
            text = data.text(f"provider/{case}-{part}.json")
            files[_FIXTURES / name / case / f"{part}.json"] = _fill(text, words)
    return files


def _fill(template: str, words: Mapping[str, str]) -> str:
    return re.sub("|".join(words), lambda found: words[found[0]], template)


def add_entry(text: str, name: str) -> str:
    """*text* of pyproject.toml with one line more, in its place in the alphabet.

    Raises ValueError when the table of providers is not there, or has the name already.
    """
    table = _TABLE.search(text)
    if table is None:
        raise ValueError('has no table [project.entry-points."gpucost.providers"]')
    line = f'{name} = "providers.{name}:provider"\n'
    position = table.end(1)
    at = table.start(1)
    for row in table[1].splitlines(keepends=True):
        entry = _ENTRY.match(row.rstrip("\n"))
        if entry and entry[1] > name:
            position = at
            break
        at += len(row)
        if entry:
            position = at
    before = _entries(text)
    if name in before:
        raise ValueError(f"has an entry {name} already")
    found = f"{text[:position]}{line}{text[position:]}"
    if _entries(found) != before | {name: f"providers.{name}:provider"}:
        raise ValueError("cannot be edited: add the line of docs/adding-a-provider.md by hand")
    return found


def _entries(text: str) -> dict[str, str]:
    found = tomllib.loads(text)["project"]["entry-points"]["gpucost.providers"]
    return {str(name): str(value) for name, value in found.items()}


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
