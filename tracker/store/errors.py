"""What can go wrong with the database, each as one line that says what to do.

Standard library only: the read path of the command line imports this without SQLAlchemy.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

_MAX_MESSAGE_CHARS = 300

_SECRETS = (
    # Only the password goes: user and host help to find the wrong setting. Up to the last "@":
    # a password may hold others, and blanks; rather too much is hidden than its tail shown.
    (re.compile(r"(\w+://[^\s:@]*):.*@"), r"\1:***@"),
    (re.compile(r'(?i)\bon socket "[^"]*"'), "on its socket"),  # others may be told of it
    (re.compile(r"(?i)(pass(?:word|wd|file)?\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]+)"), r"\1***"),
)

URL_NOT_VALID = (
    "the database URL is not valid: check host, port and options, "
    "and percent-encode the password in database_url"
)


class StoreError(Exception):
    """Base of all errors of the store. ``str(error)`` is one line without secrets."""


class DatabaseUnreachable(StoreError):
    """No connection: nothing listens there, wrong host, credentials or database name."""


class InvalidUrl(DatabaseUnreachable):
    """The database URL cannot be understood."""


class ServerTooOld(DatabaseUnreachable):
    """The server's major version is below the oldest one supported."""


class EmbeddedError(DatabaseUnreachable):
    """The embedded server cannot be found, prepared, started or stopped."""


class ServerInUse(EmbeddedError):
    """The embedded server was asked to stop while other processes use it."""


class SchemaOutdated(StoreError):
    """The database was written by an older release (or holds no tables yet)."""


class SchemaTooNew(StoreError):
    """The database was written by a newer release."""


class DatabaseReadOnly(StoreError):
    """The database, or the folder that holds it, cannot be written."""


class DiskFull(StoreError):
    """No space is left where the database lives."""


class DatabaseBusy(StoreError):
    """A lock or a statement took longer than its limit."""


class AccessDenied(StoreError):
    """The database user lacks a right."""


class DatabaseFailed(StoreError):
    """Any other error the database reported."""


def scrub(text: str) -> str:
    """Return the first line of ``text``, shortened and without passwords."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "no details")
    for pattern, replacement in _SECRETS:
        line = pattern.sub(replacement, line)
    return line if len(line) <= _MAX_MESSAGE_CHARS else line[: _MAX_MESSAGE_CHARS - 1] + "…"


# SQLSTATE (whole, or its two-digit class) -> error and advice.
# Source: PostgreSQL documentation, appendix "PostgreSQL Error Codes".
_BY_STATE: dict[str, tuple[type[StoreError], str]] = {
    "53100": (DiskFull, "the disk of the database is full: free some space and retry"),
    "53200": (DatabaseFailed, "the database server is out of memory"),
    "53300": (DatabaseBusy, "the database takes no more connections: close some, or retry later"),
    "25006": (DatabaseReadOnly, "the database is read-only: point database_url at the primary"),
    "42501": (AccessDenied, "the database user lacks a right: grant it"),
    "42P01": (SchemaOutdated, "a table is missing: run gpucost db upgrade"),
    "42703": (SchemaOutdated, "a column is missing: run gpucost db upgrade"),
    "3F000": (SchemaOutdated, "a schema is missing: run gpucost db upgrade"),
    "55P03": (DatabaseBusy, "another process holds a lock: retry in a moment"),
    "57014": (DatabaseBusy, "the database cancelled a statement that took too long: retry"),
    "40P01": (DatabaseBusy, "two processes waited for each other: retry"),
    "40001": (DatabaseBusy, "another process wrote the same rows: retry"),
    "57P01": (DatabaseUnreachable, "the database server is shutting down: retry when it is back"),
    "57P02": (DatabaseUnreachable, "the database server crashed and restarts: retry in a moment"),
    "57P03": (DatabaseUnreachable, "the database server is starting up: retry in a moment"),
    "28": (DatabaseUnreachable, "the database refuses the user or password: check database_url"),
    "3D": (DatabaseUnreachable, "the database does not exist: create it, or check database_url"),
    "08": (DatabaseUnreachable, "the connection to the database was lost: retry"),
}

# libpq gives no SQLSTATE while connecting, only the server's text. `lc_messages` may translate
# the server's own; libpq's are in English here because no locale is set for them.
_BY_TEXT: tuple[tuple[str, str], ...] = (
    ("no space left on device", "53100"),
    ("password authentication failed", "28"),
    ("no password supplied", "28"),
    ("peer authentication failed", "28"),
    ("pg_hba.conf", "28"),
    ("is starting up", "57P03"),
    ("is shutting down", "57P01"),
    ("in recovery mode", "57P02"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
)

_URL_TROUBLE = (
    "invalid connection option",
    "invalid uri",
    'missing "=" after',
    "invalid port number",
    "invalid integer value",
    "invalid sslmode",
    "could not parse",
    "percent-encoded",
    "uri query parameter",
    "missing matching",
    "unexpected character",
    "unterminated quoted string in connection",
)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it wraps: SQLAlchemy keeps the driver's error in ``orig``."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        original = getattr(current, "orig", None)
        current = original if isinstance(original, BaseException) else current.__cause__


def _state_of(error: BaseException) -> str | None:
    for cause in _causes(error):
        state = getattr(cause, "sqlstate", None)
        if isinstance(state, str):
            return state
    return None


def translate(error: BaseException) -> StoreError:
    """Return the error of this module that says what a driver's or SQLAlchemy's error means.

    Never raises; what is unknown becomes ``DatabaseFailed``. Passwords are removed.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, StoreError):
            return cause
    details = scrub(str(causes[-1]))
    if any(isinstance(cause, OSError) for cause in causes):
        return from_os_error(next(c for c in causes if isinstance(c, OSError)), "the database")
    lowered = " ".join(str(cause) for cause in causes).lower()
    state = _state_of(error)
    if state is None:
        state = next((code for text, code in _BY_TEXT if text in lowered), None)
    if state is None and 'database "' in lowered and "does not exist" in lowered:
        state = "3D"
    if state is not None:
        known = _BY_STATE.get(state) or _BY_STATE.get(state[:2])
        if known is not None:
            kind, advice = known
            return kind(f"{advice} ({details})")
        return DatabaseFailed(f"the database reported an error: {details}")
    if any(text in lowered for text in _URL_TROUBLE):
        return InvalidUrl(URL_NOT_VALID)  # the details quote parts of it
    if any(type(cause).__name__ in {"OperationalError", "InterfaceError"} for cause in causes):
        return DatabaseUnreachable(
            f"cannot reach the database: {details}; check database_url and that the server runs"
        )
    return DatabaseFailed(f"the database reported an error: {details}")


def from_os_error(error: OSError, what: str) -> StoreError:
    """Return the error for a failed file operation on ``what`` (a path or a description)."""
    reason = (error.strerror or str(error)).lower()
    # Copying a tree raises one error for all its files, without a number.
    of_a_tree = error.errno is None and os.strerror(errno.ENOSPC).lower() in reason
    if of_a_tree or error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(f"no space left for {what}: free some space and retry")
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return DatabaseReadOnly(f"cannot write {what}: {reason}; choose another data_dir")
    return EmbeddedError(f"cannot use {what}: {reason}")
