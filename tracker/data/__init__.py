"""Data shipped with the package: read here, parsed in ``tracker.domain``."""

from __future__ import annotations

import os


def text(name: str) -> str:
    """The UTF-8 text of the packaged file *name* (``gpus.toml``, ``jobs/bert-large.toml``).

    Works from a checkout, an installed wheel and a zip. Raises OSError when there is none.
    """
    # The loader and not importlib.resources, whose import would be half of a command's own.
    where = os.path.join(os.path.dirname(__file__), *name.split("/"))
    body: bytes = __spec__.loader.get_data(where)  # type: ignore[union-attr]
    return body.decode("utf-8").replace("\r\n", "\n")


def names(folder: str, suffix: str) -> tuple[str, ...]:
    """The packaged files of *folder* that end with *suffix*, sorted, as ``text`` takes them.

    Empty when there is no such folder.
    """
    try:
        entries = os.listdir(os.path.join(os.path.dirname(__file__), folder))
    except OSError:
        entries = _names_in_zip(folder)
    return tuple(sorted(f"{folder}/{entry}" for entry in entries if entry.endswith(suffix)))


def _names_in_zip(folder: str) -> list[str]:
    from importlib.resources import files

    where = files(__name__).joinpath(folder)
    return [entry.name for entry in where.iterdir()] if where.is_dir() else []
