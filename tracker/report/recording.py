"""Recordings: a provider's answers as a fixture, with what must not be shared taken out.

What is put in place of a value is of the same kind (a string for a string, 0 for a number), so
that a recording is parsed as the live answer was.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tracker.provider import Payload, payload_to_dict
from tracker.telemetry import Redactor

FORMAT = "gpucost-recording/1"
REDACTED = "REDACTED"

# Names under which credentials and machines travel.
_NAMED = (
    r"(?:api|access|private|ssh)[ _-]?key|token|secret|passw(?:or)?d|passphrase|signature"
    r"|credential|authorization|cookie|ip[ _]?addr|hostname"
)
# Where a list goes on: no credential, and without it the next page is not known to be the next.
_PAGE = r"(?:page|next|continuation)[ _-]?(?:page)?[ _-]?token"
_CREDENTIAL = re.compile(rf"(?!{_PAGE}$)(?:.*)(?:{_NAMED})", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r'"([\w .-]{1,100}+)"\s*:\s*')
# What a JSON value is made of. A string may be cut off by the end of the text.
_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"\s*:)|(?P<string>"(?:[^"\\]|\\.)*+\\?"?)'
    r"|(?P<number>-?\d[\d.eE+-]*)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<between>[\s,]+)"
    r"|(?P<word>\w+)",
    re.DOTALL,
)

# Addresses of documentation (RFC 5737, RFC 3849) take the place of real ones.
_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_IPV4 = re.compile(rf"(?<![\d.vV])(?!192\.0\.2\.)(?:{_OCTET}\.){{3}}{_OCTET}(?!\.?\d)")
# Perhaps one: at least two colons. Behind a letter only if that ends a JSON escape: "\nfe80::1".
_IPV6 = re.compile(
    r"(?:(?<![\w:.])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
    rf"(?:[0-9a-f]{{0,4}}:){{2,7}}(?:(?:{_OCTET}\.){{3}}{_OCTET}|[0-9a-f]{{1,4}})?(?![\w:])",
    re.IGNORECASE,
)


def recording_of(
    provider: str, payloads: Sequence[Payload], secrets: Sequence[str]
) -> dict[str, Any]:
    """The recording of *payloads*; *secrets* are values that must not appear anywhere in it."""
    known = Redactor(secrets)
    return {
        "format": FORMAT,
        "provider": provider,
        "payloads": [payload_to_dict(_stripped(payload, known)) for payload in payloads],
    }


def strip(text: str, secrets: Sequence[str]) -> str:
    """*text* without secret values, credential fields, host names and IP addresses."""
    return _strip(text, Redactor(secrets))


def _stripped(payload: Payload, known: Redactor) -> Payload:
    return replace(
        payload,
        url=_strip(payload.url, known),
        body=_strip_bytes(payload.body, known),
        request_body=_strip_bytes(payload.request_body, known),
        headers={
            name: REDACTED if _is_credential(name) else _strip(value, known)
            for name, value in payload.headers.items()
        },
    )


def _strip_bytes(body: bytes, known: Redactor) -> bytes:
    # A byte that is no UTF-8 must not keep the rest from being read.
    text = body.decode("utf-8", "surrogateescape")
    return _strip(text, known).encode("utf-8", "surrogateescape")


def _strip(text: str, known: Redactor) -> str:
    text = _without_fields(known.exact(text, REDACTED))
    return _IPV4.sub("192.0.2.1", _IPV6.sub(_without_ipv6, text))


@lru_cache(1024)
def _is_credential(name: str) -> bool:
    return _CREDENTIAL.match(name) is not None


def _without_fields(text: str) -> str:
    """*text* with the values of all credential fields replaced, those in lists and objects too."""
    out: list[str] = []
    at = 0
    for field in _FIELD.finditer(text):
        if field.start() < at or not _is_credential(field[1]):
            continue
        out.append(text[at : field.end()])
        at = field.end()
        depth = 0
        while token := _TOKEN.match(text, at):
            depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
            if depth < 0 or (depth == 0 and token.lastgroup in ("name", "between")):
                break  # no value, or what comes after it
            kind = token.lastgroup
            out.append({"string": f'"{REDACTED}"', "number": "0"}.get(kind or "", token[0]))
            at = token.end()
            if depth == 0:
                break
    out.append(text[at:])
    return "".join(out)


def _without_ipv6(match: re.Match[str]) -> str:
    found = match[0]
    try:
        ipaddress.IPv6Address(found)
    except ValueError:
        return found  # a time of day, a MAC address
    # "::" alone and words such as "dead::beef" are no addresses of machines.
    return "2001:db8::1" if any(c.isdigit() for c in found) else found
