"""Peak memory of one GPU, and whether a job fits.

Sources: mixed-precision Adam 16 bytes a parameter and what ZeRO divides (arXiv:1910.02054);
activations of a layer 34 S B d bytes without attention scores, 2 S B d with full recomputation
(arXiv:2205.05198), of which the MLP's share follows its own width; logits 2 + 4 + 4 bytes each
(16-bit, fp32, its gradient), none where the loss is fused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tracker.domain.model import ModelShape
from tracker.domain.runtime.figures import BYTES_PER_WEIGHT
from tracker.domain.runtime.stacks import stack_habits
from tracker.domain.runtime.types import (
    GIB,
    Inference,
    Memory,
    Method,
    Optimiser,
    Sharding,
    Training,
)

# Attention's part of the 34 bytes: 18 per unit of width; the MLP's 16 are 4 per inner unit.
_ATTENTION_BYTES = 18
_LOGIT_BYTES = 10
_LOGIT_BYTES_FP32 = 14  # where the output layer itself is in fp32
_FUSED_CHUNKS = 8  # a chunked loss keeps an eighth of the logits at a time
_CONTEXT_BYTES = 1.2e9  # CUDA context, workspaces, fragments
MEMORY_SHARE = 0.92  # of a GPU's memory that engines take
SERVING_BYTES = 1.5e9
_MOST_GPUS = 4096

# (weight + gradient, state) bytes of a trained parameter.
_OPTIMISER_BYTES = {
    Optimiser.ADAM: (2.0, 2.0, 12.0),
    Optimiser.ADAM_FP32_GRADS: (2.0, 6.0, 12.0),
    Optimiser.ADAM_BF16: (2.0, 2.0, 4.0),
    Optimiser.ADAM_8BIT: (2.0, 2.0, 2.0),
    Optimiser.IN_BACKWARD_8BIT: (2.0, 0.0, 0.0),
    Optimiser.SGD: (2.0, 2.0, 4.0),
}


def weight_bytes(model: ModelShape, precision: str) -> float:
    """Bytes of the weights stored in *precision*. Raises KeyError for one that is not known.

    4-bit formats leave the embeddings in 16 bits.
    """
    per_weight = BYTES_PER_WEIGHT[precision]
    if precision.startswith(("nf4", "int4", "fp4")):
        kept = min(model.embedding_params, model.params)
        return (model.params - kept) * per_weight + kept * 2
    return model.params * per_weight


def training_memory(job: Training, gpus: int = 1, batch: int | None = None) -> Memory:
    """What one of *gpus* GPUs holds at its peak, with *batch* sequences (None: the job's, or 1).

    What is not known counts as the larger need: activations kept, logits kept, and with 4-bit
    weights everything between the layers in fp32, as the usual preparation for it does.
    """
    sequences = batch or job.batch or 1
    tokens = float(sequences * job.seq_len)
    habits = stack_habits(job.stack)
    shares = _shares(job.sharding, gpus)
    trained = job.trained_params
    weight, gradient, state = _OPTIMISER_BYTES[job.optimiser]
    if job.method is Method.FULL:
        weights = weight * job.model.params
    else:
        stored = "bf16" if job.method is Method.LORA else habits.four_bit
        # Adapters are trained in fp32: 16 bytes with gradient and state, whatever the optimiser.
        weights = weight_bytes(job.model, stored) + 4 * trained
        gradient, state = 4.0, 8.0
    wide = job.method is Method.QLORA and _assumed(job.fp32_residual, habits.fp32_residual)
    layer = _layer_bytes(job.model) * tokens * (2 if wide else 1)
    between = (4 if wide else 2) * job.model.width * tokens
    if job.checkpointing:
        activations = between * job.model.layers + layer
    else:  # unknown counts as kept
        activations = layer * job.model.layers
    logits = (_LOGIT_BYTES_FP32 if wide else _LOGIT_BYTES) * job.model.vocab * tokens
    fused = job.fused_loss if job.fused_loss is not None else habits.fused_loss
    if fused:
        logits /= _FUSED_CHUNKS
    gathered = 0.0
    if job.sharding is Sharding.FSDP and gpus > 1:
        gathered = 4 * job.model.params / job.model.layers  # two layers, whole, in 16 bits
    return Memory(
        weights=(weights / shares.weights + gathered) / GIB,
        gradients=gradient * trained / shares.gradients / GIB,
        optimiser=state * trained / shares.state / GIB,
        activations=activations / shares.activations / GIB,
        logits=logits / shares.activations / GIB,
        overhead=_CONTEXT_BYTES / GIB,
    )


def serving_memory(job: Inference, sequences: float, gpus: int = 1) -> Memory:
    """What one of *gpus* GPUs holds that serve one copy of the model to *sequences* at once."""
    weights = weight_bytes(job.model, job.weights) if job.weight_gb is None else job.weight_gb * 1e9
    context = job.input_tokens + job.output_tokens
    kv = job.model.kv_bytes_per_token(kv_bytes(job)) * context * sequences
    return Memory(
        weights=weights / gpus / GIB, kv_cache=kv / gpus / GIB, overhead=SERVING_BYTES / GIB
    )


def kv_bytes(job: Inference) -> float:
    """Bytes of a value in the KV cache."""
    if job.kv is not None:
        return BYTES_PER_WEIGHT[job.kv]
    return 1.0 if job.weights in ("fp8", "fp4") else 2.0


def headroom(job: Training | Inference) -> float:
    """The factor on the need before a job is said to fit.

    The formula was low by up to a third on measured cases with 4-bit weights and long sequences,
    by up to a sixth otherwise. Serving manages its memory itself: engines take a share of it.
    """
    if isinstance(job, Inference):
        return 1 / MEMORY_SHARE
    return 1.2 if job.method is Method.QLORA else 1.15


def usable_batch(job: Training, gpus: int, vram_gib: float, most: int = 64) -> int:
    """The largest power of two of sequences per GPU that fits, up to *most*; 0: not even one."""
    fixed, per_sequence = _by_batch(job, gpus)
    room = (vram_gib / headroom(job) - fixed) / per_sequence
    if room < 1:
        return 0
    batch = 1
    while 2 * batch <= min(room, most):
        batch *= 2
    return batch


def smallest_count(job: Training, vram_gib: float) -> tuple[int, Sharding] | None:
    """The fewest GPUs of *vram_gib* GiB that the job fits on, and how it is divided; or None.

    Tried with the job's own division, then with everything divided (FSDP); at most 4,096.
    """
    found: tuple[int, Sharding] | None = None
    for sharding in dict.fromkeys((job.sharding, Sharding.FSDP)):
        alone, divided, fixed = _by_count(job, sharding)
        room = vram_gib / headroom(job)
        count = 1
        if alone > room:
            if fixed >= room or divided <= 0:
                continue
            # Rounding must not cost a GPU, nor say that it fits where it does not quite.
            count = max(2, math.ceil(divided / (room - fixed)))
            if sharding is Sharding.TP:
                count = 1 << (count - 1).bit_length()
                if not job.model.divides_among(count):
                    continue
        if count <= _MOST_GPUS and (found is None or count < found[0]):
            found = count, sharding
    return found


@lru_cache(maxsize=256)
def _by_batch(job: Training, gpus: int) -> tuple[float, float]:
    """GiB that do not depend on the batch, and GiB of each sequence: memory is linear in it."""
    one, two = training_memory(job, gpus, 1).total, training_memory(job, gpus, 2).total
    return 2 * one - two, two - one


@lru_cache(maxsize=256)
def _by_count(job: Training, sharding: Sharding) -> tuple[float, float, float]:
    """GiB on one GPU, and what of more than one is divided by their number and what is not."""
    trial = replace(job, sharding=sharding)
    one, two, four = (training_memory(trial, count).total for count in (1, 2, 4))
    divided = (two - four) * 4
    return one, divided, two - divided / 2


class _Shares(NamedTuple):
    """By what each part is divided."""

    weights: int
    gradients: int
    state: int
    activations: int


def _shares(sharding: Sharding, gpus: int) -> _Shares:
    if sharding is Sharding.DDP:
        return _Shares(1, 1, 1, 1)
    if sharding is Sharding.ZERO1:
        return _Shares(1, 1, gpus, 1)
    if sharding is Sharding.ZERO2:
        return _Shares(1, gpus, gpus, 1)
    if sharding is Sharding.FSDP:
        return _Shares(gpus, gpus, gpus, 1)
    return _Shares(gpus, gpus, gpus, gpus)


def _layer_bytes(model: ModelShape) -> float:
    """What one layer keeps for its backward pass, per token."""
    return _ATTENTION_BYTES * model.width + model.mlp_bytes_per_token()


def _assumed(known: bool | None, habit: bool | None) -> bool:
    """Unknown counts as true: the larger need."""
    if known is not None:
        return known
    return True if habit is None else habit
