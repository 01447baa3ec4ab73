"""What a server keeps from poll to poll, against reading everything anew."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, RTX4090, polled
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.app import App
from tracker.app.answers import Answers, Question
from tracker.app.live import LiveApp
from tracker.domain.measurement import Measurement
from tracker.domain.offer import Availability, Discount, Extras, Market, Offer, Terms
from tracker.registry import UnknownProvider
from tracker.store import measurements, reads
from tracker.store.engine import make_engine, transaction
from tracker.store.polls import Poll, Recorder

QUESTIONS: list[dict[str, Any]] = [
    {"job": "bert-large"},
    {"job": "bert-large", "market": "any", "tier": "any", "goal": "fastest"},
    {"job": "llama-3.1-8b-lora", "market": "any", "disk": 50, "egress": 3},
    {"job": "llama-3.1-8b-lora", "market": "any", "include_stale": True, "goal": "balanced"},
    {"hours": ["A100=12,H100=4,RTX4090=48"], "max_age": "7m", "download": 100},
    {"job": "resnet-50", "provider": ["acme", "beta"], "gpu": ["H100", "A100"], "min_vcpus": 9},
]
SOURCES = ("acme", "beta", "shop", "pricebook")


def _offer(dice: random.Random, source: str, number: int) -> Offer:
    """One that may be of another seller, resold, or a list price that gives way."""
    typed = source == "pricebook"
    seller = dice.choice(("acme", "beta", "gone")) if typed else source
    extras = Extras(
        availability=dice.choice(list(Availability)),
        disk_gb=dice.choice((None, Decimal(40), Decimal(900))),
        network_down_mbps=dice.choice((None, Decimal(200))),
        reliability=dice.choice((None, Decimal("0.99"))),
        fallback=typed and dice.random() < 0.5,
        valid_as_of=date(2026, 1, 1) if typed else None,
        expires_at=datetime.now(UTC) + timedelta(days=9) if typed else None,
    )
    terms = Terms(
        commitment_hours=dice.choice((None, None, 20)),
        disk_usd_per_gb_hour=dice.choice((None, Decimal("0.0001"))),
        egress_usd_per_gb=dice.choice((None, Decimal(0), Decimal("0.05"))),
    )
    return make_offer(
        f"{source}{number}", dice.choice(("1", "1.5", "2", "2.000001")), source=source,
        seller=seller, gpu=dice.choice((H100, A100, RTX4090)), terms=terms, extras=extras,
        gpu_count=Decimal(dice.choice((1, 2, 8))), tier=dice.choice(("standard", "community")),
        market=dice.choice((Market.ON_DEMAND, Market.ON_DEMAND, Market.SPOT, Market.RESERVED)),
        upstream=dice.choice((None, "acme")) if source == "shop" else None,
        vcpus=dice.choice((None, Decimal(8), Decimal(16))),
    )  # fmt: skip


def _poll(dice: random.Random, world: dict[str, dict[int, Offer]], minutes_ago: float) -> Poll:
    """The next poll of some source, which moves a few of its offers."""
    source = dice.choice(SOURCES)
    if dice.random() < 0.1:
        return polled(source, [], minutes_ago, status="failed", error="silent")
    known = world[source]
    for number in dice.sample(range(12), 4):
        if number in known and dice.random() < 0.4:
            del known[number]
        else:
            known[number] = _offer(dice, source, number)
    typed = source == "pricebook"
    until = datetime.now(UTC) + timedelta(days=9)
    return polled(
        source, known.values(), minutes_ago,
        every_seconds=dice.choice((120, 3600)),
        default_tiers=dice.choice(((), ("standard",))),
        marketplace=dice.random() < 0.5,
        discounts=(Discount("acme", Decimal(dice.choice((10, 20))), date(2026, 1, 1), until),)
        if typed else (),
    )  # fmt: skip


def _answers(app: App) -> list[Any]:
    found: list[Any] = []
    for question in QUESTIONS:
        try:
            report = Answers(app).cheapest(Question.of("cheapest", **question))
        except UnknownProvider as error:  # nobody has told of it yet
            found.append(str(error))
            continue
        shown = report._replace(job=replace(report.job, estimator=None), excluded=Counter())
        found.append((shown._replace(now=datetime.min), dict(report.excluded)))  # noqa: DTZ901
    return found


@pytest.mark.parametrize("seed", range(3))
def test_polls_recorded_meanwhile_leave_the_answers_of_one_who_reads_all_anew(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same polls every time
    env = {"GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path)}
    living = LiveApp(lambda: database_url, None, env)
    world: dict[str, dict[int, Offer]] = {source: {} for source in SOURCES}
    engine = make_engine(database_url)
    try:
        recorder = Recorder(engine)
        for step in range(20):
            recorder.record(_poll(dice, world, 30 - step))
            if step == 12:
                with transaction(engine) as cursor:
                    measurements.add(cursor, _measurement())
            assert _answers(living) == _answers(App(env=env)), step
    finally:
        engine.dispose()


def _measurement() -> Measurement:
    return Measurement(
        "bert-large", "", "H100-SXM-80GB", 1, 0, Decimal(3), datetime.now(UTC), None, None, {}, None
    )


def test_a_poll_has_the_offers_of_its_own_source_read_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path)}
    app = LiveApp(lambda: database_url, None, env)
    engine = make_engine(database_url)
    read: list[Any] = []

    def spied(connection: Any, **constraints: Any) -> Any:
        read.append(constraints.get("sources"))
        return live_offers(connection, **constraints)

    live_offers = reads.live_offers
    monkeypatch.setattr(reads, "live_offers", spied)

    def cheapest() -> Decimal:
        rows = Answers(app).cheapest(Question.of("cheapest", job="bert-large")).rows
        return rows[0].bill.price.usd

    try:
        recorder = Recorder(engine)
        recorder.record(polled("acme", [make_offer("a", "2")], 9))
        recorder.record(polled("beta", [make_offer("b", "3", source="beta")], 8))
        assert cheapest() == 2
        recorder.record(polled("beta", [make_offer("b", "1", source="beta")], 7))
        assert cheapest() == 1
        recorder.record(polled("acme", [], 6, status="failed", error="silent"))
        assert cheapest() == 1
    finally:
        engine.dispose()
    assert read == [None, {"beta"}]


def test_machines_of_ones_own_are_among_the_answers_of_a_server(
    database_server: TestServer, tmp_path: Path
) -> None:
    config = tmp_path / "gpucost.toml"
    config.write_text("[[own]]\nname = 'rig'\ngpu = 'RTX4090-24GB'\nusd_per_kwh = 0.3\n")
    with database_server.database(migrated=True) as url:
        engine = make_engine(url)
        try:
            Recorder(engine).record(polled("acme", [make_offer("a", "200", gpu=RTX4090)]))
        finally:
            engine.dispose()
        env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(tmp_path)}
        living = LiveApp(lambda: url, config, env)
        question = Question.of("cheapest", job="resnet-50", gpu=["RTX4090"])
        rows = Answers(living).cheapest(question).rows
        assert [row.offer.provider for row in rows] == ["own", "acme"]
