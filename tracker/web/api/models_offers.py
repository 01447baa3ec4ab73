"""The shapes of a list of offers, and of offers in groups; see ``models``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tracker.web.api.models import Counts, Moment, Number, Page, Shape, Usd


def _none() -> None:
    """What is not there unless it was asked for: with a factory the document tells no default."""


class Offer(BaseModel):
    """A machine that can be rented, with everything its provider said."""

    model_config = ConfigDict(extra="allow")

    offer: str
    gpu: str
    gpus: Number
    provider: str
    upstream: str | None
    region: str | None
    country: str | None
    tier: str
    market: str
    price_usd_per_gpu_hour: Usd
    price_usd_per_machine_hour: Usd
    vram_gb: Number | None
    age_seconds: int | None = Field(description="Null: a price of the past, nobody knows of when.")
    stale: bool
    availability: str
    kind: str = Field(description="What is rented: slice, gpu, gpus, machine or cluster.")
    list_price: bool = Field(description="Nobody says whether anything is to be had at it.")
    native_id: str
    seen_at: Moment | None


class OfferGroup(Shape):
    """Offers of one GPU in one market that have the fields of ``group_by`` in common.

    Prices are of a GPU-hour, over the offers of the group as they are listed; null where nothing is
    to be had. What is in stock is null as of a past moment.
    """

    gpu: str
    market: str
    provider: str = Field(default_factory=str)
    region: str | None = Field(default_factory=_none)
    country: str | None = Field(default_factory=_none)
    tier: str = Field(default_factory=str)
    kind: str = Field(default_factory=str)
    gpus: Number = Field(default_factory=int, description="Of a machine.")
    term: int | None = Field(default_factory=_none, description="Hours of commitment.")
    offers: int
    providers: int
    min_usd_per_gpu_hour: Usd | None
    p10_usd_per_gpu_hour: Usd | None
    median_usd_per_gpu_hour: Usd | None
    max_usd_per_gpu_hour: Usd | None
    in_stock: int | None
    stock_not_stated: int | None
    sold_out: int | None
    stale: int
    cheapest_offer: str | None
    age_seconds: int | None = Field(description="Of the cheapest offer's price.")


class OffersAnswer(Page):
    """What can be rented, the cheapest per GPU-hour first; in groups with ``group_by``."""

    as_of: Moment
    filters: dict[str, Any]
    offers_total: int
    offers_matching: int
    excluded: Counts
    sort: str = Field(
        default_factory=str, description="What the rows are sorted by, where that was asked."
    )
    group_by: list[str] = Field(default_factory=list, description="Of groups: their fields.")
    groups: int = Field(default_factory=int, description="How many there are on all pages.")
    ranked_by: str | None = Field(
        default_factory=_none, description="Of groups: what they are ranked by, unless sorted."
    )
    rows: list[Offer] | list[OfferGroup]
