"""Every filter: an offer that fits, one that does not, and one whose provider does not say."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import A100, H100, RTX4090, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Availability, Extras, Market

UNKNOWN = Gpu("MYSTERY", "MYSTERY", None, None)


def _extras(**fields: Any) -> Extras:
    return Extras(**fields)


def _market() -> list[Any]:
    fit = make_offer(
        "fit", "24", gpu=H100, gpu_count=Decimal(8), region="us-east-1", country="US",
        ram_gib=Decimal(1024), vcpus=Decimal(128), interconnect="NVLink + InfiniBand",
        dedicated=True,
        extras=_extras(disk_gb=Decimal(4000), network_down_mbps=Decimal(10_000),
                       availability=Availability.YES),
    )  # fmt: skip
    poor = make_offer(
        "poor", "1", gpu=RTX4090, region="eu-west-1", country="DE", ram_gib=Decimal(16),
        vcpus=Decimal(4), interconnect="PCIe", dedicated=False,
        extras=_extras(disk_gb=Decimal(50), network_down_mbps=Decimal(100)),
    )  # fmt: skip
    return [fit, poor, make_offer("silent", "2", gpu=UNKNOWN)]


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, polled("acme", _market())) as url:
        yield url


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize(
    ("option", "unfit", "unsaid"),
    [
        (["--region", "us-*"], "in other regions", "with region not stated"),
        (["--region", "US-EAST-1"], "in other regions", "with region not stated"),
        (["--country", "us,ca"], "in other countries", "with country not stated"),
        (["--min-vram", "80"], "with too little VRAM", "with VRAM not stated"),
        (["--min-ram", "512.5"], "with too little RAM", "with RAM not stated"),
        (["--min-vcpus", "64"], "with too few vCPUs", "with vCPUs not stated"),
        (["--min-disk", "1000"], "with too little disk", "with disk not stated"),
        (
            ["--min-network", "5000"],
            "with too little network speed", "with network speed not stated",
        ),
        (
            ["--interconnect", "nvlink"],
            "with another interconnect", "with interconnect not stated",
        ),
        (["--dedicated"], "on shared machines", "not stated to be dedicated"),
        (["--ecc"], "without ECC", "with ECC not known"),
    ],
)  # fmt: skip
def test_filter_keeps_only_what_is_said_to_fit(option: list[str], unfit: str, unsaid: str) -> None:
    answer = run("offers", *option, "-o", "json")
    assert answer.code == 0
    document = answer.json()
    assert list(by_id(document["rows"])) == ["fit"]
    assert document["excluded"] == {unfit: 1, unsaid: 1}
    assert document["filters"], "the filters are echoed"
    table = run("offers", *option)
    assert table.lines[-1].startswith("1 of 3 offers; left out: ")
    assert f"1 {unfit}" in table.lines[-1]
    assert f"1 {unsaid}" in table.lines[-1]


@pytest.mark.usefixtures("_at_market")
def test_gpus_on_offers_is_the_least_a_machine_must_have() -> None:
    document = run("offers", "--gpus", "2", "-o", "json").json()
    assert list(by_id(document["rows"])) == ["fit"]
    assert document["excluded"] == {"with too few GPUs": 2}


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize("query", ["H100", "h100-sxm", "H100-SXM-80GB", "RTX 3090,H100"])
def test_gpu_by_family_form_key_or_list(query: str) -> None:
    document = run("offers", "--gpu", query, "-o", "json").json()
    assert list(by_id(document["rows"])) == ["fit"]
    assert document["excluded"] == {"of other GPUs": 2}
    assert document["offers_total"] == 3


@pytest.mark.usefixtures("_at_market")
def test_filters_combine_and_each_offer_is_counted_once() -> None:
    document = run("offers", "--min-ram", "8", "--country", "us", "-o", "json").json()
    assert list(by_id(document["rows"])) == ["fit"]
    assert sum(document["excluded"].values()) + len(document["rows"]) == document["offers_total"]


@pytest.mark.usefixtures("_at_market")
def test_filters_are_echoed_as_typed_values() -> None:
    filters = run(
        "offers", "--min-vram", "80", "--min-ram", "0.5", "--gpu", "H100", "--max-age", "2h",
        "--available", "-o", "json",
    ).json()["filters"]  # fmt: skip
    assert filters == {
        "gpus": ["H100"], "min_vram_gb": 80, "min_ram_gib": 0.5, "available": True,
        "max_age_seconds": 7200,
    }  # fmt: skip


@pytest.mark.usefixtures("_at_market")
def test_nothing_matches_is_exit_3_with_the_reasons() -> None:
    answer = run("offers", "--min-vram", "500")
    assert answer.code == 3
    assert answer.complaint == "no offer matches"
    assert answer.lines == [
        "0 of 3 offers; left out: 2 with too little VRAM, 1 with VRAM not stated"
    ]
    assert run("offers", "--min-vram", "500", "-o", "json").json()["rows"] == []


# --- stock, markets, tiers, providers ---------------------------------------------------------


@pytest.fixture(scope="module")
def two_sellers(database_server: TestServer) -> Iterator[str]:
    acme = [
        make_offer(f"stock-{word}", price, extras=_extras(availability=word))
        for word, price in ((Availability.YES, "3"), (Availability.NO, "1"),
                            (Availability.UNKNOWN, "2"))
    ]  # fmt: skip
    acme += [
        make_offer("spot", "1", market=Market.SPOT),
        make_offer("slice", "0.4", gpu=Gpu("A100-SLICE", "A100", None, None, is_slice=True),
                   gpu_count=Decimal("0.5")),
    ]  # fmt: skip
    hub = [
        make_offer("checked", "4", source="hub", tier="verified"),
        make_offer("anyone", "1.5", source="hub", tier="unverified"),
    ]
    with filled(
        database_server,
        polled("acme", acme),
        polled("hub", hub, marketplace=True, default_tiers=("verified",)),
    ) as url:
        yield url


def _ids(*argv: str) -> list[str]:
    return list(by_id(run("offers", *argv, "-o", "json").json()["rows"]))


def test_stock_markets_tiers_providers_and_slices(
    two_sellers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", two_sellers)
    document = run("offers", "-o", "json").json()
    assert list(by_id(document["rows"])) == ["stock-unknown", "stock-yes", "checked"]
    assert document["excluded"] == {
        "not in stock": 1, "on the spot market": 1, "of tier unverified": 1,
        "sold as a slice of a GPU": 1,
    }  # fmt: skip
    available = run("offers", "--available", "-o", "json").json()
    assert list(by_id(available["rows"])) == ["stock-yes"]
    assert available["excluded"]["with stock not stated"] == 2
    assert available["excluded"]["not in stock"] == 1
    assert _ids("--market", "spot") == ["spot"]
    assert _ids("--market", "spot,on-demand", "--provider", "acme") == [
        "spot", "stock-unknown", "stock-yes",
    ]  # fmt: skip
    assert _ids("--market", "any", "--tier", "any", "--provider", "HUB") == ["anyone", "checked"]
    assert _ids("--tier", "unverified") == ["anyone"]
    assert _ids("--provider", "hub", "--provider", "acme", "--tier", "verified") == ["checked"]
    assert _ids("--gpu", "A100-SLICE") == ["slice"]
    assert run("offers", "--gpu", "A100").code == 3


# --- age --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ages(database_server: TestServer) -> Iterator[str]:
    with filled(
        database_server,
        polled("fresh", [make_offer("new", "3", source="fresh")], 5),
        polled("hourly", [make_offer("older", "2", source="hourly")], 90),
        polled("dead", [make_offer("old", "1", source="dead", gpu=A100)], 600),
    ) as url:
        yield url


def test_stale_prices_never_win_unless_asked_for(
    ages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", ages)
    document = run("offers", "-o", "json").json()
    assert list(by_id(document["rows"])) == ["older", "new"]
    assert document["excluded"] == {"stale": 1}
    everything = by_id(run("offers", "--include-stale", "-o", "json").json()["rows"])
    assert list(everything) == ["old", "older", "new"]
    assert [row["stale"] for row in everything.values()] == [True, False, False]
    table = run("offers", "--include-stale").lines
    assert "10 h stale" in table[1]
    assert "stale" not in table[2]
    young = run("offers", "--max-age", "30m", "-o", "json").json()
    assert list(by_id(young["rows"])) == ["new"]
    assert young["excluded"] == {"older than asked for": 2}


def test_only_stale_matches_is_exit_4(ages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", ages)
    for command in (["offers", "--gpu", "A100"], ["cheapest", "--hours", "A100=1"]):
        answer = run(*command)
        assert answer.code == 4
        assert answer.complaint == "only stale prices match; poll again, or --include-stale"
        assert run(*command, "--include-stale").code == 0
    # A stale offer that would not match anyhow is no reason to poll again.
    late = run("cheapest", "--hours", "A100=10", "--deadline", "9")
    assert (late.code, late.complaint) == (3, "no offer matches")
    assert run("offers", "--gpu", "A100", "--min-vram", "200").code == 3
