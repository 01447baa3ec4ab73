"""Parts of GPUs over time: told apart by their part, never among whole ones, as in live answers."""

# ruff: noqa: S311 - the dice are for worlds, and fall the same way each time

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, filled, polled, run
from tests.support.catalogue import catalogue
from tests.support.estimating import Shipped
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.app.past import slices_named
from tracker.app.questions import answer_on
from tracker.app.root import App
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Offer
from tracker.report.filters import Filters
from tracker.report.history.answer import Question, history_report
from tracker.report.history.steps import step_at
from tracker.store import floor_rebuild, floor_rows
from tracker.store.engine import connect
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
A100_SLICE = Gpu("A100-SLICE", "A100", None, None, is_slice=True)
L4_SLICE = Gpu("L4-SLICE", "L4", None, None, is_slice=True)
SMALL = """
name = "small"
[workload]
kind = "inference"
model = { params = "500M" }
input_tokens = 256
output_tokens = 64
requests = "100k"
"""
# The own ids of the offers of a world, on what they are, and by whom.
OFFERS: Mapping[str, tuple[str, Gpu, str, str | None]] = {
    "whole": ("acme", A100, "1", None),
    "other-whole": ("acme", H100, "1", None),
    "plan 1g.10gb a": ("acme", A100_SLICE, "1", None),
    "plan 1g.10gb b": ("acme", A100_SLICE, "1", None),
    "plan 3g.40gb": ("acme", A100_SLICE, "1", None),
    "plan 7g.80gb": ("acme", A100_SLICE, "1", None),
    "somewhat": ("acme", A100_SLICE, "1", None),
    "quarter": ("acme", L4_SLICE, "0.25", None),
    "half": ("acme", L4_SLICE, "0.5", None),
    "resold 3g.40gb": ("shop", A100_SLICE, "1", "acme"),
    "resold 2g.20gb": ("shop", A100_SLICE, "1", "acme"),
    "resold": ("shop", A100, "1", "acme"),
}  # fmt: skip


def _offer(name: str, price: Decimal) -> Offer:
    source, gpu, count, upstream = OFFERS[name]
    return make_offer(
        name, price, source=source, gpu=gpu, gpu_count=Decimal(count), upstream=upstream
    )


def _world(seed: int) -> Iterator[Poll]:
    """Two days of hourly polls; slices cost anything from a little to more than whole cards."""
    dice = random.Random(seed)
    for hour in range(48):
        moment = START + timedelta(hours=hour, minutes=dice.randrange(50))
        for source in ("acme", "shop"):
            if dice.random() < 0.6:
                names = [name for name, one in OFFERS.items() if one[0] == source]
                offers = [
                    _offer(name, Decimal(dice.randrange(10, 250)) / 100)
                    for name in names
                    if dice.random() < 0.7
                ]
                yield make_poll(0, offers, source=source, started_at=moment, polled_at=moment,
                                every_seconds=3600)  # fmt: skip


def _live(
    connection: Any, app: App, job: Job, filters: Filters, moment: datetime
) -> dict[str, Decimal]:
    options = {
        "as_of": moment, "show_all": True, "top": None, "compare": None, "hours_texts": None,
    }  # fmt: skip
    found: dict[str, Decimal] = {}
    for row in answer_on(connection, app, job, filters, options).rows:
        key = "slice" if row.offer.is_slice else "whole"
        found.setdefault(f"{row.offer.gpu_family} {key}", row.bill.at_least_usd)
    return found


def _past(
    connection: Any, app: App, job: Job, filters: Filters, moments: list[datetime]
) -> list[dict[str, Decimal]]:
    question = Question(job, slices_named(app, filters), START, START + timedelta(hours=50))
    report = history_report(connection, question, catalogue(), question.end)
    told: list[dict[str, Decimal]] = []
    for moment in moments:
        told.append({})
        for family, steps in report.series.items():
            if step := step_at(steps, moment):
                key = "slice" if step.offer.is_slice else "whole"
                told[-1][f"{family} {key}"] = step.usd
    return told


# Of everything; of slices alone, of one or several families; of slices beside whole cards, where
# the whole ones are meant.
ASKED = (
    Filters(), Filters(gpus=("A100",)), Filters(gpus=("A100-SLICE",)),
    Filters(gpus=("A100-SLICE", "L4-SLICE")), Filters(gpus=("L4-SLICE",), providers=("acme",)),
    Filters(gpus=("A100-SLICE", "H100")), Filters(gpus=("A100-SLICE",), providers=("shop",)),
    Filters(gpus=("A100-SLICE",), interconnect="nvlink"),
)  # fmt: skip


def _compare(url: str, seed: int) -> int:
    """History against the answer as of many moments; how many bills of slices were among them."""
    dice, slices = random.Random(seed), 0
    app = App(env={"GPUCOST_DATABASE_URL": url})
    job = job_from_text(SMALL, catalogue(), Shipped())
    with closing(connect(url, autocommit=True)) as connection:
        for filters in ASKED:
            moments = [START + timedelta(seconds=dice.randrange(48 * 3600)) for _ in range(8)]
            told = _past(connection, app, job, filters, moments)
            assert told == [_live(connection, app, job, filters, m) for m in moments], filters
            slices += sum(name.endswith("slice") for one in told for name in one)
    return slices


def test_history_of_slices_is_what_the_answer_was(database_server: TestServer) -> None:
    with filled(database_server, *_world(1)) as url:
        assert _compare(url, 1) > 15
        with connect(url) as connection:
            floor_rebuild.rebuild(connection)
        assert _compare(url, 1) > 15


def test_a_floor_that_does_not_know_the_part_is_noticed(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity_of = floor_rows.identity_of
    monkeypatch.setattr(
        floor_rows, "identity_of", lambda offer: identity_of(offer)._replace(part=None)
    )
    with filled(database_server, *_world(1)) as url, pytest.raises(AssertionError):
        _compare(url, 1)


# --- on the command line ------------------------------------------------------------------------


@pytest.fixture
def _market(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """Whole cards at 1.60 and 4, and slices, which cost twice as much an hour ago."""
    now = [
        make_offer("whole", "1.6", gpu=A100), make_offer("other", "4", gpu=H100),
        make_offer("1g.10gb", "0.2", gpu=A100_SLICE), make_offer("3g.40gb", "0.5", gpu=A100_SLICE),
        make_offer("quarter", "0.01", gpu=L4_SLICE, gpu_count=Decimal("0.25")),
    ]  # fmt: skip
    before = [
        offer if not offer.gpu.is_slice else make_offer(
            offer.listed.source_id, 2 * offer.listed.price.amount, gpu=offer.gpu,
            gpu_count=offer.listed.gpu_count,
        )
        for offer in now
    ]  # fmt: skip
    with filled(database_server, polled("acme", before, 65), polled("acme", now)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        (tmp_path / "small.toml").write_text(SMALL)
        monkeypatch.chdir(tmp_path)
        yield


@pytest.mark.usefixtures("_market")
def test_whole_cards_and_slices_have_histories_of_their_own() -> None:
    whole = run("history", "small.toml", "--since", "2h", "-o", "json").json()
    assert {one["name"] for one in whole["series"]} == {"A100", "H100", "cheapest of all"}
    assert {row["gpu"] for row in whole["rows"] if row.get("gpu")} == {A100.key, H100.key}
    assert whole["excluded"] == {"sold as a slice of a GPU": 3}
    sliced = run("history", "small.toml", "--since", "2h", "--gpu", "A100-SLICE", "-o", "json")
    [one, _] = sliced.json()["series"]
    live = run("cheapest", "small.toml", "--gpu", "A100-SLICE", "-o", "json").json()["rows"][0]
    assert (one["now_usd"], one["min_usd"]) == (live["total_usd"], live["total_usd"])
    assert float(one["max_usd"]) == pytest.approx(2 * float(one["min_usd"]), rel=1e-4)
    assert "now it is" in sliced.json()["answer"]


@pytest.mark.usefixtures("_market")
def test_compare_takes_a_slice_only_where_it_is_named() -> None:
    def shares(*names: str) -> tuple[set[str], set[str]]:
        found = run("compare", *names, "small.toml", "--since", "2h", "-o", "json").json()[
            "history"
        ]
        return tuple({step[f"{side}_gpu"] for step in found["steps"]} for side in ("left", "right"))  # type: ignore[return-value]

    assert shares("H100", "A100") == ({H100.key}, {A100.key})
    assert shares("A100-SLICE", "A100") == ({"A100-SLICE"}, {A100.key})


@pytest.mark.usefixtures("_market")
@pytest.mark.parametrize("more", [(), ("--gpu", "A100"), ("--gpu", "A100-SLICE")])
def test_the_answer_as_of_now_has_the_slices_of_the_live_one(more: tuple[str, ...]) -> None:
    moment = datetime.now(UTC) - timedelta(seconds=1)

    def told(*when: str) -> list[Any]:
        document = run("cheapest", "small.toml", *more, *when, "-o", "json").json()
        return [
            [(row["offer_id"], row["total_usd"], row["runtime_hours"]) for row in document[rows]]
            for rows in ("rows", "slices")
        ]

    live = told()
    assert all(live) or more == ("--gpu", "A100-SLICE")
    assert told("--as-of", moment.isoformat()) == live


@pytest.mark.usefixtures("_market")
def test_the_exported_floor_tells_the_parts_apart() -> None:
    lines = run("export", "floor", "-", "-o", "csv", "--gpu", "A100-SLICE").lines
    parts = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert {one["part"] for one in parts} == {"1g.10gb", "3g.40gb"}
    assert {one["upstream"] for one in parts} == {""}
