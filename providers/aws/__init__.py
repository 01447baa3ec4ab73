"""Amazon Web Services, EC2: on-demand, spot and savings plan prices of GPU instances.

On-demand prices come from the small feed behind AWS's pricing page (about 50 kB a region) or from
the documented bulk list (300-450 MB a region), spot prices from the file behind the spot pricing
page or, with credentials, from EC2 itself, zone by zone. Savings plans have documented lists as
large as the bulk list; they are read for the regions that are named. Capacity Blocks, the way most
P5 and P6 machines are sold, have no hourly list price that can be read without an account, and are
not here; neither are the clouds apart (China, the US government's).
"""

from __future__ import annotations

from datetime import timedelta

from providers.aws import account
from providers.aws.config import AwsConfig
from providers.aws.fetching import asks_account, fetch
from providers.aws.offers import BILLING_INCREMENT_SECONDS, MINIMUM_SECONDS
from providers.aws.parsing import parse
from tracker.provider import Facts, Provider

__all__ = ["AwsConfig", "fetch", "parse", "provider"]


def _key_set(config: AwsConfig) -> bool:
    return asks_account(config) and account.installed() and account.credentials_likely()


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
        spot="current spot price for Linux, one for a region or, with credentials, for each zone; "
        "it says nothing of capacity, and the machine may be taken away at two minutes' notice",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="AWS_ACCESS_KEY_ID",
        key_adds="the spot price in each availability zone; needs pip install "
        "'.[aws]' in gpucost's checkout, and any credentials that boto3 finds will "
        "do (variables, a profile, a role)",
        terms="The bulk list, the savings plan lists and EC2's API are documented interfaces for "
        "programs. The small feed, spot.json and the Spot Advisor file serve AWS's own pages and "
        "are undocumented; some read the AWS Site Terms as barring robots from them. "
        'on_demand_source = "bulk", spot_source = "account" and advisor = false leave them out. '
        "Savings plans are read for savings_plan_regions only, each a download of hundreds of MB.",
        verified="Not called live. Written against recorded answers: small feed of 2026-09, "
        "spot.json of 2026-08, Spot Advisor of 2025-07, header and rows of the bulk list and of a "
        "savings plan list of 2025, EC2's API as boto3 1.44 describes it; GPU facts from EC2 "
        "DescribeInstanceTypes as recorded in 2026-08.",
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=0.1,
    poll_deadline=timedelta(minutes=6),
    key_set=_key_set,
)
