"""A job's history against the live answer, asked as of one moment after another."""

# ruff: noqa: S311 - the dice are for worlds, and fall the same way each time

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import record
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.app.questions import answer_on
from tracker.app.root import App
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job, RuntimeHours
from tracker.domain.job_limits import Limits
from tracker.domain.offer import Discount, Extras, NativePrice, Offer, PriceUnit, Terms
from tracker.domain.terms import Market
from tracker.report.filters import Filters
from tracker.report.history.answer import Question, history_report
from tracker.report.history.steps import step_at
from tracker.store.engine import connect
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
GPUS = (
    Gpu("H100-SXM-80GB", "H100", "SXM", 80), Gpu("H100-PCIE-80GB", "H100", "PCIE", 80),
    Gpu("A100-SXM-80GB", "A100", "SXM", 80), Gpu("A100-80GB", "A100", None, 80),
)  # fmt: skip
TERMS = (
    Terms(), Terms(billing_increment_seconds=3600), Terms(minimum_seconds=6 * 3600),
    Terms(disk_included_gb=Decimal(50), disk_usd_per_gb_hour=Decimal("0.0001")),
    Terms(disk_usd_per_gb_hour=Decimal("0.0002"), egress_usd_per_gb=Decimal("0.08")),
    Terms(commitment_hours=24),
)  # fmt: skip
JOB = Job(
    "j", {"H100": RuntimeHours(Decimal("3.7")), "A100": RuntimeHours(Decimal(11))},
    disk_gb=Decimal(120), egress_gb=Decimal(3), setup_hours=Decimal("0.2"),
)  # fmt: skip
JOBS = (
    JOB,
    Job("plain", JOB.hours, gpus_needed=3),
    Job("thrifty", JOB.hours, limits=Limits(budget_usd=Decimal(30), markets=("any",))),
)
ASKED = (
    Filters(), Filters(markets=("any",)), Filters(regions=("eu-*",)), Filters(tiers=("any",)),
    Filters(providers=("hub", "shop")), Filters(min_gpus=2), Filters(interconnect="nvlink"),
    Filters(gpus=("H100-SXM-80GB", "A100")),
)  # fmt: skip
OFFERS = 14


def _offer(dice: random.Random, number: int, source: str, seller: str | None = None) -> Offer:
    """One of a source's offers; all but its price follows from its number."""
    fixed = random.Random(f"{source} {number}")
    month = fixed.random() < 0.2
    amount = Decimal(dice.randrange(100, 999)) / 100
    fields: dict[str, Any] = {
        "market": fixed.choice([Market.ON_DEMAND, Market.ON_DEMAND, Market.SPOT]),
        "region": fixed.choice([None, "eu-1", "us-1"]),
        "tier": fixed.choice(["standard", "standard", "community"]),
        "interconnect": fixed.choice([None, "NVLink"]),
        "terms": fixed.choice(TERMS), "gpu_count": Decimal(fixed.choice([1, 1, 2, 8])),
    }  # fmt: skip
    if source == "shop":
        # Cheap, so that it matters who runs the machine.
        fields |= {"upstream": fixed.choice([None, "hub", "hub"]), "gpu_count": Decimal(1)}
        amount /= 3
    if month:
        amount = amount * 500 + Decimal("0.99")
        fields |= {"market": Market.MONTHLY, "terms": Terms(commitment_hours=730)}
    rate = "1.0837" if source == "euro" else "1"
    currency = "EUR" if source == "euro" else "USD"
    unit = PriceUnit.MACHINE_MONTH if month else PriceUnit.MACHINE_HOUR
    offer = make_offer(
        f"o{number}", "1", source=source, seller=seller, gpu=fixed.choice(GPUS),
        currency=currency, fx_rate=rate, **fields,
    )  # fmt: skip
    price = NativePrice(amount, currency, unit)
    return replace(
        offer, listed=replace(offer.listed, price=price),
        price=price.machine_hour(offer.listed.gpu_count, Decimal(rate)),
    )  # fmt: skip


def _world(seed: int) -> Iterable[Poll]:
    """Three days of five sources that miss polls, change prices, and list what others sell.

    One is an import, which tells of a seller that is polled, too: its word does not count then.
    """
    dice = random.Random(seed)
    typed: dict[str, Any] = {
        "seller": "hub", "gpu": GPUS[0],
        "extras": Extras(valid_as_of=date(2026, 3, 1), expires_at=START + timedelta(hours=50),
                         fallback=True),
    }  # fmt: skip
    off = Discount(
        "hub", Decimal("12.5"), date(2026, 3, 3), START + timedelta(hours=60), gpu="H100"
    )
    for hour in range(72):
        moment = START + timedelta(hours=hour, minutes=dice.randrange(50))
        times: dict[str, Any] = {"started_at": moment, "polled_at": moment, "every_seconds": 3600}
        if hour % 12 == 0:
            book = [make_offer("t", "1.5", source="pricebook", **typed)]
            yield make_poll(0, book, source="pricebook", discounts=(off,),
                            **(times | {"every_seconds": 86400}))  # fmt: skip
        if hour % 9 == 4:
            prices = random.Random(seed * 55 + hour)
            seen = [_offer(prices, number, "import-tracker", "hub") for number in range(0, 9, 2)]
            yield make_poll(0, seen, source="import-tracker", kind="import",
                            **(times | {"every_seconds": 7200}))  # fmt: skip
        for source in ("hub", "shop", "euro"):
            if dice.random() < 0.7:
                chosen = random.Random(seed * 1000 + hour // 5)
                numbers = chosen.sample(range(OFFERS), 6)
                prices = random.Random(seed * 77 + hour // 3)
                yield make_poll(
                    0, [_offer(prices, number, source) for number in numbers], source=source,
                    **times,
                )  # fmt: skip


def _cheapest(
    connection: Any, app: App, job: Job, filters: Filters, moment: datetime
) -> Mapping[str, Decimal]:
    options = {
        "as_of": moment, "show_all": True, "top": None, "compare": None, "hours_texts": None,
    }  # fmt: skip
    answer = answer_on(connection, app, job, filters, options)
    found: dict[str, Decimal] = {}
    for row in answer.rows:
        if not row.bill.partial:
            found.setdefault(row.offer.gpu_family, row.bill.at_least_usd)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_history_is_what_the_answer_was_at_every_moment(
    database_server: TestServer, seed: int
) -> None:
    with database_server.database(migrated=True) as url:
        record(url, *_world(seed))
        assert _compare(url, seed) > 50  # else nothing was compared


def _compare(url: str, seed: int) -> int:
    """History against the answer as of many moments; how many bills were compared."""
    dice = random.Random(seed)
    app = App(env={"GPUCOST_DATABASE_URL": url})
    end, known = START + timedelta(hours=74), 0
    with closing(connect(url, autocommit=True)) as connection:
        for asked in ASKED:
            job = dice.choice(JOBS)
            question = Question(job, asked._replace(gpus=asked.gpus or tuple(job.hours)),
                                START, end)  # fmt: skip
            report = history_report(connection, question, catalogue(), end)
            for _ in range(10):
                moment = START + timedelta(seconds=dice.randrange(74 * 3600))
                told = {
                    name: step.usd
                    for name, steps in report.series.items()
                    if (step := step_at(steps, moment)) and not step.cost.partial
                }
                assert told == _cheapest(connection, app, job, asked, moment), (asked, moment)
                known += len(told)
    return known
