"""How long a language model needs to read a prompt and to write a token.

Reading (prefill) is bound by multiplications, 2 N a token; writing (decode) by reading the weights
once a step and the KV cache once a sequence, with 2 N FLOPs a sequence and a floor from starting
kernels. Tensor parallelism divides all of it and adds two all-reduces a layer. Sources: Kipply,
"Transformer Inference Arithmetic"; cli99/llm-analysis; the coefficients are fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.memory import kv_bytes, weight_bytes
from tracker.domain.runtime.types import GIB, Bound, Inference, Link

MOST_SEQUENCES = 2048  # what the usual engines schedule at once
MEMORY_SHARE = 0.92  # of a GPU's memory that engines give to weights and cache
RESERVED_BYTES = 1.5e9
_PIECE = 512  # tokens of a prompt that go through the layers at once


@dataclass(frozen=True, slots=True)
class InferenceCoefficients:
    """What is fitted: fractions of the peak, and seconds.

    ``prefill`` and ``decode`` of the compute peak, ``weights`` and ``cache`` of the bandwidth,
    ``link`` of the link between GPUs; ``launch`` seconds per layer and step, ``hop`` seconds per
    all-reduce, ``start`` seconds per request (the first token's fixed part).
    """

    prefill: float
    decode: float
    weights: float
    cache: float
    launch: float
    link: float
    hop: float
    start: float


@dataclass(frozen=True, slots=True)
class Serving:
    """Steady state of one copy of the model: ``sequences`` at once on ``gpus`` GPUs.

    ``prefill_seconds`` of one prompt alone, ``read_seconds`` of one among others,
    ``step_seconds`` of one token for every sequence, ``requests_per_second`` of the copy.
    """

    sequences: float
    gpus: int
    prefill_seconds: float
    read_seconds: float
    step_seconds: float
    requests_per_second: float
    bound: Bound


def prefill_seconds(
    job: Inference, gpu: Figures, peak: float, c: InferenceCoefficients, gpus: int, link: Link
) -> tuple[float, float]:
    """Seconds to read one prompt: the work that grows with it, and what comes on top alone.

    Work: multiplications, attention and what GPUs exchange. On top: kernels are started, and the
    weights are read once however short the prompt; prompts read together share that.
    """
    model = job.model
    tokens = job.input_tokens
    flops = tokens * (2 * model.active + model.attention_flops_per_token(tokens) / 2)
    seconds = flops / (gpus * peak * 1e12 * c.prefill)
    floor = _active_weight_bytes(job) / (gpus * gpu.bandwidth_gbps * 1e9 * c.weights)
    work = seconds + _exchange(job, gpu, c, gpus, link, tokens)
    return work, max(0.0, floor - seconds) + model.layers * c.launch + c.start


def step_seconds(
    job: Inference,
    gpu: Figures,
    peak: float,
    c: InferenceCoefficients,
    gpus: int,
    link: Link,
    sequences: float,
    context: float,
) -> tuple[float, Bound]:
    """Seconds of one decode step for *sequences* with *context* tokens each; what bounds it."""
    model = job.model
    bandwidth = gpus * gpu.bandwidth_gbps * 1e9
    reading = _weights_met(job, sequences) / (bandwidth * c.weights)
    cache = sequences * model.kv_bytes_per_token(kv_bytes(job)) * context / (bandwidth * c.cache)
    compute = sequences * 2 * model.active / (gpus * peak * 1e12 * c.decode)
    launch = model.layers * c.launch
    exchange = _exchange(job, gpu, c, gpus, link, sequences)
    parts = {
        Bound.BANDWIDTH: reading + cache,
        Bound.COMPUTE: compute,
        Bound.OVERHEAD: launch,
        Bound.INTERCONNECT: exchange,
    }
    return sum(parts.values()), max(parts, key=lambda part: parts[part])


def most_sequences(job: Inference, gpu: Figures, gpus: int) -> float:
    """How many sequences' caches fit beside the weights, at most 2,048; below 1: it does not fit.

    The larger the less the whole of a context is in use at once: counted in full all the same.
    """
    weights = _weight_bytes(job)
    per_sequence = job.model.kv_bytes_per_token(kv_bytes(job)) * (
        job.input_tokens + job.output_tokens
    )
    room = MEMORY_SHARE * gpu.vram_gib * GIB * gpus - weights - RESERVED_BYTES * gpus
    return min(float(MOST_SEQUENCES), room / per_sequence)


def serve(
    job: Inference,
    gpu: Figures,
    peak: float,
    c: InferenceCoefficients,
    gpus: int,
    link: Link,
    sequences: float,
) -> Serving:
    """The steady state with *sequences* at once: each is read once and written token by token."""
    stages = gpus if job.layer_split else 1
    gpus = gpus // stages
    work, fixed = prefill_seconds(job, gpu, peak, c, gpus, link)
    # Layers on different GPUs read a long prompt piece by piece, all of them busy.
    pieces = -(-job.input_tokens // _PIECE)
    work *= (pieces + stages - 1) / (pieces * stages)
    read = work + fixed / sequences
    context = job.input_tokens + job.output_tokens / 2
    step, bound = step_seconds(job, gpu, peak, c, gpus, link, sequences, context)
    cycle = sequences * read + job.output_tokens * step
    if sequences * read > job.output_tokens * step:
        bound = Bound.COMPUTE
    return Serving(sequences, gpus * stages, work + fixed, read, step, sequences / cycle, bound)


def _weight_bytes(job: Inference) -> float:
    if job.weight_gb is not None:
        return job.weight_gb * 1e9
    return weight_bytes(job.model, job.weights)


def _active_weight_bytes(job: Inference) -> float:
    return _weight_bytes(job) * job.model.active / job.model.params


def _weights_met(job: Inference, sequences: float) -> float:
    """Bytes of weights that a step reads: more experts the more sequences there are."""
    model = job.model
    whole = _weight_bytes(job)
    if model.experts == 1:
        return whole
    share = model.active / model.params
    # Each sequence meets its share at random; what none meets is not read.
    return float(whole * (1 - (1 - share) ** sequences))


def _exchange(
    job: Inference, gpu: Figures, c: InferenceCoefficients, gpus: int, link: Link, tokens: float
) -> float:
    """Seconds of the two all-reduces of every layer, for *tokens* tokens at once."""
    if gpus == 1:
        return 0.0
    rate = (link.gpu_gbps or gpu.gpu_link_gbps) * 1e9 * c.link
    sent = 2 * (gpus - 1) / gpus * 2 * tokens * job.model.width
    return 2 * job.model.layers * (sent / rate + c.hop)
