"""Scaleway: pages and zones, what is missing, and a price in EUR that is never taken for USD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import scaleway
from providers.scaleway import PER_PAGE, provider
from tests.providers.answering import Http, fetched, payload, refused
from tracker.provider import Availability, FetchError, PriceUnit

ROW: dict[str, Any] = {
    "gpu": 1, "hourly_price": 2.5, "ncpus": 24, "ram": 257698037760, "mig_profile": None,
    "end_of_service": False, "gpu_info": {"gpu_name": "H100-PCIe", "gpu_memory": 80 * 2**30},
}  # fmt: skip
CPU = {"gpu": 0, "hourly_price": 0.1, "gpu_info": None}


class Zones:
    """Zones with that many types without a GPU and one with; every answer in pages."""

    def __init__(self, types: int = 1) -> None:
        self.rows = {f"CPU-{n:03}": CPU for n in range(types - 1)} | {"H100-1-80G": ROW}
        self.failing: dict[str, Exception] = {}

    def __call__(self, url: str, _: Mapping[str, str]) -> Any:
        for part, error in self.failing.items():
            if part in url:
                return error
        page = int(parse_qs(urlsplit(url).query)["page"][0])
        rows: Mapping[str, Any] = self.rows
        if "/availability" in url:
            rows = {name: {"availability": "available"} for name in rows}
        names = sorted(rows)[(page - 1) * PER_PAGE : page * PER_PAGE]
        return {"servers": {name: rows[name] for name in names}}


def test_every_zone_is_asked_for_prices_and_stock() -> None:
    http = Http(Zones())
    parsed = scaleway.parse(fetched(provider, http, zones=("fr-par-2", "pl-waw-2")))
    base = "https://api.scaleway.com/instance/v1/zones"
    assert http.urls == [
        f"{base}/{zone}/products/servers{what}?per_page=100&page=1"
        for zone in ("fr-par-2", "pl-waw-2")
        for what in ("", "/availability")
    ]
    assert {(o.region, o.country) for o in parsed.offers} == {
        ("fr-par-2", "FR"),
        ("pl-waw-2", "PL"),
    }
    assert all(o.extras.availability is Availability.YES for o in parsed.offers)
    assert (parsed.complete, parsed.rejected) == (True, ())


@pytest.mark.parametrize("types", [PER_PAGE - 1, PER_PAGE, PER_PAGE + 1, 2 * PER_PAGE])
def test_pages_are_read_until_a_short_one(types: int) -> None:
    http = Http(Zones(types))
    parsed = scaleway.parse(fetched(provider, http, zones=("fr-par-2",)))
    assert len(http.asked) == 2 * (types // PER_PAGE + 1)
    assert [o.source_id for o in parsed.offers] == ["H100-1-80G"]
    assert parsed.complete


def test_a_list_that_moves_while_it_is_read_is_read_once_more() -> None:
    zones, seen = Zones(PER_PAGE + 5), []

    def moving(url: str, headers: Mapping[str, str]) -> Any:
        answer = zones(url, headers)
        if "page=2" in url and "/availability" not in url:
            seen.append(url)
            if len(seen) == 1:
                answer["servers"]["CPU-000"] = CPU
        return answer

    parsed = scaleway.parse(fetched(provider, Http(moving), zones=("fr-par-2",)))
    assert len(seen) == 2
    assert parsed.complete


@pytest.mark.parametrize(
    ("failing", "offers", "reason"),
    [
        ("pl-waw-2/products/servers?", 1, "prices of pl-waw-2 could not be read"),
        ("availability", 2, "stock of fr-par-2 could not be read"),
    ],
)
def test_what_could_not_be_read_makes_the_poll_partial(
    failing: str, offers: int, reason: str
) -> None:
    zones = Zones()
    zones.failing[failing] = refused(503)
    parsed = scaleway.parse(fetched(provider, Http(zones), zones=("fr-par-2", "pl-waw-2")))
    assert len(parsed.offers) == offers
    assert not parsed.complete
    assert reason in str(parsed.incomplete_reason)


def test_without_any_price_list_the_poll_fails() -> None:
    zones = Zones()
    zones.failing["servers?"] = refused(500)
    with pytest.raises(FetchError, match="HTTP 500"):
        fetched(provider, Http(zones))


@given(cents=st.integers(1, 10**5), count=st.integers(1, 8))
def test_the_price_is_that_of_the_instance_in_euro(cents: int, count: int) -> None:
    row = ROW | {"gpu": count, "hourly_price": cents / 100}
    (offer,) = scaleway.parse([payload({"servers": {"X": row}})]).offers
    assert (offer.price.currency, offer.price.unit) == ("EUR", PriceUnit.MACHINE_HOUR)
    assert offer.price.amount * 100 == cents
    assert offer.gpu_count == count


@pytest.mark.parametrize(
    ("word", "stock"),
    [("available", "yes"), ("scarce", "yes"), ("shortage", "no"), ("plenty", "unknown")],
)
def test_words_of_stock(word: str, stock: str) -> None:
    url = "https://x.example/instance/v1/zones/fr-par-2/products/servers"
    prices = payload({"servers": {"X": ROW}}, url)
    words = payload({"servers": {"X": {"availability": word}}}, f"{url}/availability")
    (offer,) = scaleway.parse([words, prices]).offers
    assert (offer.extras.availability, offer.extras.stock_label) == (stock, word)
