"""What can be configured of the AWS provider."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from providers.aws.regions import DEFAULT_REGIONS, RegionCode, apart
from tracker.provider import ProviderConfig


def _of_the_public_cloud(region: str) -> str:
    if why := apart(region):
        raise ValueError(f"{region} is a {why}: its prices are not read")
    return region


ListedRegion = Annotated[str, AfterValidator(_of_the_public_cloud)]


class AwsConfig(ProviderConfig):
    """``[providers.aws]``: which of AWS's price files to read, for which regions, and from where.

    ``regions`` are those of the small feed. ``bulk_regions`` are those whose bulk list is read,
    either because ``on_demand_source`` is "bulk" or because the small feed answered for no region
    at all; each is a download of 300-450 MB, so name few (none: no fallback). A region that takes
    longer than ``bulk_timeout_seconds`` is left out of the poll.

    ``savings_plan_regions`` are those whose list of savings plans is read (none: no plans), each a
    download as large; it is sent again only when AWS has published another version.

    Spot prices come in one file with all regions, one price for each; ``advisor`` adds interruption
    rates. ``spot_source``: "auto" asks EC2 itself for the price in each zone of ``regions`` where
    boto3 is installed and may find credentials, "page" never does, "account" does nothing else.
    """

    on_demand_source: Literal["small", "bulk"] = "small"
    spot: bool = True
    spot_source: Literal["auto", "page", "account"] = "auto"
    advisor: bool = True
    regions: tuple[RegionCode, ...] = DEFAULT_REGIONS
    bulk_regions: tuple[ListedRegion, ...] = ("us-east-1",)
    bulk_timeout_seconds: float = 240
    savings_plan_regions: tuple[ListedRegion, ...] = ()
    small_feed_url: str = "https://b0.p.awsstatic.com"
    bulk_url: str = "https://pricing.us-east-1.amazonaws.com"
    spot_url: str = "https://website.spot.ec2.aws.a2z.com"
    advisor_url: str = "https://spot-bid-advisor.s3.amazonaws.com"
