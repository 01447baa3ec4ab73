"""The names of all metrics, with their labels and what they mean. docs/metrics.md is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PHASES = ("ok", "pending", "firing", "recovering")
HEALTHS = ("good", "stale", "no_data", "suspect", "error")
BREAKERS = ("closed", "half_open", "open")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. ``name`` is as Prometheus stores it, without what a histogram appends."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


BUILD_INFO = Family("gpucost_build_info", "gauge", "Always 1; the version that runs.", ("version",))
LEADER = Family("gpucost_leader", "gauge", "1 while this process polls, evaluates and delivers.")

POLLS = Family(
    "gpucost_polls_total", "counter", "Polls that ended, by how they ended.",
    ("provider", "status"),
)  # fmt: skip
POLL_DURATION = Family(
    "gpucost_poll_duration_seconds", "histogram", "How long polls took.", ("provider",)
)
POLLS_MISSED = Family(
    "gpucost_polls_missed_total", "counter",
    "Polls that were due and did not start: the one before still ran, or the machine slept.",
    ("provider",),
)  # fmt: skip
ROWS_REJECTED = Family(
    "gpucost_rows_rejected_total", "counter",
    "Rows of providers' answers that are no offers, by reason.", ("provider", "reason"),
)  # fmt: skip
BREAKER = Family(
    "gpucost_breaker_state", "gauge",
    "1 for the state that the provider's circuit breaker is in, 0 for the others: "
    f"{', '.join(BREAKERS)}.", ("provider", "state"),
)  # fmt: skip

EVALUATIONS = Family(
    "gpucost_alert_evaluations_total", "counter",
    "Evaluations of a rule by the health of what it looked at.", ("rule", "health"),
)  # fmt: skip
EVALUATION_DURATION = Family(
    "gpucost_alert_evaluation_duration_seconds", "histogram",
    "How long one evaluation of all rules that were due took.",
)  # fmt: skip
NOTICES = Family(
    "gpucost_notices_total", "counter",
    "Attempts to send a notice, by what came of them: sent, retry, dead.", ("channel", "result"),
)  # fmt: skip

DATABASE_UP = Family(
    "gpucost_database_up", "gauge",
    "1 when the database answered this scrape; else the metrics that come from it are absent.",
)  # fmt: skip
LAST_SUCCESS = Family(
    "gpucost_poll_last_success_timestamp_seconds", "gauge",
    "When the provider's last good poll was.", ("provider",),
)  # fmt: skip
INTERVAL = Family(
    "gpucost_poll_interval_seconds", "gauge", "How often the provider is polled.", ("provider",)
)
FAILURES = Family(
    "gpucost_poll_consecutive_failures", "gauge", "Polls in a row that failed.", ("provider",)
)
STALE = Family(
    "gpucost_provider_stale", "gauge",
    "1 when the provider's prices are too old to be ranked, or it was asked and never gave any.",
    ("provider",),
)  # fmt: skip
OFFERS = Family(
    "gpucost_offers", "gauge", "Offers whose price is known; absent while stale.", ("provider",)
)
USUAL = Family(
    "gpucost_offers_usual", "gauge",
    "Median number of offers of the provider's complete polls before the latest.", ("provider",),
)  # fmt: skip
QUARANTINED = Family(
    "gpucost_offers_quarantined", "gauge", "Offers that a quality gate holds back.", ("provider",)
)
UNMAPPED = Family(
    "gpucost_unmapped_gpus", "gauge", "GPU names that the catalogue does not know.", ("provider",)
)
PRICE = Family(
    "gpucost_gpu_price_usd_per_hour", "gauge",
    "Price of fresh offers per GPU and hour; stat is min, p10 or median. List prices of the price "
    "book are among them, however old, where their seller's own are not there.",
    ("gpu", "market", "stat"),
)  # fmt: skip
JOB_COST = Family(
    "gpucost_job_cost_usd", "gauge",
    "Cheapest whole bill of a job on a family of GPUs, with the default filters, list prices of "
    "the price book included: alert on gpucost_alert_state instead. lower_bound is true where the "
    "job's hours are a lower bound.", ("workload", "gpu", "lower_bound"),
)  # fmt: skip
JOB_COST_RATIO = Family(
    "gpucost_job_cost_ratio", "gauge",
    "What a rule that compares two bills looks at: the left one divided by the right one; absent "
    "while its data is not good.", ("rule",),
)  # fmt: skip
ALERT_STATE = Family(
    "gpucost_alert_state", "gauge",
    f"1 for the state that the rule is in, 0 for the others: {', '.join(PHASES)}.",
    ("rule", "state"),
)  # fmt: skip
ALERT_HEALTH = Family(
    "gpucost_alert_health", "gauge",
    "1 for the health of what the rule looked at last, 0 for the others: "
    f"{', '.join(HEALTHS)}.", ("rule", "health"),
)  # fmt: skip
LAST_EVALUATION = Family(
    "gpucost_alert_last_evaluation_timestamp_seconds", "gauge",
    "When the rule was last evaluated.", ("rule",),
)  # fmt: skip
OUTBOX_PENDING = Family(
    "gpucost_outbox_pending", "gauge", "Notices that wait to be sent.", ("channel",)
)
OUTBOX_OLDEST = Family(
    "gpucost_outbox_oldest_age_seconds", "gauge",
    "How long the oldest notice has waited, 0 when none waits.", ("channel",),
)  # fmt: skip
OUTBOX_DEAD = Family(
    "gpucost_outbox_dead", "gauge", "Notices that were given up; see gpucost alerts outbox.",
    ("channel",),
)  # fmt: skip

OF_PROCESS = (
    BUILD_INFO, LEADER, POLLS, POLL_DURATION, POLLS_MISSED, ROWS_REJECTED, BREAKER, EVALUATIONS,
    EVALUATION_DURATION, NOTICES,
)  # fmt: skip
OF_STORE = (
    DATABASE_UP, LAST_SUCCESS, INTERVAL, FAILURES, STALE, OFFERS, USUAL, QUARANTINED, UNMAPPED,
    PRICE, JOB_COST, JOB_COST_RATIO, ALERT_STATE, ALERT_HEALTH, LAST_EVALUATION, OUTBOX_PENDING,
    OUTBOX_OLDEST, OUTBOX_DEAD,
)  # fmt: skip
FAMILIES = OF_PROCESS + OF_STORE
