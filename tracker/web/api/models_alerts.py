"""The shapes of answers about alerts, and of what is asked to be written and was."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tracker.web.api.models import Answer, Moment, Shape, Usd


class Alert(BaseModel):
    """How an alert rule stands."""

    model_config = ConfigDict(extra="allow")

    rule: str
    title: str | None
    when: str | None
    status: str
    phase: str | None
    health: str | None
    value: str | None
    problems: list[str]


class AlertsAnswer(Answer):
    """How every alert rule stands."""

    as_of: Moment
    remarks: list[str]
    rows: list[Alert]


class Silence(Shape):
    """Notices that are kept back: of what all its matchers match; null matches everything."""

    id: int
    in_force: bool
    rule: str | None
    job: str | None
    provider: str | None
    gpu: str | None
    starts_at: Moment
    until: Moment
    author: str
    comment: str


class SilencesAnswer(Answer):
    """Silences, by number."""

    as_of: Moment
    rows: list[Silence]


class SilenceAsked(Shape):
    """Keep notices back: of ``rule`` (* and ? match anything), or of those the others match."""

    rule: str | None = None
    job: str | None = None
    provider: str | None = None
    gpu: str | None = None
    length: str = Field(description="For so long: 2h, 7d.", examples=["2h"])
    comment: str = Field(min_length=1, max_length=500)
    author: str = Field(min_length=1, max_length=500)


class SilenceMade(Answer):
    """A silence that was made."""

    silence: int
    until: Moment


class SilenceEnded(Answer):
    """A silence that was ended."""

    silence: int
    until: Moment


class AckAsked(Shape):
    """Who has taken note of a firing."""

    author: str = Field(min_length=1, max_length=500)


class Acked(Answer):
    """``noted``: it is new that somebody has; false: it was acknowledged already."""

    rule: str
    noted: bool


class MeasurementAsked(Shape):
    """A run of one's own: the hours, or one rate of all GPUs together."""

    gpu: str = Field(description="The exact GPU that it ran on: H100-SXM-80GB.")
    gpus: int = Field(default=1, ge=1, le=10_000)
    hours: Usd | None = None
    tokens_per_second: Usd | None = None
    samples_per_second: Usd | None = None
    requests_per_second: Usd | None = None
    note: str | None = Field(default=None, max_length=500)


class MeasurementMade(Answer):
    """What was recorded."""

    remark: str
