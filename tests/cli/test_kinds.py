"""What kind of thing is rented, and which prices are list prices, in tables and JSON."""

from __future__ import annotations

import pytest

from tests.cli.harness import by_id, polled, record, run
from tests.support.offers import make_offer
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
