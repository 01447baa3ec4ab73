"""The parameters of every question: what commands, addresses, tools and pages take."""

from __future__ import annotations

from collections.abc import Mapping

from tracker.app import asked
from tracker.app.asked import Parameter
from tracker.app.ordering import GROUP_COLUMNS, OFFER_COLUMNS
from tracker.app.past import NOW_ONLY
from tracker.domain.pareto import Goal
from tracker.report.grouped import FIELDS

_PAST_FILTERS = {name: one for name, one in asked.FILTERS.items() if name not in NOW_ONLY}
_SINCE = asked.text_parameter("So long ago (12h, 90d, 1y) or a date: 2026-03-01.")._replace(
    default="90d"
)
_UNTIL = asked.text_parameter("A date, or so long ago. Default: now.")
_SIDES = {
    "left": asked.text_parameter("One GPU: H100."),
    "right": asked.text_parameter("The other one: A100."),
}
_VERSION = asked.choice(
    "Price the past with the hours that were known then, or with those of now.",
    ("recorded", "latest"), "recorded", "version",
)  # fmt: skip
_GROUP_BY = asked.list_parameter(
    "A row for each group instead of each offer; always by gpu and market, and region goes with "
    "provider only."
)._replace(
    read=lambda text, _: tuple(
        asked.one_of(name, FIELDS, "field to group by") for name in asked.words(text)
    ),
    choices=FIELDS,
)
_SORT = asked.text_parameter(
    f"By a column, downwards with - before it (-price); else the cheapest first. Of offers: "
    f"{', '.join(OFFER_COLUMNS)}. Of groups: the fields they are of, {', '.join(GROUP_COLUMNS)}."
)
_TOP = {"cheapest": 10, "offers": 25, "quarantined": 100}
QUESTIONS: Mapping[str, Mapping[str, Parameter]] = {
    "cheapest": {
        **asked.JOB, **asked.FILTERS,
        "compare": asked.list_parameter("Break-even of one GPU against another: H100,A100."),
        "goal": asked.choice(
            "What to rank by.", [str(goal) for goal in Goal], str(Goal.CHEAPEST), "goal"
        ),
        "top": asked.top_parameter(_TOP["cheapest"]),
    },
    "compare": {
        **asked.JOB, **{k: v for k, v in asked.FILTERS.items() if k != "gpu"},
        **_SIDES,
    },
    "history": {
        **asked.JOB, **_PAST_FILTERS,
        "since": _SINCE,
        "until": _UNTIL,
        "bucket": asked.text_parameter(
            "15m, 1h, 6h (what divides a day), 1d, 1w or 1mo. Default: by the window."
        ),
        "tz": asked.text_parameter("Whose days and midnights: Europe/Berlin.")._replace(
            default="UTC"
        ),
        "per": asked.choice(
            "A series for each GPU, or for each provider.", ("gpu", "provider"), "gpu", "series"
        ),
        "stat": asked.choice(
            "The figure of a bucket, over the time that a price is known for.",
            ("min", "median", "p10", "p90"), "min", "figure",
        ),
        "below": asked.number_parameter("For how long it was to be had for less, USD."),
        "estimate_version": _VERSION,
    },
    "versus": {
        **asked.JOB, **{name: one for name, one in _PAST_FILTERS.items() if name != "gpu"},
        **_SIDES,
        "since": _SINCE,
        "estimate_version": _VERSION,
    },
    "when": {
        **{name: asked.JOB[name] for name in ("job", "hours", "disk", "egress", "setup")},
        "deadline": asked.duration_parameter("The job must be done within this time: 12h, 14d."),
        **_PAST_FILTERS,
        "since": _SINCE._replace(default="1y"), "until": _UNTIL,
    },
    "offers": {
        **asked.FILTERS, "group_by": _GROUP_BY, "sort": _SORT,
        "top": asked.top_parameter(_TOP["offers"])._replace(help="Only the first so many."),
    },
    "quarantined": {
        **{name: asked.FILTERS[name] for name in ("gpu", "provider", "region", "market", "tier")},
        "top": asked.top_parameter(_TOP["quarantined"])._replace(help="Only the first so many."),
    },
    "estimate": {
        "job": asked.JOB["job"], "gpu": asked.FILTERS["gpu"], "gpus": asked.FILTERS["gpus"],
        "prices": asked.flag_parameter("Also the cheapest offer of each.", default=True),
    },
    "providers": {},
    "jobs": {},
    "alerts": {},
    "silences": {"all": asked.flag_parameter("Those that are over, too.", default=False)},
}  # fmt: skip
