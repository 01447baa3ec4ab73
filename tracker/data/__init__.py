"""Data shipped with the package: read here, parsed in ``tracker.domain``."""

from __future__ import annotations

from importlib.resources import files


def text(name: str) -> str:
    """The UTF-8 text of the packaged file *name* (``gpus.toml``, ``jobs/bert-large.toml``).

    Works from a checkout, an installed wheel and a zip. Raises FileNotFoundError.
    """
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def names(folder: str, suffix: str) -> tuple[str, ...]:
    """The packaged files of *folder* that end with *suffix*, sorted, as ``text`` takes them.

    Empty when there is no such folder.
    """
    where = files(__name__).joinpath(folder)
    if not where.is_dir():
        return ()
    return tuple(
        sorted(f"{folder}/{entry.name}" for entry in where.iterdir() if entry.name.endswith(suffix))
    )
