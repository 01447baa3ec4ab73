"""Offers by address: sorted by any column, in groups, page after page; and HEAD of everything."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.cheapest_market import polls
from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.api.served import MANY, Client, client, server
from tracker.app import App
from tracker.app.ordering import GROUP_COLUMNS, OFFER_COLUMNS, in_order
from tracker.domain.offer import Availability, Extras
from tracker.report.grouped import FIELDS
from tracker.web.alone import Alone
from tracker.web.api.guard import Access

ALL = "market=any&tier=any"
# Which key of a row a column is; the others are called as the key is.
_KEYS = {
    "price": "price_usd_per_gpu_hour", "machine": "price_usd_per_machine_hour",
    "memory": "vram_gb", "ram": "ram_gib", "term": "commitment_hours", "age": "age_seconds",
    "stock": "availability",
}  # fmt: skip
_GROUP_KEYS = {
    "price": "min_usd_per_gpu_hour", "p10": "p10_usd_per_gpu_hour",
    "median": "median_usd_per_gpu_hour", "max": "max_usd_per_gpu_hour", "age": "age_seconds",
}  # fmt: skip
_STOCK = ["yes", "unknown", "no"]


def _more() -> Any:
    yes, no = Extras(availability=Availability.YES), Extras(availability=Availability.NO)
    here = {"gpu": H100, "source": "other", "extras": yes}
    return polled("other", [
        make_offer("o1", "3.5", region="east", country="DE", **here),
        make_offer("o2", "9", region="east", country="DE", gpu_count=Decimal(2), **here),
        make_offer("o3", "1.5", region="west", **{**here, "extras": no}),
    ], 20)  # fmt: skip


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, *polls(), _more()) as found:
        yield found


@pytest.fixture(scope="module")
def asking(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with client(url, tmp_path_factory.mktemp("data")) as found:
        yield found


def _value(row: dict[str, Any], key: str) -> Any:
    value = row[key]
    if key == "availability":
        return _STOCK.index(value)
    return Decimal(value) if "usd" in key and value is not None else value


def _are_in_order(values: list[Any], *, down: bool) -> bool:
    known = [value for value in values if value is not None]
    return values == sorted(known, reverse=down) + [None] * (len(values) - len(known))


@pytest.mark.parametrize("column", OFFER_COLUMNS)
def test_offers_are_sorted_by_every_column(asking: Client, column: str) -> None:
    usual = asking.get(f"/api/v1/offers?{ALL}")
    assert "sort" not in usual
    for sort, down in ((column, False), (f"-{column}", True)):
        found = asking.get(f"/api/v1/offers?{ALL}&sort={sort}")
        assert found["sort"] == sort
        values = [_value(row, _KEYS.get(column, column)) for row in found["rows"]]
        assert _are_in_order(values, down=down)
        assert {r["offer"] for r in found["rows"]} == {r["offer"] for r in usual["rows"]}
        assert found["excluded"] == usual["excluded"]


def test_the_usual_order_is_by_price_and_of_equals_it_stays(asking: Client) -> None:
    usual = [row["offer"] for row in asking.get(f"/api/v1/offers?{ALL}")["rows"]]
    by_price = [row["offer"] for row in asking.get(f"/api/v1/offers?{ALL}&sort=price")["rows"]]
    assert by_price == usual
    by_gpu = asking.get(f"/api/v1/offers?{ALL}&sort=-gpu")["rows"]
    for gpu in {row["gpu"] for row in by_gpu}:
        places = [usual.index(row["offer"]) for row in by_gpu if row["gpu"] == gpu]
        assert places == sorted(places)


@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=12), st.booleans())
def test_what_is_not_known_comes_last_and_what_is_alike_stays(
    values: list[int | None], down: bool
) -> None:
    rows = list(enumerate(values))
    found = in_order("-x" if down else "x", {"x": lambda row: row[1]}, rows)
    assert sorted(found) == rows
    assert _are_in_order([value for _, value in found], down=down)
    for value in {*values}:
        places = [place for place, one in found if one == value]
        assert places == sorted(places)


@pytest.mark.parametrize("column", [*FIELDS, *GROUP_COLUMNS])
def test_groups_are_sorted_by_their_fields_and_by_every_figure(asking: Client, column: str) -> None:
    path = f"/api/v1/offers?{ALL}&group_by={','.join(FIELDS)}"
    usual = asking.get(path)
    assert usual["ranked_by"] == "min_usd_per_gpu_hour"
    for sort, down in ((column, False), (f"-{column}", True)):
        found = asking.get(f"{path}&sort={sort}")
        assert (found["sort"], found["ranked_by"]) == (sort, None)
        values = [_value(row, _GROUP_KEYS.get(column, column)) for row in found["rows"]]
        assert len(values) == found["groups"] == usual["groups"]
        assert _are_in_order(values, down=down)


@pytest.mark.parametrize("sort", ["", "&sort=-max"])
def test_the_pages_of_groups_follow_one_another(asking: Client, sort: str) -> None:
    path = f"/api/v1/offers?{ALL}&group_by=provider,region,term{sort}"
    whole = asking.get(path)
    pages: list[dict[str, Any]] = []
    following: str | None = f"{path}&top=2"
    while following:
        page = asking.get(following)
        assert page["groups"] == len(whole["rows"])
        pages += page["rows"]
        following = page["next"]
    assert len(whole["rows"]) > 4
    assert [_without_age(row) for row in pages] == [_without_age(row) for row in whole["rows"]]


def _without_age(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "age_seconds"}


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("gpu=H100&group_by=provider,region", ["--gpu", "H100", "--group-by", "provider,region"]),
        (f"{ALL}&group_by=term", ["--market", "any", "--tier", "any", "--group-by", "term"]),
    ],
)
def test_groups_are_those_of_the_command_line_in_every_format(
    url: str, asking: Client, monkeypatch: pytest.MonkeyPatch, query: str, options: list[str]
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
    told = run("offers", *options, "-o", "json").json()
    found = asking.get(f"/api/v1/offers?{query}")
    assert [_without_age(r) for r in found["rows"]] == [_without_age(r) for r in told["rows"]]
    assert {k: found[k] for k in told if k not in ("rows", "as_of")} == {
        k: told[k] for k in told if k not in ("rows", "as_of")
    }
    table = asking.ask(f"/api/v1/offers.csv?{query}")
    wanted = list(csv.DictReader(io.StringIO(run("offers", *options, "-o", "csv").out)))
    cells = list(csv.DictReader(io.StringIO(table.text)))
    assert list(cells[0]) == list(wanted[0])
    assert [_without_age(row) for row in cells] == [_without_age(row) for row in wanted]
    assert "left out" in table.headers["x-gpucost-left-out"]
    lines = asking.ask(f"/api/v1/offers.ndjson?{query}").text.splitlines()
    assert [_without_age(json.loads(line)) for line in lines] == [
        {"schema_version": 1} | _without_age(row) for row in found["rows"]
    ]


def test_what_is_sold_out_has_no_part_in_a_price(asking: Client) -> None:
    rows = asking.get("/api/v1/offers?provider=other&group_by=provider,region")["rows"]
    assert [
        (r["region"], r["offers"], r["in_stock"], r["sold_out"], r["min_usd_per_gpu_hour"])
        for r in rows
    ] == [("east", 2, 2, 0, "3.5"), ("west", 0, 0, 1, None)]


@pytest.mark.parametrize(
    ("query", "parameter", "says"),
    [
        ("sort=-prise", "sort", "no column 'prise' to sort by; did you mean price?"),
        ("sort=xyz", "sort", "known: gpu, gpus, provider"),
        ("sort=-", "sort", "no column ''"),
        ("sort=median", "sort", "there is no column 'median'"),  # only groups have one
        ("group_by=tier&sort=region", "sort", "there is no column 'region'"),
        ("group_by=tier&sort=medain", "sort", "did you mean median?"),
        ("group_by=regoin,provider", "group_by", "did you mean region?"),
        ("group_by=region", "group_by", "region goes with provider only"),
        ("group_by=", "group_by", "is empty"),
        ("group_by=gpu&top=1001", "top", "at most 1,000 rows"),
        ("groupby=gpu", None, "did you mean group_by?"),
    ],
)
def test_what_makes_no_sense_is_a_problem_that_names_the_nearest(
    asking: Client, query: str, parameter: str | None, says: str
) -> None:
    got = asking.ask(f"/api/v1/offers?{query}")
    assert (got.status_code, got.json()["parameter"]) == (400, parameter)
    assert got.headers["content-type"] == "application/problem+json"
    assert says in got.json()["detail"]


# --- HEAD -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("data")
    env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(folder)}
    with server(Alone(url, App(env=env), env=env).web(Access(), MANY)) as address:
        yield address


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/offers", 200), ("/api/v1/offers.csv?group_by=gpu", 200),
        ("/api/v1/cheapest?job=bert-large", 200), ("/api/v1/jobs/bert-large", 200),
        ("/api/v1/offers?sort=prise", 400), ("/api/v1/jobs/nobody", 404), ("/api/nothing", 404),
        ("/api/openapi.json", 200), ("/api/docs", 200), ("/", 303), ("/?job=bert-large", 200),
        ("/history?job=bert-large", 200), ("/providers", 200), ("/?job=nobody", 400),
        ("/static/page.js", 200), ("/nothing", 404), ("/livez", 200),
    ],
)  # fmt: skip
def test_head_is_answered_as_get_is_without_the_body(served: str, path: str, status: int) -> None:
    whole, head = httpx.get(served + path), httpx.head(served + path)
    assert (head.status_code, whole.status_code, head.content) == (status, status, b"")
    # Ages go on from one second to the next, and what tells of the body goes with them.
    moving = {"date", "etag", "content-length"}
    kept = [
        sorted((name, text) for name, text in got.headers.items() if name not in moving)
        for got in (whole, head)
    ]
    assert kept[0] == kept[1]
    assert head.headers.keys() == whole.headers.keys()


def test_head_has_the_length_and_the_mark_of_the_answer(asking: Client) -> None:
    whole = asking.ask("/api/v1/jobs")
    head = asking.ask("/api/v1/jobs", "HEAD")
    assert head.content == b""
    assert head.headers == whole.headers
    assert int(head.headers["content-length"]) == len(whole.content)
    known = {"if-none-match": head.headers["etag"]}
    assert asking.ask("/api/v1/jobs", "HEAD", headers=known).status_code == 304


def test_other_methods_are_told_which_there_are(url: str, tmp_path: Path) -> None:
    token = "a-token-of-sixteen-letters"
    with client(url, tmp_path, Access(token)) as trusted:
        got = trusted.ask("/api/v1/jobs", "PUT", headers={"authorization": f"Bearer {token}"})
        assert (got.status_code, got.headers["allow"]) == (405, "GET, HEAD")
        ended = trusted.ask("/api/v1/alerts/silences/1", "HEAD")
        assert (ended.status_code, ended.content) == (405, b"")
