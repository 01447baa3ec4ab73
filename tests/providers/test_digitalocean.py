"""DigitalOcean: the API with a key, the price page without, and which page comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from providers import digitalocean
from providers.digitalocean import provider
from tests.providers.answering import Http, fetched, payload, refused
from tracker.provider import FetchError, Market, ParseError, Payload

SIZE: dict[str, Any] = {
    "slug": "gpu-h100x1-80gb", "price_hourly": 4.41, "regions": ["nyc2"], "available": True,
    "gpu_info": {"count": 1, "vram": {"amount": 80, "unit": "gib"}, "model": "nvidia_h100"},
}  # fmt: skip
PAGE = (
    '<h2 id="on-demand-gpu-droplet-pricing">x</h2><table><tr><td>NVIDIA L40s (2x)</td>'
    "<td>$1,003.14 per hour</td></tr></table>"
)


def _sizes(following: str | None = None, **fields: Any) -> dict[str, Any]:
    links = {"pages": {"next": following}} if following else {}
    return {"sizes": [SIZE | fields], "links": links}


def test_without_a_key_the_price_page_is_read() -> None:
    http = Http(lambda url, _: PAGE)
    (offer,) = digitalocean.parse(fetched(provider, http)).offers
    assert http.urls == ["https://docs.digitalocean.com/products/droplets/details/pricing/"]
    assert (str(offer.price.amount), int(offer.gpu_count)) == ("1003.14", 2)


def test_with_a_key_the_api_is_asked_page_by_page_at_our_own_host_only() -> None:
    def answer(url: str, headers: Mapping[str, str]) -> Any:
        assert headers == {"Authorization": "Bearer token-of-a-test"}
        if "?page=2" in url:
            return _sizes(slug="gpu-h100x1-80gb-spot")
        return _sizes("https://elsewhere.example/v2/sizes?page=2&per_page=200")

    http = Http(answer)
    parsed = digitalocean.parse(fetched(provider, http, api_key="token-of-a-test"))
    assert http.urls == [
        "https://api.digitalocean.com/v2/sizes?per_page=200",
        "https://api.digitalocean.com/v2/sizes?page=2&per_page=200",
    ]
    assert [o.market for o in parsed.offers] == [Market.ON_DEMAND, Market.SPOT]
    assert parsed.complete


def test_a_later_page_that_fails_leaves_a_gap_and_the_first_fails_the_poll() -> None:
    def answer(url: str, _: Mapping[str, str]) -> Any:
        return refused(500) if "?page=2" in url else _sizes("https://x.example/?page=2")

    parsed = digitalocean.parse(fetched(provider, Http(answer), api_key="k"))
    assert (len(parsed.offers), parsed.complete) == (1, False)
    with pytest.raises(FetchError, match="HTTP 401"):
        fetched(provider, Http(lambda url, _: refused(401)), api_key="k")


def test_pages_that_lead_round_in_a_circle_end() -> None:
    http = Http(lambda url, _: _sizes("https://x.example/v2/sizes?page=2"))
    fetched(provider, http, api_key="k")
    assert len(http.asked) == 2


@pytest.mark.parametrize(
    ("fields", "stock", "regions"),
    [
        ({}, "yes", ["nyc2"]),
        ({"regions": []}, "unknown", [None]),
        ({"regions": None, "available": False}, "no", [None]),
        ({"regions": ["nyc2", "tor1"], "available": False}, "no", ["nyc2", "tor1"]),
        ({"available": None}, "unknown", ["nyc2"]),
    ],
)
def test_stock_and_regions(fields: dict[str, Any], stock: str, regions: list[str | None]) -> None:
    offers = digitalocean.parse([payload(_sizes(**fields))]).offers
    assert [o.region for o in offers] == regions
    assert {str(o.extras.availability) for o in offers} == {stock}


def test_memory_is_that_of_all_gpus() -> None:
    info = {"count": 8, "vram": {"amount": 640, "unit": "gib"}, "model": "nvidia_h100"}
    (offer,) = digitalocean.parse([payload(_sizes(gpu_info=info))]).offers
    assert (offer.vram_gb, offer.vram_is_total, offer.gpu_count) == (640, True, 8)


@pytest.mark.parametrize(
    "text",
    [
        "<html></html>",
        PAGE.replace("on-demand-gpu", "other"),
        PAGE.replace("$1,003.14", "$1,00.14"),
    ],
)
def test_a_page_without_the_table_fails_the_poll(text: str) -> None:
    with pytest.raises(ParseError, match="a new layout"):
        digitalocean.parse([payload(text)])


def test_the_table_of_another_heading_is_not_taken() -> None:
    page = PAGE.replace("<table>", "<h2>Other</h2><table>")
    with pytest.raises(ParseError):
        digitalocean.parse([Payload("", page.encode(), payload("").fetched_at)])
