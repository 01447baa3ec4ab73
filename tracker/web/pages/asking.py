"""Questions about the past, with the names of the command line's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tracker.app import asked
from tracker.app.answers import QUESTIONS, Answers, Question
from tracker.app.asked import Parameter
from tracker.app.past import NOW_ONLY, history_on, versus_on
from tracker.app.windows import Window, window_of

if TYPE_CHECKING:
    from tracker.report.history.told import Told
    from tracker.report.history.versus import Versus

_PAST_FILTERS = {name: one for name, one in asked.FILTERS.items() if name not in NOW_ONLY}
_SINCE = asked.text_parameter("So long ago (12h, 90d, 1y) or a date: 2026-03-01.")
_VERSION = asked.choice(
    "Price the past with the hours that were known then, or with those of now.",
    ("recorded", "latest"), "recorded", "version",
)  # fmt: skip
_PAST: Mapping[str, Mapping[str, Parameter]] = {
    "history": {
        **asked.JOB, **_PAST_FILTERS,
        "since": _SINCE._replace(default="90d"),
        "until": asked.text_parameter("A date, or so long ago. Default: now."),
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
        "below": Parameter(
            lambda text, _: asked.positive(text), "For how long it was to be had for less, USD.",
            "number",
        ),
        "estimate_version": _VERSION,
    },
    "versus": {
        **asked.JOB, **{name: one for name, one in _PAST_FILTERS.items() if name != "gpu"},
        "left": asked.text_parameter("One GPU: H100."),
        "right": asked.text_parameter("The other one: A100."),
        "since": _SINCE._replace(default="90d"),
        "estimate_version": _VERSION,
    },
}  # fmt: skip


def parameters(name: str) -> Mapping[str, Parameter]:
    """What can be asked of a question."""
    return QUESTIONS[name] if name in QUESTIONS else _PAST.get(name, {})


def question(name: str, given: Iterable[tuple[str, str]]) -> Question:
    """Read *given* pairs of a parameter's name and text. Raises BadQuestion."""
    now = datetime.now(UTC)
    return Question(name, asked.parse(parameters(name), given, now), now)


def history(answers: Answers, question: Question) -> tuple[Told, Window]:
    """What a job cost over time. Raises what ``Answers`` does."""
    options = _options(answers, question)
    now = question.now
    window = window_of(options["since"], options["until"], options["bucket"], options["tz"], now)
    job, filters = answers._job(options), asked.filters_of({**options, **NOW_ONLY})
    answers._known(filters.gpus)
    with answers._reading() as connection:
        return history_on(connection, answers.app, job, filters, window, options, now), window


def versus(answers: Answers, question: Question) -> Versus:
    """Two GPUs over time. Raises what ``Answers`` does."""
    options = _options(answers, question) | {"gpu": (), "as_of": None}
    job, filters = answers._job(options), asked.filters_of({**options, **NOW_ONLY})
    names = options["left"], options["right"]
    answers._known(names)
    with answers._reading() as connection:
        return versus_on(connection, answers.app, job, names, filters, options)


def _options(answers: Answers, question: Question) -> dict[str, Any]:
    options = answers._options(question)
    options.pop("goal")
    return options | {"estimates": options["estimate_version"]}
