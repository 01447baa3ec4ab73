"""How old an imported price was at a past moment: since it was seen, or unknown; never 0 unseen."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gpucost
from tests.cli.harness import run
from tests.importing.worlds import catalogue_csv, imported, zipped
from tests.web.api.served import client

FIRST = datetime(2026, 6, 1, tzinfo=UTC)
DAY = 86_400
MAPPING = """
[source]
name = "mine"
price_per = "machine"
currency = "USD"
holds = "8d"
[columns]
observed_at = "at"
seller = "who"
id = "type"
price = "usd"
[constants]
gpu = "H100 80GB"
gpu_count = "8"
market = "on_demand"
"""


def moment(days: float) -> str:
    return f"{FIRST + timedelta(days=days):%Y-%m-%dT%H:%MZ}"


def ages(command: str, days: float, *more: str) -> dict[str, int | None]:
    answer = run(command, *more, "--as-of", moment(days), "-o", "json")
    assert answer.code == 0, answer.err
    found = {}
    for row in answer.json()["rows"]:
        assert (row["seen_at"] is None) == (row["age_seconds"] is None)
        found[row.get("offer_id") or row["native_id"]] = row["age_seconds"]
    return found


@pytest.fixture
def table(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two machines of a table: one seen once, one twice at the same price, six days apart."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    (tmp_path / "m.toml").write_text(MAPPING)
    rows = [(0, "once", 50), (0, "twice", 60), (6, "twice", 60)]
    lines = [f"{moment(day)},aws,{name},{usd}" for day, name, usd in rows]
    (tmp_path / "t.csv").write_text("\n".join(["at,who,type,usd", *lines]) + "\n")
    imported(database_url, "csv", tmp_path / "t.csv", mapping=tmp_path / "m.toml")
    return database_url


def test_a_table_s_price_is_as_old_as_its_observation_or_of_unknown_age(table: str) -> None:
    for command in (("offers",), ("cheapest", "--hours", "H100=4", "--gpus", "8")):
        assert ages(command[0], 0, *command[1:]) == {"once": 0, "twice": 0}
        assert ages(command[0], 5, *command[1:]) == {"once": 5 * DAY, "twice": 5 * DAY}
        # It was seen again since, and the table's history does not keep when.
        assert ages(command[0], 10, *command[1:]) == {"twice": None}


def test_an_unknown_age_is_no_0_in_any_form(table: str, tmp_path: Path) -> None:
    asked = ("--as-of", moment(10))
    [row] = csv.DictReader(io.StringIO(run("offers", *asked, "-o", "csv").out))
    assert (row["age_seconds"], row["seen_at"]) == ("", "")
    [line] = run("cheapest", "--hours", "H100=4", "--gpus", "8", *asked, "-o", "ndjson").lines
    assert json.loads(line)["age_seconds"] is None
    for command in (("offers",), ("cheapest", "--hours", "H100=4", "--gpus", "8")):
        [line] = [ln for ln in run(*command, *asked).lines if "aws" in ln and "on-demand" in ln]
        assert re.search(r" — +list +[0-9a-f]+$", line), line
    [group] = run("offers", "--group-by", "provider", *asked, "-o", "json").json()["rows"]
    assert group["age_seconds"] is None
    with client(table, tmp_path) as asking:
        for path in ("offers?sort=age&", "cheapest?hours=H100=4&gpus=8&"):
            answer: dict[str, Any] = asking.get(f"/api/v1/{path}as_of={moment(10)}")
            [told] = answer["rows"]
            assert (told["age_seconds"], told["seen_at"]) == (None, None)


def test_python_has_none_for_an_unknown_age(table: str) -> None:
    prices = gpucost.open()
    [way] = prices.cheapest(hours={"H100": 4}, gpus=8, as_of=FIRST + timedelta(days=10)).ways
    assert (way.seen_at, way.age) == (None, None)


def test_a_listing_confirms_all_that_is_in_it(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    same = "p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}"
    for day in (1, 2, 4):
        folder = tmp_path / f"v2/202606{day:02}"
        folder.mkdir(parents=True)
        (folder / "catalog.zip").write_bytes(zipped(aws=catalogue_csv(same)))
    imported(database_url, "gpuhunt", tmp_path)
    seen = {days: ages("offers", days)["p5.48xlarge"] for days in (0.75, 1.5, 2.5, 3.5, 5)}
    assert seen == {
        0.75: 0.75 * DAY, 1.5: 0.5 * DAY, 2.5: 1.5 * DAY, 3.5: 0.5 * DAY, 5: 2 * DAY,
    }  # fmt: skip
