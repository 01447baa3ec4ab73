"""The ranking of the report, which bills few offers, against billing all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tracker.domain.job import Job, RuntimeHours
from tracker.domain.offer import Discount
from tracker.report.cheapest import cheapest_report
from tracker.report.costing import bill_now
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters
from tracker.store.reads import StoredOffer

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JOB = Job(
    "j", {"A100": RuntimeHours(Decimal(12)), "H100": RuntimeHours(Decimal(4), lower_bound=True)},
    egress_gb=Decimal(7),
)  # fmt: skip
# 33.3 % leaves prices with more digits than a price has: bounds must not be rounded above bills.
LIVE = frozenset({("p1", "on_demand")})  # what fallback prices give way to
DISCOUNTS = [
    Discount("p1", Decimal("33.3"), date(2026, 1, 1), NOW + timedelta(days=9)),
    Discount("p2", Decimal("7.77777"), date(2026, 1, 1), NOW + timedelta(days=9), gpu="H100"),
]


def stored(number: int, **facts: Any) -> StoredOffer:
    blank = dict.fromkeys(StoredOffer._fields)
    gpu = catalogue().gpu(facts.pop("gpu_key"))
    assert gpu is not None
    told = {
        "offer_id": number, "key": number.to_bytes(16), "native_id": str(number),
        "gpu_key": gpu.key, "gpu_family": gpu.family, "form_factor": gpu.form_factor,
        "vram_gb": gpu.vram_gb, "is_slice": gpu.is_slice, "market": "on_demand",
        "tier": "standard", "currency": "USD", "commitment_unknown": False, "fallback": False,
        "flags": (), "marketplace": False, "default_tiers": (), "seen_at": NOW,
        "stale_at": NOW + timedelta(hours=1), "availability": "unknown",
    }  # fmt: skip
    # Told by its seller itself unless said otherwise: only such a price is discounted.
    told["source"] = facts["provider"]
    return StoredOffer(**{**blank, **told, **facts})


GPUS = ["A100-SXM-80GB", "A100-80GB", "H100-PCIE-80GB", "H100-NVL-94GB"]
worlds = st.lists(
    st.fixed_dictionaries({
        "gpu_key": st.sampled_from(GPUS),
        "gpu_count": st.sampled_from([Decimal(1), Decimal(1), Decimal(8), Decimal("0.5")]),
        # Few and small prices: equal and nearly equal bills are what a bound can get wrong.
        "price_micro_usd": st.integers(1, 3) | st.integers(10**6, 10**6 + 3),
        "provider": st.sampled_from(["p1", "p2", "p3", "p4"]),
        "fallback": st.sampled_from([False, False, True]),
        "valid_as_of": st.sampled_from([None, None, None, date(2026, 2, 1)]),
        "market": st.sampled_from(["on_demand", "on_demand", "reserved"]),
        "commitment_hours": st.sampled_from([None, None, 20]),
        "billing_increment_seconds": st.sampled_from([None, None, 1, 3600]),
        "egress_usd_per_gb": st.sampled_from([Decimal(0), Decimal(0), None, Decimal("0.09")]),
    }), max_size=25,
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(worlds, st.integers(1, 4), st.sampled_from([Decimal(0), Decimal("0.25")]))
def test_the_first_rows_are_those_of_the_whole_ranking(
    world: list[dict[str, Any]], top: int, setup: Decimal
) -> None:
    offers = [stored(n, **facts) for n, facts in enumerate(world)]
    book = DiscountBook.at(DISCOUNTS, NOW)
    job = replace(JOB, setup_hours=setup)

    def report(top: int | None) -> Any:
        return cheapest_report(
            offers, job, Filters(), catalogue(), NOW, top=top,
            total_offers=len(offers), shelves=LIVE, discounts=book,
            compare=("H100", "A100"),
        )  # fmt: skip

    some, everything = report(top), report(None)
    bills = {
        o.key: found
        for o in offers
        if not (o.fallback and (o.provider, o.market) in LIVE)
        and (found := bill_now(o, job, catalogue(), book)) is not None
    }
    assert {row.offer.key: row.bill for row in everything.rows} == bills
    costs = [(bool(r.bill.partial), r.bill.at_least_usd, r.bill.lower_bound)
             for r in everything.rows]  # fmt: skip
    assert costs == sorted(costs)
    assert some.rows == everything.rows[:top]
    assert some.considered == everything.considered == len(everything.rows)
    assert some.excluded == everything.excluded
    assert some.comparison == everything.comparison
    first: dict[str, Any] = {}
    for row in everything.rows:
        first.setdefault(row.offer.gpu_family, row)
    assert [row.offer for row in some.best_by_gpu] == [row.offer for row in first.values()]
    if some.comparison is not None:
        assert some.comparison.left.bill == first["H100"].bill
        assert some.comparison.right.bill == first["A100"].bill
