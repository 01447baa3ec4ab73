"""``gpucost cheapest``: bills worked out by hand over a small hand-made market.

BERT-Large takes 12 h on an A100 SXM 80 GB, 4 h on an H100 SXM 80 GB and at least 48 h on an
RTX 4090 (tracker/data/jobs/bert-large.toml).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import ago, by_id, cheapest_document, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import (
    Availability,
    Discount,
    Extras,
    Market,
    Terms,
)


def _totals(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["offer_id"], row["at_least_usd"]) for row in document["rows"]]


@pytest.mark.usefixtures("_at_market")
def test_bills_of_bert_large_worked_out_by_hand() -> None:
    document = cheapest_document("bert-large")
    assert _totals(document) == [
        ("host", "11.2"),  # 4 h x 2.80
        ("h100", "12"),  # 4 h x 3
        ("book-lambda", "17.16"),  # 4 h x 4.29
        ("a100-day", "24"),  # 12 h used, 24 h are the minimum
        ("4090", "26.4"),  # 48 h x 0.55
        ("h100x8", "80"),  # 4 h x 20: the machine is billed whole
        ("a100-month", "365"),  # 730 h x 365/730
        ("a100-years", "5256"),  # 17,520 h x 0.30
    ]
    assert [row["rank"] for row in document["rows"]] == list(range(1, 9))
    assert document["excluded"] == {
        "on the spot market": 1,
        "of tier unverified": 1,
        "replaced by live prices": 1,
        "sold for a term that is not stated": 1,
        "offered for less time than the job takes": 1,
    }
    assert document["offers_total"] == 13
    assert document["offers_considered"] == 8
    rows = by_id(document["rows"])
    assert (rows["a100-day"]["runtime_hours"], rows["a100-day"]["billed_hours"]) == (12, 24)
    assert rows["a100-month"]["billed_hours"] == 730
    assert rows["h100x8"]["price_usd_per_gpu_hour"] == "2.5"
    assert rows["4090"]["lower_bound"] is True
    assert rows["host"]["lower_bound"] is False


@pytest.mark.usefixtures("_at_market")
def test_the_table_says_the_same() -> None:
    lines = run("cheapest", "bert-large").lines
    assert lines[0] == (
        "BERT-Large training: $11.20 on 1 x H100-SXM-80GB at hub (verified), "
        "4 h x $2.8000/h; next GPU A100-SXM-80GB +114 %."
    )
    table = lines[2:11]
    assert table[0].split()[:5] == ["#", "GPU", "GPUS", "PROVIDER", "REGION"]
    assert table[1].split()[:2] == ["1", "H100-SXM-80GB"]
    assert ">= $26.40" in table[5]
    assert "2026-11-09" in table[3]
    assert any(line.startswith("Hours on RTX4090 are a lower bound") for line in lines)
    assert any(line.startswith("A date under AGE marks list prices") for line in lines)
    assert lines[-1] == (
        "8 of 13 offers; left out: 1 on the spot market, 1 of tier unverified, "
        "1 replaced by live prices, 1 sold for a term that is not stated, "
        "1 offered for less time than the job takes"
    )


@pytest.mark.usefixtures("_at_market")
def test_counts_do_not_depend_on_how_many_rows_are_asked_for() -> None:
    few, every = (
        cheapest_document("bert-large", "--top", "1"),
        cheapest_document("bert-large", "--all"),
    )
    assert _totals(few) == _totals(every)[:1]
    for name in ("excluded", "offers_considered", "offers_total"):
        assert few[name] == every[name]
    assert [r["offer_id"] for r in few["best_by_gpu"]] == ["host", "a100-day", "4090"]
    assert [r["rank"] for r in few["best_by_gpu"]] == [1, None, None]
    lines = run("cheapest", "bert-large", "--top", "1").lines
    assert [line.split()[0] for line in lines[3:6]] == ["1", "…", "…"]
    assert "7 more; --all shows them" in lines


@pytest.mark.usefixtures("_at_market")
def test_break_even_recomputed() -> None:
    document = cheapest_document("bert-large")
    found = document["comparison"]
    left, right = found["left"], found["right"]
    assert (left["offer_id"], right["offer_id"]) == ("host", "a100-day")
    # 24 / (1 machine x 4 h): at that price the H100 job costs what the A100 job does.
    assert found["break_even_usd_per_machine_hour"] == "6"
    assert found["break_even_usd_per_gpu_hour"] == "6"
    assert found["speed_up_had"] == 3  # 12 h / 4 h
    assert found["speed_up_needed"] == 2.8  # 2.80 / 1.00 per hour
    sentence = next(line for line in document["remarks"] if line.startswith("Break-even"))
    assert sentence == (
        "Break-even: H100-SXM-80GB $11.20 against A100-SXM-80GB $24.00. The H100-SXM-80GB job is "
        "the cheaper one below $6.0000 per GPU-hour; its price is $2.8000, below that. It is 3.00 "
        "times as fast and costs 2.80 times as much an hour."
    )
    assert sentence in run("cheapest", "bert-large").lines
    assert (found["break_even_bound"], found["break_even_unknown"]) == ("exact", False)


@pytest.mark.usefixtures("_at_market")
def test_disk_egress_and_setup_with_an_unknown_part_shown_as_at_least() -> None:
    document = cheapest_document(
        "bert-large", "--gpu", "H100", "--disk", "100", "--egress", "50", "--setup", "0.5"
    )
    rows = by_id(document["rows"])
    # Nobody states both a disk and an egress price: no bill is complete, none has a total.
    assert all(row["total_usd"] is None for row in rows.values())
    # host: 4.5 h x 2.80 + 100 GB x 4.5 h x 0.0002, egress not stated
    assert rows["host"]["at_least_usd"] == "12.69"
    assert rows["host"]["partial"] == ["egress price unknown"]
    # h100: 4.5 h round up to 5 h x 3 + 50 GB x 0.09, disk not stated
    assert rows["h100"]["at_least_usd"] == "19.5"
    assert rows["h100"]["partial"] == ["disk price unknown"]
    assert [(line["kind"], line["amount_usd"]) for line in rows["h100"]["bill"]] == [
        ("runtime", "12"), ("setup", "1.5"), ("unused", "1.5"), ("egress", "4.5"),
    ]  # fmt: skip
    table = run("cheapest", "bert-large", "--gpu", "H100", "--egress", "50").out
    assert ">= $11.20" in table
    assert "leaves out what the provider does not state (egress price unknown)" in table


@pytest.mark.usefixtures("_at_market")
def test_a_complete_bill_goes_before_a_cheaper_incomplete_one() -> None:
    document = cheapest_document("bert-large", "--gpu", "H100", "--egress", "1")
    assert [(r["offer_id"], r["total_usd"]) for r in document["rows"]][:2] == [
        ("h100", "12.09"), ("host", None),
    ]  # fmt: skip


@pytest.mark.usefixtures("_at_market")
def test_spot_and_unverified_only_when_asked_for() -> None:
    spot = cheapest_document("bert-large", "--market", "spot")
    assert _totals(spot)[0] == ("spot", "4")
    assert "at acme (standard, spot), " in spot["answer"]
    assert "Spot: interruptions and repeated work are not in the bill." in spot["remarks"]
    assert _totals(cheapest_document("bert-large", "--tier", "any"))[0] == ("shady", "2.8")
    assert (
        _totals(cheapest_document("bert-large", "--market", "any", "--tier", "any"))[0][0]
        == "shady"
    )


@pytest.mark.usefixtures("_at_market")
def test_more_gpus_than_a_machine_has_take_several_machines() -> None:
    document = cheapest_document("--hours", "H100=2", "--gpus", "4", "--provider", "hub,acme")
    rows = by_id(document["rows"])
    assert rows["host"]["machines"] == 4
    assert rows["host"]["total_usd"] == "22.4"  # 4 machines x 2 h x 2.80
    assert rows["h100x8"]["total_usd"] == "40"  # one machine of eight, whole
    assert document["job"]["hours"]["H100"]["gpus"] == 4
    assert document["remarks"] == [
        "#1 is on 4 separate machines: the hours assume that the network between them does not "
        "slow the job down."
    ]
    assert any(note.startswith("4 separate machines: ") for note in rows["host"]["notes"])
    assert not any("separate machines" in note for note in rows["h100x8"]["notes"])
    text = run("cheapest", "--hours", "H100=2", "--gpus", "4", "--provider", "hub").out
    assert "on 4 machines of 1 x H100-SXM-80GB" in text
    assert "4 machines x 2 h x $2.8000/h" in text
    assert "4 x 1" in text


@pytest.mark.usefixtures("_at_market")
def test_hours_of_one_gpu_billed_for_more_are_said_to_be() -> None:
    remarks = cheapest_document("bert-large", "--gpus", "2")["remarks"]
    assert any("how the job scales is not modelled" in line for line in remarks)


@pytest.mark.usefixtures("_at_market")
def test_explain_shows_lines_that_sum_to_the_total() -> None:
    lines = run(
        "cheapest", "bert-large", "--explain", "--top", "1", "--gpu", "A100", "--disk", "100"
    ).lines
    start = next(i for i, line in enumerate(lines) if line.startswith("#1 "))
    block = lines[start : lines.index("", start)]
    amounts = [Decimal(line.split()[0][1:]) for line in block if line.strip().startswith("$")]
    assert amounts[:-1] == [Decimal(12), Decimal(12)]
    assert sum(amounts[:-1]) == amounts[-1] == 24
    assert block[1].strip() == "id: a100-day"
    [told] = [line for line in block if line.startswith("    hours: ")]
    assert "; source: Chinese GPU buyer's guides, 2025-10: no author or link is known" in told
    assert any("billed beyond use (minimum of 86400 s)" in line for line in block)
    assert "note: disk price unknown" in "\n".join(block)
    assert block[-1].startswith("    note: ")
    assert any(line.endswith("  at least, in all") for line in block)


@pytest.mark.usefixtures("_at_market")
def test_a_machine_without_room_for_the_disk_cannot_run_the_job() -> None:
    fits = cheapest_document("bert-large", "--provider", "hub", "--disk", "500")
    assert _totals(fits) == [("host", "11.6")]  # 11.20 + 500 GB x 4 h x 0.0002
    answer = run("cheapest", "bert-large", "--provider", "hub", "--disk", "501", "-o", "json")
    assert answer.code == 3
    assert answer.json()["excluded"]["with too little disk"] == 1


@pytest.mark.usefixtures("_at_market")
def test_scaled_hours_are_marked_and_unknown_ones_never_assumed() -> None:
    document = cheapest_document("--hours", "A100-SXM=12")
    assert {row["gpu"] for row in document["rows"]} == {"A100-SXM-80GB"}
    answer = run("cheapest", "bert-large", "--gpu", "L4")
    assert answer.code == 3
    assert answer.complaint == "no offer matches"


# --- ties, discounts, the past ----------------------------------------------------------------


def test_ties_go_to_less_risk_then_to_the_name(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    yes = Extras(availability=Availability.YES)
    offers = [
        make_offer("b-unsaid", "3"),
        make_offer("a-unsaid", "3"),
        make_offer("in-stock", "3", extras=yes),
        make_offer("reserved", "3", market=Market.RESERVED, terms=Terms(commitment_hours=4)),
        make_offer("spot", "3", market=Market.SPOT, extras=yes),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        document = cheapest_document("bert-large", "--market", "any")
        assert [row["offer_id"] for row in document["rows"]] == [
            "in-stock", "a-unsaid", "b-unsaid", "reserved", "spot",
        ]  # fmt: skip
        assert {row["total_usd"] for row in document["rows"]} == {"12"}


def test_a_negotiated_discount_is_taken_off_and_marked(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(UTC) + timedelta(days=30)
    discounts = (
        Discount("acme", Decimal("12.5"), date(2026, 1, 1), later),
        Discount("hub", Decimal(50), date(2026, 1, 1), ago(1)),  # expired
    )
    book = make_offer("own", "9", source="pricebook", seller="elsewhere",
                      extras=Extras(valid_as_of=date(2026, 11, 1)))  # fmt: skip
    with filled(
        database_server,
        polled("acme", [make_offer("h100", "4")]),
        polled("hub", [make_offer("host", "3.6", source="hub")]),
        polled("pricebook", [book], discounts=discounts),
    ) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        document = cheapest_document("bert-large")
        assert _totals(document) == [("h100", "14"), ("host", "14.4"), ("own", "36")]
        row = document["rows"][0]
        assert row["discount_percent"] == 12.5  # 4 h x 4 x 0.875 = 14
        assert row["price_usd_per_gpu_hour"] == "3.5"
        assert "* less a negotiated discount from your price book." in document["remarks"]
        lines = run("cheapest", "bert-large").lines
        assert "$3.5000*" in lines[3]
        assert "*" not in lines[4]


def test_as_of_a_past_moment(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(
        database_server,
        polled("acme", [make_offer("h100", "3")], 120),
        polled("acme", [make_offer("h100", "2")], 60),
        polled("acme", [make_offer("other", "5")], 10),
    ) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        assert _totals(cheapest_document("bert-large")) == [("other", "20")]

        def then(minutes: float) -> str:
            return ago(minutes).isoformat()

        assert _totals(cheapest_document("bert-large", "--as-of", then(30))) == [("h100", "8")]
        assert _totals(cheapest_document("bert-large", "--as-of", then(90))) == [("h100", "12")]
        document = cheapest_document("bert-large", "--as-of", then(90))
        assert document["as_of"].endswith("Z")
        assert document["as_of"][:16] == ago(90).isoformat()[:16]
        answer = run("cheapest", "bert-large", "--as-of", then(500))
        assert answer.code == 3
        assert answer.lines[0].startswith("No offer was on record at 20")
        offers = run("offers", "--as-of", then(90), "-o", "json").json()
        assert [row["price_usd_per_machine_hour"] for row in offers["rows"]] == ["3"]


@pytest.mark.usefixtures("_at_market")
def test_hours_given_twice_add_up() -> None:
    once = cheapest_document("--hours", "H100=4,A100=12")
    assert _totals(cheapest_document("--hours", "H100=4", "--hours", "A100=12")) == _totals(once)
    assert {row["gpu"].split("-")[0] for row in once["rows"]} == {"H100", "A100"}
    twice = run("cheapest", "--hours", "H100=4", "--hours", "H100=5")
    assert twice.code == 2
    assert "keep one" in twice.err
