"""The shapes of answers about alerts, and of what is asked to be written and was."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from tracker.web.api.models import Amount, Answer, Moment, Shape

_RATE = "Of all GPUs together, in place of the hours."


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

    rule: str | None = Field(default=None, description="Of this rule; * and ? match anything.")
    job: str | None = Field(default=None, description="Of rules about this job.")
    provider: str | None = Field(default=None, description="Of notices about this provider.")
    gpu: str | None = Field(default=None, description="Of notices about this GPU.")
    length: str = Field(
        description="For so long: 2h, 7d. It may be called for, as on the command line.",
        examples=["2h"], validation_alias=AliasChoices("length", "for"),
    )  # fmt: skip
    comment: str = Field(min_length=1, max_length=500, description="Why.")
    author: str = Field(min_length=1, max_length=500, description="Who makes it.")


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

    author: str = Field(min_length=1, max_length=500, description="Who takes note.")


class Acked(Answer):
    """``noted``: it is new that somebody has; false: it was acknowledged already."""

    rule: str
    noted: bool


class MeasurementAsked(Shape):
    """A run of one's own: the hours, or one rate of all GPUs together."""

    gpu: str = Field(description="The exact GPU that it ran on: H100-SXM-80GB.")
    gpus: int = Field(default=1, ge=1, le=10_000, description="How many worked together.")
    hours: Amount | None = Field(default=None, description="Hours of the whole job.")
    tokens_per_second: Amount | None = Field(default=None, description=_RATE)
    samples_per_second: Amount | None = Field(default=None, description=_RATE)
    requests_per_second: Amount | None = Field(default=None, description=_RATE)
    note: str | None = Field(
        default=None, max_length=500, description="What else should be known of the run."
    )


class MeasurementMade(Answer):
    """What was recorded."""

    remark: str
