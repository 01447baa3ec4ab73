"""The few settings that every command needs, read with the standard library alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.settings import sources
from tracker.settings.sources import DELIMITER, PREFIX, SettingsError

if TYPE_CHECKING:
    from tracker.domain.owned import Owned, Site

_TEXTS = ("data_dir", "database_url", "log_format", "log_level", "postgres_bindir", "postgres_user")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What a read-only command must know before it can answer.

    ``database_url`` None means the embedded PostgreSQL in ``data_dir``. ``aliases`` maps a GPU name
    as a provider writes it to its canonical key. ``own`` are the GPUs that one has, ``site`` is
    what is said of the energy of the place; None: nothing.
    """

    data_dir: Path
    database_url: str | None = field(default=None, repr=False)
    config_path: Path | None = None
    postgres_bindir: Path | None = None
    postgres_user: str | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    log_level: str = sources.DEFAULT_LOG_LEVEL
    log_format: str = sources.DEFAULT_LOG_FORMAT
    own: tuple[Owned, ...] = ()
    site: Site | None = None


def bootstrap(env: Mapping[str, str] | None = None, path: str | Path | None = None) -> Bootstrap:
    """Read the settings of Bootstrap from the same places as ``load_settings``.

    Raises SettingsError wherever ``load_settings`` would refuse one of these settings, and for an
    unknown top-level key: a typo must not silently select another database.
    """
    env = os.environ if env is None else env
    sources.refuse_deep_variables(env)
    file = sources.config_file(path, env)
    merged = sources.deep_merge(
        {"data_dir": str(sources.default_data_dir(env))},
        sources.deep_merge(sources.toml_layer(file, env), _env_layer(env)),
    )
    texts = {name: _text(name, merged.get(name)) for name in _TEXTS}
    url = texts["database_url"]
    if url is not None:
        try:
            url = sources.database_url(url)
        except ValueError as error:
            raise SettingsError(f"database_url: {error}") from None
    bindir = texts["postgres_bindir"]
    return Bootstrap(
        data_dir=Path(texts["data_dir"] or ""),
        database_url=url,
        config_path=file,
        postgres_bindir=None if bindir is None else Path(bindir),
        postgres_user=texts["postgres_user"],
        aliases=_aliases(merged.get("aliases", {})),
        log_level=_choice("log_level", texts["log_level"], sources.LOG_LEVELS),
        log_format=_choice("log_format", texts["log_format"], sources.LOG_FORMATS),
        own=_own(merged.get("own")),
        site=_site(merged.get("energy")),
    )


def _env_layer(env: Mapping[str, str]) -> dict[str, Any]:
    lowered = {name.lower(): value for name, value in env.items() if value != ""}
    prefix = PREFIX.lower()
    names = (*_TEXTS, *sources.FILE_TWINS)
    layer: dict[str, Any] = {
        name: lowered[prefix + name] for name in names if prefix + name in lowered
    }
    for name in ("aliases", "energy"):
        table: dict[str, Any] = {}
        if prefix + name in lowered:
            table = _json_object(f"{PREFIX}{name.upper()}", lowered[prefix + name])
        start = f"{prefix}{name}{DELIMITER}"
        single = {k.removeprefix(start): v for k, v in lowered.items() if k.startswith(start)}
        if prefix + name in lowered or single:  # an empty table, too, takes the place of no table
            layer[name] = {**table, **single}
    if f"{prefix}own" in lowered:
        try:
            layer["own"] = json.loads(lowered[f"{prefix}own"])
        except ValueError:
            layer["own"] = None
        if not isinstance(layer["own"], list):
            raise SettingsError(f"{PREFIX}OWN: must be a JSON list of objects")
    return sources.tidy(layer, Path.cwd(), env, f"{PREFIX}DATABASE_URL")


def _json_object(variable: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SettingsError(f"{variable}: must be a JSON object")
    return value


def _own(tables: object) -> tuple[Owned, ...]:
    if tables is None:
        return ()
    from tracker.domain.owned import owned_from_tables

    try:
        return owned_from_tables(tables)
    except ValueError as error:
        raise SettingsError(f"own: {error}") from None


def _site(table: object) -> Site | None:
    if table is None:
        return None
    from tracker.domain.owned import site_from_table

    try:
        return site_from_table(table)
    except ValueError as error:
        raise SettingsError(f"energy: {error}") from None


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise SettingsError(f"{name}: must be text in quotes")


def _choice(name: str, value: str | None, allowed: tuple[str, ...]) -> str:
    chosen = (value if value is not None else getattr(sources, f"DEFAULT_{name.upper()}")).lower()
    if chosen not in allowed:
        raise SettingsError(f"{name}: must be one of {', '.join(allowed)}")
    return str(chosen)


def _aliases(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise SettingsError('aliases: must be a table of "GPU name" = "canonical key"')
    return value
