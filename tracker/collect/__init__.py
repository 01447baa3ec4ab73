"""One poll, top to bottom: fetch, parse, normalise, judge, record."""

from tracker.collect.collector import Collector, PollOutcome, fetch_once, interval, poll_all
from tracker.collect.digest import Digest, digest

__all__ = ["Collector", "Digest", "PollOutcome", "digest", "fetch_once", "interval", "poll_all"]
