"""What kind of thing is rented, and which prices are list prices, in tables and JSON."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.harness import by_id, polled, record, run
from tests.support.offers import make_offer
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Availability, Extras


def test_kind_and_list_price_are_told(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    offers = [
        make_offer("one", "2", extras=Extras(availability=Availability.YES)),
        make_offer("two", "4", gpu_count=2, extras=Extras(availability=Availability.UNKNOWN)),
        make_offer("eight", "16", gpu_count=8),
        make_offer("own-metal", "3", dedicated=True),
    ]
    record(database_url, polled("acme", offers))
    rows = by_id(run("offers", "-o", "json").json()["rows"])
    assert {name: (row["kind"], row["list_price"]) for name, row in rows.items()} == {
        "one": ("gpu", False), "two": ("gpus", True), "eight": ("machine", True),
        "own-metal": ("machine", True),
    }  # fmt: skip
    wide = {
        line.split()[-1]: line.split()
        for line in run("offers", "-o", "wide").lines
        if "acme" in line
    }
    assert "list" in wide["two"]
    assert "gpus" in wide["two"]
    assert "yes" in wide["one"]
    assert "list" not in wide["one"]


@pytest.fixture
def kinds(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One H100 offer of every kind, the smaller the cheaper by the GPU-hour."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    part = Gpu("H100-SLICE", "H100", None, None, is_slice=True)
    offers = [
        make_offer("part", "0.3", gpu=part, gpu_count=Decimal("0.25"), slice=True),
        make_offer("one", "2"), make_offer("four", "8.4", gpu_count=4),
        make_offer("eight", "17.6", gpu_count=8, extras=Extras(availability=Availability.YES)),
        make_offer("twenty", "46", gpu_count=20),
    ]  # fmt: skip
    record(database_url, polled("acme", offers))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gpu", {"one"}), ("gpus", {"four"}), ("machine", {"eight"}), ("cluster", {"twenty"}),
        ("slice", {"part"}), ("GPU,Machine", {"one", "eight"}), ("slice,gpu", {"one"}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("kinds")
def test_kind_filters_offers(asked: str, found: set[str]) -> None:
    answer = run("offers", "--kind", asked, "-o", "json").json()
    assert set(by_id(answer["rows"])) == found
    assert answer["filters"]["kinds"] == [word.lower() for word in asked.split(",")]
    assert sum(answer["excluded"].values()) == 5 - len(found)


@pytest.mark.usefixtures("kinds")
def test_cheapest_tells_the_kind_and_filters_by_it() -> None:
    job = ("cheapest", "--hours", "H100=4")
    rows = {row["offer_id"]: row for row in run(*job, "-o", "json").json()["rows"]}
    told = {name: (row["kind"], row["list_price"]) for name, row in rows.items()}
    assert told == {
        "one": ("gpu", True), "four": ("gpus", True), "eight": ("machine", False),
        "twenty": ("cluster", True),
    }  # fmt: skip
    machines = run(*job, "--kind", "machine", "-o", "json").json()
    assert [row["offer_id"] for row in machines["rows"]] == ["eight"]
    assert machines["excluded"]["of other kinds"] == 3
    explained = run(*job, "--explain").out
    assert "kind: gpu (one GPU); a list price: nobody says whether it is to be had" in explained
    assert "kind: machine (a whole machine)\n" in explained


@pytest.mark.usefixtures("kinds")
def test_nothing_of_a_kind_ends_as_no_match_does() -> None:
    result = run("offers", "--kind", "cluster", "--gpu", "A100")
    assert result.code == 3
    assert result.complaint == "no offer matches"


@pytest.mark.parametrize(
    ("word", "hint"), [("machines", "did you mean machine?"), ("clusters", "did you mean cluster?"),
                       ("rack", "known: slice, gpu, gpus, machine, cluster")]
)  # fmt: skip
@pytest.mark.parametrize("command", ["offers", "cheapest bert-large", "history bert-large"])
def test_an_unknown_kind_is_refused_with_the_nearest(command: str, word: str, hint: str) -> None:
    result = run(*command.split(), "--kind", word)
    assert result.code == 2
    assert f"'{word}' is not a kind; {hint}" in result.complaint


def test_an_export_is_of_every_kind(tmp_path: Path) -> None:
    result = run("export", "offers", str(tmp_path / "o.csv"), "-o", "csv", "--kind", "gpu")
    assert result.code == 2
    assert result.complaint == "--kind: an export holds all that was recorded"
