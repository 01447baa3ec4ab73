"""Exit codes, the same for every command."""

from __future__ import annotations

EXIT_OK = 0
EXIT_BUG = 1
EXIT_USAGE = 2
EXIT_NO_MATCH = 3
EXIT_ONLY_STALE = 4
EXIT_DATABASE = 5
EXIT_ALL_FAILED = 6
EXIT_NOT_SENT = 7

EXIT_HELP = (
    "Exit codes: 0 ok, 1 internal error, 2 usage or configuration, 3 nothing matches, "
    "4 only stale data matches, 5 database unreachable or of another version, "
    "6 every provider failed, 7 a test notice did not get through."
)


class Exit(Exception):
    """End the command with a code and, for people, one line on stderr."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def known(error: Exception) -> Exit | None:
    """The exit of an error that the layers below raise on purpose, or None."""
    from tracker.registry import BrokenProvider, UnknownProvider
    from tracker.settings import SettingsError
    from tracker.store.errors import StoreError, translate

    if isinstance(error, SettingsError | UnknownProvider | BrokenProvider):
        return Exit(EXIT_USAGE, str(error))
    if isinstance(error, StoreError):
        return Exit(EXIT_DATABASE, str(error))
    if type(error).__module__.partition(".")[0] in {"psycopg", "sqlalchemy"}:
        return Exit(EXIT_DATABASE, str(translate(error)))
    return None
