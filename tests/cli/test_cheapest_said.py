"""What answers say of the figures in them: terms, promotions, typed prices, what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import pytest

from tests.cli.harness import A100, H100, ago, cheapest_document, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Extras, Market, NativePrice, PriceUnit, Terms


@pytest.mark.parametrize("command", [("offers",), ("cheapest", "bert-large")], ids=" ".join)
@pytest.mark.usefixtures("_at_market")
def test_a_tier_that_nobody_has_is_refused_with_the_nearest(command: tuple[str, ...]) -> None:
    answer = run(*command, "--tier", "securre")
    assert answer.code == 2
    assert "'securre'" in answer.complaint
    assert "did you mean secure" in answer.complaint
    assert run(*command, "--tier", "verified").code in (0, 3)


@pytest.mark.usefixtures("_at_market")
def test_what_a_job_needs_beside_the_machine_can_be_switched_off() -> None:
    job = cheapest_document("bert-large", "--egress", "0", "--disk", "0", "--setup", "0")["job"]
    assert (job["egress_gb"], job["disk_gb"], job["setup_hours"]) == (0, 0, 0)
    refused = run("cheapest", "bert-large", "--egress", "-1").complaint
    assert "0 or more" in refused


@pytest.mark.usefixtures("_at_market")
def test_before_history_the_answer_says_when_it_begins() -> None:
    for command in (("cheapest", "bert-large"), ("offers",)):
        answer = run(*command, "--as-of", "2020-01-01")
        assert answer.code == 3
        assert "history begins at 20" in answer.out + answer.err


@pytest.mark.usefixtures("_at_market")
def test_a_typed_price_was_seen_when_it_was_read() -> None:
    for command in (("cheapest", "bert-large", "--all"), ("offers", "--all")):
        document = run(*command, "-o", "json").json()
        typed = [row for row in document["rows"] if row["valid_as_of"]]
        assert typed
        for row in typed:
            seen, at = (datetime.fromisoformat(t) for t in (row["seen_at"], document["as_of"]))
            assert abs((at - seen).total_seconds() - row["age_seconds"]) <= 1


def test_prices_of_a_term_and_of_a_promotion_are_exact_and_marked(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    months = NativePrice(Decimal("2099"), "USD", PriceUnit.MACHINE_MONTH)
    term = make_offer(
        "h100", "1", gpu=H100, market=Market.MONTHLY, terms=Terms(commitment_hours=17_520)
    )
    promotion = make_offer(
        "a100, promotion (799 USD without it)", "1", gpu=A100, market=Market.MONTHLY,
        terms=Terms(commitment_hours=730),
    )  # fmt: skip
    usual = replace(months, amount=Decimal("399.50"))
    offers = [
        replace(o, listed=replace(o.listed, price=p), price=p.machine_hour(Decimal(1), Decimal(1)))
        for o, p in ((term, months), (promotion, usual))
    ]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        rows = {row["gpu"]: row for row in cheapest_document("bert-large")["rows"]}
        assert rows["H100-SXM-80GB"]["total_usd"] == "50376"
        assert rows["A100-SXM-80GB"]["total_usd"] == "399.5"
        answer = run("cheapest", "bert-large").out
        assert "sold for a term of 24 months" in answer
        assert "A promotion of the day it was read" in answer
        listed = run("offers").out
        assert "+ only for a term, billed whole: 24 months" in listed
        assert "! a promotion of the day it was read" in listed


def test_prices_of_ones_own_book_are_not_called_list_prices(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    extras = Extras(valid_as_of=date(2026, 11, 9), expires_at=ago(-60 * 24))
    mine = make_offer("mine", "2", gpu=H100, source="pricebook", seller="acme", extras=extras)
    with filled(database_server, polled("pricebook", [mine])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        remarks = cheapest_document("bert-large")["remarks"]
    assert any("prices from a price book of your own" in remark for remark in remarks)
    assert not any("list price" in remark for remark in remarks)
