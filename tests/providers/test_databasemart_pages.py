"""Database Mart: fixtures, recorded pages, any text at all, and how pages are asked for."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.databasemart import DatabaseMartConfig, fetch, provider
from tests.providers.databasemart_pages import NOW, card, parsed, payload, reasons
from tests.support.fixtures import NO_SHARED, SHARED, Case, cases
from tracker.provider import Availability, FetchError, ListedOffer, Market, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "databasemart"


@pytest.mark.parametrize("case", [c for c in cases() if c.provider == "databasemart"], ids=str)
def test_fixture(case: Case) -> None:
    expected = case.expected()
    if "parse_error" in expected:
        with pytest.raises(ParseError, match=expected["parse_error"]):
            provider.parse(case.payloads())
        return
    result = provider.parse(case.payloads())
    assert reasons(result) == expected["rejected"]
    assert (result.complete, result.incomplete_reason) == (
        expected["complete"], expected["incomplete_reason"])  # fmt: skip

    def hourly(offer: ListedOffer) -> str:
        usd = offer.price.machine_hour(offer.gpu_count, Decimal(1)).usd
        return format(usd.normalize(), "f")

    assert sorted(
        (o.source_id, o.market, o.tier, str(o.gpu_count), hourly(o), o.extras.availability,
         str(o.terms.commitment_hours), o.terms.commitment_unknown)
        for o in result.offers
    ) == sorted(
        (e["source_id"], e["market"], e["tier"], e["gpu_count"], e["price_usd_per_machine_hour"],
         e["availability"], str(e["commitment_hours"]), e["commitment_unknown"])
        for e in expected["offers"]
    )  # fmt: skip


# --- invariants

_PIECES = st.sampled_from(
    ["<h3>GPU Server - 2xRTX 4090</h3>", "<li>", "VPS - A100", "$", "$409.00", "/mo", "$0/hr",
     "<del>", "GPU: ", "RTX 4090", "GPU Memory: 24GB", "1 Month", "Order Now", "\n",
     "<table><tr><td>", "</",
     '<script type="application/ld+json">', '{"name": "GPU VPS - A40", "@type": "Product"',
     ', "offers": {"price": 1, "unitCode": "MON"}}',
     "</script>", "\x02", "\x00", "9" * 30, ".", ",", "- ", "<a disabled>", "<!--", "]]>"]
)  # fmt: skip


@given(st.lists(st.one_of(_PIECES, st.text(max_size=5)), max_size=30).map("".join))
def test_any_text_gives_positive_prices_or_a_parse_error(html: str) -> None:
    try:
        result = parsed(html)
    except ParseError:
        return
    assert all(offer.price.amount > 0 for offer in result.offers)
    assert all(offer.gpu_count >= 1 for offer in result.offers)


@given(st.data())
def test_a_page_cut_anywhere_never_invents_a_price(data: st.DataObject) -> None:
    recordings = [c for c in cases() if c.provider == "databasemart" and "offers" in c.expected()]
    page = data.draw(st.sampled_from([p for c in recordings for p in c.payloads() if p.body]))
    cut = data.draw(st.integers(0, len(page.body) - 1))

    def prices(body: bytes) -> set[tuple[str, str]]:
        try:
            found = provider.parse([Payload("", body, NOW)]).offers
        except ParseError:
            return set()
        return {(o.source_id, str(o.price.amount)) for o in found}

    written = page.body.decode().replace(",", "")
    for _, amount in prices(page.body[:cut]):
        assert amount in written


@given(st.binary(max_size=200))
def test_any_bytes_are_a_page_without_a_price(body: bytes) -> None:
    with pytest.raises(ParseError):
        provider.parse([Payload("", body, NOW)])


# --- fetch


class FakeHttp:
    """Answers GETs, or refuses those whose URL contains *broken*."""

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def get(self, url: str, **how: Any) -> Payload:
        self.asked.append((url, how))
        if self.broken in url:
            raise FetchError("refused", status=403 if "hourly" in url else None)
        return payload(card("$409.00/mo"), url)


def fetched(broken: str = "nothing", **config: Any) -> tuple[list[Payload], FakeHttp]:
    http = FakeHttp(broken)
    return asyncio.run(fetch(http, DatabaseMartConfig(**config))), http  # type: ignore[arg-type]


def test_the_configured_pages_are_asked_as_html_without_newer_compressions() -> None:
    payloads, http = fetched(
        base_url_gpu_mart="http://127.0.0.1:1/", paths_gpu_mart=("/a", "/b"), paths_databasemart=()
    )
    assert [url for url, _ in http.asked] == ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b"]
    assert all(how["expect"] == "html" for _, how in http.asked)
    assert all(how["headers"]["Accept-Encoding"] == "gzip" for _, how in http.asked)
    result = provider.parse(payloads)
    assert result.complete
    assert [o.source_url for o in result.offers] == ["http://127.0.0.1:1/a"]


@pytest.mark.parametrize(("broken", "status"), [("hourly", 403), ("/vps", 0)])
def test_a_page_that_fails_makes_the_poll_incomplete(broken: str, status: int) -> None:
    payloads, _ = fetched(broken)
    assert [p.status for p in payloads if not p.body] == [status]
    result = provider.parse(payloads)
    assert len(result.offers) == 1
    assert result.incomplete_reason == "a page could not be fetched"


def test_no_page_at_all_is_a_failed_fetch() -> None:
    with pytest.raises(FetchError):
        fetched("http")


# --- recorded pages


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_the_recorded_page_gives_the_eight_plans_checked_by_hand() -> None:
    html = (RECORDED / "pricing_page_synthetic.html").read_text()
    result = parsed(html)
    assert not result.rejected
    assert result.complete
    found = {o.source_id: o for o in result.offers}
    assert {name: (o.gpu_count, o.vram_gb, str(o.price.amount)) for name, o in found.items()} == {
        "enterprise-gpu-dedicated-server-h100": (1, 80, "2099.00"),
        "enterprise-gpu-dedicated-server-a100": (1, 40, "399.50"),
        "enterprise-gpu-dedicated-server-a100-80gb": (1, 80, "1559.00"),
        "multi-gpu-dedicated-server-2xrtx-4090": (2, 24, "449.50"),
        "multi-gpu-dedicated-server-4xa100": (4, 40, "1899.00"),
        "enterprise-gpu-dedicated-server-rtx-4090": (1, 24, "409.00"),
        "professional-gpu-vps-a4000": (1, None, "0.25"),
        "advanced-gpu-dedicated-server-a40": (1, 48, "439.00"),
    }
    sold_out = [n for n, o in found.items() if o.extras.availability is Availability.NO]
    assert sold_out == ["advanced-gpu-dedicated-server-a40"]
    h100 = found["enterprise-gpu-dedicated-server-h100"]
    assert h100.terms.commitment_unknown  # kept, not ranked
    assert h100.terms.commitment_hours is None
    two = found["multi-gpu-dedicated-server-2xrtx-4090"]
    hourly = two.price.machine_hour(two.gpu_count, Decimal(1)).usd
    assert round(hourly, 6) == Decimal("0.615753")
    assert found["professional-gpu-vps-a4000"].market is Market.ON_DEMAND


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_the_recorded_javascript_shell_fails_the_poll() -> None:
    with pytest.raises(ParseError):
        parsed((RECORDED / "js_shell_synthetic.html").read_text())
