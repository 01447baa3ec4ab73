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
from tests.providers.azure_answers import H100, payload, row
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


def fetched(
    answer: Answer, *, reservations: bool = False, **config: Any
) -> tuple[list[Payload], FakeHttp]:
    http = FakeHttp(answer)
    settings = AzureConfig(reservations=reservations, **config)
    return asyncio.run(fetch(http, settings)), http  # type: ignore[arg-type]


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


# --- reservations


def _reserved(url: str, params: Mapping[str, str]) -> Payload:
    """Answers each request with a row of the type that it asks for."""
    if "'Reservation'" in params["$filter"]:
        return payload(row(40_000, type="Reservation", reservationTerm="1 Year"))
    return payload(row())


def test_reservations_are_asked_for_apart_and_unless_that_is_off() -> None:
    payloads, http = fetched(_reserved, reservations=True)
    kinds = [params["$filter"].split("priceType eq ")[1].split(" ")[0] for _, params in http.asked]
    assert kinds == ["'Consumption'"] * len(REQUESTS) + ["'Reservation'"] * len(REQUESTS)
    result = provider.parse(payloads)
    assert result.complete
    assert sorted((o.source_id, str(o.market)) for o in result.offers) == [
        (H100, "on_demand"), (f"{H100}/reservation", "reserved")
    ]  # fmt: skip
    assert len(fetched(_reserved)[1].asked) == len(REQUESTS)
    assert AzureConfig().reservations


def test_reservations_that_cannot_be_had_leave_the_other_prices_and_close_nothing() -> None:
    def answer(url: str, params: Mapping[str, str]) -> Payload:
        if "'Reservation'" in params["$filter"]:
            raise FetchError("too many requests", status=429)
        return payload(row())

    payloads, http = fetched(answer, reservations=True)
    assert len(http.asked) == len(REQUESTS) + 1
    assert [p.status for p in payloads] == [200] * len(REQUESTS) + [429]
    result = provider.parse(payloads)
    assert [o.source_id for o in result.offers] == [H100]
    assert not result.complete
    assert result.incomplete_reason == "reservations were not answered"


def test_a_refused_or_is_not_put_to_reservations_twice() -> None:
    def answer(url: str, params: Mapping[str, str]) -> Payload:
        if " or " in params["$filter"] and "'Reservation'" in params["$filter"]:
            raise FetchError("bad filter", status=400)
        return _reserved(url, params)

    payloads, http = fetched(answer, reservations=True)
    alone = sum(len(alternatives) for alternatives in REQUESTS)
    assert len(http.asked) == len(REQUESTS) + 1 + alone
    assert provider.parse(payloads).complete
