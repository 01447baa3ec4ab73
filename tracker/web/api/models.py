"""The shapes of answers as typed models: what the OpenAPI document says of them.

The values are made by ``tracker.report.shapes``; a test holds every answer against these models.
Money is text in USD, never a number; what is not known is null; times are ISO 8601 in UTC.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

Usd = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$", examples=["2.69"], description="USD")]
MOST_DIGITS = 50
# Of a body: a number as well. It is text from here on, digit by digit as it was sent.
Amount = Annotated[
    str,
    BeforeValidator(lambda value: _as_text(value)),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]}),
]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Counts = dict[str, int]
Number = int | float


def _as_text(value: Any) -> Any:
    """A number digit by digit, unless it has so many that nobody means it."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    return f"{value:f}" if abs(Decimal(value).adjusted()) <= MOST_DIGITS else str(value)


class Shape(BaseModel):
    """An object with exactly these members."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    model_config = ConfigDict(extra="forbid")

    type: str
    title: str
    status: int
    detail: str
    parameter: str | None = Field(default=None, description="The parameter at fault.")


class Line(Shape):
    """A line of a bill."""

    kind: str
    label: str
    amount_usd: Usd | None


class Row(Shape):
    """One way to run a job: an offer and its whole bill."""

    rank: int | None
    offer: str
    gpu: str
    gpus: Number
    provider: str
    source: str
    owned: bool
    upstream: str | None
    offer_id: str
    region: str | None
    country: str | None
    tier: str
    market: str
    kind: str = Field(description="What is rented: slice, gpu, gpus, machine or cluster.")
    list_price: bool = Field(description="Nobody says whether anything is to be had at it.")
    price_kind: str
    total_usd: Usd | None = Field(description="null: a part of the bill has no known price")
    at_least_usd: Usd
    partial: list[str]
    price_usd_per_gpu_hour: Usd
    price_usd_per_machine_hour: Usd
    machines: int
    runtime_hours: Number
    billed_hours: Number
    basis: str
    basis_note: str | None
    basis_source: str | None
    gpus_used: int
    runtime_low_hours: Number | None
    runtime_high_hours: Number | None
    low_usd: Usd | None
    high_usd: Usd | None
    low_machines: int | None = Field(description="Of a service, at both ends of its speed.")
    high_machines: int | None
    tie: bool
    done_hours: Number
    unbeaten: bool
    estimate_version: str | None
    lower_bound: bool
    age_seconds: int | None = Field(description="Null: a price of the past, nobody knows of when.")
    seen_at: Moment | None
    stale: bool
    valid_as_of: str | None
    availability: str
    stock: str | None
    discount_percent: Number | None
    vcpus: Number | None
    ram_gib: Number | None
    interconnect: str | None
    bill: list[Line]
    notes: list[str]
    # Of spot machines, where interruptions are reckoned with.
    break_even_interruptions: Number = Field(default=0)
    break_even_interruptions_per_hour: Number = Field(default=0)
    rerun_hours: Number | None = None
    wall_hours: Number | None = None
    interruptions: Number = Field(default=0)
    interruption_basis: str = ""
    chance_in_time: Number = Field(default=0)
    # Of jobs that say what they compute.
    kwh: Number | None = None
    low_kwh: Number | None = None
    high_kwh: Number | None = None
    energy_assumptions: list[str] = []
    co2_kg: Number | None = None
    tokens_per_kwh: Number | None = None
    tokens_per_second_per_watt: Number | None = None
    usd_per_request: Usd | None = None
    usd_per_million_input: Usd | None = None
    usd_per_million_output: Usd | None = None
    usd_per_month: Usd | None = None
    utilisation: Number | None = None
    usd_per_completed: Usd | None = None
    work_per_usd: Number | None = None
    work_unit: str | None = None
    unit_hours: Number | None = Field(
        default=None, description="Of a service committed to for longer than asked for: the hours "
        "whose requests share the bill that unit prices are of.",
    )  # fmt: skip


class Hours(Shape):
    """Hours on one GPU, and what they rest on."""

    hours: Number
    gpus: int
    basis: str
    lower_bound: bool
    note: str | None
    source: str | None


class JobAsked(Shape):
    """The job that was asked about."""

    name: str
    title: str
    gpus_needed: int
    min_vram_gb: Number | None
    disk_gb: Number | None
    egress_gb: Number | None
    setup_hours: Number | None
    download_gb: Number | None
    assumed_mbps: Number | None
    completes: Any
    workload: str | None
    limits: dict[str, Any] | None
    spot: dict[str, Any] | None
    hours: dict[str, Hours]


class Comparison(Shape):
    """One GPU's best way against another's."""

    left: Row
    right: Row
    break_even_usd_per_machine_hour: Usd | None
    break_even_usd_per_gpu_hour: Usd | None
    break_even_bound: str | None
    break_even_unknown: bool
    speed_up_had: Number | None
    speed_up_needed: Number | None


class Answer(Shape):
    """What every JSON answer begins with."""

    schema_version: Literal[1]


class Page(Answer):
    """An answer in pages: ``next`` is the address of the next one, null on the last."""

    next: str | None


class CheapestAnswer(Page):
    """The cheapest ways to run a job, with everything that was left out and why."""

    as_of: Moment
    answer: str | None
    job: JobAsked
    goal: str
    ranking: str
    unbeaten: list[Row]
    slices: list[Row]
    filters: dict[str, Any]
    offers_total: int
    offers_considered: int
    excluded: Counts
    best_by_gpu: list[Row]
    comparison: Comparison | None
    remarks: list[str]
    verified: list[dict[str, Any]]
    rows: list[Row]


class Versus(Comparison):
    """The comparison of two GPUs, and which it is."""

    winner: str
    sooner: str
    margin_percent: Number | None
    unknown: list[str]
    decided_by: list[str]


class Side(Shape):
    """What one side was chosen from."""

    gpu: str
    offers_total: int
    offers_considered: int
    excluded: Counts


class Sides(Shape):
    """Both sides."""

    left: Side
    right: Side


class CompareAnswer(Answer):
    """One GPU against another for a job."""

    as_of: Moment
    answer: str | None
    job: JobAsked
    filters: dict[str, Any]
    comparison: Versus | None
    remarks: list[str]
    sides: Sides
    rows: list[Row]


class Quarantined(Shape):
    """An offer that a quality gate holds back, and why; it is never ranked."""

    offer: str
    gpu: str
    gpus: Number
    provider: str
    region: str | None
    tier: str
    market: str
    price_usd_per_machine_hour: Usd
    gate: str
    reason: str
    confirmations: int
    releasable: bool = Field(description="It is believed after all once polls confirm it.")
    first_seen_at: Moment
    last_seen_at: Moment


class QuarantinedAnswer(Page):
    """What the quality gates hold back."""

    as_of: Moment
    filters: dict[str, Any]
    quarantined_total: int
    quarantined_matching: int
    rows: list[Quarantined]


class Estimated(BaseModel):
    """A job on one GPU."""

    model_config = ConfigDict(extra="allow")

    gpu: str
    gpus: int
    runs: bool
    reason: str | None
    hours: Number | None = None
    total_usd: Usd | None = None
    at_least_usd: Usd | None = None
    price_usd_per_gpu_hour: Usd | None = None


class EstimateAnswer(Answer):
    """How long a job takes on each GPU, the fastest first."""

    job: str
    title: str
    kind: str
    remark: str | None
    estimates: list[Estimated]


class Provider(BaseModel):
    """How a provider stands."""

    model_config = ConfigDict(extra="allow")

    provider: str
    kind: str | None
    last_ok_at: Moment | None
    age_seconds: int | None
    stale: bool | None
    last_status: str | None
    last_error: str | None
    consecutive_failures: int | None
    offers: int | None
    quarantined: int | None
    rejected: int | None
    unmapped: int | None
    unchanged_since: Moment | None


class ProvidersAnswer(Answer):
    """Each provider's health, age and counts."""

    as_of: Moment
    rows: list[Provider]


class ListedJob(Shape):
    """A job known by name. ``problem`` says why one cannot be used."""

    job: str
    kind: str | None
    from_: str = Field(alias="from")
    title: str | None
    problem: str | None


class JobsAnswer(Answer):
    """The jobs known by name."""

    jobs: list[ListedJob]


class JobAnswer(Answer):
    """What a job is, and what it assumes."""

    name: str
    title: str
    description: str | None
    kind: str
    needs: dict[str, Any]
    workload: dict[str, Any]
    limits: dict[str, Any]
    hours: dict[str, Hours]
    measurements: list[dict[str, Any]] = Field(description="Oldest first, with those replaced.")
    remark: str | None = Field(description="Why nobody can tell what was measured.")
