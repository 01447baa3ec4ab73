"""Which parts of a channel's URL are secrets: usually the URL is the credential."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

_VALUE = 8  # characters; a part of a path that long may be a token
_MIXED = 6  # with letters and digits: a token that short; "v1" and "T000" tell nothing
# Words of a webhook's path: hidden, they would garble what a server says.
_ROUTES = frozenset({
    "services", "webhooks", "incoming", "workflows", "triggers", "callback", "callbacks",
    "notifications", "notification", "messages", "integrations", "prometheus", "alertmanager",
})  # fmt: skip
_WEB = ("http", "https", "json", "jsons", "xml", "xmls", "form", "forms")
_HOST_NAME = re.compile(r"\[.*|[a-z0-9-]+(\.[a-z0-9-]+)+|localhost", re.IGNORECASE)


def of_url(url: str) -> Iterator[str]:
    """What must not be shown of *url*: itself, its path, and every part that may be a token.

    In Apprise's URLs the user or the host may be one as well.
    """
    yield url
    try:
        parts = urlsplit(url)
        values = [value for _, value in parse_qsl(parts.query)]
    except ValueError:
        return
    rest = url.partition("://")[2].partition("/")[2]
    if len(rest) >= _VALUE:
        yield rest
    web = parts.scheme in _WEB
    for segment in parts.path.split("/"):
        if _is_token(segment) and not (web and segment.lower() in _ROUTES):
            yield from {segment, unquote(segment)}
    yield from (value for value in values if _is_token(value))
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    yield from {password, unquote(password)} - {""}
    candidates = (name, *([] if web or _HOST_NAME.fullmatch(host.partition(":")[0]) else [host]))
    for candidate in candidates:
        pieces = {candidate, *candidate.split(":")}
        yield from (piece for piece in pieces if len(piece) >= _VALUE and not _named(piece))


def _is_token(piece: str) -> bool:
    mixed = any(c.isdigit() for c in piece) and any(c.isalpha() for c in piece)
    return len(piece) >= (_MIXED if mixed else _VALUE)


def _named(piece: str) -> bool:
    return bool(_HOST_NAME.fullmatch(piece))
