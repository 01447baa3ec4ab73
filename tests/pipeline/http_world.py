"""What the tests of the HTTP client share."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tracker.provider import FetchError, HttpClient

URL = "https://api.example/v1/gpus"
KEY = "rpa_0123456789abcdefXYZ"


async def failure(client: HttpClient, url: str = URL, **how: Any) -> FetchError:
    """The error that a GET of *url* ends with: one line that names the host."""
    with pytest.raises(FetchError) as caught:
        await client.get(url, **how)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(httpx.URL(url).host)
    return caught.value
