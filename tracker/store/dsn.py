"""The database's URL: what libpq is given, and what of it may be shown.

libpq takes what stands before the first ``@`` for user and password, other readers of URLs the
last one, or none behind a ``/``. A URL that they read differently is refused: whoever reads it
otherwise than it was meant would show a part of the password as a host.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from tracker.store.errors import URL_NOT_VALID, InvalidUrl

_SCHEMES = ("postgresql+psycopg", "postgresql", "postgres")
_BAD_PERCENT = re.compile(r"%(?!(?!00)[0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5})?)?")
_LARGEST_PORT = 65535
_ENCODE = (
    "the database URL is not valid: percent-encode the password in database_url "
    "(@ is %40, / is %2F, % is %25)"
)
# Options that say where and how, and hold no secret. Others are not shown.
_SHOWN = frozenset({"host", "hostaddr", "port", "dbname", "user", "sslmode", "connect_timeout",
                    "application_name", "target_session_attrs"})  # fmt: skip


def libpq_url(url: str) -> str:
    """Return ``url`` as libpq understands it, whatever PostgreSQL scheme it was given with.

    Raises InvalidUrl for anything that is not a PostgreSQL URL, and for one that can be read in
    more than one way. The message holds nothing of the URL.
    """
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme not in _SCHEMES:
        raise InvalidUrl("the database URL must look like postgresql://user@host/name")
    _, at, hosts = _authority(rest).rpartition("@")
    if rest.count("@") > len(at) or not _is_encoded(rest):
        raise InvalidUrl(_ENCODE)
    for host in hosts.split(","):
        match = _HOST.fullmatch(host)
        if match is None or int(match[1] or 0) > _LARGEST_PORT:
            raise InvalidUrl(URL_NOT_VALID)
    return f"postgresql://{rest}"


def public_url(url: str) -> str:
    """Return ``url`` to be shown: without password, and of its options those without secrets.

    Raises InvalidUrl as ``libpq_url`` does.
    """
    rest = libpq_url(url).removeprefix("postgresql://")
    userinfo, at, hosts = _authority(rest).rpartition("@")
    user, colon, _ = userinfo.partition(":")
    path, _, query = rest[len(_authority(rest)) :].partition("?")
    shown = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] in _SHOWN)
    password = ":***" if colon else ""
    return f"postgresql://{user}{password}{at}{hosts}{path}" + (f"?{shown}" if shown else "")


def _authority(rest: str) -> str:
    return re.split(r"[/?#]", rest, maxsplit=1)[0]


def _is_encoded(text: str) -> bool:
    """Whether *text* holds neither blanks nor control characters nor wrong percent-encoding."""
    if _BAD_PERCENT.search(text) or not text.isprintable() or " " in text:
        return False
    try:
        unquote_to_bytes(text).decode()
    except UnicodeError:
        return False
    return True
