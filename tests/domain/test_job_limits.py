"""``[limits]`` of a job file."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.catalogue import catalogue
from tracker.domain.job import Job, JobError
from tracker.domain.job_limits import Limits
from tracker.domain.job_text import job_from_text


def job(limits: str) -> Job:
    return job_from_text(f'name = "j"\n[hours]\nA100 = 3\n[limits]\n{limits}', catalogue())


def test_every_limit_is_read_exactly() -> None:
    text = """
    deadline_hours = 12.5
    budget_usd = 50
    markets = ["spot", "on-demand"]
    tiers = ["Secure"]
    regions = ["us-*"]
    interconnect = "nvlink"
    min_ram_gib = 64
    min_network_mbps = 1000
    dedicated = true
    ecc = true
    runs_per_month = 30
    """
    assert job(text).limits == Limits(
        Decimal("12.5"), Decimal(50), ("spot", "on_demand"), ("secure",), ("us-*",), "nvlink",
        Decimal(64), Decimal(1000), dedicated=True, ecc=True, runs_per_month=30,
    )  # fmt: skip


def test_without_the_table_there_are_none() -> None:
    assert job_from_text('name = "j"\n[hours]\nA100 = 3\n').limits is None
    assert job("").limits == Limits()


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("deadline = 3", "limits.deadline: unknown key; did you mean 'deadline_hours'"),
        ("deadline_hours = 0", "limits.deadline_hours: 0 is not above 0"),
        ("deadline_hours = 900_000", "limits.deadline_hours: 900000 is not between"),
        ('budget_usd = "cheap"', "limits.budget_usd: not a decimal number"),
        ('markets = ["sport"]', "limits.markets: 'sport' is not a market; did you mean 'spot'"),
        ('markets = ["any", "spot"]', "any means all of them"),
        ("tiers = [3]", "limits.tiers: [3] is not a list of words"),
        ('regions = [""]', "a word is empty"),
        ("ecc = 1", "limits.ecc: 1 is not true or false"),
        ("runs_per_month = 0", "limits.runs_per_month: 0 is not between 1"),
        ("runs_per_month = 1.5", "is not a whole number"),
    ],
)
def test_mistakes_are_named(limits: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        job(limits)
    assert said in str(caught.value)


def test_limits_must_be_a_table() -> None:
    with pytest.raises(JobError, match="limits: must be a table of what an offer must be"):
        job_from_text('name = "j"\nlimits = 3\n[hours]\nA100 = 3\n')
