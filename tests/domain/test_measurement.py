"""Measurements carried into a job's hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.catalogue import catalogue
from tests.support.estimating import FAMILY, HPC, LORA, SERVE, job_of
from tracker.domain import evidence
from tracker.domain.job import (
    Basis,
    Job,
    NoEstimate,
    RuntimeEstimate,
    RuntimeHours,
    runtime_for,
)
from tracker.domain.measurement import Measurement, subject_of, unit_of, with_measurements

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
H100 = "H100-SXM-80GB"
GIVEN = "[hours]\nA100-SXM-80GB = 10\n"


def of(job: Job, hours: str, gpu: str = H100, gpus: int = 1, version: int = 1) -> Measurement:
    unit, amount = unit_of(job)
    return Measurement(
        job.name, subject_of(job), gpu, gpus, version, Decimal(hours), AT, unit, amount
    )


def test_it_replaces_the_model_there_and_scales_the_others() -> None:
    job = job_of(LORA)
    got = with_measurements(job, [of(job, "3")])
    there = runtime_for(got, H100, catalogue())
    assert isinstance(there, RuntimeEstimate)
    assert (there.hours, there.basis) == (Decimal(3), Basis.MEASURED)
    assert "measured on 2026-11-30, version 1" in str(there.note)
    elsewhere = runtime_for(got, "A100-SXM-80GB", catalogue())
    assert isinstance(elsewhere, RuntimeEstimate)
    assert elsewhere.basis is Basis.SCALED


def test_the_newest_of_a_gpu_holds() -> None:
    job = job_of(LORA)
    got = with_measurements(job, [of(job, "3"), of(job, "2.5", version=2)])
    assert got.hours[H100].hours == Decimal("2.5")


def test_every_count_keeps_its_own_measurement() -> None:
    job = job_of(LORA)
    got = with_measurements(job, [of(job, "9"), of(job, "3"), of(job, "0.5", gpus=8)])
    on = {gpus: evidence.find(got, H100, gpus, catalogue()).hours for gpus in (1, 4, 8)}
    assert all(isinstance(one, RuntimeEstimate) for one in on.values())
    told = {gpus: (one.hours, one.basis) for gpus, one in on.items()
            if isinstance(one, RuntimeEstimate)}  # fmt: skip
    assert told[1] == (Decimal(3), Basis.MEASURED)
    assert told[8] == (Decimal("0.5"), Basis.MEASURED)
    # 4 is as far from 1 as from 8, in GPUs less so: it is carried over from 1.
    assert told[4][1] is Basis.SCALED
    nearer = with_measurements(job, [of(job, "3")])
    four = evidence.find(nearer, H100, 4, catalogue()).hours
    assert isinstance(four, RuntimeEstimate)
    assert told[4][0] == four.hours
    # A later one of the same count takes its place, whatever the others.
    later = with_measurements(job, [of(job, "0.5", gpus=8), of(job, "3"), of(job, "0.4", gpus=8)])
    eight = evidence.find(later, H100, 8, catalogue()).hours
    assert isinstance(eight, RuntimeEstimate)
    assert eight.hours == Decimal("0.4")
    assert [way.gpus for way in evidence.options(later, H100, 8, catalogue())] == [1, 2, 4, 8]


def test_a_service_is_made_of_the_largest_group_that_was_measured() -> None:
    rate = SERVE.replace('requests = "1M"', "request_rate = 20\nservice_hours = 100")
    job = job_of(rate)
    # 20 requests/s for 100 h; alone 5/s (they would take 400 h), in fours 24/s.
    alone, four = of(job, "400"), of(job, str(Decimal(100) * 20 / 24), gpus=4)
    got = runtime_for(with_measurements(job, [four, alone]), H100, catalogue())
    assert isinstance(got, RuntimeEstimate)
    assert (got.gpus, got.basis) == (4, Basis.MEASURED)
    assert "4 x H100-SXM-80GB do 24 requests/s" in str(got.note)
    only = runtime_for(with_measurements(job, [alone]), H100, catalogue())
    assert isinstance(only, RuntimeEstimate)
    assert only.gpus == 4
    assert "1 x H100-SXM-80GB do 5 requests/s; busy 100%" in str(only.note)


def test_what_was_measured_together_is_not_taken_apart() -> None:
    """Four GPUs that hold a copy in one machine are not four machines of one."""
    rate = SERVE.replace('requests = "1M"', "request_rate = 20\nservice_hours = 100")
    job = job_of(rate.replace("8B", "70B") + 'precision = "fp8"\n')
    measured = with_measurements(job, [of(job, "250", gpus=4)])  # 8 requests/s
    whole = evidence.options(measured, H100, 8, catalogue())
    assert not isinstance(whole, NoEstimate)
    # 20/s take 3 such groups: two in the first machine of 8, one in the second.
    assert min(way.gpus for way in whole) == 16
    assert {way.basis for way in whole} == {Basis.MEASURED}
    apart = evidence.options(measured, H100, 1, catalogue())
    assert not isinstance(apart, NoEstimate)
    assert {way.basis for way in apart} == {Basis.SCALED}
    # Machines of 6 have room for one group each.
    six = evidence.options(measured, H100, 6, catalogue())
    assert not isinstance(six, NoEstimate)
    assert min(way.gpus for way in six) == 18
    assert {way.basis for way in six} == {Basis.MEASURED}
    batch = job_of(SERVE.replace("8B", "70B") + 'precision = "fp8"\n')
    pinned = replace(
        with_measurements(batch, [of(batch, "20", gpus=4)]), gpus_needed=4, count_given=True
    )
    for machine, basis in ((8, Basis.MEASURED), (1, Basis.SCALED)):
        [way] = evidence.options(pinned, H100, machine, catalogue())
        assert isinstance(way, RuntimeEstimate)
        assert way.basis is basis


def test_a_job_that_has_grown_takes_longer_in_proportion() -> None:
    small, large = job_of(LORA), job_of(LORA.replace("50M", "75M"))
    got = with_measurements(large, [of(small, "2")])
    assert got.hours[H100].hours == 3


@pytest.mark.parametrize("other", [LORA.replace("8B", "70B"), SERVE, HPC, FAMILY])
def test_a_job_that_has_become_another_one_inherits_nothing(other: str) -> None:
    job = job_of(LORA)
    changed = job_of(other, GIVEN if other == FAMILY else "")
    assert with_measurements(changed, [of(job, "3")]).hours == changed.hours


def test_hours_for_fewer_gpus_than_a_job_needs_are_left_out() -> None:
    job = Job("j", {"A100": RuntimeHours(Decimal(9), gpus=2)}, gpus_needed=2)
    assert with_measurements(job, [of(job, "3", gpus=1)]).hours == job.hours
    assert with_measurements(job, [of(job, "3", gpus=2)]).hours[H100].hours == 3


def test_subjects_say_kind_model_and_method() -> None:
    assert subject_of(job_of(LORA)) == "finetune/Llama 3.1 8B/lora"
    assert subject_of(job_of(SERVE)) == "inference/Llama 3.1 8B"
    assert subject_of(job_of(FAMILY, GIVEN)) == "family/vision_cnn"
    assert subject_of(Job("j", {})) == "hours"
