"""Verda: whole machines, their spot prices, and where they are to be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.verda import provider
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED, cases
from tracker.collect import Digest, digest
from tracker.domain.quality import Known, Rules
from tracker.provider import Availability, FetchError, ParseError, Payload, SecretStr

RECORDED = SHARED / "providers" / "payloads" / "verda"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
ROWS = next(case for case in cases() if str(case) == "verda-list").payloads()[0].text()
PAGE = next(case for case in cases() if str(case) == "verda-page").payloads()[0].text()


def recorded(name: str) -> Digest:
    body = (RECORDED / name).read_bytes()
    found = digest(
        provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    assert not found.held
    assert not found.unmapped
    return found


def rows(found: Digest) -> set[tuple[str, str, str, str, str]]:
    return {
        (o.listed.source_id, o.gpu.key, str(o.listed.gpu_count), str(o.listed.market),
         format(o.price.usd.normalize(), "f"))
        for o in found.accepted
    }  # fmt: skip


OD, SPOT = "on_demand", "spot"


@needs_recordings
def test_recorded_lists() -> None:
    found = recorded("instance-types_a100_h100_synthetic.json")
    assert rows(found) == {
        ("1H100.80S.30V", "H100-SXM-80GB", "1", OD, "3.25"),
        ("1H100.80S.30V", "H100-SXM-80GB", "1", SPOT, "1.625"),
        ("8A100.40S.176V", "A100-SXM-40GB", "8", OD, "10.32"),  # spot "0": none
    }
    assert not found.rejected
    found = recorded("instance-types_gpuhunt_tests.json")
    assert rows(found) == {
        ("1H100.80S.30V", "H100-SXM-80GB", "1", OD, "3.95"),
        ("1H100.80S.30V", "H100-SXM-80GB", "1", SPOT, "1.7"),
        ("2A6000.20V", "A6000-48GB", "2", OD, "1.98"),
        ("2A6000.20V", "A6000-48GB", "2", SPOT, "0.7"),
        ("1V100.6V", "V100-16GB", "1", OD, "0.89"),
        ("1V100.6V", "V100-16GB", "1", SPOT, "0.25"),
    }
    assert [r.reason for r in found.rejected] == ["machine without GPUs"]
    assert found.parsed.complete


@needs_recordings
def test_recorded_page() -> None:
    found = recorded("pricing_jsonld_gpu-index_2026-08_trimmed.html")
    assert rows(found) == {
        (f"1x {name}", gpu, "1", market, usd)
        for name, gpu, full, half in (
            ("H200 SXM5 141GB", "H200-SXM-141GB", "4", "2"),
            ("H100 SXM5 80GB", "H100-SXM-80GB", "3.25", "1.625"),
            ("A100 SXM4 80GB", "A100-SXM-80GB", "1.79", "0.895"),
            ("A100 SXM4 40GB", "A100-SXM-40GB", "1.29", "0.645"),
        )
        for market, usd in ((OD, full), (SPOT, half))
    }
    reasons = Counter(r.reason for r in found.rejected)
    confidential = "RTX PRO 6000 CC 96GB: confidential computing variant"
    assert reasons == {
        "machine without GPUs": 2, "listed twice": 2, "instant cluster, not a machine": 1,
        confidential: 1,
    }  # fmt: skip
    assert not found.parsed.complete


@needs_recordings
def test_recorded_availability_and_places_are_no_offers() -> None:
    body = (RECORDED / "instance-availability_gpuhunt_tests.json").read_bytes()
    assert not provider.parse([Payload("", body, NOW)]).offers
    types = (RECORDED / "instance-types_gpuhunt_tests.json").read_bytes()
    offers = provider.parse([Payload("", types, NOW), Payload("", body, NOW)]).offers
    assert {
        (o.source_id, o.extras.availability, o.region, o.country)
        for o in offers
        if str(o.market) == OD
    } == {
        ("1H100.80S.30V", Availability.NO, None, None),
        ("2A6000.20V", Availability.YES, "FIN-01", "FI"),
        ("1V100.6V", Availability.YES, "FIN-01", "FI"),
    }
    # Nothing was answered about spot.
    assert {o.extras.availability for o in offers if str(o.market) == SPOT} == {
        Availability.UNKNOWN
    }
    with pytest.raises(ParseError, match="instance_type: missing"):
        provider.parse([Payload("", (RECORDED / "locations_gpuhunt_tests.json").read_bytes(), NOW)])


@given(full=st.integers(0, 10**4), spot=st.none() | st.integers(0, 10**4), gpus=st.integers(1, 16))
def test_spot_is_listed_only_below_on_demand(full: int, spot: int | None, gpus: int) -> None:
    row = {
        "instance_type": "x", "name": "H100 SXM5 80GB", "currency": "usd",
        "gpu": {"number_of_gpus": gpus}, "price_per_hour": f"{full / 100:.2f}",
        "spot_price": None if spot is None else f"{spot / 100:.2f}",
    }  # fmt: skip
    result = provider.parse([payload([row])])
    expected = [] if not full else [(OD, Decimal(full) / 100)]
    if full and spot and spot < full:
        expected.append((SPOT, Decimal(spot) / 100))
    assert [
        (str(o.market), o.price.machine_hour(o.gpu_count, Decimal(1)).usd) for o in result.offers
    ] == expected
    left_out = not full or bool(spot and spot >= full)
    assert bool(result.rejected) == left_out


@dataclass
class SigningIn(Http):
    """Also answers the request for a token."""

    token: Any = None
    posted: list[Any] = field(default_factory=list)

    async def post(self, url: str, *, json_body: Any, **_: Any) -> Payload:
        self.posted.append((url, json_body))
        if isinstance(self.token, Exception):
            raise self.token
        return payload(self.token, url)


def answer(url: str, headers: Mapping[str, str]) -> Any:
    if "instance-types" in url:
        return ROWS
    return [{"location_code": "FIN-01", "availabilities": ["1H100.80S.30V"]}]


CREDENTIALS = {"client_id": "me", "api_key": SecretStr("planted")}


def test_without_credentials_one_request_is_enough() -> None:
    http = Http(answer)
    result = provider.parse(fetched(provider, http, currency="eur"))
    assert http.asked == [("https://api.verda.com/v1/instance-types?currency=eur", {})]
    assert result.complete
    assert {o.extras.availability for o in result.offers} == {Availability.UNKNOWN}


def test_with_credentials_it_is_asked_what_is_to_be_had_and_no_secret_is_kept() -> None:
    http = SigningIn(answer, token={"access_token": "a-token", "expires_in": 3600})
    payloads = fetched(provider, http, **CREDENTIALS)
    result = provider.parse(payloads)
    assert http.posted == [(
        "https://api.verda.com/v1/oauth2/token",
        {"grant_type": "client_credentials", "client_id": "me", "client_secret": "planted"},
    )]  # fmt: skip
    assert [headers for _, headers in http.asked[1:]] == [{"Authorization": "Bearer a-token"}] * 2
    assert {(o.source_id, str(o.market)) for o in result.offers
            if o.extras.availability is Availability.YES} == {
        ("1H100.80S.30V", OD), ("1H100.80S.30V", SPOT)
    }  # fmt: skip
    for kept in payloads:
        for secret in (b"planted", b"a-token"):
            assert secret not in kept.body + kept.request_body + kept.url.encode()


@pytest.mark.parametrize("token", [refused(401), {}, [], {"access_token": None}, "no JSON"])
def test_credentials_that_do_not_work_cost_the_stock_only(token: Any) -> None:
    result = provider.parse(fetched(provider, SigningIn(answer, token=token), **CREDENTIALS))
    assert len(result.offers) == 6
    assert result.complete
    assert {o.extras.availability for o in result.offers} == {Availability.UNKNOWN}
    (rejected,) = result.rejected
    assert rejected.reason == "availability was not answered"


def test_the_page_stands_in_for_the_list_unless_it_is_off() -> None:
    def only_page(url: str, _: Mapping[str, str]) -> Any:
        return PAGE if url.endswith("/pricing") else refused(503)

    http = Http(only_page)
    result = provider.parse(fetched(provider, http))
    assert http.urls == [
        "https://api.verda.com/v1/instance-types?currency=usd", "https://verda.com/pricing"
    ]  # fmt: skip
    assert result.offers
    assert not result.complete
    with pytest.raises(FetchError):
        fetched(provider, Http(only_page), page=False)
    with pytest.raises(FetchError, match="503"):
        fetched(provider, Http(lambda url, _: refused(404 if "pricing" in url else 503)))
