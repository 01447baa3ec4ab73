"""Files by address hold what the question asks for: its filters, its window, its page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled
from tests.support.pg import TestServer
from tests.web.api.served import Client, client


@pytest.fixture(scope="module")
def asking(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    with (
        filled(database_server, *polls()) as url,
        client(url, tmp_path_factory.mktemp("data")) as found,
    ):
        yield found


def _table(asking: Client, address: str) -> list[dict[str, str]]:
    got = asking.ask(f"/api/v1/{address}")
    assert got.status_code == 200
    assert got.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(got.text)))


@pytest.mark.parametrize(
    ("query", "few"),
    [
        ("gpu=H100&market=any", {"gpu": {"H100-SXM-80GB"}}),
        ("provider=lambda&gpu=H100", {"provider": {"lambda"}}),
        ("min_vram=80&gpu=A100", {"gpu": {"A100-SXM-80GB"}}),
        ("market=spot", {"market": {"spot"}}),
    ],
)
def test_a_file_of_offers_is_filtered_as_the_answer_is(
    asking: Client, query: str, few: dict[str, set[str]]
) -> None:
    rows = asking.get(f"/api/v1/offers?{query}")["rows"]
    everything = asking.get("/api/v1/offers?market=any&tier=any&top=1000")["rows"]
    table = _table(asking, f"offers.csv?{query}")
    assert 0 < len(table) < len(everything)
    assert [row["offer"] for row in table] == [row["offer"] for row in rows]
    for name, values in few.items():
        assert {row[name] for row in table} == values
    # Sorted, and with what one needs of each GPU, for whoever asks with curl alone.
    prices = [float(row["price_usd_per_gpu_hour"]) for row in table]
    assert prices == sorted(prices)
    assert {"gpu", "gpus", "vram_gb", "interconnect"} <= table[0].keys()


def test_a_file_is_of_the_page_asked_for(asking: Client) -> None:
    whole = [row["offer"] for row in _table(asking, "offers.csv?market=any&top=1000")]
    assert [row["offer"] for row in _table(asking, "offers.csv?market=any&top=2&offset=1")] == (
        whole[1:3]
    )


@pytest.mark.parametrize(("since_h", "until_h", "bucket_h"), [(48, 0, 6), (24, 6, 1), (3, 1, 1)])
def test_a_file_of_the_past_is_of_the_window_asked_for(
    asking: Client, since_h: int, until_h: int, bucket_h: int
) -> None:
    now = datetime.now(UTC)
    hour = now.replace(hour=now.hour // bucket_h * bucket_h, minute=0, second=0, microsecond=0)
    since, until = (f"{hour - timedelta(hours=h):%Y-%m-%dT%H:%MZ}" for h in (since_h, until_h))
    query = f"job=bert-large&gpu=H100,A100&since={since}&until={until}&bucket={bucket_h}h"
    document: dict[str, Any] = asking.get(f"/api/v1/history?{query}")
    table = _table(asking, f"history.csv?{query}")
    assert [(row["start"], row["series"], row["usd"] or None) for row in table] == [
        (row["start"], row["series"], row["usd"]) for row in document["rows"]
    ]
    assert {row["series"] for row in table} == {"H100", "A100", "cheapest of all"}
    ends = {row["end"] for row in table}
    assert min(row["start"] for row in table) == since.replace("Z", ":00Z")
    assert max(ends) == until.replace("Z", ":00Z")


def test_the_head_of_a_file_names_its_units(asking: Client) -> None:
    head = _table(asking, "cheapest.csv?job=bert-large")[0].keys()
    for name in ("total_usd", "price_usd_per_gpu_hour", "price_usd_per_machine_hour",
                 "runtime_hours", "billed_hours", "age_seconds"):  # fmt: skip
        assert name in head
    bare = {"price", "cost", "total", "age", "runtime", "vram", "ram", "disk"}
    assert not bare & head
    assert not bare & _table(asking, "offers.csv")[0].keys()
