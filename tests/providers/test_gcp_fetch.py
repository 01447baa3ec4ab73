"""Google Cloud: the open data that stands in without a key, and how the pages are asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from providers.gcp import MAX_PAGES, provider
from providers.gcp.opendata import BELIEVED_FOR
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.providers.gcp_skus import open_data
from tracker.provider import FetchError, Market, ParseError, SecretStr


def test_open_data_with_spot_not_below_on_demand_is_not_believed() -> None:
    text = open_data()
    prices = re.findall(r" hour(?:_spot)?: [\d.]+", text)
    assert prices
    for price in prices:
        text = text.replace(price, f"{price.partition(':')[0]}: 20.5")
    result = provider.parse([payload(text)])
    pairs = Counter(
        (o.source_id, o.region) for o in result.offers if o.market is not Market.RESERVED
    )
    assert max(pairs.values(), default=0) <= 1  # one that has no counterpart may stay
    assert Counter(r.reason for r in result.rejected)["spot price not below on-demand"] >= 2


def test_a_number_that_the_file_ends_in_is_no_price() -> None:
    text = open_data()
    found = re.search(r"hour: \d\d?\.\d+", text)
    assert found
    for end in range(found.start() + len("hour: 1"), found.end() + 1):
        with pytest.raises(ParseError, match="the file ends within it"):
            provider.parse([payload(text[:end])])


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("  timestamp: 1795924436\n", "", "about.timestamp"),
        ("timestamp: 1795924436", "timestamp: soon", "about.timestamp"),
        ("timestamp: 1795924436", "timestamp: 1895924436", "about.timestamp"),
        ("compute:", "computing:", "compute.instance"),
        ("      a100: 1", "      - a100", "line 13"),
    ],
)
def test_another_shape_of_open_data_names_what_is_wrong(old: str, new: str, field: str) -> None:
    text = open_data()
    assert old in text
    with pytest.raises(ParseError, match=f"^{field}"):
        provider.parse([payload(text.replace(old, new, 1))])


def test_open_data_is_believed_for_a_fortnight() -> None:
    offers = provider.parse([payload(open_data())]).offers
    assert {o.extras.expires_at for o in offers} == {
        NOW.replace(day=29, hour=3, minute=53, second=56) + BELIEVED_FOR
    }


# -- requests --------------------------------------------------------------------------------------


def pages(count: int) -> Any:
    def answer(url: str, _: Mapping[str, str]) -> Any:
        at = int(url.partition("pageToken=")[2] or 0)
        return {"skus": [], "nextPageToken": str(at + 1) if at + 1 < count else ""}

    return answer


KEY = SecretStr("a-key")


def test_with_a_key_all_pages_are_read_and_the_key_is_no_part_of_the_address() -> None:
    http = Http(pages(3))
    result = provider.parse(fetched(provider, http, api_key=KEY))
    assert result.complete
    assert len(http.asked) == 3
    assert http.urls[0] == (
        "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"
        "?currencyCode=USD&pageSize=5000"
    )
    assert http.urls[2].endswith("&pageToken=2")
    assert all(headers == {"x-goog-api-key": "a-key"} for _, headers in http.asked)


def test_a_page_that_fails_leaves_a_gap_and_the_first_one_fails_the_poll() -> None:
    three = pages(3)
    http = Http(lambda url, h: refused(500) if "pageToken=2" in url else three(url, h))
    result = provider.parse(fetched(provider, http, api_key=KEY))
    assert not result.complete
    with pytest.raises(FetchError):
        fetched(provider, Http(lambda *_: refused(403)), api_key=KEY)


def test_pages_without_an_end_and_a_loop_are_left() -> None:
    http = Http(pages(10**6))
    assert not provider.parse(fetched(provider, http, api_key=KEY)).complete
    assert len(http.asked) == MAX_PAGES
    loop = Http(lambda *_: {"skus": [], "nextPageToken": "again"})
    fetched(provider, loop, api_key=KEY)
    assert len(loop.asked) == 2


def test_without_a_key_open_data_is_read_unless_that_is_off() -> None:
    http = Http(lambda *_: open_data())
    result = provider.parse(fetched(provider, http, open_data_url="http://127.0.0.1:9/"))
    assert result.offers
    assert http.urls == [
        "http://127.0.0.1:9/Cyclenerd/google-cloud-pricing-cost-calculator/raw/master/pricing.yml"
    ]
    with pytest.raises(FetchError, match="GCP_API_KEY"):
        fetched(provider, Http(lambda *_: {}), open_data=False)
