"""What can be configured of the AWS provider."""

from __future__ import annotations

from typing import Literal

from providers.aws.regions import DEFAULT_REGIONS, RegionCode
from tracker.provider import ProviderConfig


class AwsConfig(ProviderConfig):
    """``[providers.aws]``: which of AWS's price files to read, for which regions, and from where.

    ``regions`` are those of the small feed. ``bulk_regions`` are those whose bulk list is read,
    either because ``on_demand_source`` is "bulk" or because the small feed answered for no region
    at all; each is a download of 300-450 MB, so name few (none: no fallback). A region that takes
    longer than ``bulk_timeout_seconds`` is left out of the poll. Spot prices come in one file with
    all regions; ``advisor`` adds interruption rates to them.
    """

    on_demand_source: Literal["small", "bulk"] = "small"
    spot: bool = True
    advisor: bool = True
    regions: tuple[RegionCode, ...] = DEFAULT_REGIONS
    bulk_regions: tuple[str, ...] = ("us-east-1",)
    bulk_timeout_seconds: float = 240
    small_feed_url: str = "https://b0.p.awsstatic.com"
    bulk_url: str = "https://pricing.us-east-1.amazonaws.com"
    spot_url: str = "https://website.spot.ec2.aws.a2z.com"
    advisor_url: str = "https://spot-bid-advisor.s3.amazonaws.com"
