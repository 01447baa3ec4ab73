"""What a job holds in memory, and whether it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.model import ModelShape
from tracker.domain.runtime.memory import (
    headroom,
    serving_memory,
    smallest_count,
    training_memory,
    usable_batch,
)
from tracker.domain.runtime.types import (
    GIB,
    DoesNotFit,
    Inference,
    Memory,
    Method,
    Optimiser,
    Sharding,
    Training,
    WorkloadError,
)

LLAMA = ModelShape("Llama-2-7B", 6.738e9, 32, 4096, 32_000, 32, 32, 11_008)
FULL = Training(LLAMA, tokens=1e9, seq_len=2048, batch=1, checkpointing=True)

jobs = st.builds(
    Training,
    model=st.sampled_from(
        [LLAMA, ModelShape.of_params("1B", 1e9), ModelShape.of_params("70B", 7e10)]
    ),
    tokens=st.just(1e9),
    seq_len=st.sampled_from([128, 2048, 32_768]),
    method=st.sampled_from(list(Method)),
    batch=st.sampled_from([1, 4]),
    checkpointing=st.sampled_from([True, False, None]),
    optimiser=st.sampled_from(list(Optimiser)),
    fused_loss=st.sampled_from([True, False, None]),
    stack=st.sampled_from(["typical", "optimised", "naive", "hf", "unsloth", "llm-foundry"]),
    sharding=st.sampled_from(list(Sharding)),
)


def test_mixed_precision_adam_takes_sixteen_bytes_a_parameter() -> None:
    held = training_memory(FULL)
    states = held.weights + held.gradients + held.optimiser
    assert states * GIB == pytest.approx(16 * LLAMA.params)


@pytest.mark.parametrize(
    ("optimiser", "bytes_per_parameter"),
    [
        (Optimiser.ADAM_BF16, 8),
        (Optimiser.ADAM_8BIT, 6),
        (Optimiser.IN_BACKWARD_8BIT, 2),
        (Optimiser.SGD, 8),
        (Optimiser.ADAM_FP32_GRADS, 20),
    ],
)
def test_each_optimiser_takes_its_own(optimiser: Optimiser, bytes_per_parameter: int) -> None:
    held = training_memory(replace(FULL, optimiser=optimiser))
    states = held.weights + held.gradients + held.optimiser
    assert states * GIB == pytest.approx(bytes_per_parameter * LLAMA.params)


def test_the_worked_example_of_the_documentation() -> None:
    """Llama 2 7B, LoRA, one sequence of 2,048 tokens with activations computed anew."""
    job = replace(FULL, method=Method.LORA, trainable=20e6)
    held = training_memory(job)
    assert held.weights * GIB == pytest.approx(2 * 6.738e9 + 4 * 20e6)
    assert held.logits * GIB == 10 * 32_000 * 2048
    assert held.activations * GIB == 2048 * (32 * 2 * 4096 + 18 * 4096 + 8 * 11_008)
    assert held.total == pytest.approx(15.39, abs=0.01)


def test_sharding_divides_what_it_says() -> None:
    by = {s: training_memory(replace(FULL, sharding=s), 8) for s in Sharding}
    alone = training_memory(FULL)
    assert by[Sharding.DDP] == alone
    assert by[Sharding.ZERO1].optimiser == alone.optimiser / 8
    assert by[Sharding.ZERO1].gradients == alone.gradients
    assert by[Sharding.ZERO2].gradients == alone.gradients / 8
    assert by[Sharding.ZERO2].weights == alone.weights
    assert by[Sharding.FSDP].weights < alone.weights / 4
    assert by[Sharding.TP].activations == alone.activations / 8


def test_four_bits_leave_the_embeddings_in_sixteen() -> None:
    job = Inference(LLAMA, 128, 128, weights="nf4")
    embeddings = 2 * 32_000 * 4096
    expected = 0.5625 * (LLAMA.params - embeddings) + 2 * embeddings
    assert serving_memory(job, 1).weights * GIB == pytest.approx(expected)


def test_the_cache_grows_with_sequences_and_context() -> None:
    job = Inference(LLAMA, 1000, 24, weights="fp16")
    assert serving_memory(job, 1).kv_cache * GIB == 1024 * 512 * 1024
    assert serving_memory(job, 16).kv_cache * GIB == 16 * 1024 * 512 * 1024


@given(jobs)
def test_what_is_not_known_counts_as_the_larger_need(job: Training) -> None:
    unknown = replace(job, checkpointing=None, fused_loss=False)
    for known in (True, False):
        assert (
            training_memory(unknown).total
            >= training_memory(replace(unknown, checkpointing=known)).total - 1e-9
        )


@given(jobs, st.integers(1, 64), st.floats(4, 300))
def test_the_usable_batch_fits_and_twice_as_much_does_not(
    job: Training, gpus: int, vram_gib: float
) -> None:
    batch = usable_batch(job, gpus, vram_gib)
    factor = headroom(job)
    if batch:
        assert training_memory(job, gpus, batch).total * factor <= vram_gib * (1 + 1e-9)
    if batch < 64:
        assert training_memory(job, gpus, max(1, 2 * batch)).total * factor > vram_gib * (1 - 1e-9)


@given(jobs, st.sampled_from([16.0, 24.0, 80.0, 180.0]))
def test_the_smallest_count_is_what_trying_every_count_finds(
    job: Training, vram_gib: float
) -> None:
    found = smallest_count(job, vram_gib)
    powers = [2**i for i in range(9) if job.model.divides_among(2**i)]
    counts = powers if job.sharding is Sharding.TP else range(1, 257)
    tried = [
        count
        for sharding in (job.sharding, Sharding.FSDP)
        for count in (counts if sharding is job.sharding else range(1, 257))
        if training_memory(replace(job, sharding=sharding), count).total * headroom(job) <= vram_gib
    ]
    if tried:
        assert found is not None
        assert found[0] == min(tried)
    else:
        assert found is None or found[0] > 256


@given(jobs, st.integers(1, 32))
def test_more_gpus_never_need_more_of_each(job: Training, gpus: int) -> None:
    # From two on: what FSDP gathers is only there when there is something to gather.
    fewer, more = training_memory(job, gpus + 1), training_memory(job, 2 * (gpus + 1))
    assert more.total <= fewer.total + 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": 0}, "tokens"),
        ({"seq_len": 0}, "sequence"),
        ({"batch": 0}, "batch"),
        ({"accumulation": 0}, "accumulation"),
        ({"trainable": 1e12}, "trainable"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        replace(FULL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("need", "have", "said"),
    [
        (43.94, 23.99, "needs 43.9 GiB per GPU, X has 24.0: no"),
        (24.04, 23.96, "needs 24.04 GiB per GPU, X has 23.96: no"),
        (24.0004, 23.9991, "needs 24.000 GiB per GPU, X has 23.999: no"),
    ],
)
def test_what_is_missing_can_be_seen(need: float, have: float, said: str) -> None:
    assert DoesNotFit("X", 1, need, have, Memory(), None, "no").reason == said
