"""Azure: how the pages are asked for, and what happens when some cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest

from providers.azure import HOST, MAX_PAGES, REQUESTS, AzureConfig, fetch, provider
from providers.azure.sizes import SIZES
from tests.providers.azure_answers import payload, row
from tracker.provider import FetchError, Payload

Answer = Callable[[str, Mapping[str, str]], Payload]


class FakeHttp:
    """Answers GETs by a function of URL and parameters; keeps what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def get(
        self, url: str, *, params: Mapping[str, str] | None = None, **_: Any
    ) -> Payload:  # fmt: skip
        self.asked.append((url, dict(params or {})))
        full = f"{url}?{urlencode(params)}" if params else url
        answer = self.answer(full, params or {})
        return Payload(full, answer.body, answer.fetched_at)


def fetched(answer: Answer, **config: Any) -> tuple[list[Payload], FakeHttp]:
    http = FakeHttp(answer)
    return asyncio.run(fetch(http, AzureConfig(**config))), http  # type: ignore[arg-type]


def test_the_filter_covers_every_size_with_few_alternatives() -> None:
    assert all(len(alternatives) <= 8 for alternatives in REQUESTS)
    terms = [term for alternatives in REQUESTS for term in alternatives]
    words = [term.split("'")[1] for term in terms if term.startswith("contains")]
    exact = {term.split("'")[1] for term in terms if " eq " in term}
    for name in SIZES:
        assert name in exact or any(word in name for word in words), name


def test_one_request_per_filter_when_everything_fits_a_page() -> None:
    payloads, http = fetched(lambda url, params: payload(row()))
    assert len(payloads) == len(http.asked) == len(REQUESTS)
    url, params = http.asked[0]
    assert url == "https://prices.azure.com/api/retail/prices"
    assert params["currencyCode"] == "'USD'"
    assert params["meterRegion"] == "'primary'"
    assert params["$filter"].startswith(
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and (contains("
    )
    assert provider.parse(payloads).complete


def test_next_pages_are_read_at_the_configured_host() -> None:
    def answer(url: str, params: Mapping[str, str]) -> Payload:
        if "H100" in url and "skip" not in url:
            return payload(
                row(), link=f"https://{HOST}:443/api/retail/prices?{url[-9:]}&$skip=1000"
            )
        return payload(row(7.1, "westus"))

    payloads, http = fetched(answer, base_url="http://127.0.0.1:8080/")
    assert all(url.startswith("http://127.0.0.1:8080/api/retail/prices") for url, _ in http.asked)
    assert len(payloads) == len(REQUESTS) + 1
    assert provider.parse(payloads).complete


@pytest.mark.parametrize(
    "link",
    [
        "https://elsewhere.example/api/retail/prices?$skip=1000",
        f"https://{HOST}@elsewhere.example/api/retail/prices?$skip=1000",
        f"http://{HOST}/api/retail/prices?$skip=1000",
        f"ftp://{HOST}/api/retail/prices?$skip=1000",
        f"https://{HOST}/other?$skip=1000",
        "http://[bad",
    ],
)
def test_a_foreign_link_is_not_followed(link: str) -> None:
    payloads, http = fetched(lambda url, params: payload(row(), link=link))
    assert len(http.asked) == len(REQUESTS)
    assert not provider.parse(payloads).complete


def test_paging_ends_at_a_loop_and_at_the_cap() -> None:
    loop = f"https://{HOST}/api/retail/prices?$skip=1000"
    _, http = fetched(lambda url, params: payload(row(), link=loop))
    assert len(http.asked) == 2 * len(REQUESTS)

    skip = count(1000, 1000)

    def endless(url: str, params: Mapping[str, str]) -> Payload:
        return payload(row(), link=f"https://{HOST}/api/retail/prices?$skip={next(skip)}")

    payloads, http = fetched(endless)
    assert len(http.asked) == MAX_PAGES * len(REQUESTS)
    assert not provider.parse(payloads).complete


def test_a_refused_or_is_asked_one_alternative_at_a_time() -> None:
    def answer(url: str, params: Mapping[str, str]) -> Payload:
        if " or " in params["$filter"]:
            raise FetchError("bad filter", status=400)
        return payload(row())

    payloads, http = fetched(answer)
    alone = [term for alternatives in REQUESTS for term in alternatives]
    assert [params["$filter"].split(" and (")[1][:-1] for _, params in http.asked[1:]] == alone
    assert len(payloads) == len(alone)


def test_a_failed_first_page_fails_the_poll_and_a_later_one_leaves_a_gap() -> None:
    def refuse(url: str, params: Mapping[str, str]) -> Payload:
        raise FetchError("too many requests", status=429)

    with pytest.raises(FetchError):
        fetched(refuse)

    def later(url: str, params: Mapping[str, str]) -> Payload:
        if not params:
            raise FetchError("timed out")
        return payload(row(), link=f"https://{HOST}/api/retail/prices?$skip=1000")

    payloads, _ = fetched(later)
    assert len(payloads) == len(REQUESTS)
    assert not provider.parse(payloads).complete
