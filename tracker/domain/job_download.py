"""What every machine downloads before a job starts: ``[download]`` of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from tracker.domain.exact import plain
from tracker.domain.job_fields import MAX_HOURS, JobError, known_keys, read_amount, read_number
from tracker.domain.set_up_time import Download, set_up_time

MAX_GB = Decimal(10) ** 6  # a petabyte on every machine
MAX_MBPS = Decimal(10) ** 7

_WHERE = "download."
_SIZES = Download._fields


class Downloads(NamedTuple):
    """Sizes in GB, and the bandwidth in Mbit/s to assume where an offer states none (None: none is
    assumed, and the set-up time of such an offer is not known)."""

    sizes: Download
    assumed_mbps: Decimal | None = None


class SetUp(NamedTuple):
    """Set-up on one offer: ``hours`` from the start of the machine, None where nobody knows.

    ``how`` is what is downloaded at which pace, ``assumption`` what is assumed or missing.
    """

    hours: Decimal | None
    how: str
    assumption: str | None = None


def downloads_from_toml(data: Mapping[str, Any]) -> Downloads:
    """The table as parsed. Raises JobError naming the key."""
    known_keys(data, (*_SIZES, "assumed_mbps"), _WHERE)
    sizes = Download(*(read_amount(data, size, MAX_GB, _WHERE) for size in _SIZES))
    if not sizes.total_gb:
        raise JobError(f"download: nothing is downloaded; give {' or '.join(_SIZES)}")
    found = Downloads(sizes, _mbps(data))
    check_pace(found, f"{_WHERE}assumed_mbps")
    return found


def check_pace(downloads: Downloads, where: str) -> None:
    """Refuse a bandwidth to assume that takes years: it is in another unit. Raises JobError."""
    if downloads.assumed_mbps is None:
        return
    hours = set_up_time(downloads.sizes, downloads.assumed_mbps).hours
    if hours is not None and hours > MAX_HOURS:
        raise JobError(
            f"{where}: {plain(downloads.sizes.total_gb)} GB at {downloads.assumed_mbps:g} Mbit/s "
            f"take {hours:.3g} h, more than ten years; give Mbit/s"
        )


def _mbps(data: Mapping[str, Any]) -> Decimal | None:
    if "assumed_mbps" not in data:
        return None
    mbps = read_number(data["assumed_mbps"], f"{_WHERE}assumed_mbps")
    if not 0 < mbps <= MAX_MBPS:
        raise JobError(f"{_WHERE}assumed_mbps: {plain(mbps)} is not above 0 and at most 1e7")
    return mbps


@lru_cache(maxsize=4096)  # many offers have the same bandwidth
def set_up(downloads: Downloads, start_hours: Decimal, down_mbps: Decimal | None) -> SetUp:
    """Set-up on an offer that states *down_mbps* (0 says nothing), after *start_hours*."""
    if down_mbps is not None and not down_mbps > 0:
        down_mbps = None
    found = set_up_time(
        downloads.sizes, down_mbps, start_hours=start_hours, assumed_mbps=downloads.assumed_mbps
    )
    pace = downloads.assumed_mbps if down_mbps is None else down_mbps
    at = "at an unknown pace" if pace is None else f"at {plain(pace)} Mbit/s"
    return SetUp(found.hours, f"{plain(downloads.sizes.total_gb)} GB {at}", found.assumption)
