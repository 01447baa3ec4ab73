"""Workloads that can be estimated, and what an estimate says.

Sizes: tokens, samples and requests are counts; memory in GiB (2^30 bytes); bandwidth in GB/s
(10^9 bytes). Unknown is None; where memory depends on something unknown, the larger need is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.model import ModelShape

GIB = float(1 << 30)


class WorkloadError(ValueError):
    """A workload that cannot be. The message is one line that says what to change."""


class Method(StrEnum):
    """What of a model is trained."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"  # frozen weights in 4 bits


class Sharding(StrEnum):
    """How several GPUs share one training job."""

    DDP = "ddp"  # every GPU holds everything
    ZERO1 = "zero1"  # the optimiser's state is divided
    ZERO2 = "zero2"  # and the gradients
    FSDP = "fsdp"  # and the weights (ZeRO-3)
    TP = "tp"  # every matrix is divided


class Optimiser(StrEnum):
    """What the optimiser keeps for each trained parameter, weight and gradient included."""

    ADAM = "adam"  # mixed precision: 16 bytes
    ADAM_FP32_GRADS = "adam-fp32-grads"  # and gradients accumulated in fp32: 20 bytes
    ADAM_BF16 = "adam-bf16"  # everything in 16 bits: 8 bytes
    ADAM_8BIT = "adam-8bit"  # 16-bit weight and gradient, 8-bit state: 6 bytes
    IN_BACKWARD_8BIT = "adam-8bit-in-backward"  # gradients freed at once, state paged out: 2 bytes
    SGD = "sgd"  # momentum: 8 bytes


class Stack(StrEnum):
    """How well the software is tuned."""

    OPTIMISED = "optimised"
    TYPICAL = "typical"
    NAIVE = "naive"


class Bound(StrEnum):
    """What a job's time goes into most."""

    COMPUTE = "compute"
    BANDWIDTH = "memory bandwidth"
    INTERCONNECT = "interconnect"
    OVERHEAD = "overhead"


class Basis(StrEnum):
    """What an estimate rests on."""

    MEASURED = "measured"  # the user's own run, on this GPU and count
    MODELLED = "modelled"
    SCALED = "scaled"  # from a measurement on other GPUs


@dataclass(frozen=True, slots=True)
class Training:
    """Training or fine-tuning of a transformer.

    ``tokens`` are all that pass through it: samples x sequence length x epochs. ``batch`` is the
    sequences per GPU and micro-step (None: the largest that fits), ``accumulation`` the
    micro-steps per step. ``checkpointing`` of activations, ``fused_loss`` (no logits kept) and
    ``stack`` may be unknown. ``stack`` is a level or the name of a calibrated one
    (``llm-foundry``). ``precision``: of the matrix multiplications. ``trainable``: parameters of
    the adapters; None: 0.6 % of the model.
    """

    model: ModelShape
    tokens: float
    seq_len: int
    method: Method = Method.FULL
    precision: str = "bf16"
    batch: int | None = None
    accumulation: int = 8
    checkpointing: bool | None = None
    optimiser: Optimiser = Optimiser.ADAM
    fused_loss: bool | None = None
    stack: str = Stack.TYPICAL
    sharding: Sharding = Sharding.DDP
    trainable: float | None = None
    fp32_residual: bool | None = None  # of 4-bit training; None: assumed

    def __post_init__(self) -> None:
        if not 0 < self.tokens < 1e18:
            raise WorkloadError(f"tokens must lie between 0 and 1e18, not {self.tokens:g}")
        if not 0 < self.seq_len <= 10_000_000:
            raise WorkloadError(f"a sequence of {self.seq_len} tokens cannot be")
        if self.batch is not None and self.batch < 1:
            raise WorkloadError("the batch per GPU must be at least 1")
        if self.accumulation < 1:
            raise WorkloadError("accumulation must be at least 1 micro-step per step")
        if self.trainable is not None and not 0 < self.trainable <= self.model.params:
            raise WorkloadError("trainable parameters must lie between 0 and the model's")

    @classmethod
    def of_samples(
        cls, model: ModelShape, samples: float, epochs: float, seq_len: int, method: Method
    ) -> Training:
        """The job of *samples* sequences of *seq_len* tokens, seen *epochs* times."""
        return cls(model=model, tokens=samples * epochs * seq_len, seq_len=seq_len, method=method)

    @property
    def trained_params(self) -> float:
        """Parameters that get a gradient."""
        if self.method is Method.FULL:
            return self.model.params
        return 0.006 * self.model.params if self.trainable is None else self.trainable


@dataclass(frozen=True, slots=True)
class Inference:
    """Generation of text: ``requests`` of ``input_tokens`` each, answered with ``output_tokens``.

    Offline when neither ``concurrency`` (sequences at once, all GPUs together), ``request_rate``
    (per second) nor a latency target is given: the batch is then what fits. ``ttft_seconds`` and
    ``tpot_seconds`` bound the time to the first token and per further token. ``weights`` and
    ``kv`` are precisions of storage; weights are multiplied as stored where that is a format of
    numbers, in 16 bits else or with ``weight_only``. ``stack``: a level or a calibrated name.
    """

    model: ModelShape
    input_tokens: int
    output_tokens: int
    requests: float = 1.0
    weights: str = "bf16"
    kv: str | None = None  # None: fp8 with fp8 and fp4 weights, else 16 bits
    concurrency: int | None = None
    request_rate: float | None = None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    stack: str = Stack.OPTIMISED
    weight_gb: float | None = None  # of the file, where known: 10^9 bytes
    weight_only: bool = False  # weights are stored narrow and multiplied in 16 bits
    tensor_parallel: int | None = None  # GPUs per copy; None: what serves most
    layer_split: bool = False  # GPUs hold different layers: memory adds up, speed does not
    utilisation: float = 1.0  # the share of their time that machines may be busy, at a request rate

    def __post_init__(self) -> None:
        if self.input_tokens < 1 or self.output_tokens < 0:
            raise WorkloadError("a request needs at least 1 input token and no negative output")
        if not self.requests > 0:
            raise WorkloadError("requests must be above 0")
        if self.tensor_parallel is not None and self.tensor_parallel < 1:
            raise WorkloadError("tensor_parallel must be at least 1")
        if not 0 < self.utilisation <= 1:
            raise WorkloadError("utilisation must be above 0 and at most 1")
        for name in ("concurrency", "request_rate", "ttft_seconds", "tpot_seconds", "weight_gb"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise WorkloadError(f"{name} must be above 0, not {value:g}")


@dataclass(frozen=True, slots=True)
class Family:
    """A job known by a measurement of it: so many hours on so many of one GPU.

    ``group`` is a calibrated workload group (``vision_cnn``, ``nlp_encoder_train``, ``recsys``,
    …), ``precision`` one of its precisions (``fp16-amp``, ``tf32``, ``best``: whatever each GPU
    does best). ``vram_gib`` is what it needs on each GPU, where known.
    """

    group: str
    reference_gpu: str
    reference_hours: float
    reference_gpus: int = 1
    precision: str = "best"
    vram_gib: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.reference_hours <= 87_600:
            raise WorkloadError("the measured hours must lie between 0 and 87,600")
        if self.reference_gpus < 1:
            raise WorkloadError("the measurement needs at least 1 GPU")
        if self.vram_gib is not None and not self.vram_gib > 0:
            raise WorkloadError("vram_gib must be above 0")


@dataclass(frozen=True, slots=True)
class Hpc:
    """A numerical job: floating-point operations and bytes moved, as one counts them oneself.

    ``precision`` is fp64, fp32 or any of the tensor formats; ``vram_gib`` is the whole working
    set, divided over the GPUs.
    """

    flops: float
    bytes_moved: float = 0.0
    precision: str = "fp64"
    vram_gib: float | None = None

    def __post_init__(self) -> None:
        if self.flops < 0 or self.bytes_moved < 0 or self.flops + self.bytes_moved <= 0:
            raise WorkloadError("an HPC job needs FLOPs or bytes above 0")


Workload = Training | Inference | Family | Hpc


@dataclass(frozen=True, slots=True)
class Link:
    """What connects GPUs, in GB/s: of one GPU inside a machine, of one machine to the next.

    ``gpu_gbps`` None: NVLink where the GPU has it, else PCIe. ``machine_gbps`` None: 25 GB/s, a
    200 Gbit/s card, per GPU of the machine.
    """

    gpus_per_machine: int = 8
    gpu_gbps: float | None = None
    machine_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What one GPU holds, in GiB, part by part."""

    weights: float = 0.0
    gradients: float = 0.0
    optimiser: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    kv_cache: float = 0.0
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return (
            self.weights
            + self.gradients
            + self.optimiser
            + self.activations
            + self.logits
            + self.kv_cache
            + self.overhead
        )


class Step(NamedTuple):
    """One step of the path: what was worked out, by which formula, and the number."""

    name: str
    formula: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a workload takes. ``low`` <= ``hours`` <= ``high``.

    ``per_second`` is the throughput of all GPUs in ``unit``. ``rows`` is how many measurements the
    calibration of this workload group has, ``calibrated`` whether any of them is of this GPU at
    this precision. ``notes`` are caveats to be shown. Of generated text ``input_per_second`` and
    ``output_per_second`` are the tokens that all GPUs read and write while they do nothing else,
    ``copies`` those of the model, on ``copy_gpus`` each, and ``copies_needed`` (a fraction) what
    the rate takes that is asked for; None where none is.
    """

    gpu: str
    gpus: int
    hours: float
    low: float
    high: float
    per_second: float
    unit: str
    bound: Bound
    memory: Memory | None
    steps: tuple[Step, ...]
    basis: Basis
    group: str
    calibrated: bool
    rows: int
    version: str
    notes: tuple[str, ...] = ()
    input_per_second: float | None = None
    output_per_second: float | None = None
    copies: int = 1
    copy_gpus: int = 1
    copies_needed: float | None = None


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """The job needs more memory than the GPUs have.

    ``need_gib`` of each GPU, headroom included. ``smallest_count``: with how many it fits, and
    ``how`` it is divided then; None where no count up to 4,096 helps.
    """

    gpu: str
    gpus: int
    need_gib: float
    have_gib: float
    memory: Memory
    smallest_count: int | None
    how: str

    @property
    def reason(self) -> str:
        """One line, with as many digits as it takes to see what is missing."""
        texts = [(f"{self.need_gib:.{d}f}", f"{self.have_gib:.{d}f}") for d in (1, 2, 3)]
        need, have = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
        base = f"needs {need} GiB per GPU, {self.gpu} has {have}"
        return f"{base}: {self.how}"


@dataclass(frozen=True, slots=True)
class NotPossible:
    """No estimate can be made, and why: a precision the GPU lacks, figures nobody gives.

    ``gpus_needed``: so many GPUs would serve the rate that is asked for.
    """

    gpu: str
    reason: str
    gpus_needed: int | None = None


Answer = Estimate | DoesNotFit | NotPossible
