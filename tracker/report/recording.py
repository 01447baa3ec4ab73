"""Recordings: a provider's answers as a fixture, with what must not be shared taken out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tracker.provider import Payload, payload_to_dict

FORMAT = "gpucost-recording/1"

# IPv4 addresses, and what follows the names under which credentials and machines travel.
_ADDRESS = re.compile(r"\b(?!192\.0\.2\.)(?:\d{1,3}\.){3}\d{1,3}\b(?=[\"',\s:/\\])")
_SECRET_FIELD = re.compile(
    r'("(?:[a-z0-9_]*(?:api_?key|token|secret|password|signature|ipaddr|ip_address|hostname)'
    r'[a-z0-9_]*)"\s*:\s*)"[^"]*"',
    re.IGNORECASE,
)


def recording_of(
    provider: str, payloads: Sequence[Payload], secrets: Sequence[str]
) -> dict[str, Any]:
    """The recording of *payloads*; *secrets* are values that must not appear anywhere in it."""
    return {
        "format": FORMAT,
        "provider": provider,
        "payloads": [_stripped(payload_to_dict(p), secrets) for p in payloads],
    }


def _stripped(data: dict[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    return {key: strip(value, secrets) if isinstance(value, str) else value
            for key, value in data.items()}  # fmt: skip


def strip(text: str, secrets: Sequence[str]) -> str:
    """*text* without secret values, credential fields, host names and IP addresses."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "REDACTED")
    text = _SECRET_FIELD.sub(r'\1"REDACTED"', text)
    return _ADDRESS.sub("192.0.2.1", text)
