"""What /metrics takes from a real database: prices, bills, and nothing that is not known now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.offers import at, make_offer, make_poll, offer
from tests.web.test_metrics import told
from tests.web.world import samples
from tracker import data
from tracker.alert.engine import AlertEngine
from tracker.alert.rules import load_rules
from tracker.domain.findings import UnmappedGpu
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job
from tracker.domain.job_text import job_from_text
from tracker.domain.offer import Availability, Extras, Market
from tracker.store import gauges, reads
from tracker.store.engine import connect, make_engine, read_connection
from tracker.store.errors import StoreError
from tracker.store.polls import Recorder
from tracker.web import figures as figures_module
from tracker.web.figures import Figures, StoreFigures, gpu_prices
from tracker.web.metrics import Metrics

A100 = Gpu("A100-SXM-80GB", "A100", "SXM", 80)
BERT = job_from_text(data.text("jobs/bert-large.toml"), catalogue())


class Shop:
    """A database, a clock, and the figures of both."""

    def __init__(self, url: str, recorder: Recorder) -> None:
        self.url, self.recorder = url, recorder
        self.minutes = 0.0
        self.jobs: tuple[Job, ...] = (BERT,)
        self.figures = StoreFigures(
            lambda: self.url, catalogue(), lambda: self.jobs, utc_now=lambda: at(self.minutes)
        )

    def record(self, minutes: float, *offers: Any, **fields: Any) -> None:
        self.recorder.record(make_poll(minutes, offers, **fields))
        self.minutes = minutes

    def scrape(self) -> dict[str, float]:
        return told(Metrics(self.figures))


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    engine = make_engine(database_url)
    yield Shop(database_url, Recorder(engine))
    engine.dispose()


def _of(got: dict[str, float], name: str) -> dict[str, float]:
    return {k: v for k, v in got.items() if k.startswith(name)}


def test_an_empty_database_has_no_prices(shop: Shop) -> None:
    got = shop.scrape()
    assert got["gpucost_database_up"] == 1
    assert not _of(got, "gpucost_gpu_price")
    assert not _of(got, "gpucost_offers")


def test_prices_of_a_gpu_on_each_market(shop: Shop) -> None:
    shop.record(
        0,
        *(make_offer(f"m{n}", str(n)) for n in range(1, 21)),
        make_offer("two", "3", gpu_count=Decimal(2)),  # 1.50 a GPU
        make_offer("bid", "0.5", market=Market.SPOT),
        make_offer("gone", "0.1", extras=Extras(availability=Availability.NO)),
    )
    price = _of(shop.scrape(), "gpucost_gpu_price")
    name = 'gpucost_gpu_price_usd_per_hour{{gpu="H100-SXM-80GB",market="{}",stat="{}"}}'
    # 21 offers: the third cheapest is p10 (nearest rank of 2.1), the eleventh the median.
    assert price == {
        name.format("on_demand", "min"): 1, name.format("on_demand", "p10"): 2,
        name.format("on_demand", "median"): 10, name.format("spot", "min"): 0.5,
        name.format("spot", "p10"): 0.5, name.format("spot", "median"): 0.5,
    }  # fmt: skip


def test_the_bill_is_the_one_of_the_command_line(shop: Shop) -> None:
    shop.record(
        0, make_offer("h", "2.50"), make_offer("dear", "9"), make_offer("a", "1", gpu=A100),
        make_offer("bid", "0.10", market=Market.SPOT),  # must be asked for
        make_offer("g", "0.5", gpu=Gpu("RTX4090-24GB", "RTX4090", None, 24)),
    )  # fmt: skip
    bill = 'gpucost_job_cost_usd{{gpu="{}",lower_bound="{}",workload="bert-large"}}'
    # 4 h at 2.50, 12 h at 1.00, and at least 48 h at 0.50.
    assert _of(shop.scrape(), "gpucost_job_cost") == {
        bill.format("H100", "false"): 10, bill.format("A100", "false"): 12,
        bill.format("RTX4090", "true"): 24,
    }  # fmt: skip


def test_a_bill_that_is_not_wholly_known_has_no_series(shop: Shop) -> None:
    shop.record(0, make_offer("h", "2.50"))
    shop.jobs = (replace(BERT, egress_gb=Decimal(100)),)  # and nobody says what a GB costs
    assert not _of(shop.scrape(), "gpucost_job_cost")


def test_what_is_stale_vanishes(shop: Shop) -> None:
    shop.record(0, make_offer("h", "2.50"))
    shop.record(0, make_offer("x", "1", source="other"), source="other")
    shop.record(2, make_offer("x", "1", source="other"), source="other")
    for minutes, median, acme in ((2.9, 1.75, 1), (3, 1, None)):
        shop.minutes = minutes
        got = shop.scrape()
        name = 'gpucost_gpu_price_usd_per_hour{gpu="H100-SXM-80GB",market="on_demand",stat="%s"}'
        assert got[name % "min"] == 1
        assert got.get('gpucost_offers{provider="acme"}') == acme
        assert got['gpucost_provider_stale{provider="acme"}'] == (acme is None)
        assert got.get(name % "median") == median
    shop.minutes = 5
    got = shop.scrape()
    assert not _of(got, "gpucost_gpu_price")
    assert not _of(got, "gpucost_job_cost")
    assert not _of(got, "gpucost_offers{")
    # How long it has been is known, and is what an alert looks at.
    last = got['gpucost_poll_last_success_timestamp_seconds{provider="acme"}']
    assert last == at(0).timestamp()


def test_no_series_is_of_one_offer(shop: Shop) -> None:
    shop.record(0, *(make_offer(f"offer-{n}", "2") for n in range(30)))
    few = len(shop.scrape())
    shop.record(1, *(make_offer(f"offer-{n}", "2") for n in range(60)))
    assert len(shop.scrape()) == few
    assert not any("offer-" in name for name in shop.scrape())


def test_a_provider_that_never_answered_has_its_failures_and_is_stale(shop: Shop) -> None:
    for minutes in (0, 1):
        shop.record(minutes, status="failed", error="no answer")
    got = shop.scrape()
    assert got['gpucost_poll_consecutive_failures{provider="acme"}'] == 2
    assert got['gpucost_provider_stale{provider="acme"}'] == 1
    assert got['gpucost_poll_interval_seconds{provider="acme"}'] == 60
    assert not _of(got, "gpucost_poll_last_success")
    assert not _of(got, "gpucost_offers{")
    # Sellers in a price book are not asked, and have no such series.
    shop.record(2, make_offer("h", "2.5", seller="seller"))
    assert not any('provider="seller"' in name for name in shop.scrape())


def test_failures_quarantine_and_interval(shop: Shop) -> None:
    shop.record(0, make_offer("h", "2.50"))
    for minutes in (1, 2):
        shop.record(minutes, status="failed", error="no answer")
    got = shop.scrape()
    assert got['gpucost_poll_consecutive_failures{provider="acme"}'] == 2
    assert got['gpucost_poll_interval_seconds{provider="acme"}'] == 60
    assert got['gpucost_offers_quarantined{provider="acme"}'] == 0
    assert got['gpucost_unmapped_gpus{provider="acme"}'] == 0


def test_names_that_nobody_knows_are_counted(shop: Shop) -> None:
    unknown = [UnmappedGpu(name, "80 GB", "{}", 3) for name in ("ACME Superchip 9", "H900")]
    shop.record(0, make_offer("h", "2.50"), unmapped=unknown)
    assert shop.scrape()['gpucost_unmapped_gpus{provider="acme"}'] == 2


def test_offers_are_read_again_only_when_that_may_matter(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[datetime] = []
    real = figures_module.read_prices

    def counted(connection: Any, known: Any, jobs: Any, now: datetime) -> Any:
        calls.append(now)
        return real(connection, known, jobs, now)

    monkeypatch.setattr(figures_module, "read_prices", counted)
    every_hour = {"every_seconds": 3600}
    shop.record(0, make_offer("h", "2.50"), **every_hour)
    for minutes in (0, 1, 5, 9.9):
        shop.minutes = minutes
        shop.figures()
    assert len(calls) == 1
    shop.record(9.95, make_offer("h", "2.40"), **every_hour)  # a poll
    assert shop.figures().prices.gpus[0].minimum == Decimal("2.4")
    assert len(calls) == 2
    shop.jobs = ()  # a reload
    assert shop.figures().prices.jobs == ()
    assert len(calls) == 3
    shop.minutes = 20  # discounts may have ended
    shop.figures()
    assert len(calls) == 4
    shop.minutes = 3  # the clock was set back
    shop.figures()
    assert len(calls) == 5


def test_rules_and_notices(shop: Shop) -> None:
    with connect(shop.url, autocommit=True) as connection:
        _rule(connection, "a", '{"value": "0.912345"}')
        _rule(connection, "b", '{"value": null}')
        _rule(connection, "c", '{"value": "NaN"}')
        _rule(connection, "d", "null")
        _rule(connection, "gone", '{"value": "1"}', removed=at(0))
        for channel, status in (("ops", "pending"), ("ops", "dead"), ("ops", "sent"),
                                ("log", "sent")):  # fmt: skip
            _notice(connection, channel, status)
        _notice(connection, "log", "dead", kind="test")
    with read_connection(shop.url) as reader:
        rules, outbox = gauges.rules(reader), gauges.outbox(reader)
    assert [(r.name, r.value) for r in rules] == [
        ("a", Decimal("0.912345")), ("b", None), ("c", None), ("d", None),
    ]  # fmt: skip
    assert rules[0].when == "cost(H100) < cost(A100)"
    assert outbox == [
        gauges.OutboxGauge("log", 0, None, 0), gauges.OutboxGauge("ops", 1, at(0), 1),
    ]  # fmt: skip
    assert shop.scrape()['gpucost_job_cost_ratio{rule="a"}'] == 0.912345


def _rule(
    connection: psycopg.Connection[Any], name: str, evaluation: str, removed: datetime | None = None
) -> None:
    connection.execute(
        "INSERT INTO alert_rule (name, version, definition, definition_sha256, machine, phase,"
        " health, evaluation, evaluated_at, removed_at) VALUES (%s, 1,"
        """ '{"when": "cost(H100) < cost(A100)"}', '', '{}', 'ok', 'good', %s, %s, %s)""",
        (name, evaluation, at(0), removed),
    )


def _notice(
    connection: psycopg.Connection[Any], channel: str, status: str, kind: str = "fired"
) -> None:
    connection.execute(
        "WITH e AS (INSERT INTO alert_event (event_id, rule, rule_version, seq, kind, at, inputs)"
        " VALUES (gen_random_uuid()::text, 'a', 1, (SELECT count(*) FROM alert_event), %(kind)s,"
        " %(at)s, '{}') RETURNING id, seq)"
        " INSERT INTO alert_outbox (event, rule, seq, kind, channel, message, status, created_at,"
        " due_at) SELECT id, 'a', seq, %(kind)s, %(channel)s, '{}', %(status)s, %(at)s, %(at)s"
        " FROM e",
        {"at": at(0), "channel": channel, "status": status, "kind": kind},
    )


def test_a_database_that_is_away_comes_back(shop: Shop) -> None:
    metrics = Metrics(shop.figures, cache_seconds=0)
    real, shop.url = shop.url, "postgresql://nobody@127.0.0.1:1/nothing"
    with pytest.raises(StoreError):
        shop.figures()
    body, _ = metrics.render()
    assert samples(body.decode())["gpucost_database_up"] == 0
    shop.url = real
    body, _ = metrics.render()
    assert samples(body.decode())["gpucost_database_up"] == 1


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=40))
def test_the_median_is_in_the_middle_and_p10_is_a_price_that_exists(micro_usd: list[int]) -> None:
    [found] = gpu_prices(_stored(price) for price in micro_usd)
    prices = sorted(Decimal(price) / 10**6 for price in micro_usd)
    assert found.minimum == prices[0]
    # By its definition: the least price that a tenth of them do not exceed.
    assert found.p10 == min(p for p in prices if sum(q <= p for q in prices) * 10 >= len(prices))
    half = len(prices) // 2
    assert found.median * 2 == prices[half] + prices[-half - 1]


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    [found] = gpu_prices(_stored(price) for price in (1_390_000, 1_400_000, 1_790_000, 3_430_000))
    assert found.median == Decimal("1.595")


def _stored(price_micro_usd: int) -> reads.StoredOffer:
    empty: dict[str, Any] = dict.fromkeys(reads.StoredOffer._fields)
    told: dict[str, Any] = {"gpu_key": "X", "market": "spot", "gpu_count": Decimal(1)}
    return reads.StoredOffer(**{**empty, **told, "price_micro_usd": price_micro_usd})


def test_slices_have_no_price_of_a_whole_gpu(shop: Shop) -> None:
    slice_ = replace(offer("1"), gpu=Gpu("H100-SXM-80GB", "H100", "SXM", 10, is_slice=True))
    shop.record(0, slice_)
    assert isinstance(shop.figures(), Figures)
    assert shop.figures().prices.gpus == ()


def test_what_the_alert_engine_finds_is_what_is_told(shop: Shop) -> None:
    rules, problems = load_rules({}, catalogue=catalogue(), job=lambda _: BERT, channels={"log"})
    assert problems == ()
    engine = make_engine(shop.url)
    alerts = AlertEngine(engine, rules, catalogue(), sources={"acme"})
    try:
        # 10 against 12 dollars, thrice in half an hour and more.
        for minutes in (0, 5, 10, 20, 31):
            shop.record(minutes, make_offer("h", "2.50"), make_offer("a", "1", gpu=A100))
            alerts.evaluate(at(minutes))
    finally:
        engine.dispose()
    [name] = [rule.name for rule in rules]
    got = shop.scrape()
    assert got[f'gpucost_job_cost_ratio{{rule="{name}"}}'] == pytest.approx(10 / 12)
    assert got[f'gpucost_alert_state{{rule="{name}",state="firing"}}'] == 1
    assert got[f'gpucost_alert_health{{health="good",rule="{name}"}}'] == 1
    last = got[f'gpucost_alert_last_evaluation_timestamp_seconds{{rule="{name}"}}']
    assert last == at(31).timestamp()
    assert got['gpucost_outbox_pending{channel="log"}'] == 1
