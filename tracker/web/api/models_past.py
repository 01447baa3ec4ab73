"""The shapes of answers about the past."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tracker.web.api.models import Answer, Counts, JobAsked, Moment, Number, Shape, Usd


class HistoryRow(BaseModel):
    """A bucket of a series; what is not known is null, and a gap is never filled."""

    model_config = ConfigDict(extra="allow")

    start: Moment
    end: Moment
    series: str
    usd: Usd | None
    low_usd: Usd | None
    high_usd: Usd | None
    mean_usd: Usd | None
    known_seconds: int


class HistoryAnswer(Answer):
    """What a job cost over time."""

    as_of: Moment
    answer: str
    job: JobAsked
    filters: dict[str, Any]
    since: Moment
    until: Moment
    bucket: str
    time_zone: str
    stat: str
    per: str
    estimate_version: str
    estimates: dict[str, Any]
    history_begins_at: Moment | None
    series: list[dict[str, Any]]
    compared_seconds: int
    kinds_considered: int
    excluded: Counts
    replaced: int
    remarks: list[str]
    rows: list[HistoryRow]


class Even(Shape):
    """A time within which neither bill changes. ``ratio`` is the left bill over the right one."""

    start: Moment
    end: Moment
    cheaper: str = Field(description="left, right or tie")
    left_usd: Usd
    right_usd: Usd
    ratio: Number | None
    left_price_usd_per_gpu_hour: Usd
    break_even_usd_per_gpu_hour: Usd | None = Field(description="null: no price would do")
    left_gpu: str
    left_provider: str
    right_gpu: str
    right_provider: str
    left_offer: str
    right_offer: str
    left_source: str = Field(description="Whose word the price is.")
    right_source: str
    left_valid_as_of: str | None = Field(description="The day a person read it; null: a program.")
    right_valid_as_of: str | None


class Crossing(Shape):
    """When the other one became the cheaper one. ``gap``: not known at all times since
    ``last_seen``, so perhaps earlier."""

    at: Moment
    cheaper: str
    left_usd: Usd
    right_usd: Usd
    last_seen: Moment
    gap: bool


class Shares(Shape):
    """Shares of the time for which both are known."""

    left: Number | None
    right: Number | None
    tie: Number | None


class VersusAnswer(Answer):
    """Two GPUs over time."""

    as_of: Moment
    answer: str
    job: str
    left: str
    right: str
    filters: dict[str, Any]
    since: Moment
    until: Moment
    compared_seconds: int
    shares: Shares
    initial: str | None
    initial_since: Moment | None
    crossings: list[Crossing]
    remarks: list[str]
    excluded: Counts
    steps: list[Even]


class Spread(Shape):
    """Shares of what starting at once cost: 0.9 is a tenth less."""

    mean: Number
    p10: Number
    median: Number
    p90: Number


class LastMoment(Spread):
    """Starting at the last moment; ``lost`` counts the times at which that was dearer."""

    lost: int


class WaitingRule(Spread):
    """Waiting for ``drop_percent`` less, or starting at the last moment."""

    drop_percent: Number
    times: int
    gained: int
    lost: int
    sure_gained_share: Number


class CheapestNow(Shape):
    """The cheapest way at the end of the history."""

    job_cost_usd: Usd
    gpu: str
    provider: str
    market: str
    basis: str = Field(description="What the hours rest on.")
    source: str = Field(description="Whose word the price is.")
    age_seconds: int | None
    valid_as_of: str | None = Field(description="The day a person read it; null: a program did.")


class Played(Shape):
    """The history that the answer goes by."""

    start: Moment
    end: Moment
    known_seconds: int
    below_now_seconds: int | None
    moments: int
    moments_without_an_end: int
    windows_that_do_not_overlap: int


class WhenAnswer(Answer):
    """Start now, or wait for a lower price."""

    as_of: Moment
    job: str
    filters: dict[str, Any]
    advice: str = Field(description="go, wait or unknown")
    reason: str
    deadline_seconds: int
    wait_seconds: int | None
    latest_start: Moment | None
    now: CheapestNow | None
    wait_for_usd: Usd | None
    history: Played | None
    lowest: Spread | None
    last_moment: LastMoment | None
    rules: list[WaitingRule]
    earlier: WaitingRule | None
    later: WaitingRule | None
    remarks: list[str]
