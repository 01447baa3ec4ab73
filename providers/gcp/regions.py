"""Where Compute Engine has regions, and which GPU is in which.

Google lists a price for a GPU in regions that do not have it. The GPUs of a region are from
Cyclenerd's acceleratortyperegion table: A100 and H100 as of 2026-08, the others as of 2025-05.
A GPU without an entry here is taken to be wherever it has a price.
"""

from __future__ import annotations

from providers.gcp.machines import A100_40, A100_80, H100, H100_MEGA, H200, L4, P100, T4, V100, Gpu

_COUNTRIES = {
    "AU": "australia-southeast1 australia-southeast2",
    "BE": "europe-west1",
    "BR": "southamerica-east1",
    "CA": "northamerica-northeast1 northamerica-northeast2",
    "CH": "europe-west6",
    "CL": "southamerica-west1",
    "DE": "europe-west3 europe-west10",
    "ES": "europe-southwest1",
    "FI": "europe-north1",
    "FR": "europe-west9",
    "GB": "europe-west2",
    "HK": "asia-east2",
    "ID": "asia-southeast2",
    "IL": "me-west1",
    "IN": "asia-south1 asia-south2",
    "IT": "europe-west8 europe-west12",
    "JP": "asia-northeast1 asia-northeast2",
    "KR": "asia-northeast3",
    "MX": "northamerica-south1",
    "NL": "europe-west4",
    "PL": "europe-central2",
    "QA": "me-central1",
    "SA": "me-central2",
    "SE": "europe-north2",
    "SG": "asia-southeast1",
    "TW": "asia-east1",
    "US": "us-central1 us-east1 us-east4 us-east5 us-south1 us-west1 us-west2 us-west3 us-west4",
    "ZA": "africa-south1",
}

# ISO 3166-1 alpha-2. A region that is not in the table has no country: it is never guessed.
COUNTRY: dict[str, str] = {
    region: country for country, regions in _COUNTRIES.items() for region in regions.split()
}


def _set(regions: str) -> frozenset[str]:
    return frozenset(regions.split())


_H100_REGIONS = _set(
    "us-central1 us-east4 us-east5 us-west1 us-west4 northamerica-northeast2 europe-north1 "
    "europe-west1 europe-west2 europe-west3 europe-west4 europe-west9 asia-east1 asia-northeast1 "
    "asia-northeast3 asia-south1 asia-south2 asia-southeast1 australia-southeast1 "
    "australia-southeast2"
)
_REGIONS_OF: dict[str, frozenset[str]] = {
    A100_40.counts[0]: _set(
        "us-central1 us-east1 us-west1 us-west3 us-west4 europe-west4 me-west1 asia-northeast1 "
        "asia-northeast3 asia-southeast1"
    ),
    A100_80.counts[0]: _set("us-central1 us-east4 us-east5 europe-west4 asia-southeast1"),
    H100.counts[0]: _H100_REGIONS,
    H100_MEGA.counts[0]: _H100_REGIONS,  # the two were in the same regions in 2025-05
    H200.counts[0]: _set("europe-west1 us-east4 us-east5 us-west1"),
    L4.counts[0]: _set(
        "asia-east1 asia-northeast1 asia-northeast3 asia-south1 asia-southeast1 europe-west1 "
        "europe-west2 europe-west3 europe-west4 europe-west6 me-central2 northamerica-northeast2 "
        "us-central1 us-east1 us-east4 us-west1 us-west4"
    ),
    T4.counts[0]: _set(
        "asia-east1 asia-east2 asia-northeast1 asia-northeast3 asia-south1 asia-southeast1 "
        "asia-southeast2 australia-southeast1 europe-central2 europe-west1 europe-west2 "
        "europe-west3 europe-west4 me-west1 northamerica-northeast1 southamerica-east1 us-central1 "
        "us-east1 us-east4 us-west1 us-west2 us-west3 us-west4"
    ),
    V100.counts[0]: _set("asia-east1 europe-west4 us-central1 us-east1 us-west1"),
    P100.counts[0]: _set(
        "asia-east1 australia-southeast1 europe-west1 europe-west4 us-central1 us-east1 us-west1"
    ),
}


def is_in(gpu: Gpu, region: str) -> bool | None:
    """Whether *region* has *gpu*; None where that is not known."""
    known = _REGIONS_OF.get(gpu.counts[0])
    return None if known is None else region in known
