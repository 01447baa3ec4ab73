"""Answers of racks that are kept, against those that look at every offer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.test_ranking_oracle import DISCOUNTS, GPUS, JOB, NOW, stored
from tests.support.catalogue import catalogue
from tracker.app import App
from tracker.app.jobs import find_job
from tracker.domain.job import Job
from tracker.domain.job_download import Downloads
from tracker.domain.job_spot import OnSpot
from tracker.domain.pareto import Goal
from tracker.domain.set_up_time import Download
from tracker.report.cheapest import CheapestReport, cheapest_report
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters
from tracker.report.prepared import Prepared
from tracker.report.runs import KnownWays
from tracker.report.stock import OfSource, Stock
from tracker.store.reads import StoredOffer

MACHINES = st.fixed_dictionaries({
    "gpu_key": st.sampled_from([*GPUS, "RTX4090-24GB"]),
    "gpu_count": st.sampled_from([Decimal(1), Decimal(2), Decimal(8), Decimal("0.5")]),
    # Few and small prices: equal and nearly equal bills are what an order can get wrong.
    "price_micro_usd": st.integers(1, 3) | st.integers(10**6, 10**6 + 3),
    "provider": st.sampled_from(["p1", "p2", "p3"]),
    "market": st.sampled_from(["on_demand", "on_demand", "spot", "monthly"]),
    "commitment_hours": st.sampled_from([None, None, 730]),
    "disk_gb": st.sampled_from([None, Decimal(10), Decimal(500)]),
    "disk_included_gb": st.sampled_from([None, None, Decimal(50), Decimal(200)]),
    "disk_usd_per_gb_hour": st.sampled_from([None, Decimal("0.0001")]),
    "egress_usd_per_gb": st.sampled_from([None, Decimal(0), Decimal("0.09")]),
    "max_duration_hours": st.sampled_from([None, None, Decimal(5), Decimal(9)]),
    "availability": st.sampled_from(["yes", "unknown", "no"]),
    "upstream": st.sampled_from([None, None, None, "p2"]),
    "stale_at": st.sampled_from([NOW, NOW + timedelta(minutes=1), NOW + timedelta(hours=1)]),
    "reliability": st.sampled_from([None, Decimal("0.9"), Decimal("0.9004"), Decimal("0.9012")]),
    "billing_increment_seconds": st.sampled_from([None, 60, 3600]),
    "price_unit": st.sampled_from(["machine_hour", "machine_hour", "machine_month"]),
    "price_native": st.sampled_from([Decimal(100), Decimal("730.01")]),
    "network_down_mbps": st.sampled_from([None, Decimal(100), Decimal(900)]),
    "region": st.sampled_from([None, "us-1", "eu-1"]),
})  # fmt: skip
PLAIN = replace(JOB, disk_gb=Decimal(0), egress_gb=Decimal(0))
SPOT = replace(PLAIN, spot=OnSpot(checkpoint_hours=Decimal("0.5"), restart_hours=Decimal("0.1")))
WORKED_OUT = find_job("llama-3.1-8b-lora", App(env={}))
JOBS: list[Job] = [
    PLAIN, JOB, replace(PLAIN, disk_gb=Decimal(100)), replace(PLAIN, gpus_needed=2), SPOT,
    WORKED_OUT,
    replace(PLAIN, download=Downloads(Download(data_gb=Decimal(300)), None)),
]  # fmt: skip
FILTERS = [
    Filters(), Filters(markets=("any",)), Filters(include_stale=True), Filters(regions=("us-*",)),
    Filters(min_disk_gb=Decimal(50)), Filters(max_age=timedelta(minutes=5)),
    Filters(providers=("p1", "p3"), markets=("any",)), Filters(gpus=("H100",)),
]  # fmt: skip


def _shown(report: CheapestReport) -> Any:
    """What one sees of a report; the order in which reasons were met is not of it."""
    return report._replace(excluded=Counter()), dict(+report.excluded)


def _stock(offers: list[StoredOffer]) -> Stock:
    sources = {o.source for o in offers}
    return Stock({name: OfSource([o for o in offers if o.source == name]) for name in sources})


@given(
    worlds=st.lists(MACHINES, max_size=25), filters=st.sampled_from(FILTERS),
    goal=st.sampled_from(list(Goal)), top=st.integers(1, 4), discounted=st.booleans(),
)  # fmt: skip
@settings(max_examples=25)
def test_racks_answer_as_looking_at_every_offer_does(
    worlds: list[dict[str, Any]], filters: Filters, goal: Goal, top: int, discounted: bool
) -> None:
    offers = [stored(number, **facts) for number, facts in enumerate(worlds)]
    book = DiscountBook.at(DISCOUNTS, NOW) if discounted else DiscountBook()
    keys = frozenset().union(*map(catalogue().select, filters.gpus)) if filters.gpus else None
    kept = Prepared(filters, keys, KnownWays()).at(_stock(offers))
    moments = (NOW, NOW + timedelta(seconds=30), NOW + timedelta(minutes=2))
    for now in moments:  # at the last one some have become stale
        for job in JOBS:
            told = [
                cheapest_report(
                    offers,
                    job,
                    filters,
                    catalogue(),
                    now,
                    top=top,
                    total_offers=len(offers) + 3,
                    shelves=frozenset({("p1", "on_demand")}),
                    discounts=book,
                    goal=goal,
                    compare=("H100", "A100"),
                    pareto=True,
                    prepared=prepared,
                )
                for prepared in (None, kept)
            ]
            assert _shown(told[1]) == _shown(told[0])
