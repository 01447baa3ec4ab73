"""AWS region codes, the names that the small price feed knows them by, and their countries.

The pairs of code and name are those of the EC2 price list. Older European regions are called
"EU (...)" there and newer ones "Europe (...)"; which of the two a page uses drifts, so both are
understood. Local and Wavelength Zones have codes of their own (``us-west-2-lax-1``) and stay
regions of their own: their prices differ from the parent region's.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

RegionCode = Literal[
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "ca-central-1",
    "sa-east-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-east-1",
    "il-central-1",
    "me-south-1",
    "me-central-1",
    "af-south-1",
]
DEFAULT_REGIONS: tuple[RegionCode, ...] = get_args(RegionCode)

LOCATIONS: dict[RegionCode, str] = {
    "us-east-1": "US East (N. Virginia)",
    "us-east-2": "US East (Ohio)",
    "us-west-1": "US West (N. California)",
    "us-west-2": "US West (Oregon)",
    "ca-central-1": "Canada (Central)",
    "sa-east-1": "South America (Sao Paulo)",
    "eu-west-1": "EU (Ireland)",
    "eu-west-2": "EU (London)",
    "eu-west-3": "EU (Paris)",
    "eu-central-1": "EU (Frankfurt)",
    "eu-central-2": "Europe (Zurich)",
    "eu-north-1": "EU (Stockholm)",
    "eu-south-1": "EU (Milan)",
    "eu-south-2": "Europe (Spain)",
    "ap-northeast-1": "Asia Pacific (Tokyo)",
    "ap-northeast-2": "Asia Pacific (Seoul)",
    "ap-northeast-3": "Asia Pacific (Osaka)",
    "ap-south-1": "Asia Pacific (Mumbai)",
    "ap-south-2": "Asia Pacific (Hyderabad)",
    "ap-southeast-1": "Asia Pacific (Singapore)",
    "ap-southeast-2": "Asia Pacific (Sydney)",
    "ap-southeast-3": "Asia Pacific (Jakarta)",
    "ap-southeast-4": "Asia Pacific (Melbourne)",
    "ap-east-1": "Asia Pacific (Hong Kong)",
    "il-central-1": "Israel (Tel Aviv)",
    "me-south-1": "Middle East (Bahrain)",
    "me-central-1": "Middle East (UAE)",
    "af-south-1": "Africa (Cape Town)",
}

# ISO 3166-1 alpha-2, from the places that AWS names its regions by. Holds more regions than
# LOCATIONS: spot.json and the bulk list speak of some whose name in the small feed is not known.
_COUNTRIES = {
    "us-east-1": "US", "us-east-2": "US", "us-west-1": "US", "us-west-2": "US",
    "us-gov-east-1": "US", "us-gov-west-1": "US",
    "ca-central-1": "CA", "ca-west-1": "CA", "mx-central-1": "MX", "sa-east-1": "BR",
    "eu-west-1": "IE", "eu-west-2": "GB", "eu-west-3": "FR", "eu-central-1": "DE",
    "eu-central-2": "CH", "eu-north-1": "SE", "eu-south-1": "IT", "eu-south-2": "ES",
    "ap-northeast-1": "JP", "ap-northeast-2": "KR", "ap-northeast-3": "JP",
    "ap-south-1": "IN", "ap-south-2": "IN", "ap-southeast-1": "SG", "ap-southeast-2": "AU",
    "ap-southeast-3": "ID", "ap-southeast-4": "AU", "ap-southeast-5": "MY",
    "ap-southeast-7": "TH", "ap-east-1": "HK", "ap-east-2": "TW",
    "il-central-1": "IL", "me-south-1": "BH", "me-central-1": "AE", "af-south-1": "ZA",
    "cn-north-1": "CN", "cn-northwest-1": "CN",
}  # fmt: skip

# A zone carries the IATA code of its city, which may lie in another country than the parent
# region (us-east-1-bue-1 is Buenos Aires): only cities of the United States are listed, for every
# other zone the country is unknown.
_US_CITIES = frozenset({
    "atl", "bos", "chi", "dfw", "den", "hnl", "iah", "las", "lax", "mci", "mia", "msp", "nyc",
    "pdx", "phl", "phx", "sea",
})  # fmt: skip
_ZONE_CITY = re.compile(r"^us-(?:east|west)-\d-(?:wl\d-)?([a-z]{3})-?\d*$")

# Clouds of their own ("partitions"): another account, other prices, in part another currency. Who
# may rent there knows; to everybody else a price there is none.
_APART = (
    ("cn-", "China region"),
    ("us-gov-", "US government region"),
    ("us-iso", "US government region"),
    ("eu-iso", "region of a cloud apart"),
    ("eusc-", "region of a cloud apart"),
)

# us-east-1a, and with a Local Zone's name between: us-east-1-atl-1a.
_ZONE = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d+(?:-[a-z]{3}-\d+)?)[a-z]")
# us-east-1-wl1-bos-wlz-1 has no letter: it is a place of its own.
_WAVELENGTH = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+-wl\d+-[a-z0-9-]+")


def apart(region: str) -> str | None:
    """Why a region is not for everybody, None for the ones that are."""
    return next((why for start, why in _APART if region.startswith(start)), None)


def region_of_zone(zone: str) -> str | None:
    """The region code of an availability zone's name (``us-east-1a``); None for other text.

    That of a zone in a Local Zone is the Local Zone's own, as in the price lists.
    """
    if found := _ZONE.fullmatch(zone):
        return found[1]
    return zone if _WAVELENGTH.fullmatch(zone) else None


def twin_location(location: str) -> str | None:
    """The same European location under its other prefix; None for any other place."""
    for prefix, other in (("EU (", "Europe ("), ("Europe (", "EU (")):
        if location.startswith(prefix):
            return other + location.removeprefix(prefix)
    return None


_CODES: dict[str, RegionCode] = {}
for _code, _name in LOCATIONS.items():
    _CODES[_name] = _code
    if _twin := twin_location(_name):
        _CODES[_twin] = _code


def code_of(location: str) -> RegionCode | None:
    """The region code of a location name of the price list; None when the name is not known."""
    return _CODES.get(location)


def country_of(region: str) -> str | None:
    """ISO 3166-1 alpha-2 country of a region or US zone code; None when it is not known."""
    if country := _COUNTRIES.get(region):
        return country
    zone = _ZONE_CITY.match(region)
    return "US" if zone and zone[1] in _US_CITIES else None
