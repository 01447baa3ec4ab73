"""One poll, top to bottom: fetch, parse, normalise, judge, record."""

from tracker.collect.collector import Collector, PollOutcome, fetch_once, interval, poll_all
from tracker.collect.digest import Digest, digest
from tracker.collect.exchange import rates_once

__all__ = [
    "Collector",
    "Digest",
    "PollOutcome",
    "digest",
    "fetch_once",
    "interval",
    "poll_all",
    "rates_once",
]
