"""``gpucost offers --group-by``: what is to be had of a GPU, where, and between which prices."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.harness import A100, H100, RTX4090, filled, polled, run
from tests.cli.test_ranking_oracle import stored
from tests.docs.pages import ROOT
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.cli.completing import GROUPS
from tracker.domain.offer import Availability, Extras, Market, Offer
from tracker.report.grouped import FIELDS, fields_of, grouped
from tracker.web.figures import gpu_prices

YES, NO = Extras(availability=Availability.YES), Extras(availability=Availability.NO)


def _h100(name: str, price: str, region: str | None, **fields: Any) -> Offer:
    return make_offer(name, price, gpu=H100, region=region, **fields)


def _market() -> list[Offer]:
    return [
        _h100("a1", "3", "east", extras=YES, country="US"),
        _h100("a2", "4", "east"),
        _h100("a8", "16", "east", gpu_count=Decimal(8), extras=YES),  # 2 a GPU
        _h100("a3", "1", "east", extras=NO),
        _h100("b1", "5", "west", extras=NO, country="US"),  # nothing to be had there
        _h100("c1", "2.5", None),
        _h100("bid", "1", "east", market=Market.SPOT),
        make_offer("cheap", "0.9", gpu=A100, region="east", extras=YES),
        make_offer("game", "0.5", gpu=RTX4090, region="east", tier="other"),
    ]


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    with filled(
        database_server,
        polled("acme", _market()),
        polled("hub", [make_offer("far", "2", source="hub", gpu=H100, region="east")]),
        polled("late", [make_offer("old", "0.1", source="late", gpu=H100)], 600),
    ) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _ask(*argv: str) -> dict[str, Any]:
    answer = run("offers", *argv, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_what_is_to_be_had_of_a_gpu_in_each_place() -> None:
    document = _ask("--group-by", "provider,region", "--gpu", "H100")
    assert document["group_by"] == ["gpu", "market", "provider", "region"]
    rows = {(row["provider"], row["region"]): row for row in document["rows"]}
    stock = {
        place: tuple(row[name] for name in ("offers", "in_stock", "stock_not_stated", "sold_out"))
        for place, row in rows.items()
    }
    assert stock == {
        ("acme", "east"): (3, 2, 1, 1), ("acme", "west"): (0, 0, 0, 1),
        ("acme", None): (1, 0, 1, 0), ("hub", "east"): (1, 0, 1, 0),
    }  # fmt: skip
    # What is sold out has no part in any price, and its place comes last.
    assert document["rows"][-1] == {
        "gpu": "H100-SXM-80GB", "market": "on_demand", "provider": "acme", "region": "west",
        "offers": 0, "providers": 0, "min_usd_per_gpu_hour": None, "p10_usd_per_gpu_hour": None,
        "median_usd_per_gpu_hour": None, "max_usd_per_gpu_hour": None, "in_stock": 0,
        "stock_not_stated": 0, "sold_out": 1, "stale": 0, "cheapest_offer": None,
        "age_seconds": None,
    }  # fmt: skip
    east = rows["acme", "east"]
    prices = [east[f"{name}_usd_per_gpu_hour"] for name in ("min", "p10", "median", "max")]
    assert prices == ["2", "2", "3", "4"]
    explained = run("explain", east["cheapest_offer"])
    assert "a8" in explained.out
    # The footer counts as it does without groups: nothing is hidden without a word.
    assert document["excluded"] == _ask("--gpu", "H100")["excluded"]
    assert document["excluded"]["stale"] == 1
    assert document["offers_matching"] == sum(row["offers"] for row in document["rows"])


def test_groups_are_always_of_one_gpu_and_one_market() -> None:
    rows = _ask("--group-by", "country", "--market", "any", "--tier", "any")["rows"]
    assert [(r["gpu"], r["market"], r["country"], r["min_usd_per_gpu_hour"]) for r in rows] == [
        ("RTX4090-24GB", "on_demand", None, "0.5"), ("A100-SXM-80GB", "on_demand", None, "0.9"),
        ("H100-SXM-80GB", "spot", None, "1"), ("H100-SXM-80GB", "on_demand", None, "2"),
        ("H100-SXM-80GB", "on_demand", "US", "3"),
    ]  # fmt: skip


def test_what_is_stale_has_no_part_in_a_price_unless_asked_for() -> None:
    [fresh] = _ask("--group-by", "gpu", "--gpu", "H100")["rows"]
    assert (fresh["min_usd_per_gpu_hour"], fresh["stale"]) == ("2", 0)
    [every] = _ask("--group-by", "gpu", "--gpu", "H100", "--include-stale")["rows"]
    assert (every["min_usd_per_gpu_hour"], every["stale"]) == ("0.1", 1)
    assert "10 h, 1 stale" in run("offers", "--group-by", "gpu", "--include-stale").out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--group-by", "region"], "region goes with provider only"),
        (["--group-by", "region,tier"], "region goes with provider only"),
        (["--group-by", "regoin,provider"], "did you mean region?"),
        (["--group-by", "price"], "'price' is not a field to group by"),
        (["--group-by", ","], "is empty"),
        (["--group-by", "tier", "--quarantined"], "--quarantined goes with"),
    ],
)
def test_a_group_that_means_nothing_is_refused(given: list[str], problem: str) -> None:
    answer = run("offers", *given)
    assert answer.code == 2
    assert problem in answer.complaint


def test_the_fields_are_offered_while_they_are_typed_and_are_on_the_page() -> None:
    assert GROUPS == FIELDS
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `--group-by`")]
    assert all(f"`{field}`" in row for field in FIELDS)


def test_the_past_knows_of_no_stock() -> None:
    [row] = _ask("--group-by", "gpu", "--gpu", "A100", "--as-of", _a_minute_ago())["rows"]
    assert (row["min_usd_per_gpu_hour"], row["offers"]) == ("0.9", 1)
    assert [row[name] for name in ("in_stock", "stock_not_stated", "sold_out")] == [None] * 3


def _a_minute_ago() -> str:
    from tests.cli.harness import ago

    return ago(1).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_people_see_the_same_and_how_many_more_there_are() -> None:
    asked = ("--group-by", "region", "--group-by", "provider", "--gpu", "H100")
    lines = run("offers", *asked, "--top", "1").lines
    assert lines[0].split("  ")[0] == "GPU"
    assert lines[1].split()[:9] == [
        "H100-SXM-80GB", "on-demand", "acme", "east", "3", "$2.0000", "$2.0000", "$3.0000",
        "$4.0000",
    ]  # fmt: skip
    assert "3 more; --all shows them" in lines
    assert lines[-1].startswith("5 of 11 offers; left out: ")
    table = list(csv.DictReader(io.StringIO(run("offers", *asked, "-o", "csv").out)))
    rows = _ask(*asked)["rows"]
    assert [row["min_usd_per_gpu_hour"] or None for row in table] == [
        row["min_usd_per_gpu_hour"] for row in rows
    ]
    assert list(table[0]) == list(rows[0])


def test_nothing_to_be_had_is_no_match_though_its_places_are_shown() -> None:
    answer = run("offers", "--group-by", "provider,region", "--gpu", "H100", "--region", "west")
    assert (answer.code, answer.complaint) == (3, "no offer matches")
    assert "west" in answer.out


worlds = st.lists(
    st.fixed_dictionaries({
        "gpu_key": st.sampled_from([H100.key, A100.key]),
        "gpu_count": st.sampled_from([Decimal(1), Decimal(2), Decimal(8)]),
        "price_micro_usd": st.integers(1, 40).map(lambda n: n * 10**5),
        "provider": st.sampled_from(["p1", "p2"]),
        "region": st.sampled_from([None, "east", "west"]),
        "market": st.sampled_from(["on_demand", "spot"]),
        "availability": st.sampled_from(["yes", "no", "unknown"]),
    }), max_size=25,
)  # fmt: skip


@given(worlds, st.sets(st.sampled_from(FIELDS)))
def test_every_offer_is_in_one_group_whose_figures_are_those_of_sorting(
    world: list[dict[str, Any]], names: set[str]
) -> None:
    offers = [stored(n, **facts) for n, facts in enumerate(world)]
    kept = [o for o in offers if o.availability != "no"]
    gone = [o for o in offers if o.availability == "no"]
    if "region" in names:
        names |= {"provider"}
    found = grouped(kept, gone, fields_of(names))
    assert sorted(o.key for g in found.groups for o in g.offers) == sorted(o.key for o in kept)
    assert sum(g.sold_out or 0 for g in found.groups) == len(gone)
    for group in found.groups:
        usd = [Fraction(o.price_micro_usd) / Fraction(o.gpu_count) for o in group.offers]
        assert usd == sorted(usd)
        assert len({(o.gpu_key, o.market) for o in group.offers}) <= 1
        row = dict(zip(found.fields, group.key, strict=True))
        for o in group.offers:
            alike = {"gpu": o.gpu_key, "market": o.market, "provider": o.provider,
                     "region": o.region}  # fmt: skip
            assert {name: row[name] for name in row if name in alike} == {
                name: value for name, value in alike.items() if name in row
            }
    lowest = [float(Fraction(g.offers[0].price_micro_usd) / Fraction(g.offers[0].gpu_count))
              for g in found.groups if g.offers]  # fmt: skip
    assert lowest == sorted(lowest)
    assert grouped(kept[::-1], gone[::-1], found.fields) == found


@given(worlds)
def test_the_figures_are_those_of_the_metrics(world: list[dict[str, Any]]) -> None:
    """One named statistic everywhere: here, and in ``/metrics``."""
    offers = [stored(n, **facts) for n, facts in enumerate(world)]
    now = offers[0].seen_at if offers else None
    rows = grouped(offers, [], fields_of(())).rows(now) if now else []
    told = {(p.gpu, p.market): (p.minimum, p.p10, p.median) for p in gpu_prices(offers)}
    assert {(row["gpu"], row["market"]) for row in rows} == told.keys()
    for row in rows:
        for name, value in zip(("min", "p10", "median"), told[row["gpu"], row["market"]],
                               strict=True):  # fmt: skip
            assert abs(Decimal(row[f"{name}_usd_per_gpu_hour"]) - value) <= Decimal("0.0000005")
