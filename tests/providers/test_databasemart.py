"""Database Mart: plans read from pages, whatever their markup."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.providers.databasemart_pages import TITLE, card, only, parsed, reasons
from tracker.provider import (
    Availability,
    Market,
    ParseError,
    PriceUnit,
)

# --- price


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("$1,234.56/mo", "1234.56", PriceUnit.MACHINE_MONTH),
        ("<b>$449</b><i>/month</i>", "449", PriceUnit.MACHINE_MONTH),
        ("$ <b>449.50</b> USD / mo", "449.50", PriceUnit.MACHINE_MONTH),
        ("US$449.50 per month", "449.50", PriceUnit.MACHINE_MONTH),
        ("$0.277/hr", "0.277", PriceUnit.MACHINE_HOUR),
        ("$0.25<span>/hour</span>", "0.25", PriceUnit.MACHINE_HOUR),
        ("<del>$899.00</del> <b>$449.50</b>/mo", "449.50", PriceUnit.MACHINE_MONTH),
        ("<span>$899.00/mo</span><span>$449.50/mo</span>", "449.50", PriceUnit.MACHINE_MONTH),
        ("Save $449.50/mo<br>$449.00/mo", "449.00", PriceUnit.MACHINE_MONTH),
    ],
)
def test_a_price_is_a_dollar_amount_with_its_unit(
    text: str, amount: str, unit: PriceUnit
) -> None:  # fmt: skip
    offer = only(card(text))
    assert (str(offer.price.amount), offer.price.unit) == (amount, unit)
    assert offer.price.currency == "USD"
    monthly = unit is PriceUnit.MACHINE_MONTH
    assert offer.market is (Market.MONTHLY if monthly else Market.ON_DEMAND)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("$1.600/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$1,60/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$1.234,56/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$12,34,56.00/mo", "ambiguous price (only $1,234.56 is read)"),
        ("A$449.50/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$449.50 CAD/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$0.00/mo", "price is not above zero"),
        ("<s>$449.50</s>/mo", "only a struck-out price"),
        ("<del>$49.00</del> $449.50/mo", "struck-out price below the price"),
        ("$449.50/mo<br>IPv4 $3.00/mo", "several prices in one card"),
        ("$449/mo<br>$399/mo<br>$349/mo", "several prices in one card"),
        ("$449<sup>50</sup>/mo", "no price with a unit in the card"),
        ("$449 .50/mo", "no price with a unit in the card"),
        ("from $449.50/mo", "no price with a unit in the card"),
        ("$449.50/year", "no price with a unit in the card"),
        ("€449.50/mo", "no price with a unit in the card"),
        ("-$449.50/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$399-$449/mo", "ambiguous price (only $1,234.56 is read)"),
        ("$449.50", "no price with a unit in the card"),
    ],
)
def test_an_unclear_price_rejects_the_card_alone(text: str, reason: str) -> None:
    good = card("$0.25/hour", title="Professional GPU VPS - A4000")
    result = parsed(card(text) + good)
    assert [o.source_id for o in result.offers] == ["professional-gpu-vps-a4000"]
    assert reasons(result) == {reason: 1}


def test_a_promotion_keeps_its_list_price_as_a_note() -> None:
    offer = only(card("<del>$899.00</del> $449.50/mo", "50% OFF", "billed monthly"))
    assert offer.notes == ("below the list price that the page shows", "advertised as reduced")


def test_a_card_with_both_an_hourly_and_a_monthly_price_is_two_offers() -> None:
    result = parsed(card("$0.60/hr or", "$409.00/mo"))
    assert {(o.market, str(o.price.amount)) for o in result.offers} == {
        (Market.ON_DEMAND, "0.60"),
        (Market.MONTHLY, "409.00"),
    }


# --- term


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("24-month term", 24),
        ("Contract: 2 years", 24),
        ("Billed monthly", 1),
        ("month-to-month", 1),
        ("Billed annually", 12),
        ("12 months contract", 12),
        ("12 Months", None),
        ("", None),
        ("3-year warranty", None),
        ("1 Month</li><li>12 Months</li><li>24 Months", None),
        ("24-month term</li><li>billed monthly", None),
        ("0-month term", None),
    ],
)
def test_the_commitment_is_what_the_card_states(text: str, months: int | None) -> None:
    terms = only(card("$409.00/mo", text)).terms
    assert terms.commitment_hours == (None if months is None else months * 730)
    assert terms.commitment_unknown == (months is None)


def test_a_term_button_counts_only_when_it_is_chosen() -> None:
    buttons = "<button>1 Month</button><button {}>24 Months</button>"
    for mark in ('class="btn active"', 'aria-pressed="true"', 'aria-selected="true"'):
        offer = only(card("$409.00/mo" + buttons.format(mark)))
        assert offer.terms.commitment_hours == 17_520
    assert only(card("$409.00/mo" + buttons.format(""))).terms.commitment_unknown
    # Buttons of the page are not the card's: another card may show another term's price.
    outside = buttons.format('class="active"') + card("$409.00/mo")
    assert only(outside).terms.commitment_unknown


def test_an_hourly_plan_needs_no_term() -> None:
    terms = only(card("$0.25/hour")).terms
    assert (terms.commitment_hours, terms.commitment_unknown) == (None, False)


# --- machine


@pytest.mark.parametrize(
    ("title", "specs", "name", "count", "vram"),
    [
        ("Multi-GPU Dedicated Server - 2xRTX 4090", (), "RTX 4090", 2, None),
        ("Multi-GPU Dedicated Server - 3 x V100", (), "V100", 3, None),
        ("Multi-GPU Dedicated Server - 4\u00d7A100(80GB)", (), "A100", 4, 80),
        ("Multi-GPU Server \u2013 RTX 4090", ("GPU: 2 x GeForce RTX4090",),
         "GeForce RTX4090", 2, None),
        ("Enterprise GPU Dedicated Server - A100 80GB", (), "A100", 1, 80),
        ("Professional GPU VPS - A4000", ("GPU: RTX A4000",), "RTX A4000", 1, None),
        ("GPU VPS - RTX PRO 6000", ("GPU: NVIDIA RTX PRO 6000 Blackwell",),
         "NVIDIA RTX PRO 6000 Blackwell", 1, None),
        (TITLE, ("VRAM: 24 GB",), "RTX 4090", 1, 24),
        (TITLE, ("24GB GDDR6X",), "RTX 4090", 1, 24),
        (TITLE, ("GPU Memory: 0GB",), "RTX 4090", 1, None),
        (TITLE, ("256GB RAM", "240GB SSD"), "RTX 4090", 1, None),
    ],
)  # fmt: skip
def test_gpu_count_and_memory(
    title: str, specs: tuple[str, ...], name: str, count: int, vram: int | None
) -> None:
    offer = only(card("$409.00/mo", *specs, title=title))
    assert (offer.gpu_name, offer.gpu_count, offer.vram_gb) == (name, count, vram)
    assert offer.form_factor is None  # never guessed


def test_what_comes_with_the_machine() -> None:
    offer = only(
        card(
            "$119.00/mo", "28GB RAM", "24 CPU Cores", "320GB SSD + 2TB NVMe",
            "300Mbps Unmetered Bandwidth", title="Professional GPU VPS - A4000",
        )
    )  # fmt: skip
    assert (offer.tier, offer.dedicated) == ("vps", False)
    assert (offer.ram_gib, offer.vcpus) == (28, 24)
    assert offer.terms.disk_included_gb == 2320
    assert offer.terms.egress_usd_per_gb == 0
    assert offer.extras.network_down_mbps == 300
    assert (offer.region, offer.country) == ("US", "US")
    bare = only(card("$409.00/mo"))
    assert (bare.tier, bare.dedicated) == ("dedicated", True)
    assert bare.terms.egress_usd_per_gb is None
    assert (bare.ram_gib, bare.vcpus, bare.extras.network_down_mbps) == (None, None, None)


@pytest.mark.parametrize(
    ("spec", "button", "availability"),
    [
        ("", "<a>Order Now</a>", Availability.UNKNOWN),
        ("", "<a>Out of Stock</a>", Availability.NO),
        ("", "<button disabled>Order Now</button>", Availability.NO),
        ("Available", "<a>Order Now</a>", Availability.YES),
        ("Status: In stock", "<a>Order Now</a>", Availability.YES),
        ("Available OS: Linux", "<a>Order Now</a>", Availability.UNKNOWN),
        ("Available", "<a>Sold out</a>", Availability.NO),
    ],
)
def test_stock_is_only_what_a_label_or_the_order_control_says(
    spec: str, button: str, availability: Availability
) -> None:
    assert only(card("$409.00/mo", spec, button=button)).extras.availability is availability


def test_a_card_ends_at_its_order_button() -> None:
    html = card("$409.00/mo") + "<p>Extra traffic costs $0.01/mo</p><p>GPU Memory: 48GB</p>"
    offer = only(html)
    assert str(offer.price.amount) == "409.00"
    assert offer.vram_gb is None


def test_menus_and_footers_hold_no_plans() -> None:
    html = f"<nav>GPU VPS - A4000<p>$1.00/mo</p></nav>{card('$409.00/mo')}"
    assert only(html).source_id == "enterprise-gpu-dedicated-server-rtx-4090"


# --- pages


def test_the_same_plan_on_several_pages_counts_once() -> None:
    result = parsed(card("$409.00/mo"), card("$409.00/mo", "Billed monthly", "256GB RAM"))
    (offer,) = result.offers
    assert offer.terms.commitment_hours == 730  # the page that says more


def test_another_price_for_the_same_plan_gives_neither() -> None:
    result = parsed(card("$409.00/mo"), card("$309.00/mo"))
    assert not result.offers
    assert reasons(result) == {"two prices for one plan": 2}


def test_plans_that_differ_in_hardware_or_term_share_a_title() -> None:
    by_ram = parsed(card("$409.00/mo", "256GB RAM") + card("$309.00/mo", "128GB RAM"))
    assert len(by_ram.offers) == 2
    by_term = parsed(card("$409.00/mo", "1-month term") + card("$309.00/mo", "12-month term"))
    assert len(by_term.offers) == 2


def test_a_page_without_a_price_fails_alone_and_is_a_gap_beside_others() -> None:
    shell = "<!doctype html><html><body><div id=app></div></body></html>"
    with pytest.raises(ParseError, match="no page holds a plan with a price"):
        parsed(shell)
    result = parsed(card("$409.00/mo"), shell)
    assert len(result.offers) == 1
    assert result.incomplete_reason == "a page holds no price"


def test_a_document_without_its_end_is_incomplete() -> None:
    whole = f"<!doctype html><html><body>{card('$409.00/mo')}</body></html>\n"
    assert parsed(whole).complete
    assert parsed(whole[:-10]).incomplete_reason == "a page is cut off"


@pytest.mark.parametrize(
    "script",
    [
        '<script>window.__INITIAL_STATE__ = {"p": [%s]};(function(){})()</script>',
        '<script>window.__NUXT__={"p": [%s]}</script>',
        '<script id="__NEXT_DATA__" type="application/json">{"p": {"q": %s}}</script>',
    ],
)
def test_embedded_state_is_read_where_it_names_title_price_and_unit(script: str) -> None:
    plan = f'{{"name": "{TITLE}", "gpuMemory": "24GB", "price": 409.5, "period": "month"}}'
    offer = only(script % plan)
    assert (str(offer.price.amount), offer.vram_gb) == ("409.5", Decimal(24))
    with pytest.raises(ParseError):
        parsed(script % plan.replace("period", "other"))
