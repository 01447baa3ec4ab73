"""Prime Intellect: machines of many clouds, with the disk that is rented with them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import primeintellect
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import FetchError, Parsed, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "primeintellect"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)

ROW: dict[str, Any] = {
    "cloudId": "h", "gpuType": "H100_80GB", "socket": "SXM5", "provider": "runpod",
    "dataCenter": "US-KS-2", "country": "US", "gpuCount": 1, "security": "secure_cloud",
    "stockStatus": "High", "prices": {"onDemand": 2.5, "currency": "USD"}, "isSpot": None,
}  # fmt: skip


def _parse(*rows: Any) -> Parsed:
    return primeintellect.parse([payload({"items": list(rows), "totalCount": len(rows)})])


def _recorded(name: str) -> Payload:
    return Payload("", (RECORDED / name).read_bytes(), NOW)


# Worked out by hand: onDemand + 120 GB x 0.00014 USD, which is what the recorded summary lists.
EXPECTED = {
    ("A100-PCIE-80GB", "1.6736", "US-KS-2"), ("A100-SXM-80GB", "1.7736", "US-KS-2"),
    ("A100-SXM-80GB", "1.7736", "US-MO-1"), ("A100-SXM-80GB", "1.7736", "US-WA-1"),
    ("A100-SXM-80GB", "1.7736", "US-CA-2"), ("H100-SXM-80GB", "2.7236", "CA-MTL-1"),
    ("H100-SXM-80GB", "2.7236", "CA-MTL-3"), ("H100-PCIE-80GB", "2.4236", "CA-MTL-3"),
}  # fmt: skip


@needs_recordings
def test_recorded_page_is_the_first_of_many() -> None:
    found = digest(
        primeintellect.provider, [_recorded("availability_response_prime-cli.json")],
        catalogue(), fx={}, known=Known(), rules=Rules(),
    )  # fmt: skip
    rows = {
        (o.gpu.key, format(o.price.usd.normalize(), "f"), o.listed.region) for o in found.accepted
    }
    assert rows == EXPECTED
    assert len(found.accepted) == len(EXPECTED)
    assert {o.listed.upstream for o in found.accepted} == {"runpod"}
    assert (found.held, found.rejected) == ((), ())
    assert found.parsed.incomplete_reason == "8 of 608 rows were read"


@needs_recordings
def test_recorded_summary_and_list_of_disks_are_no_offers() -> None:
    parsed = primeintellect.parse([_recorded("availability_gpu-summary_prime-cli.json")])
    assert (parsed.offers, parsed.complete) == ((), False)
    with pytest.raises(ParseError, match="gpuType: missing"):
        primeintellect.parse([_recorded("availability_disks_prime-cli.json")])


@given(
    cents=st.integers(1, 10**5), size=st.integers(0, 5000), micro=st.integers(0, 1000),
    included=st.sampled_from([True, False, None]),
)  # fmt: skip
def test_only_a_disk_that_is_billed_beside_the_machine_is_added(
    cents: int, size: int, micro: int, included: bool | None
) -> None:
    disk = {
        "defaultCount": size, "pricePerUnit": micro / 10**6, "defaultIncludedInPrice": included,
    }  # fmt: skip
    prices = {"onDemand": cents / 100, "currency": "USD"}
    (offer,) = _parse(ROW | {"prices": prices, "disk": disk}).offers
    added = size * Decimal(micro) / 10**6 if included is False else 0
    assert offer.price.amount == Decimal(cents) / 100 + added
    assert offer.terms.disk_included_gb == (None if included is None else size)


@pytest.mark.parametrize(
    ("security", "tier", "usd"),
    [("secure_cloud", "secure", "2.5"), ("community_cloud", "community", "1.9"),
     ("tin_foil", "community", "1.9")],
)  # fmt: skip
def test_community_price_is_that_of_the_community_cloud(security: str, tier: str, usd: str) -> None:
    prices = ROW["prices"] | {"communityPrice": 1.9}
    (offer,) = _parse(ROW | {"security": security, "prices": prices}).offers
    assert (offer.tier, offer.price.amount) == (tier, Decimal(usd))


def test_a_disk_of_absurd_size_and_price_costs_its_row_alone() -> None:
    disk = {"defaultIncludedInPrice": False, "defaultCount": 9e12, "pricePerUnit": 9e12}
    parsed = _parse(ROW | {"cloudId": "x", "disk": disk}, ROW)
    assert [r.reason for r in parsed.rejected] == ["the disk's price is out of all range"]
    assert [o.source_id for o in parsed.offers] == ["runpod/h/SXM5"]


def test_a_row_that_does_not_say_whether_it_is_spot_is_not_on_demand() -> None:
    silent = {name: value for name, value in ROW.items() if name != "isSpot"} | {"cloudId": "x"}
    parsed = _parse(silent, ROW)
    assert [r.reason for r in parsed.rejected] == ["not said whether it is spot"]
    assert [o.source_id for o in parsed.offers] == ["runpod/h/SXM5"]


def _pages(count: int, total: int) -> Any:
    def answer(url: str, _: Mapping[str, str]) -> Any:
        if "gpu-summary" in url:
            return {"H100_80GB": {"1": {"cheapest": {"onDemand": 2.0}}}}
        page = int(parse_qs(urlsplit(url).query)["page"][0])
        rows = [ROW | {"cloudId": f"{page}-{i}"} for i in range(count)]
        return {"items": rows, "totalCount": total}

    return answer


def test_pages_are_read_until_all_rows_are_there() -> None:
    http = Http(_pages(2, 5))
    parsed = primeintellect.parse(fetched(primeintellect.provider, http, api_key="k"))
    assert len(http.asked) == 3
    assert {headers["Authorization"] for _, headers in http.asked} == {"Bearer k"}
    assert (len(parsed.offers), parsed.complete) == (6, True)


def test_an_empty_list_is_held_against_the_summary() -> None:
    http = Http(_pages(0, 0))
    parsed = primeintellect.parse(fetched(primeintellect.provider, http, api_key="k"))
    assert http.urls[-1].endswith("/availability/gpu-summary")
    assert (parsed.offers, parsed.complete) == ((), False)


def test_a_later_page_that_fails_leaves_the_answer_incomplete() -> None:
    pages = _pages(2, 5)
    http = Http(lambda url, h: refused(500) if "page=2" in url else pages(url, h))
    parsed = primeintellect.parse(fetched(primeintellect.provider, http, api_key="k"))
    assert (len(parsed.offers), parsed.incomplete_reason) == (2, "2 of 5 rows were read")


def test_the_first_page_that_fails_is_the_polls_failure() -> None:
    with pytest.raises(FetchError):
        fetched(primeintellect.provider, Http(lambda *_: refused(403)), api_key="k")


def test_a_service_that_never_ends_is_left() -> None:
    http = Http(_pages(1, 10**9))
    fetched(primeintellect.provider, http, api_key="k")
    assert len(http.asked) == primeintellect.MAX_PAGES
