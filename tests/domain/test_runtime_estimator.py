"""Estimates on the shipped catalogue with the shipped calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tracker import data
from tracker.domain.gpu_data import GpuSpec
from tracker.domain.model import ModelShape
from tracker.domain.runtime.calibration import Calibration, CalibrationError
from tracker.domain.runtime.estimator import Estimator
from tracker.domain.runtime.figures import figures
from tracker.domain.runtime.types import (
    Basis,
    Bound,
    DoesNotFit,
    Estimate,
    Family,
    Hpc,
    Inference,
    Link,
    Method,
    NotPossible,
    Sharding,
    Training,
    Workload,
)

CALIBRATION = Calibration.from_csv(data.text("efficiency.csv"))
ESTIMATOR = Estimator(catalogue().spec, CALIBRATION)
GPUS = tuple(
    spec.gpu.key
    for spec in catalogue().specs()
    if spec.bandwidth_gbps and (spec.bf16_tflops or spec.fp16_tflops)
)
LLAMA = ModelShape("Llama-3-8B", 8.03e9, 32, 4096, 128_256, 32, 8, 14_336)
SMALL = ModelShape.of_params("1B", 1e9)
BIG = ModelShape("Llama-3-70B", 70.55e9, 80, 8192, 128_256, 64, 8, 28_672)
MOE = ModelShape("8x7B", 46.7e9, 32, 4096, 32_000, 32, 8, 14_336, active_params=12.9e9, experts=8)

models = st.sampled_from([SMALL, LLAMA, BIG, MOE])
trainings = st.builds(
    Training,
    model=models,
    tokens=st.floats(1e6, 1e12),
    seq_len=st.sampled_from([256, 2048, 16_384]),
    method=st.sampled_from(list(Method)),
    precision=st.sampled_from(["bf16", "fp16", "fp8"]),
    batch=st.sampled_from([None, 1, 4]),
    checkpointing=st.sampled_from([True, False, None]),
    stack=st.sampled_from(["optimised", "typical", "naive", "llm-foundry", "unheard-of"]),
    sharding=st.sampled_from(list(Sharding)),
)
inferences = st.builds(
    Inference,
    model=models,
    input_tokens=st.integers(1, 8000),
    output_tokens=st.integers(0, 2000),
    requests=st.floats(1, 1e6),
    weights=st.sampled_from(["bf16", "fp16", "fp8", "nf4", "q4_k_m"]),
    concurrency=st.sampled_from([None, 1, 64]),
    tpot_seconds=st.sampled_from([None, 0.02, 0.1]),
    stack=st.sampled_from(["optimised", "typical", "naive", "llama.cpp", "tensorrt-llm"]),
    layer_split=st.booleans(),
)
families = st.builds(
    Family,
    group=st.sampled_from(CALIBRATION.groups()),
    reference_gpu=st.sampled_from(["A100-SXM-80GB", "RTX4090-24GB", "T4-16GB"]),
    reference_hours=st.floats(0.1, 1000),
    reference_gpus=st.integers(1, 8),
    precision=st.sampled_from(["best", "fp16-amp", "tf32"]),
)
hpcs = st.builds(
    Hpc,
    flops=st.floats(1e12, 1e21),
    bytes_moved=st.floats(0, 1e18),
    precision=st.sampled_from(["fp64", "fp32"]),
    vram_gib=st.sampled_from([None, 10.0, 500.0]),
)
workloads = st.one_of(trainings, inferences, families, hpcs)


def of(estimator: Estimator, workload: Workload, gpu: str, gpus: int = 1) -> Estimate:
    answer = estimator.estimate(workload, gpu, gpus)
    assert isinstance(answer, Estimate), answer
    return answer


@given(workloads, st.sampled_from(GPUS), st.sampled_from([1, 2, 3, 8, 64]))
def test_every_answer_is_whole(workload: Workload, gpu: str, gpus: int) -> None:
    answer = ESTIMATOR.estimate(workload, gpu, gpus)
    if isinstance(answer, Estimate):
        assert 0 < answer.low <= answer.hours <= answer.high
        assert answer.per_second > 0
        assert answer.steps[-1].name == "runtime"
        assert answer.steps[-1].value == answer.hours
        assert answer.calibrated == (answer.rows > 0) or isinstance(workload, Family)
        if answer.memory is not None and not isinstance(workload, Family):
            assert answer.memory.total > 0
    elif isinstance(answer, DoesNotFit):
        assert answer.need_gib > answer.have_gib or isinstance(workload, Inference)
        assert answer.how
    else:
        assert answer.reason


def test_the_smallest_count_named_does_fit() -> None:
    answer = ESTIMATOR.estimate(Training(BIG, 1e9, 4096, checkpointing=True), "A100-SXM-80GB", 1)
    assert isinstance(answer, DoesNotFit)
    assert answer.smallest_count is not None
    assert "FSDP" in answer.how
    job = Training(BIG, 1e9, 4096, checkpointing=True, sharding=Sharding.FSDP)
    of(ESTIMATOR, job, "A100-SXM-80GB", answer.smallest_count)
    fewer = ESTIMATOR.estimate(job, "A100-SXM-80GB", answer.smallest_count - 1)
    assert isinstance(fewer, DoesNotFit)


@given(inferences, st.sampled_from(GPUS))
def test_the_smallest_count_of_a_served_model_does_fit(job: Inference, gpu: str) -> None:
    job = replace(job, tpot_seconds=None)
    answer = ESTIMATOR.estimate(job, gpu, 1)
    if isinstance(answer, DoesNotFit) and answer.smallest_count and answer.smallest_count <= 16:
        of(ESTIMATOR, job, gpu, answer.smallest_count)


def changed(gpu: str, change: Callable[[GpuSpec], GpuSpec]) -> Estimator:
    """The estimator with one GPU made different on paper."""

    def lookup(key: str) -> GpuSpec | None:
        known = catalogue().spec(key)
        return change(known) if known is not None and key == gpu else known

    return Estimator(lookup, CALIBRATION)


def _times(value: Decimal | None, factor: Decimal) -> Decimal | None:
    return None if value is None else value * factor


@given(st.one_of(trainings, inferences), st.sampled_from(GPUS), st.sampled_from([1, 8]))
def test_more_memory_never_makes_a_fit_fail_nor_slower(
    workload: Workload, gpu: str, gpus: int
) -> None:
    before = ESTIMATOR.estimate(workload, gpu, gpus)
    larger = changed(
        gpu,
        lambda spec: spec._replace(
            vram_mib=tuple(2 * mib for mib in spec.vram_mib),
            gpu=spec.gpu._replace(vram_gb=2 * (spec.gpu.vram_gb or 0)),
        ),
    )
    after = larger.estimate(workload, gpu, gpus)
    if isinstance(before, Estimate):
        assert isinstance(after, Estimate)
        assert after.hours <= before.hours * 1.0001


@given(workloads, st.sampled_from(GPUS), st.sampled_from([1, 8]), st.sampled_from(["W", "P"]))
def test_more_compute_or_bandwidth_never_makes_it_slower(
    workload: Workload, gpu: str, gpus: int, what: str
) -> None:
    if isinstance(workload, Family) and workload.reference_gpu == gpu:
        return  # it would be the measured GPU that changes
    before = ESTIMATOR.estimate(workload, gpu, gpus)
    factor = Decimal("1.5")

    def change(spec: GpuSpec) -> GpuSpec:
        if what == "W":
            return spec._replace(bandwidth_gbps=_times(spec.bandwidth_gbps, factor))
        return spec._replace(
            fp64_tflops=_times(spec.fp64_tflops, factor),
            fp32_tflops=_times(spec.fp32_tflops, factor),
            tf32_tflops=_times(spec.tf32_tflops, factor),
            fp16_tflops=_times(spec.fp16_tflops, factor),
            bf16_tflops=_times(spec.bf16_tflops, factor),
            fp8_tflops=_times(spec.fp8_tflops, factor),
        )

    after = changed(gpu, change).estimate(workload, gpu, gpus)
    if isinstance(before, Estimate):
        assert isinstance(after, Estimate)
        assert after.hours <= before.hours * 1.0001


@pytest.mark.parametrize(
    ("workload", "gpu", "words"),
    [
        (Training(SMALL, 1e9, 2048, precision="fp8"), "A100-SXM-80GB", "does not compute in fp8"),
        (Inference(SMALL, 100, 100, weights="fp8"), "A100-SXM-80GB", "does not compute in fp8"),
        (Training(SMALL, 1e9, 2048), "T4-16GB", "does not compute in bf16; it has"),
        (Hpc(1e15), "no-such-gpu", "no source gives"),
        (Hpc(1e15), "RTX4090-48GB", "no source gives"),
        (Family("no_such_group", "A100-SXM-80GB", 1), "H100-SXM-80GB", "no workload group"),
        (Family("recsys", "RTX5080-16GB", 1), "H100-SXM-80GB", "RTX5080-16GB"),
        (
            Inference(LLAMA, 100, 100, tpot_seconds=1e-5),
            "H100-SXM-80GB",
            "not even one request at a time meets the latency",
        ),
        (
            Inference(LLAMA, 100, 100, ttft_seconds=1e-6),
            "H100-SXM-80GB",
            "not even one request at a time meets the latency",
        ),
        (Inference(LLAMA, 100, 100, request_rate=1e6), "H100-SXM-80GB", "GPUs would do"),
    ],
)
def test_what_cannot_be_says_why(workload: Workload, gpu: str, words: str) -> None:
    answer = ESTIMATOR.estimate(workload, gpu)
    assert isinstance(answer, NotPossible)
    assert words in answer.reason


def test_fp8_weights_may_be_multiplied_in_sixteen_bits_when_said() -> None:
    of(ESTIMATOR, Inference(SMALL, 100, 100, weights="fp8", weight_only=True), "A100-SXM-80GB")


def test_a_gpu_nobody_measured_has_the_wider_range() -> None:
    job = Training(SMALL, 1e9, 2048, stack="llm-foundry", batch=4)
    measured, roofline = of(ESTIMATOR, job, "A100-SXM-80GB"), of(ESTIMATOR, job, "L40S-48GB")
    assert measured.calibrated
    assert not roofline.calibrated
    assert roofline.high / roofline.hours > measured.high / measured.hours


def test_a_level_alone_has_the_wider_range() -> None:
    job = Training(SMALL, 1e9, 2048, stack="llm-foundry", batch=4)
    named = of(ESTIMATOR, job, "A100-SXM-80GB")
    level = of(ESTIMATOR, replace(job, stack="optimised"), "A100-SXM-80GB")
    assert level.high / level.hours > named.high / named.hours
    assert any("software" in note for note in level.notes)


def test_better_software_is_faster() -> None:
    job = Training(SMALL, 1e9, 2048, batch=4)
    hours = [
        of(ESTIMATOR, replace(job, stack=stack), "A100-SXM-80GB").hours
        for stack in ("optimised", "typical", "naive")
    ]
    assert hours == sorted(hours)
    assert hours[2] == pytest.approx(2 * hours[1], rel=0.01)


def test_tokens_and_hours_agree() -> None:
    answer = of(ESTIMATOR, Training(SMALL, 3.6e9, 2048, batch=4), "H100-SXM-80GB", 8)
    assert answer.hours * answer.per_second * 3600 == pytest.approx(3.6e9)
    assert answer.unit == "tokens/s"


def test_an_h100_trains_about_twice_as_fast_as_an_a100() -> None:
    """Neither the dense peaks' 3.2 nor the sparse headline's 6.3."""
    job = Training(
        LLAMA, 1e9, 2048, batch=2, checkpointing=True, sharding=Sharding.FSDP, stack="llm-foundry"
    )
    slow, fast = (of(ESTIMATOR, job, gpu, 8).hours for gpu in ("A100-SXM-80GB", "H100-SXM-80GB"))
    assert 1.8 < slow / fast < 2.7


def test_a_peak_that_matrices_do_not_reach_is_not_believed() -> None:
    """The MI300X has 1.3 times the peak of an H100, and was measured below it."""
    known = {key: figures(spec) for key in ("MI300X-OAM-192GB", "H100-SXM-80GB")
             if (spec := catalogue().spec(key))}  # fmt: skip
    amd, nvidia = known["MI300X-OAM-192GB"], known["H100-SXM-80GB"]
    assert amd is not None
    assert nvidia is not None
    assert amd.tflops("bf16") == pytest.approx(668.4 / 0.75)
    assert nvidia.tflops("bf16") == pytest.approx(989.4)


def test_latency_costs_throughput() -> None:
    job = Inference(LLAMA, 1000, 200, requests=1000)
    free = of(ESTIMATOR, job, "H100-SXM-80GB")
    held = of(ESTIMATOR, replace(job, tpot_seconds=0.02), "H100-SXM-80GB")
    assert held.per_second < free.per_second
    tighter = of(ESTIMATOR, replace(job, tpot_seconds=0.012), "H100-SXM-80GB")
    assert tighter.per_second < held.per_second


def test_what_bounds_it() -> None:
    one = Inference(LLAMA, 16, 256, concurrency=1)
    assert of(ESTIMATOR, one, "A100-SXM-80GB").bound is Bound.BANDWIDTH
    prompt = Inference(LLAMA, 4000, 0)
    assert of(ESTIMATOR, prompt, "A100-SXM-80GB").bound is Bound.COMPUTE
    slow = Link(gpus_per_machine=1, machine_gbps=0.5)
    job = Training(LLAMA, 1e9, 2048, batch=1, checkpointing=True, sharding=Sharding.FSDP)
    answer = ESTIMATOR.estimate(job, "H100-SXM-80GB", 16, slow)
    assert isinstance(answer, Estimate)
    assert answer.bound is Bound.INTERCONNECT


def test_gpus_left_over_are_named() -> None:
    answer = of(ESTIMATOR, Inference(BIG, 100, 100, tensor_parallel=4), "H100-SXM-80GB", 6)
    assert "2 of 6 GPUs are left over" in answer.notes


def test_a_copy_takes_gpus_that_divide_its_heads() -> None:
    # 28 heads: vLLM and its like refuse 8 GPUs for one copy, however low the latency asked for.
    qwen = ModelShape("Qwen2.5-7B", 7.62e9, 28, 3584, 152_064, 28, 4, 18_944)
    job = Inference(qwen, 1000, 200, concurrency=1)
    assert _copy_of(of(ESTIMATOR, job, "H100-SXM-80GB", 8)) == 4
    like = replace(qwen, heads=32)
    assert _copy_of(of(ESTIMATOR, replace(job, model=like), "H100-SXM-80GB", 8)) == 8


def test_where_only_an_uneven_division_fits_it_is_taken_and_said() -> None:
    falcon = ModelShape("Falcon-7B", 7.22e9, 32, 4544, 65_024, 71, 1, 18_176, gated=False)
    job = Inference(falcon, 500, 100, requests=1000, weights="fp16")
    answer = of(ESTIMATOR, job, "V100-SXM-16GB", 2)
    assert _copy_of(answer) == 2
    assert any("2 GPUs do not divide the 71 heads evenly" in note for note in answer.notes)
    roomy = of(ESTIMATOR, job, "H100-SXM-80GB", 2)
    assert _copy_of(roomy) == 1
    assert not any("heads" in note for note in roomy.notes)


def test_a_copy_of_a_given_size_that_does_not_fit_says_so() -> None:
    alone = Inference(BIG, 1000, 200, requests=1000, tensor_parallel=1)
    answer = ESTIMATOR.estimate(alone, "H100-SXM-80GB", 8)
    assert isinstance(answer, DoesNotFit)
    assert answer.need_gib > answer.have_gib  # of a copy on one GPU, not on all eight
    assert answer.smallest_count is None
    assert answer.how == "no count helps with tensor_parallel = 1: 2 GPUs hold a copy"
    wide = replace(alone, tensor_parallel=8)
    few = ESTIMATOR.estimate(wide, "H100-SXM-80GB", 4)
    assert isinstance(few, NotPossible)
    assert few.reason == ("4 x H100-SXM-80GB: a copy takes 8 GPUs of one machine (tensor_parallel)")
    assert isinstance(ESTIMATOR.estimate(wide, "H100-SXM-80GB", 8), Estimate)


@given(inferences, st.sampled_from(GPUS), st.integers(1, 16))
def test_what_does_not_fit_needs_more_than_there_is(job: Inference, gpu: str, gpus: int) -> None:
    answer = ESTIMATOR.estimate(job, gpu, gpus)
    if isinstance(answer, DoesNotFit):
        assert answer.need_gib > answer.have_gib
        assert answer.smallest_count is None or answer.smallest_count > 1


def _copy_of(answer: Estimate) -> int:
    [step] = [step for step in answer.steps if step.name == "copies"]
    return int(step.formula.split()[-3])


def test_training_with_tensor_parallelism_needs_gpus_that_divide_the_heads() -> None:
    job = Training(LLAMA, 1e9, 2048, sharding=Sharding.TP, checkpointing=True, batch=1)
    answer = ESTIMATOR.estimate(job, "H100-SXM-80GB", 6)
    assert isinstance(answer, NotPossible)
    assert answer.reason == (
        "sharding = tp: 6 GPUs cannot divide the 32 heads (8 KV) of Llama-3-8B"
    )
    assert isinstance(ESTIMATOR.estimate(job, "H100-SXM-80GB", 8), Estimate)


def test_a_measurement_moves_the_others_in_proportion() -> None:
    job = Training(SMALL, 1e9, 2048, batch=4)
    ours = of(ESTIMATOR, job, "A100-SXM-80GB").hours
    modelled = of(ESTIMATOR, job, "H100-SXM-80GB")
    scaled = ESTIMATOR.scale(job, "A100-SXM-80GB", 1, 2 * ours, "H100-SXM-80GB")
    assert isinstance(scaled, Estimate)
    assert scaled.basis is Basis.SCALED
    assert scaled.hours == pytest.approx(2 * modelled.hours)
    assert scaled.per_second == pytest.approx(modelled.per_second / 2)
    assert scaled.low < scaled.hours < scaled.high
    assert scaled.steps[-1].value == scaled.hours


@given(workloads, st.sampled_from(GPUS), st.floats(0.01, 1000))
def test_a_measurement_replaces_the_model_where_it_was_made(
    workload: Workload, gpu: str, hours: float
) -> None:
    answer = ESTIMATOR.scale(workload, gpu, 2, hours, gpu, 2)
    if isinstance(answer, Estimate):
        assert answer.hours == pytest.approx(hours)
        assert answer.low == answer.high == answer.hours
        assert answer.basis is Basis.MEASURED
    else:
        assert isinstance(answer, NotPossible)


def test_what_was_measured_is_not_asked_whether_it_fits() -> None:
    job = Training(LLAMA, 1e9, 2048)
    assert isinstance(ESTIMATOR.estimate(job, "A100-SXM-40GB"), DoesNotFit)
    answer = ESTIMATOR.scale(job, "A100-SXM-40GB", 1, 10, "B300-SXM-270GB")
    assert isinstance(answer, Estimate)
    assert answer.hours < 10


def test_a_family_job_is_carried_over_both_ways() -> None:
    there = of(ESTIMATOR, Family("vision_cnn", "A100-SXM-80GB", 12), "H100-SXM-80GB")
    back = of(ESTIMATOR, Family("vision_cnn", "H100-SXM-80GB", there.hours), "A100-SXM-80GB")
    assert there.hours < 12
    assert back.hours == pytest.approx(12)
    assert any("MLCommons" in note for note in there.notes)


def test_a_family_job_that_needs_more_memory_does_not_fit() -> None:
    job = Family("vision_cnn", "A100-SXM-80GB", 12, vram_gib=30)
    answer = ESTIMATOR.estimate(job, "RTX4090-24GB", 8)
    assert isinstance(answer, DoesNotFit)
    assert answer.smallest_count is None


def test_a_part_of_a_gpu_takes_longer_and_is_less_certain() -> None:
    job = Inference(SMALL, 500, 100, requests=100)
    whole = of(ESTIMATOR, job, "A100-SXM-80GB")
    part = ESTIMATOR.estimate_share(job, "A100-SXM-80GB", 1 / 7, 1 / 8)
    assert isinstance(part, Estimate)
    assert 3 < part.hours / whole.hours < 12
    assert part.high / part.hours >= whole.high / whole.hours
    too_big = ESTIMATOR.estimate_share(replace(job, model=LLAMA), "A100-SXM-80GB", 1 / 7, 1 / 8)
    assert isinstance(too_big, DoesNotFit)
    with pytest.raises(ValueError, match="shares"):
        ESTIMATOR.estimate_share(job, "A100-SXM-80GB", 0, 1)


def test_hpc_is_the_slower_of_compute_and_bandwidth() -> None:
    compute = of(ESTIMATOR, Hpc(9.7e12 * 0.7 * 3600, 1e9), "A100-SXM-80GB")
    assert compute.hours == pytest.approx(1)
    assert compute.bound is Bound.COMPUTE
    streaming = of(ESTIMATOR, Hpc(1e9, 2039e9 * 0.8 * 3600), "A100-SXM-80GB")
    assert streaming.hours == pytest.approx(1)
    assert streaming.bound is Bound.BANDWIDTH


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no coefficients"), ("training,matmul,,x,1,1", "line 1"), ("a,b,c", "line 1")],
)
def test_a_broken_calibration_is_refused(text: str, words: str) -> None:
    with pytest.raises(CalibrationError, match=words):
        Calibration.from_csv(text)


def test_ranges_that_nobody_measured_are_wide() -> None:
    empty = Calibration("none", CALIBRATION.terms, {})
    assert empty.band("speed", "llm_pretrain", "stack").factor == 2.0


@pytest.mark.parametrize("group", CALIBRATION.groups())
def test_no_exponent_is_negative(group: str) -> None:
    for of_what in ("compute", "bandwidth"):
        common = CALIBRATION.log("ratio", of_what, ("",))
        own = CALIBRATION.log("ratio", of_what, (f"group/{group}",))
        assert common + own >= -1e-3
