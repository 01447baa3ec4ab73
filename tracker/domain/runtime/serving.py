"""Inference from the workload to hours: precision, copies of the model, batch, latency, rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tracker.domain.runtime.calibration import Calibration
from tracker.domain.runtime.figures import BYTES_PER_WEIGHT, Figures
from tracker.domain.runtime.inference import (
    InferenceCoefficients,
    Rates,
    Serving,
    most_sequences,
    rates,
    sequences_within,
    serve,
)
from tracker.domain.runtime.memory import headroom, serving_memory
from tracker.domain.runtime.training_path import missing_precision
from tracker.domain.runtime.types import (
    Answer,
    Basis,
    DoesNotFit,
    Estimate,
    Inference,
    Link,
    NotPossible,
    Step,
)
from tracker.domain.texts import figure

_NETWORKED = 8
_MULTIPLIED = ("fp32", "fp16", "bf16", "fp8", "fp4", "int8")


def group_of(job: Inference) -> str:
    """The workload group whose measurements it rests on."""
    if job.output_tokens == 0:
        return "llm_prefill_bs1"
    return "llm_decode_bs1" if job.concurrency == 1 else "llm_serving_throughput"


def compute_precision(job: Inference) -> str:
    """What is multiplied in: the weights' own format where it is one of numbers."""
    return job.weights if job.weights in _MULTIPLIED and not job.weight_only else "best"


def estimate(
    job: Inference,
    gpu: Figures,
    gpus: int,
    link: Link,
    calibration: Calibration,
    *,
    check_memory: bool,
) -> Answer:
    """Hours for all requests, at the batch that the memory and the latency asked for allow."""
    if job.weights not in BYTES_PER_WEIGHT:
        return NotPossible(gpu.key, f"weights in {job.weights} are not known")
    compute = compute_precision(job)
    peak = gpu.tflops(compute)
    if peak is None:
        reason = missing_precision(gpu, compute)
        if compute in ("fp8", "fp4", "int8"):
            reason += "; weight_only = true stores the weights so and multiplies in 16 bits"
        return NotPossible(gpu.key, reason)
    kind = "serve" if job.output_tokens else "prefill"
    c = calibration.inference(gpu, compute, job.weights, job.stack, kind)
    best: tuple[float, int, Serving] | None = None
    reason = ""
    sizes = _even(job, gpu, _sizes(job, gpus, link))
    for size in sizes:
        room = most_sequences(job, gpu, size)
        copies, sequences = _spread(job, gpus // size, room)
        if check_memory and room < 1:
            continue
        state = _within_latency(job, rates(job, gpu, peak, c, size, link), sequences)
        if state is None:
            reason = "not even one request at a time meets the latency asked for"
            continue
        rate = copies * state.requests_per_second
        if best is None or rate > best[0] * 1.001:
            best = rate, copies, state
    if best is None and reason:
        return NotPossible(gpu.key, f"{gpus} x {gpu.key}: {reason}")
    if best is None:
        return _does_not_fit(job, gpu, gpus, sizes)
    rate, copies, state = best
    found = _estimate(job, gpu, gpus, calibration, rate, copies, state, peak, compute, c)
    return found if job.request_rate is None else at_rate(job, job.request_rate, found)


def at_rate(job: Inference, asked: float, answer: Estimate) -> Answer:
    """*answer*, which is of all speed there is, for the rate *asked* for; or how many would do."""
    rate = job.requests / answer.hours / 3600
    if asked > rate * job.utilisation:
        return _too_slow(job, asked, answer, rate)
    busy = f"busy {asked / rate:.0%} of the time at the rate asked for"
    needed = asked / (rate / answer.copies * job.utilisation)
    return replace(answer, notes=(busy, *answer.notes), copies_needed=needed)


def _spread(job: Inference, copies: int, room: float) -> tuple[int, float]:
    """The copies that have something to do, and the sequences at once in each of them.

    No more sequences are under way than ``concurrency`` allows.
    """
    if job.concurrency is not None:
        copies = max(1, min(copies, job.concurrency))
        room = min(room, job.concurrency / copies)
    return copies, max(1.0, room)


def _sizes(job: Inference, gpus: int, link: Link) -> Iterator[int]:
    """GPUs per copy to try: powers of two that divide the GPUs.

    A copy spans machines only where they have a network for it: those of 8 GPUs or more.
    """
    most = gpus if link.gpus_per_machine >= _NETWORKED else min(gpus, link.gpus_per_machine)
    if job.layer_split:
        if gpus <= most:
            yield gpus
        return
    if job.tensor_parallel is not None:
        if job.tensor_parallel <= most:
            yield job.tensor_parallel
        return
    size = 1
    while size <= min(most, 16):
        yield size
        size *= 2


def _even(job: Inference, gpu: Figures, sizes: Iterable[int]) -> list[int]:
    """Those of *sizes* that divide the model's heads; the others only where it fits on no such."""
    tried = list(sizes)
    if job.tensor_parallel is not None or job.layer_split:
        return tried
    even = [size for size in tried if job.model.divides_among(size)]
    if any(most_sequences(job, gpu, size) >= 1 for size in even):
        return even
    return tried


def _within_latency(job: Inference, costs: Rates, sequences: float) -> Serving | None:
    """The steady state with the most sequences, up to *sequences*, that meets the latencies."""
    full = serve(job, costs, sequences)
    if job.ttft_seconds is not None and full.prefill_seconds > job.ttft_seconds:
        return None
    target = job.tpot_seconds
    if target is None or not job.output_tokens or full.token_seconds <= target:
        return full
    most = sequences_within(job, costs, target)
    if most >= 1:
        return serve(job, costs, min(most, sequences))
    # One sequence reads few experts: it may be fast enough all the same.
    alone = serve(job, costs, 1.0)
    return alone if alone.token_seconds <= target else None


def _too_slow(job: Inference, asked: float, answer: Estimate, rate: float) -> NotPossible:
    """The rate asked for is beyond *rate*, and how many GPUs would do."""
    gpu, gpus = answer.gpu, answer.gpus
    copies = math.ceil(asked / (rate / answer.copies * job.utilisation))
    needed = copies * answer.copy_gpus
    busy = "" if job.utilisation == 1 else f" at most {job.utilisation:.0%} busy"
    reason = f"{gpus} x {gpu} serve {figure(rate * job.utilisation)} requests/s{busy}, "
    return NotPossible(
        gpu, f"{reason}{figure(asked, 6)} are asked for: {needed} GPUs would do", needed
    )


def _speeds(job: Inference, state: Serving, copies: int) -> tuple[float | None, float | None]:
    """Tokens per second that all copies read, and write, while they do nothing else."""
    each = state.sequences * copies
    writing = job.output_tokens * state.step_seconds
    reading = state.sequences / state.requests_per_second - writing
    if not reading > 0:
        return None, None
    written = each * job.output_tokens / writing if writing else None
    return each * job.input_tokens / reading, written


def _does_not_fit(job: Inference, gpu: Figures, gpus: int, sizes: list[int]) -> Answer:
    """What a GPU of the largest copy that was tried would hold, and what would fit."""
    asked = job.tensor_parallel
    if asked is not None and not sizes:
        reason = f"{gpus} x {gpu.key}: a copy takes {asked} GPUs of one machine (tensor_parallel)"
        return NotPossible(gpu.key, reason)
    held = serving_memory(job, 1, max(sizes, default=gpus))
    count = 1
    while count <= 4096 and most_sequences(job, gpu, count) < 1:
        count *= 2
    how = f"fits on {count} with the model divided over them"
    if count > 4096:
        how = "no count helps: use fewer bits per weight or a shorter context"
    elif asked is not None:
        how = f"no count helps with tensor_parallel = {asked}: {count} GPUs hold a copy"
    none = count > 4096 or asked is not None
    need = held.total * headroom(job)
    return DoesNotFit(gpu.key, gpus, need, gpu.vram_gib, held, None if none else count, how)


def _estimate(
    job: Inference,
    gpu: Figures,
    gpus: int,
    calibration: Calibration,
    rate: float,
    copies: int,
    state: Serving,
    peak: float,
    compute: str,
    c: InferenceCoefficients,
) -> Estimate:
    """What *copies* in that *state* come to, with the way there and how sure it is."""
    group, own = group_of(job), _rows_of_own(job, gpu, compute, calibration)
    named = calibration.rows("inference", "prefill", f"stack/{job.stack}") > 0
    band = calibration.speed_band(group, gpu_known=own > 0, stack_known=named)
    hours = job.requests / rate / 3600
    read, written = _speeds(job, state, copies)
    held = serving_memory(job, state.sequences, state.gpus)
    steps = (
        Step("model", f"parameters of {job.model.name}", job.model.params, "parameters"),
        Step("precision", f"{compute} of {gpu.key}, dense peak", peak, "TFLOPS"),
        Step("VRAM", "weights, KV cache and workspace per GPU", held.total, "GiB"),
        *_steps_of_copies(state, copies),
        *_steps_of_efficiency(c, own, gpu),
        *_steps_of_speed(job, state, rate),
        Step("runtime", "requests / speed", hours, "hours"),
    )
    return Estimate(
        gpu=gpu.key,
        gpus=gpus,
        hours=hours,
        low=hours / band,
        high=hours * band,
        per_second=rate * (job.output_tokens or job.input_tokens),
        unit="output tokens/s" if job.output_tokens else "input tokens/s",
        bound=state.bound,
        memory=held,
        steps=steps,
        basis=Basis.MODELLED,
        group=group,
        calibrated=own > 0,
        rows=own,
        version=calibration.version,
        notes=tuple(_notes(job, gpus, state.gpus, copies)),
        input_per_second=read,
        output_per_second=written,
        copies=copies,
        copy_gpus=state.gpus,
    )


def _rows_of_own(job: Inference, gpu: Figures, compute: str, calibration: Calibration) -> int:
    """The measurements of this very GPU behind the efficiencies that decide; 0: none."""
    of_gpu = calibration.rows("inference", "weights", f"gpu/{gpu.key}")
    if group_of(job) == "llm_decode_bs1":
        return of_gpu
    narrow = compute if compute in ("fp8", "fp4", "int8") else "16"
    return min(of_gpu, calibration.rows("inference", "decode", f"gpu/{gpu.key}@{narrow}"))


def _notes(job: Inference, gpus: int, size: int, copies: int) -> Iterator[str]:
    """What a reader of the estimate must know."""
    if size * copies < gpus:
        yield f"{gpus - size * copies} of {gpus} GPUs are left over"
    if not (job.layer_split or job.model.divides_among(size)):
        yield (
            f"{size} GPUs do not divide the {job.model.heads} heads evenly: where the software "
            "insists on it, divide the layers instead, which may be slower"
        )
    if job.model.guessed:
        yield "the shape of the model is made up from its number of parameters"


def _steps_of_copies(state: Serving, copies: int) -> Iterator[Step]:
    size = f"{state.gpus} {'GPU' if state.gpus == 1 else 'GPUs'}"
    yield Step("copies", f"of the model, {size} each", copies, "copies")
    yield Step("batch", "sequences at once in a copy", state.sequences, "sequences")


def _steps_of_efficiency(c: InferenceCoefficients, own: int, gpu: Figures) -> Iterator[Step]:
    fitted = f"fitted to {own} rows of {gpu.key}" if own else "fitted to rows of other GPUs"
    yield Step("efficiency", f"of the peak, reading prompts: {fitted}", c.prefill, "of 1")
    yield Step("", f"of the peak, writing tokens: {fitted}", c.decode, "of 1")
    yield Step("", f"of the bandwidth, reading weights: {fitted}", c.weights, "of 1")
    yield Step("", f"of the bandwidth, reading the cache: {fitted}", c.cache, "of 1")


def _steps_of_speed(job: Inference, state: Serving, rate: float) -> Iterator[Step]:
    """From a prompt and a token to requests per second: each step follows from those before."""
    yield Step(
        "prefill",
        "2 N x prompt / compute / efficiency, and its start",
        state.prefill_seconds,
        "s/prompt",
    )
    yield Step(
        "prompts",
        "those of a batch read together, which start once",
        state.prompts_seconds,
        "s/batch",
    )
    if not job.output_tokens:
        yield Step("speed", "copies x batch / prompts", rate, "requests/s")
        return
    decode = "weights and cache / bandwidth + 2 N / compute"
    yield Step("decode", decode, state.step_seconds, "s/token")
    between = "decode + prompts / output tokens: as a reader sees it"
    yield Step("token", between, state.token_seconds, "s/token")
    yield Step("speed", "copies x batch / (prompts + output tokens x decode)", rate, "requests/s")
