"""How long the downloads before a job take, and what is said where nobody knows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.exact import BadFigure
from tracker.domain.set_up_time import Download, SetUpTime, set_up_time

D = Decimal


def test_gigabytes_over_megabits() -> None:
    # 8 + 14 + 23 GB = 360,000 Mbit, at 1,000 Mbit/s 360 s; 90 s to start.
    download = Download(D(8), D(14), D(23))
    assert set_up_time(download, D(1000), start_hours=D("0.025")) == SetUpTime(D("0.125"))


def test_an_unknown_bandwidth_is_an_unknown_time() -> None:
    got = set_up_time(Download(weights_gb=D("140.5")), None)
    assert got.hours is None
    assert got.assumption == "download bandwidth not stated: 140.5 GB take an unknown time"


def test_an_assumed_bandwidth_is_said_to_be() -> None:
    got = set_up_time(Download(weights_gb=D(45)), None, assumed_mbps=D(500))
    assert got == SetUpTime(D("0.2"), "download bandwidth not stated: 500 Mbit/s assumed")
    stated = set_up_time(Download(weights_gb=D(45)), D(1000), assumed_mbps=D(500))
    assert stated == SetUpTime(D("0.1"))


def test_nothing_to_download_needs_no_bandwidth() -> None:
    assert set_up_time(Download(), None) == SetUpTime(D(0))
    assert set_up_time(Download(), None, start_hours=D("0.1")) == SetUpTime(D("0.1"))


def test_figures_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadFigure, match="GB of weights must be 0 or more"):
        set_up_time(Download(weights_gb=D(-1)), D(100))
    with pytest.raises(BadFigure, match="bandwidth in Mbit/s must be above 0"):
        set_up_time(Download(D(1)), D(0))
    with pytest.raises(BadFigure, match="hours to start must be 0 or more"):
        set_up_time(Download(D(1)), D(1), start_hours=D(-1))


sizes = st.decimals("0", "5000", places=1)
speeds = st.decimals("1", "100000", places=0)


@given(sizes, sizes, sizes, speeds, sizes)
def test_more_to_download_or_a_slower_line_never_takes_less(
    image: Decimal, weights: Decimal, data: Decimal, mbps: Decimal, more: Decimal
) -> None:
    def hours(download: Download, speed: Decimal) -> Decimal:
        found = set_up_time(download, speed).hours
        assert found is not None
        return found

    base = hours(Download(image, weights, data), mbps)
    assert base >= (image + weights + data) * 8000 / (mbps * 3600) - D("1e-20")
    assert hours(Download(image, weights, data + more), mbps) >= base
    assert hours(Download(image, weights, data), mbps + 1) <= base
