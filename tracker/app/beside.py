"""Paths in a configuration file are relative to its folder, wherever a command is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracker.app.jobs import job_names


def rule_tables(tables: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
    """*tables* of rules with the job files of *config*'s folder."""
    return {name: _with_paths(table, config, ("job",)) for name, table in tables.items()}


def channel_tables(tables: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
    """*tables* of channels with the files (``url_file``, ``ca_file``) of *config*'s folder."""
    return {
        name: _with_paths(table, config, [key for key in table if str(key).endswith("_file")])
        if isinstance(table, Mapping)
        else table
        for name, table in tables.items()
    }


def _with_paths(table: Any, config: Path | None, keys: tuple[str, ...] | list[str]) -> Any:
    if config is None or not isinstance(table, Mapping):
        return table
    return {k: _beside(v, config) if k in keys else v for k, v in table.items()}


def _beside(value: Any, config: Path) -> Any:
    """*value* from the folder of *config*, unless it is no relative path at all."""
    if not isinstance(value, str) or "://" in value or value.startswith("~"):
        return value
    if not value.strip() or "\0" in value or value.lower() in job_names():
        return value
    path = config.absolute().parent / value
    # What is no file there is told as it was typed: perhaps a misspelt job.
    return str(path) if path.is_file() or path.suffix == ".toml" else value
