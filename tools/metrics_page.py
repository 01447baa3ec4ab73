"""Write docs/metrics.md from the metrics' own names, labels and meanings.

``python -m tools.metrics_page`` rewrites the page; a test compares it with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracker.web.families import OF_PROCESS, OF_STORE, Family

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

_HEAD = """\
# Metrics

Written by `make docs` from the code; do not edit it here.

The daemon answers for Prometheus on `/metrics` (`[daemon] listen` and `port`, by default
http://127.0.0.1:9753/metrics). `deploy/prometheus/prometheus.yml` scrapes it,
`deploy/prometheus/rules.yml` holds alerts and `deploy/grafana/gpucost.json` a dashboard.

A metric has a series only while its value is known: what has grown stale vanishes instead of
standing still, and nothing is 0 because it is unknown. No label is of a single offer. Beside these
there are the `process_*` metrics of the Python client.

"""
_PROCESS = """\
## What this process has done

Counters begin at 0 when the daemon starts. Only the daemon that leads polls and sends.

"""
_STORE = """\

## What the database says

Every daemon on one database says the same of it: take the `max` of several.

"""


def page() -> str:
    """The whole page."""
    return _HEAD + _PROCESS + _table(OF_PROCESS) + _STORE + _table(OF_STORE)


def _table(families: Iterable[Family]) -> str:
    rows = [("metric", "kind", "labels", "meaning"), ("---",) * 4]
    rows += [
        (f"`{f.name}`", f.kind, ", ".join(f"`{label}`" for label in f.labels), f.help)
        for f in families
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
