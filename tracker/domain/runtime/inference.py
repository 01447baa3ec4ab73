"""How long a language model needs to read a prompt and to write a token.

Reading (prefill) is bound by multiplications, 2 N a token; writing (decode) by reading the weights
once a step and the KV cache once a sequence, with 2 N FLOPs a sequence and a floor from starting
kernels. Tensor parallelism divides all of it and adds two all-reduces a layer. Sources: Kipply,
"Transformer Inference Arithmetic"; cli99/llm-analysis; the coefficients are fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.memory import MEMORY_SHARE, SERVING_BYTES, kv_bytes, weight_bytes
from tracker.domain.runtime.types import GIB, Bound, Inference, Link

MOST_SEQUENCES = 2048  # what the usual engines schedule at once
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


class Serving(NamedTuple):
    """Steady state of one copy of the model: ``sequences`` at once on ``gpus`` GPUs.

    ``prefill_seconds`` of one prompt alone, ``prompts_seconds`` of those of all sequences read
    together, ``step_seconds`` of one token for every sequence, ``token_seconds`` the same with the
    prompts of others read in between, ``requests_per_second`` of the copy: sequences /
    (prompts_seconds + output tokens x step_seconds).
    """

    sequences: float
    gpus: int
    prefill_seconds: float
    prompts_seconds: float
    step_seconds: float
    token_seconds: float
    requests_per_second: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class Load:
    """What one request and one step of a job come to, whatever the GPU: FLOPs and bytes."""

    weights: float
    active_weights: float
    prompt_flops: float
    token_flops: float
    cache_per_token: float
    context: int
    mean_context: float
    exchanged_per_token: float  # by two all-reduces a layer, before the share that is sent
    experts: bool


@lru_cache(maxsize=256)
def load(job: Inference) -> Load:
    """The load of *job*."""
    model = job.model
    size = weight_bytes(model, job.weights) if job.weight_gb is None else job.weight_gb * 1e9
    tokens = job.input_tokens
    return Load(
        weights=size,
        active_weights=size * model.active / model.params,
        prompt_flops=tokens * (2 * model.active + model.attention_flops_per_token(tokens) / 2),
        token_flops=2 * model.active,
        cache_per_token=model.kv_bytes_per_token(kv_bytes(job)),
        context=tokens + job.output_tokens,
        mean_context=tokens + job.output_tokens / 2,
        exchanged_per_token=2 * model.layers * 2 * 2 * model.width,
        experts=model.experts > 1,
    )


def most_sequences(job: Inference, gpu: Figures, gpus: int) -> float:
    """How many sequences' caches fit beside the weights, at most 2,048; below 1: it does not fit.

    Each is counted with its whole context, though not all are that long at once.
    """
    has = load(job)
    room = (MEMORY_SHARE * gpu.vram_gib * GIB - SERVING_BYTES) * gpus - has.weights
    if has.cache_per_token <= 0:
        return float(MOST_SEQUENCES) if room > 0 else 0.0
    return min(float(MOST_SEQUENCES), room / (has.cache_per_token * has.context))


class Rates(NamedTuple):
    """Seconds of one copy of the model: what a step and a prompt cost, alone and per sequence."""

    gpus: int
    multiplied: float  # a prompt's multiplications
    work: float  # a prompt, with what GPUs exchange
    fixed: float  # on top, for all prompts read together
    weights: float  # reading all weights once
    cache: float  # a sequence's cache
    compute: float  # a sequence's token
    exchange: float  # a sequence's token
    hops: float  # all-reduces of a step, however small
    launch: float


def rates(
    job: Inference, gpu: Figures, peak: float, c: InferenceCoefficients, gpus: int, link: Link
) -> Rates:
    """The costs on *gpus* GPUs that hold one copy.

    Prompts that are read together share what comes on top of their work: kernels that are started,
    and weights that are read once however short the prompt.
    """
    has = load(job)
    stages = gpus if job.layer_split else 1
    together = gpus // stages
    layers = job.model.layers
    flops = together * peak * 1e12
    bandwidth = together * gpu.bandwidth_gbps * 1e9
    hops = exchange = 0.0
    if together > 1:
        rate = (link.gpu_gbps or gpu.gpu_link_gbps) * 1e9 * c.link
        exchange = has.exchanged_per_token * (together - 1) / together / rate
        hops = 2 * layers * c.hop
    launch = layers * c.launch
    multiplied = has.prompt_flops / (flops * c.prefill)
    floor = has.active_weights / (bandwidth * c.weights)
    work = multiplied + exchange * job.input_tokens + hops
    # Layers on different GPUs read a long prompt piece by piece, all of them busy.
    pieces = -(-job.input_tokens // _PIECE)
    return Rates(
        gpus=gpus,
        multiplied=multiplied,
        work=work * (pieces + stages - 1) / (pieces * stages),
        fixed=max(0.0, floor - multiplied) + launch + c.start,
        weights=has.weights / (bandwidth * c.weights),
        cache=has.cache_per_token * has.mean_context / (bandwidth * c.cache),
        compute=has.token_flops / (flops * c.decode),
        exchange=exchange,
        hops=hops,
        launch=launch,
    )


def serve(job: Inference, r: Rates, sequences: float) -> Serving:
    """The steady state with *sequences* at once: each is read once and written token by token."""
    has = load(job)
    reading = r.weights
    if has.experts:
        # Each sequence meets its share of the experts at random; what none meets is not read.
        reading *= 1 - (1 - has.active_weights / has.weights) ** sequences
    reading += sequences * r.cache
    compute = sequences * r.compute
    exchange = sequences * r.exchange + r.hops
    step = reading + compute + r.launch + exchange
    prompts = sequences * r.work + r.fixed
    written = job.output_tokens
    parts = (
        (sequences * r.multiplied + written * compute, Bound.COMPUTE),
        (written * reading, Bound.BANDWIDTH),
        (r.fixed + written * r.launch, Bound.OVERHEAD),
        (max(0.0, sequences * (r.work - r.multiplied)) + written * exchange, Bound.INTERCONNECT),
    )
    return Serving(
        sequences=sequences,
        gpus=r.gpus,
        prefill_seconds=r.work + r.fixed,
        prompts_seconds=prompts,
        step_seconds=step,
        token_seconds=step + prompts / written if written else step,
        requests_per_second=sequences / (prompts + written * step),
        bound=max(parts)[1],
    )


def sequences_within(job: Inference, r: Rates, token_seconds: float) -> float:
    """The most sequences at which a token takes at most *token_seconds*; may be below 1.

    With experts a little fewer than that: as if every step read all of them.
    """
    written = job.output_tokens
    alone = r.weights + r.launch + r.hops + r.fixed / written
    each = r.cache + r.compute + r.exchange + r.work / written
    return (token_seconds - alone) / each
