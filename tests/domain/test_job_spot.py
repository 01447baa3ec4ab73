"""The ``[spot]`` table of a job, and the line that interruptions make in its bill."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.cost import Bill, CostInputs, LineKind, bill
from tracker.domain.job import Basis, Job, JobError, RuntimeEstimate
from tracker.domain.job_spot import OnSpot, expected, rate_on
from tracker.domain.job_text import job_from_text
from tracker.domain.money import PerMachineHour
from tracker.domain.spot import Expected, Plan, Refused, expect, stated_rate
from tracker.domain.terms import Market, Terms

D = Decimal
JOB = 'name = "x"\n[hours]\nA100 = 12\n[spot]\n'


def test_minutes_become_hours_and_a_month_730_of_them() -> None:
    job = job_from_text(
        JOB + "interruptions_per_month = 73\ncheckpoint_minutes = 15\n"
        "checkpoint_write_minutes = 0.6\nrestart_minutes = 6\nwait_minutes = 30\n"
    )
    assert job.spot == OnSpot(D("0.1"), D("0.25"), D("0.01"), D("0.1"), D("0.5"))
    assert job_from_text(JOB).spot == OnSpot()
    assert job_from_text(JOB.replace("[spot]\n", "")).spot is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checkpoint_minute = 5", "did you mean 'checkpoint_minutes'"),
        ("checkpoint_minutes = 0", "leave it out"),
        ("checkpoint_write_minutes = 1", "there is no checkpoint_minutes"),
        ("interruptions_per_hour = -1", "is not between 0 and"),
        ("interruptions_per_hour = 61", "is not between 0 and 60"),
        ("interruptions_per_hour = 1\ninterruptions_per_month = 1", "keep one"),
        ("restart_minutes = 100000", "is not between 0 and 43200"),
        ('wait_minutes = "soon"', "spot.wait_minutes"),
    ],
)
def test_what_cannot_be_meant_names_the_key(text: str, said: str) -> None:
    with pytest.raises(JobError, match=said.replace("(", r"\(")) as error:
        job_from_text(JOB + text + "\n")
    assert "spot." in str(error.value)


def test_the_rate_is_the_users_then_the_advisors_then_the_reliability() -> None:
    stated = OnSpot(interruptions_per_hour=D("0.125"))
    found = rate_on(stated, 5, D("0.99"))
    assert found is not None
    assert found.per_hour == 0.125
    advisor, score = rate_on(OnSpot(), 5, D("0.99")), rate_on(OnSpot(), None, D("0.9999"))
    assert advisor is not None
    assert "AWS advisor" in advisor.basis
    assert score is not None
    assert "0.999," in score.basis  # taken down, never up
    assert rate_on(OnSpot(), None, None) is None


def _bill(job: Job, found: Expected | None, hours: Decimal, step: int | None) -> Bill:
    inputs = CostInputs(
        PerMachineHour(D("0.8")), D(1), Market.SPOT, Terms(billing_increment_seconds=step)
    )
    got = bill(inputs, job, RuntimeEstimate(hours, Basis.STATED, interrupted=found))
    assert isinstance(got, Bill)
    return got


@given(
    st.decimals("0.5", 60, places=2), st.decimals(0, 1, places=2), st.sampled_from([None, 1, 3600]),
    st.floats(0, 0.3), st.sampled_from([None, D("0.25")]),
)  # fmt: skip
def test_the_lines_sum_and_only_the_expected_hours_are_added(
    work: Decimal, setup: Decimal, step: int | None, rate: float, every: Decimal | None
) -> None:
    job = Job(name="x", hours={}, setup_hours=setup)
    on_spot = OnSpot(checkpoint_hours=every, restart_hours=D("0.1"))
    found = expected(on_spot, work, setup, 1, stated_rate(rate))
    if isinstance(found, Refused):
        assert found.chance < 0.1
        return
    plain, got = _bill(job, None, work, step), _bill(job, found, work, step)
    assert got.at_least_usd == sum(line.amount_usd for line in got.lines)
    assert got.at_least_usd >= plain.at_least_usd
    used = sum(
        line.quantity
        for line in got.lines
        if line.kind in (LineKind.RUNTIME, LineKind.SETUP, LineKind.RERUN)
    )
    assert used == found.billed_hours
    if step is None:
        assert got.billed_hours == found.billed_hours
    assert (LineKind.RERUN in {line.kind for line in got.lines}) == (found.rerun_hours > 0)


def test_the_worked_example_of_the_page() -> None:
    # docs/costs.md: 51.47 h billed of 48.1 plain ones, at $0.80.
    on_spot = OnSpot(D("0.125"), D("0.25"), D("0.01"), D(0), D("0.5"))
    rate = rate_on(on_spot, None, None)
    assert rate is not None
    found = expected(on_spot, D(48), D("0.1"), 1, rate)
    assert isinstance(found, Expected)
    assert round(found.billed_hours, 2) == D("51.47")
    plan = Plan(D(48), setup_hours=D("0.1"), wait_hours=D("0.5"))
    assert isinstance(expect(plan, rate), Refused)
    got = _bill(Job(name="x", hours={}, setup_hours=D("0.1")), found, D(48), None)
    assert round(got.at_least_usd, 2) == round(found.billed_hours * D("0.8"), 2)
    assert not any("not in the bill" in note for note in got.notes)
    unknown = _bill(Job(name="x", hours={}), None, D(48), None)
    assert any("interruptions and repeated work are not in the bill" in n for n in unknown.notes)
    assert replace(RuntimeEstimate(D(1), Basis.STATED)).interrupted is None
