"""``python -m tests.e2e.hasty daemon``: gpucost that tries to send again within a second.

Half an hour between two tries becomes half a second, the lease of a message under way three
seconds. Everything else is as it is.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from tracker.alert import deliver
from tracker.cli.main import main
from tracker.daemon import alerting


def hurry() -> None:
    """Shorten the pauses of delivery."""
    deliver.BACKOFF = timedelta(seconds=0.1)
    deliver.MAX_BACKOFF = timedelta(seconds=0.5)
    deliver.MIN_PAUSE = timedelta(seconds=0.05)
    deliver.SEND_TIMEOUT = timedelta(seconds=2)
    deliver.MESSAGES_PER_MINUTE = 1200  # every try counts
    deliver.LEASE = timedelta(seconds=3)
    pace = partial(deliver.Pace, poll=timedelta(seconds=0.25))
    setattr(alerting, "Pace", pace)  # noqa: B010 - a type is what it declares
    alerting.AGAIN_S = 0.5
    alerting.BEATS_APART_S = 2.0


if __name__ == "__main__":
    hurry()
    main()
