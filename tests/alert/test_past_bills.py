"""Bills of the past as lines in the price are those that ``job_costing`` makes in full."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alert.world import World, find_job, offer, rule
from tests.support.catalogue import catalogue
from tests.support.estimating import Shipped
from tests.support.offers import at
from tracker import data
from tracker.alert import past, sides
from tracker.alert.evaluate import Evaluation
from tracker.alert.past_bills import PastBills
from tracker.alert.sides import Ask, Side
from tracker.alert.snapshot import Snapshot
from tracker.domain.job import Job, RuntimeHours
from tracker.domain.job_limits import Limits
from tracker.domain.job_spot import OnSpot
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Discount, Terms
from tracker.report.costing import End
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters
from tracker.store.engine import read_connection
from tracker.store.past_offers import _OPEN
from tracker.store.reads import StoredOffer

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLAIN = Job(
    "j", {"A100": RuntimeHours(Decimal(12)), "H100": RuntimeHours(Decimal("3.7")),
          "RTX4090": RuntimeHours(Decimal(48), lower_bound=True)},
    egress_gb=Decimal(7), disk_gb=Decimal(200), setup_hours=Decimal("0.3"),
)  # fmt: skip
JOBS = (
    PLAIN,
    replace(PLAIN, spot=OnSpot(Decimal("0.05"), Decimal("0.5"), Decimal("0.01"), Decimal("0.1"))),
    replace(PLAIN, gpus_needed=3, egress_gb=Decimal(0), disk_gb=Decimal(0)),
    replace(PLAIN, limits=Limits(budget_usd=Decimal(1), deadline_hours=Decimal(5),
                                 markets=("any",), regions=("eu-*",))),
    *(job_from_text(data.text(f"jobs/{name}.toml"), catalogue(), Shipped())
      for name in ("bert-large", "llama-3.1-8b-qlora", "llama-3.1-70b-inference")),
)  # fmt: skip
BOOKS = (
    DiscountBook(),
    DiscountBook.at([
        Discount("p1", Decimal("33.3"), date(2026, 1, 1), NOW + timedelta(days=9)),
        Discount("p2", Decimal("7.77777"), date(2026, 1, 1), NOW + timedelta(days=9), gpu="H100"),
    ], NOW),
)  # fmt: skip
GPUS = ["A100-SXM-80GB", "A100-80GB", "H100-PCIE-80GB", "H100-SXM-80GB", "RTX4090-24GB"]
FILTERS = (
    Filters(), Filters(markets=("any",), tiers=("any",)), Filters(min_gpus=2, markets=("any",)),
    Filters(regions=("us-*",), markets=("spot", "on_demand")), Filters(dedicated=True),
)  # fmt: skip
WORLDS = st.lists(
    st.fixed_dictionaries({
        "gpu_key": st.sampled_from(GPUS),
        "gpu_count": st.sampled_from([Decimal(1), Decimal(1), Decimal(8), Decimal("0.5")]),
        # Few and small prices: of equal bills something else must decide.
        "price_micro_usd": st.integers(1, 3) | st.integers(10**6, 10**6 + 3),
        "provider": st.sampled_from(["p1", "p2", "p3", "p4"]),
        "upstream": st.sampled_from([None, None, None, "p1"]),
        "region": st.sampled_from([None, "eu-1", "us-1"]),
        "tier": st.sampled_from(["standard", "community"]),
        "default_tiers": st.sampled_from([(), ("standard",)]),
        "dedicated": st.sampled_from([None, True, False]),
        "market": st.sampled_from(["on_demand", "on_demand", "spot", "reserved", "monthly"]),
        "commitment_hours": st.sampled_from([None, None, 20, 730]),
        "commitment_unknown": st.sampled_from([False] * 5 + [True]),
        "minimum_seconds": st.sampled_from([None, None, 50_000]),
        "billing_increment_seconds": st.sampled_from([None, None, 1, 3600]),
        "disk_included_gb": st.sampled_from([None, Decimal(100)]),
        "disk_usd_per_gb_hour": st.sampled_from([None, Decimal("0.0001")]),
        "egress_usd_per_gb": st.sampled_from([Decimal(0), Decimal(0), None, Decimal("0.09")]),
        "month": st.sampled_from([None, None, None, Decimal("499.99"), Decimal("500.01")]),
        "told": st.sampled_from(["", "", "", "pricebook"]),
    }), max_size=12,
)  # fmt: skip


def stored(number: int, *, month: Decimal | None, told: str, **facts: Any) -> StoredOffer:
    gpu = catalogue().gpu(facts["gpu_key"])
    assert gpu is not None
    if month is not None:
        facts |= {"price_unit": "machine_month", "price_native": month}
    return StoredOffer(**(_OPEN | {
        "offer_id": number, "key": number.to_bytes(16), "native_id": str(number),
        "gpu_family": gpu.family, "form_factor": gpu.form_factor, "vram_gb": gpu.vram_gb,
        "is_slice": gpu.is_slice, "price_unit": "machine_hour", "currency": "USD",
        "price_kind": "fixed", "marketplace": False, "source": told or facts["provider"],
    } | facts))  # fmt: skip


Costed = tuple[list[Ask], dict[str, int]]


def costed(cost: sides.Costing, offers: Sequence[StoredOffer], filters: Filters) -> Costed:
    asks, excluded = cost(offers, filters._replace(include_stale=True))
    return [ask._replace(row=None) for ask in asks], {k: n for k, n in excluded.items() if n}


@settings(deadline=None, max_examples=60)
@given(
    world=WORLDS, later=st.lists(st.integers(1, 3), min_size=12, max_size=12),
    job=st.sampled_from(JOBS), book=st.sampled_from(BOOKS),
    end=st.sampled_from([None, "low", "high"]), filters=st.sampled_from(FILTERS),
)  # fmt: skip
def test_lines_are_the_bills(
    world: list[dict[str, Any]], later: list[int], job: Job, book: DiscountBook, end: End | None,
    filters: Filters,
) -> None:  # fmt: skip
    bills = PastBills(catalogue(), book)
    lined = Snapshot((), (), {}, book, catalogue(), costing=bills.costing)
    whole = replace(lined, costing=None)
    offers = [stored(n, **facts) for n, facts in enumerate(world)]
    # The prices move: what was found of an offer before holds, but for its price.
    moved = [o._replace(price_micro_usd=o.price_micro_usd * n)
             for o, n in zip(offers, later, strict=False)]  # fmt: skip
    for known in (offers, moved[::2], offers[::-1]):
        found = costed(sides.job_costing(job, lined, NOW, end), known, filters)
        assert found == costed(sides.job_costing(job, whole, NOW, end), known, filters)


def test_of_equal_bills_the_certain_one_goes_first() -> None:
    two = Decimal(2)
    job = Job("k", {"A100": RuntimeHours(two), "H100": RuntimeHours(two, lower_bound=True)})
    offers = [
        stored(
            n, month=None, told="", gpu_key=f"{gpu}-SXM-80GB", gpu_count=Decimal(1),
            tier="standard", market="on_demand", provider=provider, price_micro_usd=10**6,
            commitment_unknown=False,
        )
        for n, (gpu, provider) in enumerate([("H100", "p1"), ("A100", "p3"), ("A100", "p2")])
    ]  # fmt: skip
    asks, _ = PastBills(catalogue(), BOOKS[0]).costing(job, None)(offers, Filters())
    assert [ask.offer.offer_id for ask in asks] == [2, 1, 0]
    assert [ask.lower_bound for ask in asks] == [False, False, True]


def plain(one: Evaluation) -> Evaluation:
    """Without the rows, which lines do not make."""

    def side(of: Side) -> Side:
        return replace(of, best=of.best and of.best._replace(row=None))

    return replace(
        one, left=one.left and side(one.left), right=one.right and side(one.right),
        labels={name: side(of) for name, of in one.labels.items()},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_a_rule_finds_the_same_as_with_whole_bills(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules = [
        replace(rule(when), job=job)
        for job in (find_job("bert-large"), JOBS[0], JOBS[-2])
        for when in ("cost(H100) < cost(A100)", "cost(H100) < 9", "cheapest(H100, A100) changes")
    ] + [rule("cost(H100) drops 5% in 1d"), rule(confidence="conservative")]
    for turn in range(12):
        for source in ("acme", "bazaar"):
            names = [n for n in ("h1/1", "h2/1", "h3/1", "a1/1", "a2/1", "p1/1", "r1/1")
                     if rng.random() < 0.7]  # fmt: skip
            world.poll(240 * turn, [
                offer(name, str(rng.choice([1, 2, 3]) * (3 if name[0] == "h" else 1)), source,
                      terms=Terms(minimum_seconds=30_000 if name == "h2/1" else None))
                for name in names
            ], source, marketplace=source == "bazaar", every_seconds=240 * 60)  # fmt: skip

    def found(wanted: Any) -> list[Evaluation]:
        with read_connection(world.url) as connection:
            seen = past.look_back(
                connection, wanted, catalogue(), start=at(-1), end=at(240 * 12), now=at(240 * 12)
            )
        return [plain(one) for one in seen.found]

    lined = [found(wanted) for wanted in rules]
    monkeypatch.setattr(PastBills, "costing", None)
    assert [found(wanted) for wanted in rules] == lined
    values = {one.sample.value or one.sample.label for some in lined for one in some}
    assert len(values) > 8
