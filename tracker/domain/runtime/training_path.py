"""Training from the workload to hours: precision, memory, micro-step, all GPUs."""

from __future__ import annotations

from dataclasses import replace

from tracker.domain.runtime.calibration import Calibration
from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.memory import headroom, smallest_count, training_memory, usable_batch
from tracker.domain.runtime.stacks import stack_habits
from tracker.domain.runtime.training import (
    MicroStep,
    TrainingCoefficients,
    flops_per_token,
    micro_step,
)
from tracker.domain.runtime.types import (
    Answer,
    Basis,
    DoesNotFit,
    Estimate,
    Link,
    Memory,
    Method,
    NotPossible,
    Sharding,
    Stack,
    Step,
    Training,
)

GROUPS = {Method.FULL: "llm_pretrain", Method.LORA: "llm_lora", Method.QLORA: "llm_qlora"}


def estimate(
    job: Training,
    gpu: Figures,
    gpus: int,
    link: Link,
    calibration: Calibration,
    *,
    check_memory: bool,
) -> Answer:
    """Hours on *gpus* GPUs, or why not."""
    peak = gpu.tflops(job.precision)
    if peak is None:
        return NotPossible(gpu.key, missing_precision(gpu, job.precision))
    batch = job.batch or usable_batch(job, gpus, gpu.vram_gib)
    held = training_memory(job, gpus, batch or 1)
    need = held.total * headroom(job)
    if check_memory and (batch == 0 or need > gpu.vram_gib):
        return _does_not_fit(job, gpu, gpus, held, need)
    if job.sharding is Sharding.TP and not job.model.divides_among(gpus):
        heads = f"the {job.model.heads} heads ({job.model.kv_heads} KV) of {job.model.name}"
        return NotPossible(gpu.key, f"sharding = tp: {gpus} GPUs cannot divide {heads}")
    coefficients = calibration.training(gpu, job.precision, job.stack, job.method)
    step = micro_step(job, gpu, peak, coefficients, batch or 1, gpus, link)
    copies = 1 if job.sharding is Sharding.TP else gpus
    rate = copies * step.tokens_per_second
    hours = job.tokens / rate / 3600
    group = GROUPS[job.method]
    own = calibration.rows("training", "matmul", f"gpu/{gpu.key}@{job.precision}")
    named = calibration.rows("training", "stack", f"stack/{job.stack}") > 0
    band = calibration.speed_band(group, gpu_known=own > 0, stack_known=named)
    return Estimate(
        gpu=gpu.key,
        gpus=gpus,
        hours=hours,
        low=hours / band,
        high=hours * band,
        per_second=rate,
        unit="tokens/s",
        bound=step.bound,
        memory=held,
        steps=_steps(job, gpu, gpus, batch or 1, need, peak, coefficients, own, step, rate, hours),
        basis=Basis.MODELLED,
        group=group,
        calibrated=own > 0,
        rows=own,
        version=calibration.version,
        notes=_notes(job, named, gpus),
    )


def missing_precision(gpu: Figures, precision: str) -> str:
    """Why *gpu* cannot compute in *precision*, and what it can."""
    has = [p for p in ("fp64", "fp32", "fp16", "bf16", "fp8", "fp4", "int8") if gpu.tflops(p)]
    return f"{gpu.key} does not compute in {precision}; it has {', '.join(has)}"


def _does_not_fit(job: Training, gpu: Figures, gpus: int, held: Memory, need: float) -> DoesNotFit:
    options = []
    found = smallest_count(job, gpu.vram_gib)
    if found is not None:
        count, sharding = found
        how = f"fits on {count}" if sharding is job.sharding else f"fits on {count} with FSDP"
        options.append((count, how))
    if not job.checkpointing:
        found = smallest_count(replace(job, checkpointing=True), gpu.vram_gib)
        if found is not None:
            count, sharding = found
            divided = " and FSDP" if sharding is not job.sharding else ""
            options.append((count, f"fits on {count} with activation checkpointing{divided}"))
    if not options:
        how = "no count helps: use a smaller batch or sequence, or LoRA or QLoRA"
        return DoesNotFit(gpu.key, gpus, need, gpu.vram_gib, held, None, how)
    count, how = min(options, key=lambda option: option[0])
    return DoesNotFit(gpu.key, gpus, need, gpu.vram_gib, held, count, how)


def _steps(
    job: Training,
    gpu: Figures,
    gpus: int,
    batch: int,
    need: float,
    peak: float,
    c: TrainingCoefficients,
    own: int,
    step: MicroStep,
    rate: float,
    hours: float,
) -> tuple[Step, ...]:
    flops = flops_per_token(job)
    fitted = f"fitted to {own} rows of {gpu.key}" if own else "fitted to rows of other GPUs"
    return (
        Step("model", f"parameters of {job.model.name}", job.model.params, "parameters"),
        Step("method", f"{job.method}: parameters trained", job.trained_params, "parameters"),
        Step("precision", f"{job.precision}, dense peak of {gpu.key}", peak, "TFLOPS"),
        Step("VRAM", "need per GPU with headroom", need, "GiB"),
        Step("batch", "sequences per GPU and micro-step", batch, "sequences"),
        Step("FLOPs", "passes x 2 N + passes x 4 L d S", flops, "FLOP/token"),
        Step("tokens", "sequences x length, of a micro-step", step.tokens, "tokens"),
        Step("efficiency", f"of the peak, in matrices: {fitted}", c.matmul, "of 1"),
        Step("", f"of the peak in 16 bits, in attention: {fitted}", c.attention, "of 1"),
        Step(
            "compute",
            "tokens x FLOPs / peak / efficiency",
            step.matmul + step.attention,
            "s/micro-step",
        ),
        Step(
            "bandwidth",
            "between the matrices, unpacking, optimiser",
            step.traffic + step.unpack + step.optimiser,
            "s/micro-step",
        ),
        Step("overhead", "starting kernels", step.launch, "s/micro-step"),
        Step("interconnect", "what is sharded or summed", step.communication, "s/micro-step"),
        Step("software", f"speed of {job.stack} against the fitted one", c.stack, "x"),
        Step("micro-step", "their sum, what overlaps counted once, / software", step.total, "s"),
        Step("GPUs", "working together", gpus, "GPUs"),
        Step("speed", "tokens of a micro-step / its time, all GPUs", rate, "tokens/s"),
        Step("runtime", "tokens / speed", hours, "hours"),
    )


def _notes(job: Training, named: bool, gpus: int) -> tuple[str, ...]:
    notes = [
        "steady state: restarts, evaluation and checkpoints took 5 to 16 % more in published runs"
    ]
    if not named:
        level = stack_habits(job.stack).level
        notes.append(f"the software is taken as {level}: another level moves the hours")
        if level is Stack.NAIVE:
            notes.append("naive is assumed half as fast as typical, not measured")
    if job.checkpointing is None:
        notes.append("activation checkpointing not said: memory assumes none, and so do the hours")
    if job.model.guessed:
        notes.append("the shape of the model is made up from its number of parameters")
    if gpus > 1 and job.sharding is Sharding.TP and gpus > 8:
        notes.append("tensor parallelism beyond a machine is slow: fewer GPUs may be faster")
    return tuple(notes)
