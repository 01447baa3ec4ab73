"""How long a machine is set up before a job starts: image, weights and data are downloaded.

    hours = start-up + GB x 8,000 Mbit / (Mbit/s x 3,600 s)

GB are 10^9 bytes. The bandwidth is the offer's own, taken in full: another machine's disk or the
far side may be slower, so this is the least it takes. An offer that states none has no set-up time,
and the answer says so, unless the caller names the bandwidth to assume; then it says that.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import NamedTuple

from tracker.domain.exact import EXACT, hours_up, not_negative, plain, positive, ratio_up

_ZERO = Decimal(0)
_MBIT_PER_GB = Decimal(8000)
_SECONDS = Decimal(3600)


class Download(NamedTuple):
    """What every machine gets before the job starts, in GB (10^9 bytes)."""

    image_gb: Decimal = _ZERO
    weights_gb: Decimal = _ZERO
    data_gb: Decimal = _ZERO

    @property
    def total_gb(self) -> Decimal:
        """All of it."""
        return EXACT.add(EXACT.add(self.image_gb, self.weights_gb), self.data_gb)


class SetUpTime(NamedTuple):
    """Hours of set-up on each machine, upwards to the billionth; None: not known.

    ``assumption`` says what was assumed or is missing, None when nothing is.
    """

    hours: Decimal | None
    assumption: str | None = None


def set_up_time(
    download: Download,
    down_mbps: Decimal | None,
    *,
    start_hours: Decimal = _ZERO,
    assumed_mbps: Decimal | None = None,
) -> SetUpTime:
    """Hours until the job can start: *start_hours*, then *download* at *down_mbps* (Mbit/s).

    Raises BadFigure for sizes below 0 and bandwidths that are not above 0.
    """
    for name, size in zip(("image", "weights", "data"), download, strict=True):
        not_negative(f"the GB of {name}", size)
    not_negative("the hours to start", start_hours)
    total = download.total_gb
    if total == 0:
        return SetUpTime(hours_up(start_hours))
    assumption = None
    if down_mbps is None:
        if assumed_mbps is None:
            return SetUpTime(
                None, f"download bandwidth not stated: {plain(total)} GB take an unknown time"
            )
        down_mbps = assumed_mbps
        assumption = f"download bandwidth not stated: {plain(assumed_mbps)} Mbit/s assumed"
    positive("the download bandwidth in Mbit/s", down_mbps)
    with localcontext(EXACT):
        hours = start_hours + ratio_up(total * _MBIT_PER_GB, down_mbps * _SECONDS)
    return SetUpTime(hours_up(hours), assumption)
