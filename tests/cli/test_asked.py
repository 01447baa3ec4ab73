"""What a question reads, against reading all offers and leaving out the same ones by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.harness import A100, H100, polled, record, run
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tracker.app.asked import positive
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Availability, Extras, Market, Offer
from tracker.report.asked import ask
from tracker.report.filters import Filters, select
from tracker.store import reads
from tracker.store.engine import read_connection
from tracker.store.polls import Poll

SLICE = Gpu("A100-SLICE", "A100", None, None, is_slice=True)
TIERS = ("verified", "unverified", "standard")


def polls() -> list[Poll]:
    """A cloud, a marketplace, a price book that speaks for both and for one never polled."""
    dice = random.Random(7)  # noqa: S311 - the same market every time
    return [
        polled("cloud", _offers(dice, "cloud", ["cloud"])),
        polled("hub", _offers(dice, "hub", ["hub"]), marketplace=True, default_tiers=("verified",)),
        polled("pricebook", _offers(dice, "pricebook", ["cloud", "hub", "lambda"]),
               default_tiers=("standard",)),
    ]  # fmt: skip


def _offers(dice: random.Random, source: str, sellers: list[str]) -> Iterable[Offer]:
    for number in range(60):
        yield make_offer(
            str(number), Decimal(dice.randint(1, 9)), source=source, seller=dice.choice(sellers),
            gpu=dice.choice([H100, H100, A100, SLICE]), market=dice.choice(list(Market)),
            tier=dice.choice(TIERS), region=dice.choice([None, "us-1"]),
            extras=Extras(
                availability=dice.choice(list(Availability)), fallback=source == "pricebook"
            ),
        )  # fmt: skip


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    record(database_url, *polls())
    with read_connection(database_url) as opened:
        yield opened


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


all_filters = st.builds(
    Filters,
    gpus=some("H100", "A100", "A100-SLICE"),
    providers=some("cloud", "hub", "lambda", "nobody"),
    regions=some("us-*"),
    countries=st.just(()),
    markets=some(*Market) | st.just(("any",)),
    tiers=some(*TIERS) | st.just(("any",)),
    min_vram_gb=st.none() | st.just(Decimal(80)),
    min_gpus=st.none(),
    min_ram_gib=st.none(),
    min_vcpus=st.none(),
    min_disk_gb=st.none(),
    min_network_mbps=st.none(),
    interconnect=st.none(),
    kinds=some("slice", "gpu", "machine"),
    dedicated=st.booleans(),
    ecc=st.just(False),
    available=st.booleans(),
    max_age=st.none(),
    include_stale=st.booleans(),
    include_slices=st.booleans(),
)


# The connection only reads: examples cannot disturb one another.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters=all_filters)
def test_the_same_is_left_for_the_same_reasons(
    connection: psycopg.Connection[Any], filters: Filters
) -> None:
    offers = reads.live_offers(connection)
    now = max(offer.seen_at for offer in offers)
    typed = {offer.provider for offer in offers if offer.fallback}
    shelves = reads.live_shelves(connection, sellers=typed, now=now)
    everything = select(offers, filters, catalogue(), now, shelves=shelves)

    keys = _keys(filters)
    asked = ask(connection, filters, keys, now)
    found = select(
        asked.offers, filters, catalogue(), now,
        total_offers=asked.total, left_out=asked.left_out, shelves=asked.shelves,
    )  # fmt: skip
    assert sorted(found.kept) == sorted(everything.kept)
    assert +found.excluded == +everything.excluded
    assert asked.total == len(offers) == len(found.kept) + found.excluded.total()
    _read_little(asked.offers, filters)


def _keys(filters: Filters) -> frozenset[str] | None:
    if not filters.gpus:
        return None
    return frozenset().union(*(catalogue().select(name) for name in filters.gpus))


def _read_little(offers: list[reads.StoredOffer], filters: Filters) -> None:
    """None was read that its market or its seller leaves out."""
    markets = {offer.market for offer in offers}
    assert not filters.markets or "any" in filters.markets or markets <= set(filters.markets)
    assert not filters.providers or {o.provider for o in offers} <= set(filters.providers)


def test_kinds_count_all_offers(connection: psycopg.Connection[Any]) -> None:
    offers = reads.live_offers(connection)
    counted = Counter(
        reads.Kind(o.is_slice, o.market, o.tier, o.provider, o.source, o.default_tiers)
        for o in offers
    )
    kinds = reads.live_kinds(connection)
    assert kinds == counted
    some_kinds = list(kinds)[::3]
    read = reads.live_offers(connection, kinds=some_kinds)
    assert len(read) == sum(kinds[kind] for kind in some_kinds)
    assert reads.live_offers(connection, kinds=[]) == []


def test_a_past_question_reads_all(connection: psycopg.Connection[Any]) -> None:
    past: datetime = max(offer.seen_at for offer in reads.live_offers(connection))
    asked = ask(connection, Filters(markets=("spot",)), None, past, past)
    assert asked.left_out == {}
    assert len(asked.offers) == asked.total


@pytest.mark.parametrize(
    ("typed", "unit", "number"),
    [
        ("80", "GB", "80"), ("80GB", "GB", "80"), ("0.5 TB", "GB", "500"), ("1tb", "GB", "1000"),
        ("64GiB", "GiB", "64"), ("1TiB", "GiB", "1024"), ("10Gbit", "Mbit/s", "10000"),
        ("36", "hours", "36"), ("36h", "hours", "36"), ("1.5d", "hours", "36"),
        ("1e3", "GB", "1000"),
    ],
)  # fmt: skip
def test_a_number_may_have_its_unit(typed: str, unit: str, number: str) -> None:
    assert positive(typed, unit=unit) == Decimal(number)


@pytest.mark.parametrize(
    ("typed", "unit"),
    [("80GiB", "GB"), ("64GB", "GiB"), ("90m", "hours"), ("12h", ""), ("GB", "GB"),
     ("12hh", "hours"), ("1.2.3GB", "GB"), ("-5GB", "GB"), ("nanGB", "GB"), ("1e999999999TB", "GB"),
     ("٣GB", "GB")],
)  # fmt: skip
def test_another_unit_is_no_number_of_it(typed: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number|must be above 0"):
        positive(typed, unit=unit)


def test_a_deadline_is_the_same_in_every_command(database_url: str, monkeypatch: Any) -> None:
    """``when`` took "12h" and nothing else, ``cheapest`` 12 and nothing else."""
    record(database_url, polled("hub", [make_offer("h", "3", gpu=H100, source="hub")]))
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    asked = ("cheapest", "--hours", "H100=30h", "-o", "json", "--disk", "1TB", "--deadline")
    for deadline, code in (("30", 0), ("30h", 0), ("1.25d", 0), ("1d", 3)):
        answer = run(*asked, deadline)
        assert answer.code == code, answer.err
    assert run(*asked, "30h").json()["rows"][0]["runtime_hours"] == 30
