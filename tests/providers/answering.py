"""An HttpClient that answers from a function, for looking at what a provider's fetch asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tracker.provider import FetchError, Payload, Provider

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class Http:
    """``answer`` gives a JSON value, text, or an exception to raise, for each URL asked."""

    answer: Callable[[str, Mapping[str, str]], Any]
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    async def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> Payload:
        if params:
            url += ("&" if "?" in url else "?") + urlencode(dict(params))
        self.asked.append((url, dict(headers or {})))
        found = self.answer(url, dict(headers or {}))
        if isinstance(found, Exception):
            raise found
        return payload(found, url)

    @property
    def urls(self) -> list[str]:
        """What was asked, in order."""
        return [url for url, _ in self.asked]


def payload(value: Any, url: str = "") -> Payload:
    """*value* (text as it is, all else as JSON) as an answer of *url*."""
    text = value if isinstance(value, str) else json.dumps(value)
    return Payload(url, text.encode(), NOW)


def fetched(provider: Provider[Any], http: Http, **config: Any) -> Sequence[Payload]:
    """What *provider* fetches from *http* with this configuration."""
    return asyncio.run(provider.fetch(http, provider.config(**config)))  # type: ignore[arg-type]


def refused(status: int | None = 401) -> FetchError:
    """A request that was answered with *status*."""
    return FetchError(f"HTTP {status}", status=status)
