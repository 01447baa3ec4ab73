"""Amazon Web Services, EC2: on-demand and spot prices of GPU instances, without credentials.

On-demand prices come from the small feed behind AWS's pricing page (about 50 kB a region) or from
the documented bulk list (300-450 MB a region), spot prices from the file behind the spot pricing
page. Capacity Blocks, the way most P5 and P6 machines are sold, have no hourly list price that
can be read without an account, and are not here.
"""

from __future__ import annotations

from datetime import timedelta

from providers.aws.config import AwsConfig
from providers.aws.fetching import fetch
from providers.aws.parsing import parse
from providers.aws.rows import BILLING_INCREMENT_SECONDS, MINIMUM_SECONDS
from tracker.provider import Facts, Provider

__all__ = ["AwsConfig", "fetch", "parse", "provider"]


provider = Provider(
    name="aws",
    every=timedelta(hours=1),
    config=AwsConfig,
    facts=Facts(
        title="AWS EC2",
        website="https://aws.amazon.com/ec2/pricing/",
        price_per="machine",
        currency="USD",
        # Linux, all regions: https://repost.aws/knowledge-center/ec2-instance-hour-billing
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        minimum_seconds=MINIMUM_SECONDS,
        spot="current spot price for Linux, one for a region and not for each zone; "
        "it says nothing of capacity, and the machine may be taken away at two minutes' notice",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="The bulk list is a documented interface for programs. The small feed, spot.json "
        "and the Spot Advisor file serve AWS's own pages and are undocumented; some read the AWS "
        'Site Terms as barring robots from them. on_demand_source = "bulk" and spot = false leave '
        "them out.",
        verified="Not called live. Written against recorded answers: small feed of 2026-09, "
        "spot.json of 2026-08, Spot Advisor of 2025-07, header and rows of the bulk list of 2025; "
        "GPU facts from EC2 DescribeInstanceTypes as recorded in 2026-08.",
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=0.1,
    poll_deadline=timedelta(minutes=6),
)
