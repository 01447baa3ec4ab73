"""Metrics that the daemon tells: names, labels, and what becomes of them when it stops knowing."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.web.world import samples
from tracker import __version__
from tracker.collect.collector import PollOutcome
from tracker.store.errors import DatabaseUnreachable
from tracker.store.gauges import OutboxGauge, RuleGauge
from tracker.store.schema_service import BREAKERS, HEALTHS, PHASES
from tracker.web import families
from tracker.web.figures import Figures, GpuPrice, JobCost, Prices
from tracker.web.metrics import MOST_REASONS, REASON_LENGTH, Metrics

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RULE = RuleGauge(
    "h100-cheaper", "cost(H100) < cost(A100)", "firing", "good", Decimal("0.91"), NOW
)  # fmt: skip


def told(metrics: Metrics) -> dict[str, float]:
    """The samples, without those of the process."""
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return {k: v for k, v in samples(body.decode()).items() if k.startswith("gpucost_")}


def test_polls() -> None:
    metrics = Metrics()
    metrics.poll_finished(
        PollOutcome("runpod", "complete", rejected={"market closed": 3}, seconds=0.7)
    )
    metrics.poll_finished(PollOutcome("runpod", "failed", "no answer", seconds=0.7), 30)
    metrics.job_missed("vastai")
    got = told(metrics)
    assert got['gpucost_polls_total{provider="runpod",status="complete"}'] == 1
    assert got['gpucost_polls_total{provider="runpod",status="failed"}'] == 1
    assert got['gpucost_poll_duration_seconds_count{provider="runpod"}'] == 2
    assert got['gpucost_poll_duration_seconds_sum{provider="runpod"}'] == pytest.approx(30.7)
    assert got['gpucost_rows_rejected_total{provider="runpod",reason="market closed"}'] == 3
    assert got['gpucost_polls_missed_total{provider="vastai"}'] == 1
    assert got[f'gpucost_build_info{{version="{__version__}"}}'] == 1


def test_reasons_never_become_too_many_series() -> None:
    metrics = Metrics()
    for number in range(10 * MOST_REASONS):
        rejected = {f"price {number} is odd {'x' * 500}": 1}
        metrics.poll_finished(PollOutcome("acme", "complete", rejected=rejected))
    metrics.poll_finished(PollOutcome("other", "complete", rejected={"listed twice": 1}))
    series = {k: v for k, v in told(metrics).items() if k.startswith("gpucost_rows_rejected_total")}
    assert len(series) == MOST_REASONS + 2  # the rest together, and the other provider's own
    assert series['gpucost_rows_rejected_total{provider="acme",reason="other"}'] == 9 * MOST_REASONS
    assert max(map(len, series)) < REASON_LENGTH + 80
    assert sum(series.values()) == 10 * MOST_REASONS + 1


def test_the_breaker_is_in_one_state() -> None:
    metrics = Metrics()
    metrics.leader(True)
    for state in families.BREAKERS:
        metrics.breaker("runpod", state)
        got = told(metrics)
        states = {
            s: got[f'gpucost_breaker_state{{provider="runpod",state="{s}"}}']
            for s in families.BREAKERS
        }
        assert states == {s: float(s == state) for s in families.BREAKERS}


def test_who_does_not_lead_or_poll_says_nothing_of_breakers() -> None:
    metrics = Metrics()
    metrics.leader(True)
    metrics.breaker("runpod", "open")
    metrics.breaker("vastai", "closed")
    assert told(metrics)["gpucost_leader"] == 1
    metrics.forget_provider("vastai")
    metrics.forget_provider("never heard of")
    assert not any("vastai" in name for name in told(metrics))
    metrics.leader(False)
    got = told(metrics)
    assert got["gpucost_leader"] == 0
    assert not any(name.startswith("gpucost_breaker_state") for name in got)


def test_evaluations_and_notices() -> None:
    metrics = Metrics()
    metrics.evaluated([("a", "good"), ("b", "stale")], 0.02)
    metrics.evaluated([("a", "good")], 0.03)
    metrics.delivered("ops", "retry")
    metrics.delivered("ops", "sent")
    got = told(metrics)
    assert got['gpucost_alert_evaluations_total{health="good",rule="a"}'] == 2
    assert got['gpucost_alert_evaluations_total{health="stale",rule="b"}'] == 1
    assert got["gpucost_alert_evaluation_duration_seconds_count"] == 2
    assert got['gpucost_notices_total{channel="ops",result="sent"}'] == 1
    assert got['gpucost_notices_total{channel="ops",result="retry"}'] == 1


def test_two_daemons_of_one_process_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.leader(True)
    assert told(other)["gpucost_leader"] == 0


def test_openmetrics_for_who_asks_for_it() -> None:
    body, content_type = Metrics().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics.delivered('a"b\\c\nd', "sent")
    body, _ = metrics.render()
    assert 'channel="a\\"b\\\\c\\nd"' in body.decode()


@dataclass
class Reader:
    """Figures as a test sets them; None: the database does not answer."""

    figures: Figures | None = field(default_factory=lambda: Figures(NOW))
    calls: int = 0

    def __call__(self) -> Figures:
        self.calls += 1
        if self.figures is None:
            raise DatabaseUnreachable("the database does not answer")
        return self.figures


def test_rules_and_outbox() -> None:
    outbox = (
        OutboxGauge("ops", 2, NOW - timedelta(seconds=90), 1),
        OutboxGauge("log", 0, None, 0),
        OutboxGauge("ahead", 1, NOW + timedelta(seconds=5), 0),  # another machine's clock
    )
    got = told(Metrics(Reader(Figures(NOW, rules=(RULE,), outbox=outbox))))
    assert got["gpucost_database_up"] == 1
    assert got['gpucost_job_cost_ratio{rule="h100-cheaper"}'] == 0.91
    for phase in families.PHASES:
        name = f'gpucost_alert_state{{rule="h100-cheaper",state="{phase}"}}'
        assert got[name] == (phase == "firing")
    for health in families.HEALTHS:
        name = f'gpucost_alert_health{{health="{health}",rule="h100-cheaper"}}'
        assert got[name] == (health == "good")
    name = 'gpucost_alert_last_evaluation_timestamp_seconds{rule="h100-cheaper"}'
    assert got[name] == NOW.timestamp()
    assert got['gpucost_outbox_pending{channel="ops"}'] == 2
    assert got['gpucost_outbox_oldest_age_seconds{channel="ops"}'] == 90
    assert got['gpucost_outbox_oldest_age_seconds{channel="log"}'] == 0
    assert got['gpucost_outbox_oldest_age_seconds{channel="ahead"}'] == 0
    assert got['gpucost_outbox_dead{channel="ops"}'] == 1


@pytest.mark.parametrize(
    "rule",
    [
        RULE._replace(health="stale"), RULE._replace(value=None), RULE._replace(evaluated_at=None),
        RULE._replace(evaluated_at=NOW - timedelta(hours=1)), RULE._replace(when="cost(H100) < 40"),
        RULE._replace(when="price(H100) < 2"),
    ],
    ids=["stale", "no value", "never evaluated", "long ago", "a number", "a price"],
)  # fmt: skip
def test_a_ratio_that_is_not_known_now_is_absent(rule: RuleGauge) -> None:
    got = told(Metrics(Reader(Figures(NOW, rules=(rule,)))))
    assert not any(name.startswith("gpucost_job_cost_ratio") for name in got)
    assert 'gpucost_alert_state{rule="h100-cheaper",state="firing"}' in got


def test_prices_and_bills() -> None:
    prices = Prices(
        (GpuPrice("H100-SXM-80GB", "spot", Decimal("1.1"), Decimal("1.2"), Decimal("2")),),
        (JobCost("bert-large", "RTX4090", Decimal("20.5"), True),),
    )
    got = told(Metrics(Reader(Figures(NOW, prices=prices))))
    name = 'gpucost_gpu_price_usd_per_hour{{gpu="H100-SXM-80GB",market="spot",stat="{}"}}'
    assert [got[name.format(stat)] for stat in ("min", "p10", "median")] == [1.1, 1.2, 2]
    bill = 'gpucost_job_cost_usd{gpu="RTX4090",lower_bound="true",workload="bert-large"}'
    assert got[bill] == 20.5


def test_without_its_database_a_daemon_still_says_what_it_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    reader = Reader(Figures(NOW, rules=(RULE,)))
    metrics = Metrics(reader, cache_seconds=5, monotonic=lambda: now[0])
    metrics.leader(True)
    assert told(metrics)["gpucost_database_up"] == 1
    reader.figures = None
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += 6
            got = told(metrics)
    assert got["gpucost_database_up"] == 0
    assert got["gpucost_leader"] == 1
    assert not any(name.startswith("gpucost_alert_state") for name in got)
    assert len(caplog.records) == 1, "one line an outage"
    reader.figures = Figures(NOW, rules=(RULE,))
    now[0] += 6
    assert 'gpucost_alert_state{rule="h100-cheaper",state="firing"}' in told(metrics)


@pytest.mark.parametrize("answers", [True, False])
def test_scrapes_at_once_share_one_reading(answers: bool) -> None:
    now = [100.0]
    reader = Reader(Figures(NOW) if answers else None)
    metrics = Metrics(reader, cache_seconds=5, monotonic=lambda: now[0])
    threads = [threading.Thread(target=metrics.render) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reader.calls == 1
    now[0] += 5
    metrics.render()
    assert reader.calls == 2


def test_registering_does_not_read_the_database() -> None:
    reader = Reader()
    Metrics(reader)
    assert reader.calls == 0


def test_the_words_of_states_are_those_of_the_tables() -> None:
    assert set(families.PHASES) == set(PHASES)
    assert set(families.HEALTHS) == set(HEALTHS)
    assert set(families.BREAKERS) == set(BREAKERS)
