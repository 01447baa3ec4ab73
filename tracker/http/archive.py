"""What of a request and its answer may be kept and shown: everything but credentials."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from tracker.telemetry import Redactor

REDACTED = "REDACTED"

_SECRET_PARAMETERS = frozenset(
    {
        "key",
        "api_key",
        "api-key",
        "apikey",
        "token",
        "access_token",
        "signature",
        "sig",
        "password",
        "secret",
        "client_secret",
        "x-amz-signature",
        "x-amz-credential",
        "x-amz-security-token",
    }
)
_CREDENTIAL_HEADERS = ("authorization", "cookie", "key", "token", "secret", "password", "auth")
_KEPT_HEADERS = frozenset({"content-type", "etag", "last-modified", "date", "retry-after"})
_KEPT_PREFIXES = ("x-ratelimit", "x-ms-ratelimit")


def clean_url(url: str, redactor: Redactor) -> str:
    """*url* without user part and fragment, its secret parameters and values replaced."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REDACTED
    query = "&".join(
        f"{name}={REDACTED}" if _is_secret(name) and equals else name + equals + value
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    return redactor.exact(bare, REDACTED)


def url_secrets(url: str) -> list[str]:
    """The values of a URL's secret parameters and the password of its user part."""
    try:
        parts = urlsplit(url)
        found = [parts.password or ""]
    except ValueError:
        return []
    for name, _, value in (pair.partition("=") for pair in parts.query.split("&")):
        if _is_secret(name):
            found += [value, unquote_plus(value)]
    return [secret for secret in found if secret]


def header_secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of the headers that carry credentials, also without their scheme (``Bearer``)."""
    values = [v for k, v in headers.items() if is_credential(k)]
    return values + [word for value in values for word in value.split(" ")[1:]]


def is_credential(header: str) -> bool:
    """Whether a request header of this name carries a credential."""
    name = header.lower()
    return any(word in name for word in _CREDENTIAL_HEADERS)


def kept_headers(headers: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    """The response headers that are archived, names in small letters."""
    return {
        name: redactor.exact(value, REDACTED)
        for name, value in ((k.lower(), v) for k, v in headers.items())
        if name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIXES)
    }


def _is_secret(parameter: str) -> bool:
    return unquote_plus(parameter).lower() in _SECRET_PARAMETERS
