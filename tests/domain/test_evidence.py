"""The hours of a job with a workload: what they rest on, on which counts, and where none are."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.estimating import FAMILY, HPC, LORA, SERVE, Shipped, job_of
from tracker import data
from tracker.domain import evidence
from tracker.domain.job import (
    Basis,
    Job,
    JobError,
    NoEstimate,
    RuntimeEstimate,
    RuntimeHours,
    runtime_for,
)
from tracker.domain.job_limits import Limits
from tracker.domain.job_text import job_from_text
from tracker.domain.runtime.types import DoesNotFit, Estimate

A100, H100, RTX4090 = "A100-SXM-80GB", "H100-SXM-80GB", "RTX4090-24GB"
FULL = LORA.replace("lora", "full")
WHOLE = sorted(spec.gpu.key for spec in catalogue().specs())


def hours(job: Job, gpu: str) -> RuntimeEstimate:
    found = runtime_for(job, gpu, catalogue())
    assert isinstance(found, RuntimeEstimate), found
    return found


def none(job: Job, gpu: str) -> NoEstimate:
    found = runtime_for(job, gpu, catalogue())
    assert isinstance(found, NoEstimate), found
    return found


def ways(job: Job, gpu: str, count: int) -> list[RuntimeEstimate]:
    found = evidence.options(job, gpu, count, catalogue())
    assert not isinstance(found, NoEstimate), found
    return list(found)


def built_in(name: str) -> Job:
    return job_from_text(data.text(f"jobs/{name}.toml"), catalogue(), Shipped())


def given_hours(basis: str, hours_: str = "3", gpu: str = A100, more: str = "") -> str:
    return f'[hours.{gpu}]\nhours = {hours_}\nbasis = "{basis}"\n{more}'


# --- the order of evidence ----------------------------------------------------------------------


def test_the_model_where_nothing_is_known() -> None:
    got = hours(job_of(LORA), H100)
    assert got.basis is Basis.MODELLED
    assert got.low_hours is not None
    assert got.high_hours is not None
    assert got.low_hours < got.hours < got.high_hours
    assert got.version == Shipped().estimator.calibration.version
    assert "tokens/s" in str(got.note)


@pytest.mark.parametrize("basis", ["measured", "published", "stated"])
def test_hours_given_hold_on_their_gpu_and_count(basis: str) -> None:
    got = hours(job_of(LORA, given_hours(basis)), A100)
    assert (got.hours, got.basis, got.gpus) == (Decimal(3), Basis(basis), 1)
    assert (got.low_hours, got.high_hours) == (None, None)


def test_other_gpus_and_counts_are_scaled_from_them() -> None:
    plain, known = job_of(LORA), job_of(LORA, given_hours("measured"))
    expected = Decimal(3) * hours(plain, H100).hours / hours(plain, A100).hours
    got = hours(known, H100)
    assert got.basis is Basis.SCALED
    assert got.hours == pytest.approx(expected, rel=Decimal("0.0001"))
    two = evidence.find(known, A100, 2, catalogue()).hours
    assert isinstance(two, RuntimeEstimate)
    assert two.basis is Basis.SCALED
    assert two.hours < 3


@given(factor=st.decimals("0.5", "4", places=3))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_measurement_moves_all_others_in_proportion(factor: Decimal) -> None:
    before = job_of(LORA, given_hours("measured", "3"))
    after = job_of(LORA, given_hours("measured", str(3 * factor)))
    for gpu in (H100, RTX4090, "L40S-48GB"):
        assert hours(after, gpu).hours == pytest.approx(
            hours(before, gpu).hours * factor, rel=Decimal("0.0001")
        )


def test_a_measurement_is_carried_over_before_a_published_figure() -> None:
    published = given_hours("published", "1.7", H100)
    both = job_of(LORA, given_hours("measured", "6") + published)
    measured_alone = job_of(LORA, given_hours("measured", "6"))
    assert hours(both, RTX4090).hours == hours(measured_alone, RTX4090).hours
    # Where the figure was published, nothing is carried over.
    assert hours(both, H100).basis is Basis.PUBLISHED


def test_of_equal_evidence_that_on_the_same_gpu_and_family_is_carried_over() -> None:
    job = job_of(LORA, given_hours("measured", "5") + given_hours("measured", "2.5", H100))
    other = evidence.find(job, A100, 2, catalogue()).hours
    alone = evidence.find(job_of(LORA, given_hours("measured", "5")), A100, 2, catalogue()).hours
    assert other == alone
    assert hours(job, "A100-PCIE-80GB") == hours(
        job_of(LORA, given_hours("measured", "5")), "A100-PCIE-80GB"
    )


def test_a_lower_bound_is_carried_nowhere() -> None:
    bound = given_hours("published", "30", RTX4090, "lower_bound = true\n")
    job = job_of(LORA, bound)
    assert hours(job, RTX4090).lower_bound
    assert hours(job, H100) == hours(job_of(LORA), H100)


def test_the_published_bert_figures_are_published() -> None:
    job = built_in("bert-base-inference")
    for gpu, rate in ((A100, 1200), (H100, 3000), (RTX4090, 800)):
        got = hours(job, gpu)
        assert got.basis is Basis.PUBLISHED
        assert got.hours == pytest.approx(Decimal(10**8) / rate / 3600, rel=Decimal("1e-8"))
        assert got.source
    assert hours(job, "L40S-48GB").basis is Basis.SCALED


def test_a_40_gb_card_borrows_no_hours_of_an_80_gb_one() -> None:
    job = built_in("bert-base-inference")
    got = hours(job, "A100-PCIE-40GB")
    assert got.basis is Basis.SCALED
    assert got.hours > hours(job, A100).hours


# --- where there are none -----------------------------------------------------------------------


def test_fp8_is_not_possible_on_a100() -> None:
    job = job_of(LORA + 'precision = "fp8"\n')
    why = none(job, A100)
    assert why.short == evidence.NOT_POSSIBLE
    assert "A100-SXM-80GB does not compute in fp8" in why.reason
    assert hours(job, H100).hours > 0


def test_what_does_not_fit_says_what_would() -> None:
    job = built_in("llama-3.1-70b-qlora")
    why = none(replace(job, gpus_needed=8, count_given=True), "RTX3090-24GB")
    assert why.short == evidence.NOT_FIT
    assert "fits on" in why.reason
    assert "RTX3090-24GB has" in why.reason
    # Without a count given it goes on two machines of 8, as it would be offered.
    assert hours(job, "RTX3090-24GB").gpus == 16


def test_a_slice_an_unknown_gpu_and_ten_years() -> None:
    assert none(job_of(LORA), "A100-SLICE").short == evidence.SLICE
    assert none(job_of(LORA), "NOSUCH-8GB").short == evidence.NOT_POSSIBLE
    for_ever = job_of(HPC.replace("2e17", "2e27"))
    assert "years" in none(for_ever, H100).reason


def test_an_open_form_factor_gets_the_slowest_part() -> None:
    job = job_of(LORA)
    parts = [hours(job, key).hours for key in (H100, "H100-PCIE-80GB")]
    got = hours(job, "H100-80GB")
    assert got.hours >= max(parts)
    assert "form factor not stated" in str(got.note)


def test_rates_are_shown_without_exponents() -> None:
    job = job_of(HPC)
    assert "FLOP/s" in str(hours(job, H100).note)
    assert re.search(r"1 x H100-SXM-80GB, [\d.]+ TFLOP/s", str(hours(job, H100).note))


# --- counts ---------------------------------------------------------------------------------------


def test_the_smallest_count_that_fits_is_taken() -> None:
    assert hours(job_of(LORA), H100).gpus == 1
    got = hours(job_of(FULL), H100)
    assert got.gpus > 1
    smaller = evidence.find(job_of(FULL), H100, got.gpus // 2, catalogue())
    assert isinstance(smaller.answer, DoesNotFit)


def test_a_count_given_is_the_only_one_tried() -> None:
    job = replace(job_of(LORA), gpus_needed=4, count_given=True)
    assert hours(job, H100).gpus == 4
    assert [way.gpus for way in ways(job, H100, 4)] == [4]
    assert [way.gpus for way in ways(job, H100, 8)] == [4]


def test_usual_counts_and_all_of_a_machine_are_tried() -> None:
    assert [way.gpus for way in ways(job_of(LORA), H100, 6)] == [1, 2, 4, 6]
    assert [way.gpus for way in ways(job_of(LORA), H100, 1)] == [1]


def test_several_machines_only_where_memory_or_the_deadline_needs_them() -> None:
    job = built_in("llama-3.1-8b-full")
    alone = evidence.options(job, H100, 1, catalogue())
    assert isinstance(alone, NoEstimate)
    assert alone.short == evidence.NOT_FIT
    large = replace(job_of(SERVE.replace("8B", "405B")), limits=None)
    assert isinstance(evidence.options(large, RTX4090, 8, catalogue()), NoEstimate)
    # Copies of a model for inference need no network between machines: a deadline may have them.
    serve = job_of(SERVE)
    one = ways(serve, H100, 1)[0]
    hurry = replace(serve, limits=Limits(deadline_hours=one.hours / 3))
    assert {way.gpus for way in ways(hurry, H100, 1)} <= {4, 8}
    lora = job_of(LORA)
    late = replace(lora, limits=Limits(deadline_hours=ways(lora, H100, 1)[0].hours / 3))
    why = evidence.options(late, H100, 1, catalogue())
    assert isinstance(why, NoEstimate)
    assert why.short == evidence.LATE
    assert min(way.gpus for way in ways(late, H100, 8)) >= 4


def test_set_up_counts_towards_the_deadline() -> None:
    job = replace(job_of(LORA), setup_hours=Decimal(1))
    takes = ways(job, H100, 1)[0].hours
    just = replace(job, limits=Limits(deadline_hours=takes + 1))
    assert ways(just, H100, 1)
    short = replace(job, limits=Limits(deadline_hours=takes + Decimal("0.9")))
    assert isinstance(evidence.options(short, H100, 1, catalogue()), NoEstimate)


def service(rate: str, more: str = "", rest: str = "") -> Job:
    """100 hours of so many requests a second."""
    lines = f"request_rate = {rate}\nservice_hours = 100\n{more}"
    return job_of(SERVE.replace('requests = "1M"', lines), rest)


def test_a_service_runs_its_hours_on_as_many_gpus_as_it_needs() -> None:
    got = hours(service("20"), H100)
    assert (got.hours, got.low_hours, got.high_hours) == (Decimal(100), None, None)
    assert "busy" in str(got.note)
    assert hours(service("2"), H100).gpus < got.gpus
    # Not only 1, 2, 4 or 8: the fewest that do the rate.
    many = hours(service("200"), H100)
    assert many.gpus > 8
    fewer = evidence.find(service("200"), H100, many.gpus - 1, catalogue())
    assert isinstance(fewer.hours, NoEstimate)
    assert "GPUs would do" in none(service("500000"), H100).reason
    pinned = replace(service("200"), gpus_needed=4, count_given=True)
    assert "4 x H100-SXM-80GB serve" in none(pinned, H100).reason


@given(
    rate=st.floats(0.01, 400), share=st.floats(0.2, 1), gpu=st.sampled_from(WHOLE),
    machine=st.sampled_from([1, 2, 8]), limit=st.sampled_from(["", "tpot_seconds = 0.05"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_range_of_a_service_holds_the_gpus_that_it_takes(
    rate: float, share: float, gpu: str, machine: int, limit: str
) -> None:
    job = service(f"{rate:.6g}", f"utilisation = {share:.4g}\n{limit}")
    found = evidence.options(job, gpu, machine, catalogue())
    if isinstance(found, NoEstimate):
        return
    for way in found:
        assert way.low_gpus is not None
        assert way.high_gpus is not None
        assert 1 <= way.low_gpus <= way.gpus <= way.high_gpus
        low, high = way.at_low(), way.at_high()
        assert low is not None
        assert high is not None
        assert (low.gpus, high.gpus) == (way.low_gpus, way.high_gpus)
        assert low.hours == way.hours == high.hours == 100


def test_the_range_of_a_service_is_that_of_its_speed() -> None:
    """By hand: at a speed that is a factor lower, as many times as many copies."""
    job = service("50", "utilisation = 0.7")
    found = evidence.first_fit(job, H100, catalogue())
    offline = evidence.find(job_of(SERVE), H100, 1, catalogue()).answer
    assert isinstance(offline, Estimate)
    each = 1_000_000 / offline.hours / 3600
    slow, fast = 1_000_000 / offline.high / 3600, 1_000_000 / offline.low / 3600
    way = found.hours
    assert isinstance(way, RuntimeEstimate)
    asked = [math.ceil(50 / (speed * 0.7)) for speed in (fast, each, slow)]
    assert [way.low_gpus, way.gpus, way.high_gpus] == asked
    assert asked[0] < asked[1] < asked[2]


def test_a_measured_service_is_as_many_groups_as_its_rate_takes() -> None:
    rate = "[hours.H100-SXM-80GB]\nrequests_per_second = 7\nbasis = 'measured'\n"
    got = hours(service("20", rest=rate), H100)
    # 20 / 7 = 2.86 GPUs, and no range: that one was measured.
    assert (got.gpus, got.hours, got.basis) == (3, Decimal(100), Basis.MEASURED)
    assert (got.low_gpus, got.high_gpus) == (None, None)
    assert "1 x H100-SXM-80GB do 7 requests/s; busy 95% of the time" in str(got.note)
    # 20 / (7 x 0.7) = 4.08 GPUs.
    assert hours(service("20", "utilisation = 0.7", rate), H100).gpus == 5
    in_pairs = rate + "gpus = 2\n"
    assert hours(service("20", rest=in_pairs), H100).gpus == 6
    # On other GPUs what is modelled is slowed down by as much as was measured here.
    modelled = evidence.find(job_of(SERVE), H100, 1, catalogue()).answer
    there = evidence.find(job_of(SERVE), A100, 1, catalogue()).answer
    assert isinstance(modelled, Estimate)
    assert isinstance(there, Estimate)
    expected = 7 * modelled.hours / there.hours
    carried = hours(service("20", rest=rate), A100)
    assert (carried.basis, carried.gpus) == (Basis.SCALED, math.ceil(20 / expected))
    assert carried.low_gpus is not None


def test_a_rate_given_for_a_service_must_be_one_that_it_may_have() -> None:
    wrong = "[hours.H100-SXM-80GB]\nrequests_per_second = 7000\n"
    with pytest.raises(JobError, match=r"7,000 requests/s, where about .* are to be expected"):
        service("20", rest=wrong)


@pytest.mark.parametrize("workload", [LORA, FULL, SERVE, HPC], ids=["lora", "full", "serve", "hpc"])
@given(gpu=st.sampled_from(WHOLE))
@settings(max_examples=30, deadline=None)
def test_any_gpu_has_hours_within_their_range_or_a_reason(workload: str, gpu: str) -> None:
    job = job_of(workload)
    found = evidence.first_fit(job, gpu, catalogue())
    if isinstance(found.hours, NoEstimate):
        assert found.hours.reason
        assert not isinstance(found.answer, Estimate)
    else:
        assert found.hours.low_hours is not None
        assert found.hours.high_hours is not None
        assert 0 < found.hours.low_hours <= found.hours.hours <= found.hours.high_hours


@given(gpu=st.sampled_from(WHOLE))
@settings(max_examples=40, deadline=None)
def test_more_gpus_of_one_machine_never_make_a_family_job_slower(gpu: str) -> None:
    found = evidence.options(job_of(FAMILY, given_hours("measured", "10")), gpu, 8, catalogue())
    if not isinstance(found, NoEstimate):
        assert all(a.hours >= b.hours for a, b in pairwise(found))


def test_hours_typed_on_the_command_line_are_evidence_too() -> None:
    typed = replace(job_of(LORA), hours={"A100": RuntimeHours(Decimal(4))})
    assert hours(typed, A100).basis is Basis.STATED
    assert hours(typed, H100).basis is Basis.SCALED


# --- machines that nobody says to be connected --------------------------------------------------


@pytest.mark.parametrize("text", [LORA, FULL, HPC])
@pytest.mark.parametrize("per_machine", [1, 2, 4])
def test_small_machines_apart_do_not_train_together(text: str, per_machine: int) -> None:
    job = replace(job_of(text), gpus_needed=8, count_given=True)
    found = evidence.options(job, H100, per_machine, catalogue())
    assert isinstance(found, NoEstimate)
    assert found.short == evidence.NO_NETWORK
    whole = ways(job, H100, 8)
    assert [way.gpus for way in whole] == [8]


def test_sixteen_gpus_on_two_machines_are_not_twice_as_fast_as_eight() -> None:
    job = replace(job_of(FULL), count_given=True)
    eight, sixteen = (ways(replace(job, gpus_needed=n), H100, 8)[0].hours for n in (8, 16))
    assert eight / 2 < sixteen < eight


def test_weights_are_divided_where_that_is_faster_unless_the_job_says_how() -> None:
    """A model that barely fits whole has room for one short sequence at a time; divided, for many:
    more tokens must not take less time than fewer."""
    h200 = "H200-SXM-141GB"

    def on_four(seq_len: int, more: str = "") -> Decimal:
        text = FULL.replace('tokens = "50M"', 'samples = "10k"')
        job = job_of(text.replace("seq_len = 2048", f"seq_len = {seq_len}{more}"))
        found = evidence.find(job, h200, 4, catalogue()).hours
        assert isinstance(found, RuntimeEstimate)
        return found.hours

    taken = [on_four(seq_len) for seq_len in (128, 256, 512, 768, 896, 1024, 2048)]
    assert taken == sorted(taken)
    for seq_len in (128, 512):
        told = [on_four(seq_len, f'\nsharding = "{how}"') for how in ("ddp", "fsdp")]
        assert on_four(seq_len) == min(told)
    assert on_four(512, '\nsharding = "ddp"') > Decimal("1.5") * on_four(512)


@pytest.mark.parametrize("limit", ['concurrency = 2\nrequests = "1M"', "requests = 2"])
def test_gpus_beyond_the_requests_under_way_have_nothing_to_do(limit: str) -> None:
    """Eight copies do not do two requests at once any sooner than two copies."""
    job = job_of(SERVE.replace('requests = "1M"', limit + "\ntensor_parallel = 1"))
    two, eight = (evidence.find(job, A100, gpus, catalogue()).answer for gpus in (2, 8))
    assert isinstance(two, Estimate)
    assert isinstance(eight, Estimate)
    assert eight.hours == two.hours
    assert "6 of 8 GPUs are left over" in eight.notes


def test_few_requests_take_as_long_as_one_of_them() -> None:
    few, fewer = (job_of(re.sub(r"requests = .*", f"requests = {n}", SERVE)) for n in (64, 1))
    many, single = hours(few, H100).hours, hours(fewer, H100).hours
    assert single <= many < 64 * single


def test_requests_are_divided_among_small_machines_and_no_copy_spans_them() -> None:
    job = replace(job_of(SERVE), gpus_needed=4, count_given=True)
    apart = evidence.find(job, H100, 4, catalogue(), per_machine=1).hours
    alone = evidence.find(replace(job, gpus_needed=1), H100, 1, catalogue()).hours
    assert isinstance(apart, RuntimeEstimate)
    assert isinstance(alone, RuntimeEstimate)
    assert apart.hours == pytest.approx(alone.hours / 4, rel=Decimal("0.01"))
    large = job_of(SERVE.replace("Llama 3.1 8B", "Llama 3.1 70B"))
    large = replace(large, gpus_needed=4, count_given=True)
    assert isinstance(evidence.find(large, H100, 4, catalogue(), 1).hours, NoEstimate)
    assert isinstance(evidence.find(large, H100, 4, catalogue(), 4).hours, RuntimeEstimate)
