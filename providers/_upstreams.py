"""What resellers call the clouds whose machines they sell, by the names that are used here.

A name that is not in the table is kept as the reseller writes it, in small letters: so a cloud
that nobody polls directly has a name, too, and one that is polled directly is known by its own.
Sources: the recorded answers of Shadeform (2026-08) and Prime Intellect (2025-11), and the names
under which public price histories hold the same companies.
"""

from __future__ import annotations

import re
from typing import Any

_SAME = {
    "amazon": "aws",
    "cloudrift.ai": "cloudrift",
    "crusoecloud": "crusoe",
    "cudocompute": "cudo",
    "datacrunch": "verda",
    "digital_ocean": "digitalocean",
    "googlecloud": "gcp",
    "lambdalabs": "lambda",
    "lambda_labs": "lambda",
    "latitude": "latitude.sh",
    "oracle": "oci",
    "oraclecloud": "oci",
    "ovhcloud": "ovh",
    "nexgencloud": "hyperstack",
    "runpod.io": "runpod",
    "thunder_compute": "thundercompute",
    "vast": "vastai",
    "vast.ai": "vastai",
    "voltage_park": "voltagepark",
}


def upstream_of(name: Any) -> str | None:
    """The cloud that a reseller calls *name*; None where there is no name."""
    if not isinstance(name, str) or not name.strip():
        return None
    plain = re.sub(r"\s+", "_", name.strip().lower())
    return _SAME.get(plain, plain)
