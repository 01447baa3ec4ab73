"""``--goal`` and the ways that no other beats in both cost and hours."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.harness import A100, H100, cheapest_document, filled, polled, run
from tests.cli.test_ranking_oracle import GPUS, JOB, NOW, stored
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.pareto import Goal, Option, Range, choose, pareto
from tracker.report.cheapest import CheapestReport, cheapest_report
from tracker.report.filters import Filters

D = Decimal


@pytest.mark.usefixtures("_at_market")
def test_the_fastest_is_ranked_by_hours_and_then_by_the_bill() -> None:
    rows = cheapest_document("bert-large", "--goal", "fastest")["rows"]
    assert [(row["offer_id"], row["done_hours"]) for row in rows] == [
        ("host", 4), ("h100", 4), ("book-lambda", 4), ("h100x8", 4),
        ("a100-day", 12), ("a100-month", 12), ("a100-years", 12), ("4090", 48),
    ]  # fmt: skip
    line = run("cheapest", "bert-large", "--goal", "fastest").lines[0]
    assert line.startswith("BERT-Large training: done after 4 h for $11.20 on 1 x H100-SXM-80GB")
    assert "; next GPU A100-SXM-80GB, 12 h for $24.00" in line


@pytest.mark.usefixtures("_at_market")
def test_hours_until_done_are_set_up_and_runtime_not_what_is_billed() -> None:
    rows = {
        row["offer_id"]: row
        for row in cheapest_document("bert-large", "--setup", "0.5", "--all")["rows"]
    }
    assert (rows["h100"]["done_hours"], rows["h100"]["billed_hours"]) == (4.5, 5)
    assert (rows["a100-day"]["done_hours"], rows["a100-day"]["billed_hours"]) == (12.5, 24)


@pytest.fixture
def _at_three(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A100 $12 and 12 h, H100 $20 and 4 h, a dearer one of each."""
    offers = [
        make_offer("slow", "1", gpu=A100), make_offer("slower", "1.1", gpu=A100),
        make_offer("fast", "5", gpu=H100), make_offer("dear", "6", gpu=H100),
    ]  # fmt: skip
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield


@pytest.mark.usefixtures("_at_three")
def test_ways_that_none_beats_are_marked_and_named_also_where_they_are_not_ranked() -> None:
    for goal, first in (("cheapest", "slow"), ("fastest", "fast"), ("balanced", "fast")):
        document = cheapest_document("bert-large", "--goal", goal)
        assert document["rows"][0]["offer_id"] == first
        marked = {row["offer_id"] for row in document["rows"] if row["unbeaten"]}
        assert marked == {"slow", "fast"}
        assert [row["offer_id"] for row in document["unbeaten"]] == ["slow", "fast"]
        assert (document["goal"], document["ranking"][:10]) == (goal, "Ranked by ")
    lines = run("cheapest", "bert-large", "--top", "1").lines
    [told] = [line for line in lines if line.startswith("^ not beaten")]
    assert told.startswith("^ not beaten in both cost and hours: #1 12 h, $12.00; 1 x H100-SXM")
    assert told.endswith(" 4 h, $20.00.")
    table = [line for line in lines if line.startswith(("1 ", "…  "))]
    assert [" ^ " in line for line in table] == [True, True]


@pytest.mark.usefixtures("_at_market")
def test_an_at_least_is_not_among_them_and_beats_none() -> None:
    document = cheapest_document("bert-large", "--gpu", "RTX4090,A100", "--egress", "1")
    # Nobody but acme's hourly ones states a price of egress, and of the 4090's the hours are a
    # lower bound.
    assert document["unbeaten"] == []
    assert not any(row["unbeaten"] for row in document["rows"])


worlds = st.lists(
    st.fixed_dictionaries({
        "gpu_key": st.sampled_from(GPUS),
        "gpu_count": st.sampled_from([D(1), D(1), D(8)]),
        "price_micro_usd": st.integers(1, 4) | st.integers(10**6, 10**6 + 3),
        "provider": st.sampled_from(["p1", "p2"]),
        "market": st.sampled_from(["on_demand", "on_demand", "reserved"]),
        "commitment_hours": st.sampled_from([None, None, 20]),
        "billing_increment_seconds": st.sampled_from([None, 3600]),
        "egress_usd_per_gb": st.sampled_from([D(0), D(0), None, D("0.09")]),
    }), max_size=20,
)  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(worlds, st.sampled_from(list(Goal)), st.booleans())
def test_ranking_and_set_against_billing_everything(
    world: list[dict[str, Any]], goal: Goal, bound: bool
) -> None:
    offers = [stored(n, **facts) for n, facts in enumerate(world)]
    hours = {gpu: h if bound else _certain(h) for gpu, h in JOB.hours.items()}
    job = _with_hours(hours)

    def report(top: int | None) -> CheapestReport:
        return cheapest_report(
            offers, job, Filters(), catalogue(), NOW, top=top, total_offers=len(offers),
            goal=goal, pareto=True,
        )  # fmt: skip

    some, everything = report(3), report(None)
    assert some.rows == everything.rows[:3]
    assert some.best_by_gpu == tuple(
        next(row for row in everything.rows if row.offer.key == best.offer.key)._replace(
            rank=best.rank, tie=False
        )
        for best in some.best_by_gpu
    )
    options = [
        Option(row, row.offer.key, Range.exact(row.bill.at_least_usd), Range.exact(row.done_hours))
        for row in everything.rows
        if not (row.bill.partial or row.bill.lower_bound)
    ]
    figures = {(o.usd.point, o.hours.point) for o in pareto(options) if o.usd is not None}
    assert [(r.bill.at_least_usd, r.done_hours) for r in some.unbeaten] == sorted(figures)
    for row in everything.rows:
        alike = (row.bill.at_least_usd, row.done_hours) in figures
        assert row.unbeaten is (alike and not row.bill.partial and not row.bill.lower_bound)
    best = choose(options, goal)
    certain = [row for row in everything.rows if not (row.bill.partial or row.bill.lower_bound)]
    if best is not None:
        assert best.best.usd is not None
        assert (best.best.usd.point, best.best.hours.point) == (
            certain[0].bill.at_least_usd, certain[0].done_hours,
        )  # fmt: skip


def _certain(hours: Any) -> Any:
    from dataclasses import replace

    return replace(hours, lower_bound=False)


def _with_hours(hours: dict[str, Any]) -> Any:
    from dataclasses import replace

    return replace(JOB, hours=hours)


@pytest.mark.usefixtures("_at_three")
def test_throughput_for_money_time_to_finish_and_stock_stand_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "batch.toml").write_text(
        'name = "batch"\ncompletes = 600\n[hours]\nH100 = 4\nA100 = 12\n'
    )
    header = run("cheapest", "batch.toml", "-o", "wide").lines[2].split()
    assert {"STOCK", "DONE", "PER"} <= set(header)
    rows = {row["offer_id"]: row for row in cheapest_document("batch.toml", "--all")["rows"]}
    slow = rows["slow"]
    assert (slow["work_per_usd"], slow["work_unit"], slow["done_hours"]) == (50, "jobs", 12)
    assert slow["availability"] == "unknown"


@pytest.mark.usefixtures("_at_three")
def test_a_deadline_leaves_out_what_would_be_late() -> None:
    document = cheapest_document("bert-large", "--deadline", "6", "--setup", "1")
    assert {row["offer_id"] for row in document["rows"]} == {"fast", "dear"}
    assert document["excluded"] == {"over the job's deadline": 2}
    assert document["job"]["limits"]["deadline_hours"] == "6"
    assert run("cheapest", "bert-large", "--deadline", "1").code == 3
    assert run("cheapest", "bert-large", "--deadline", "0").code == 2
