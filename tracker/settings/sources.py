"""Where settings come from: files, variables, and what both readers must do alike.

Standard library only, because ``bootstrap`` has no time for more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PREFIX = "GPUCOST_"
DELIMITER = "__"
CONFIG_VARIABLE = "GPUCOST_CONFIG"
SYSTEM_CONFIG = Path("/etc/gpucost/gpucost.toml")

# The keys of gpucost.toml. Written out so that a typo is found without loading the models.
FIELDS = (
    "alerts",
    "aliases",
    "archive_retention_days",
    "daemon",
    "data_dir",
    "database_url",
    "energy",
    "http",
    "log_format",
    "log_level",
    "own",
    "poll_deadline_seconds",
    "postgres_bindir",
    "postgres_user",
    "pricebook_paths",
    "providers",
    "quality",
    "retention",
)
FILE_TWINS = ("database_url_file",)
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
DEFAULT_LOG_LEVEL = "warning"
DEFAULT_LOG_FORMAT = "text"

_PATHS = ("data_dir", "postgres_bindir", "database_url_file")
_SECRET_FILE_BYTES = 64 * 1024


class SettingsError(Exception):
    """A setting that cannot be used: one line, without secrets, that says what to do."""


def config_file(path: str | Path | None, env: Mapping[str, str]) -> Path | None:
    """The configuration file to read, absolute, or None when there is none.

    Raises SettingsError when a file that was named outright does not exist.
    """
    for named, origin in ((path, "--config"), (env.get(CONFIG_VARIABLE), CONFIG_VARIABLE)):
        if named:
            file = absolute(str(named), Path.cwd(), env)
            if not file.is_file():
                raise SettingsError(f"{origin}: there is no file {file}")
            return file
    candidates = (Path.cwd() / "gpucost.toml", _xdg(env, "XDG_CONFIG_HOME", ".config"))
    files = (candidates[0], candidates[1] / "gpucost.toml", SYSTEM_CONFIG)
    return next((file for file in files if _is_file(file)), None)


def default_data_dir(env: Mapping[str, str]) -> Path:
    """``$XDG_DATA_HOME/gpucost``, else ``~/.local/share/gpucost``; for root /var/lib/gpucost.

    Root's home is usually closed to the account that has to run root's PostgreSQL.
    """
    if os.geteuid() == 0 and not env.get("XDG_DATA_HOME"):
        return Path("/var/lib/gpucost")
    return _xdg(env, "XDG_DATA_HOME", ".local/share")


def toml_layer(file: Path | None, env: Mapping[str, str]) -> dict[str, Any]:
    """What the configuration file says, paths made absolute (relative ones from its folder).

    Raises SettingsError for a file that cannot be read and for a key that does not exist.
    """
    if file is None:
        return {}
    import tomllib
    from decimal import Decimal

    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    for key in data:
        if key not in FIELDS and key not in FILE_TWINS:
            raise SettingsError(f"{file}: {unknown_key(key, FIELDS)}")
    return tidy(data, file.parent, env, f"{file}: database_url")


def refuse_deep_variables(env: Mapping[str, str]) -> None:
    """Refuse variables that reach deeper than their setting. Raises SettingsError."""
    for name, value in env.items():
        key = name.lower().removeprefix(PREFIX.lower())
        table, *below = key.split(DELIMITER)
        if value == "" or key == name.lower() or len(below) < _DEPTHS.get(table, len(below) + 1):
            continue
        if table == "own":
            raise SettingsError(f"{PREFIX}OWN: must be a JSON list of objects, in one variable")
        raise SettingsError(f"{PREFIX}{table.upper()}: a key with {DELIMITER} in it needs the file")


# From how many parts below the table's name on a variable means nothing.
_DEPTHS = {"own": 1, "energy": 2, "aliases": 2}


def tidy(
    layer: dict[str, Any], base: Path, env: Mapping[str, str], secret_name: str
) -> dict[str, Any]:
    """One source's values with paths absolute from *base* and the secret's file twin read.

    *secret_name* is how an error calls the database URL of this source. Values of a wrong type
    are left as they are, for the reader to refuse. Raises SettingsError.
    """
    out = dict(layer)
    for key in _PATHS:
        if isinstance(out.get(key), str):
            out[key] = str(absolute(out[key], base, env))
    books = out.get("pricebook_paths")
    if isinstance(books, list | tuple):
        out["pricebook_paths"] = [
            str(absolute(book, base, env)) if isinstance(book, str) else book for book in books
        ]
    if out.get("database_url") == "":
        del out["database_url"]
    if "database_url_file" in out:
        file = out.pop("database_url_file")
        out["database_url"] = from_file_twin(secret_name, out.get("database_url"), file)
    return out


def absolute(text: str, base: Path, env: Mapping[str, str]) -> Path:
    """*text* as an absolute path: a leading ``~`` is the home folder, else relative to *base*."""
    if text == "~" or text.startswith("~/"):
        text = str(_home(env)) + text[1:]
    return Path(os.path.normpath(base / text))


def from_file_twin(name: str, value: object, file: object) -> str:
    """The secret that *file* holds, where *name* may be given directly or by file, not both.

    Raises SettingsError.
    """
    if value is not None:
        raise SettingsError(f"{name} is given directly and by its file twin: keep one of the two")
    if not isinstance(file, str):
        raise SettingsError(f"{name}: its file twin must be the path of a file")
    try:
        with open(file, "rb") as handle:
            raw = handle.read(_SECRET_FILE_BYTES + 1)
        text = raw.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {file} ({error.strerror})") from None
    except ValueError:
        raise SettingsError(f"{name}: {file} is not a text file") from None
    if len(raw) > _SECRET_FILE_BYTES or "\n" in text:
        raise SettingsError(f"{name}: {file} must hold the value on one line and nothing else")
    if not text:
        raise SettingsError(f"{name}: {file} is empty")
    return text


def secret_from_env(variable: str, env: Mapping[str, str] | None = None) -> str | None:
    """The secret in *variable* or in the file that ``<variable>_FILE`` names; None when unset.

    Raises SettingsError when both are set or the file cannot be read.
    """
    env = os.environ if env is None else env
    value, file = env.get(variable) or None, env.get(f"{variable}_FILE") or None
    return value if file is None else from_file_twin(variable, value, file)


def database_url(url: str) -> str:
    """*url* as SQLAlchemy understands it (``postgres://`` becomes ``postgresql://``).

    Raises ValueError, without showing the URL, when it is of another database or none at all.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "postgres":
        scheme = "postgresql"
    if not separator or not rest or scheme not in ("postgresql", "postgresql+psycopg"):
        raise ValueError("must be a URL like postgresql://user:password@host:5432/database")
    return f"{scheme}://{rest}"


def unknown_key(key: str, known: Iterable[str]) -> str:
    """``unknown key "databse_url", did you mean "database_url"?``."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(
        key.lower(), names, n=1, cutoff=0.0 if len(names) > 12 else 0.5
    )
    if near:
        return f'unknown key "{key}", did you mean "{near[0]}"?'
    return f'unknown key "{key}"' + (f", known: {', '.join(names)}" if names else "")


def unknown_variables(env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The set ``GPUCOST_*`` variables that mean nothing, each with the nearest that does.

    They are no error, since an orchestrator adds some of its own (``GPUCOST_SERVICE_HOST``).
    """
    env = os.environ if env is None else env
    known = {*FIELDS, *FILE_TWINS, "config"}
    out = []
    for variable in sorted(env):
        name = variable.upper().removeprefix(PREFIX).lower()
        if variable.upper().startswith(PREFIX) and name.split(DELIMITER)[0] not in known:
            hint = unknown_key(name, known).partition(', did you mean "')[2].rstrip('"?')
            out.append(f"{variable} is not a setting, did you mean {PREFIX}{hint.upper()}?")
    return tuple(out)


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """*below* with *above* laid over it, table by table."""
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[key] = deep_merge(old, value)
        else:
            out[key] = value
    return out


def _home(env: Mapping[str, str]) -> Path:
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def _xdg(env: Mapping[str, str], variable: str, default: str) -> Path:
    given = env.get(variable, "")
    # The XDG specification says to ignore relative paths.
    return (Path(given) if given.startswith("/") else _home(env) / default) / "gpucost"


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a folder on the way that we may not enter
        return False
