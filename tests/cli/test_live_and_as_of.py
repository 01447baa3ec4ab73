"""The live answer, and the answer as of that moment once all prices have changed: alike.

For every built-in job, over a market of all that a bill may be made of: markets, tiers, resellers,
commitments, minimums, disk and egress, currencies, price books, discounts, slices, stale sellers.
What history does not keep (stock, network, reliability) nobody states there.
"""

# ruff: noqa: S311 - the dice are for worlds, and fall the same way each time

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tests.cli.harness import ago, record
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.app.jobs import job_names
from tracker.app.past import slices_named
from tracker.app.questions import answer_on
from tracker.app.root import App
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Discount, Extras, NativePrice, Offer, PriceUnit, Terms
from tracker.domain.terms import Market
from tracker.report.cheapest import CheapestReport, Row
from tracker.report.filters import Filters
from tracker.report.history.answer import Question, history_report
from tracker.report.history.steps import step_at
from tracker.store import floor_rebuild
from tracker.store.engine import connect
from tracker.store.polls import Poll

GPUS = (
    "H100-SXM-80GB", "H100-PCIE-80GB", "H100-80GB", "A100-SXM-80GB", "A100-PCIE-40GB", "A100-80GB",
    "RTX4090-24GB", "L4-24GB", "L40S-48GB", "MI300X-OAM-192GB", "B200-SXM-180GB",
)  # fmt: skip
SLICES = (Gpu("A100-SLICE", "A100", None, None, is_slice=True),
          Gpu("L4-SLICE", "L4", None, None, is_slice=True))  # fmt: skip
TERMS = (
    Terms(), Terms(billing_increment_seconds=60), Terms(billing_increment_seconds=3600),
    Terms(minimum_seconds=6 * 3600), Terms(commitment_hours=24), Terms(commitment_unknown=True),
    Terms(disk_included_gb=Decimal(50), disk_usd_per_gb_hour=Decimal("0.0001")),
    Terms(disk_usd_per_gb_hour=Decimal("0.0002"), egress_usd_per_gb=Decimal("0.08")),
)  # fmt: skip
ASKED = (
    Filters(), Filters(markets=("any",), tiers=("any",)), Filters(markets=("spot",)),
    Filters(gpus=("H100", "A100"), regions=("eu-*",)), Filters(providers=("shop", "cloud")),
    Filters(gpus=("A100-SLICE", "L4-SLICE")),
)  # fmt: skip
OFFERS = 30


def _gpu(dice: random.Random) -> Gpu:
    if dice.random() < 0.1:
        return dice.choice(SLICES)
    return _known(dice.choice(GPUS))


def _known(key: str) -> Gpu:
    found = next((gpu for gpu in catalogue().gpus() if gpu.key == key), None)
    assert found is not None, key
    return found


def _offer(number: int, source: str, seller: str, price: Decimal) -> Offer:
    """One of a source's offers; all but its price follows from its number."""
    dice = random.Random(f"{source} {number}")
    gpu = _gpu(dice)
    slice_ = dice.choice(("1g.10gb", "3g.40gb", "")) if gpu.is_slice else ""
    fields: dict[str, Any] = {
        "market": dice.choice([Market.ON_DEMAND, Market.ON_DEMAND, Market.SPOT]),
        "tier": dice.choice(["secure", "secure", "community"]),
        "region": dice.choice([None, "eu-1", "us-1"]), "terms": dice.choice(TERMS),
        "gpu_count": Decimal(dice.choice([1, 1, 2, 4, 8])),
    }  # fmt: skip
    if gpu.key == "L4-SLICE":
        fields["gpu_count"] = Decimal(dice.choice(["0.25", "0.5"]))
    elif gpu.is_slice:
        fields["gpu_count"] = Decimal(1)
    if source == "shop":
        fields["upstream"] = dice.choice([None, "hub", "hub", "faraway"])
    currency = "EUR" if source == "cloud" and number % 2 else "USD"
    rate = "1.0837" if currency == "EUR" else "1"
    amount, unit = price * fields["gpu_count"], PriceUnit.MACHINE_HOUR
    kind = dice.random()
    if kind < 0.15:
        fields |= {"market": Market.MONTHLY, "terms": Terms(commitment_hours=730)}
        amount, unit = amount * 500 + Decimal("0.99"), PriceUnit.MACHINE_MONTH
    elif kind < 0.25:
        fields |= {"market": Market.RESERVED,
                   "terms": Terms(commitment_hours=dice.choice([24, 8760]))}  # fmt: skip
    if source == "pricebook":
        fields["extras"] = Extras(
            valid_as_of=(datetime.now(UTC) - timedelta(days=20)).date(),
            expires_at=ago(dice.choice([-1440.0, -1440.0, 300])), fallback=dice.random() < 0.5,
        )  # fmt: skip
    offer = make_offer(
        f"{source} {number} {slice_}".strip(), "1", source=source, seller=seller, gpu=gpu,
        currency=currency, fx_rate=rate, **fields,
    )  # fmt: skip
    listed = NativePrice(amount, currency, unit)
    return replace(
        offer, listed=replace(offer.listed, price=listed),
        price=listed.machine_hour(offer.listed.gpu_count, Decimal(rate)),
    )  # fmt: skip


def _discounts(percent: str) -> tuple[Discount, ...]:
    typed = (datetime.now(UTC) - timedelta(days=3)).date()
    return (Discount("hub", Decimal(percent), typed, ago(-1440)),
            Discount("cloud", Decimal("12.5"), typed, ago(-1440), gpu="H100"))  # fmt: skip


SELLERS = {"hub": ("hub",), "shop": ("shop",), "cloud": ("cloud",), "old": ("old",),
           "pricebook": ("hub", "cloud", "typed")}  # fmt: skip


def _polls(minutes_ago: float, seed: int, percent: str | None, *, all_: bool) -> Iterator[Poll]:
    """What everybody lists then, some of it; the old one is asked the first time only."""
    dice = random.Random(seed)
    for source, sellers in SELLERS.items():
        if source == "old" and not all_:
            continue
        before = 4 * 1440 if source == "old" else minutes_ago
        moment = ago(before)
        offers = [
            _offer(number, source, sellers[number % len(sellers)],
                   Decimal(dice.randrange(50, 900)) / 100)
            for number in range(OFFERS)
            if dice.random() < 0.8
        ]  # fmt: skip
        more: dict[str, Any] = {"marketplace": True} if source == "hub" else {}
        if source == "pricebook" and percent is not None:
            more["discounts"] = _discounts(percent)
        yield make_poll(
            0, offers, source=source, started_at=moment, polled_at=moment, every_seconds=3600,
            default_tiers=("secure",), **more,
        )  # fmt: skip


class Told(NamedTuple):
    """What an answer consists of: who, on what, for how much."""

    rows: list[tuple[Any, ...]]
    best: list[tuple[Any, ...]]
    slices: list[tuple[Any, ...]]
    unbeaten: list[tuple[Any, ...]]
    break_even: Any


def _row(row: Row) -> tuple[Any, ...]:
    bill = row.bill
    return (
        row.offer.native_id, row.offer.upstream, bill.total_usd, bill.at_least_usd, bill.partial,
        bill.machines, bill.billed_hours, row.low_usd, row.high_usd, row.tie, row.discount_percent,
    )  # fmt: skip


def _told(report: CheapestReport) -> Told:
    even = report.comparison.break_even if report.comparison else None
    return Told(
        *([_row(row) for row in rows]
          for rows in (report.rows, report.best_by_gpu, report.slices, report.unbeaten)),
        even and even.price,
    )  # fmt: skip


Answers = Mapping[tuple[str, int], CheapestReport]


def _answers(connection: Any, app: App, as_of: datetime | None) -> Answers:
    options = {
        "as_of": as_of, "show_all": True, "top": None, "compare": None, "hours_texts": None,
        "goal": "cheapest",
    }  # fmt: skip
    return {
        (name, place): answer_on(connection, app, app.job(name), ASKED[place], options)
        for number, name in enumerate(job_names())
        for place in (number % 3, 3 + number % 3)  # each job in two ways
    }


def _same(before: Answers, after: Answers) -> int:
    for question, report in before.items():
        assert _told(after[question]) == _told(report), question
    return sum(len(report.rows) for report in before.values())


def _history_agrees(connection: Any, app: App, answers: Answers, moment: datetime) -> int:
    """At *moment* the steps of history are the best of each group in the answers; how many."""
    found = 0
    for (name, place), report in answers.items():
        job, filters = app.job(name), slices_named(app, ASKED[place])
        names = filters.gpus or (tuple(job.hours) if job.task is None else ())
        past = history_report(
            connection, Question(job, filters._replace(gpus=names), moment - timedelta(minutes=1),
                                 moment + timedelta(minutes=1)), app.catalogue, datetime.now(UTC),
        )  # fmt: skip
        live: dict[str, Decimal] = {}
        for row in report.rows:
            if not row.bill.partial:
                live.setdefault(row.offer.gpu_family, row.bill.at_least_usd)
        steps = {group: step_at(series, moment) for group, series in past.series.items()}
        assert live == {
            group: step.usd for group, step in steps.items() if step and not step.cost.partial
        }, (name, place)
        found += len(live)
    return found


@pytest.mark.parametrize("seed", [1])
def test_as_of_a_moment_is_the_answer_of_that_moment(
    database_server: TestServer, seed: int
) -> None:
    with database_server.database(migrated=True) as url:
        app = App(env={"GPUCOST_DATABASE_URL": url})
        record(url, *_polls(70, seed + 50, "40", all_=True))
        record(url, *_polls(40, seed, "25", all_=False))
        moment = datetime.now(UTC) - timedelta(seconds=1)
        with closing(connect(url, autocommit=True)) as connection:
            live = _answers(connection, app, None)
            assert _same(live, _answers(connection, app, moment)) > 300
            record(url, *_polls(0, seed + 99, "60", all_=False))
            assert _same(live, _answers(connection, app, moment))
            assert _history_agrees(connection, app, live, moment) > 30
            with connect(url) as other:
                floor_rebuild.rebuild(other)
            assert _history_agrees(connection, app, live, moment) > 30
