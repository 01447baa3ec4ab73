"""How long a micro-step of training takes, from exact FLOPs, bytes moved and bytes sent.

Per token: matrices 2 N, attention 4 L d S FLOPs a pass; three passes to train everything, two in
the matrices with frozen weights, one more where activations are computed anew. Beside them what
lies between the matrices is read and written (bandwidth), 4-bit weights are unpacked, kernels
are started (a floor under small micro-steps), and what is sharded is sent. Sources: llm-foundry
(FLOPs), arXiv:2205.05198 (what a layer moves); the coefficients are fitted (calibration.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.types import Bound, Link, Method, Sharding, Training

MACHINE_GBPS_PER_GPU = 25.0


@dataclass(frozen=True, slots=True)
class TrainingCoefficients:
    """What is fitted. Efficiencies are fractions of the dense peak, times in seconds.

    ``traffic``: bytes per token, layer, unit of width and pass, as a multiple of the bandwidth's
    peak. ``launch``: seconds per layer and pass. ``unpack``: bytes moved per 4-bit weight and
    pass. ``link``: fraction of the nominal link. ``hop``: seconds per layer and machine.
    """

    matmul: float
    attention: float
    traffic: float
    logits: float
    launch: float
    unpack: float
    link: float
    hop: float
    stack: float = 1.0


@dataclass(frozen=True, slots=True)
class MicroStep:
    """Seconds of one micro-step on one GPU, part by part, and ``total`` with what overlaps."""

    matmul: float
    attention: float
    traffic: float
    unpack: float
    launch: float
    communication: float
    optimiser: float
    total: float
    tokens: float

    @property
    def tokens_per_second(self) -> float:
        """Of one GPU."""
        return self.tokens / self.total

    @property
    def bound(self) -> Bound:
        """What takes longest."""
        parts = {
            Bound.COMPUTE: self.matmul + self.attention,
            Bound.BANDWIDTH: self.traffic + self.unpack + self.optimiser,
            Bound.OVERHEAD: self.launch,
            Bound.INTERCONNECT: self.communication,
        }
        return max(parts, key=lambda part: parts[part])


def passes(job: Training) -> tuple[int, int]:
    """Forward passes that one token costs: in the matrices, and in attention."""
    again = 1 if job.checkpointing else 0
    return (3 if job.method is Method.FULL else 2) + again, 3 + again


def flops_per_token(job: Training) -> float:
    """FLOPs one token costs, recomputation included (what "hardware" utilisation counts)."""
    matrices, attention = passes(job)
    model = job.model
    return matrices * model.matmul_flops_per_token() + attention * model.attention_flops_per_token(
        job.seq_len
    )


def model_flops_per_token(job: Training) -> float:
    """FLOPs one token needs: 3 (2 N + 4 L d S), what "model" utilisation counts."""
    return 3 * job.model.forward_flops_per_token(job.seq_len)


def micro_step(
    job: Training,
    gpu: Figures,
    peak_tflops: float,
    coefficients: TrainingCoefficients,
    batch: int,
    gpus: int,
    link: Link,
) -> MicroStep:
    """One micro-step of *batch* sequences on each of *gpus* GPUs."""
    c = coefficients
    model = job.model
    tokens = float(batch * job.seq_len)
    matrices, attention = passes(job)
    bandwidth = gpu.bandwidth_gbps * 1e9
    divided = gpus if job.sharding is Sharding.TP else 1
    # Attention and everything between the matrices stays in 16 bits.
    sixteen = (gpu.sixteen_bit or peak_tflops) * 1e12
    own = tokens / divided
    matmul = own * matrices * model.matmul_flops_per_token() / (peak_tflops * 1e12 * c.matmul)
    attended = own * attention * model.attention_flops_per_token(job.seq_len)
    attended /= sixteen * c.attention
    traffic = own * attention * c.traffic * model.layers * model.width / bandwidth
    traffic += own * c.logits * model.vocab / bandwidth
    unpack = 0.0
    if job.method is Method.QLORA:
        unpack = model.params / divided * (matrices * c.unpack) / bandwidth
    launch = model.layers * attention * c.launch
    communication = _communication(job, gpu, c, tokens, gpus, link)
    optimiser = _optimiser(job, gpus) / bandwidth
    busy = _norm(matmul + attended + traffic + unpack, launch, 4)
    total = (_norm(busy, communication, 2) + optimiser) / c.stack
    return MicroStep(
        matmul, attended, traffic, unpack, launch, communication, optimiser, total, tokens
    )


def link_bytes_per_second(gpu: Figures, gpus: int, link: Link) -> float:
    """What one GPU can send while all do: its own link, or its share of the machine's."""
    inside = (link.gpu_gbps or gpu.gpu_link_gbps) * 1e9
    if gpus <= link.gpus_per_machine:
        return inside
    machine = link.machine_gbps or MACHINE_GBPS_PER_GPU * link.gpus_per_machine
    # A ring over machines passes through each machine once: its whole uplink serves one copy.
    return min(inside, machine * 1e9)


def _communication(
    job: Training, gpu: Figures, c: TrainingCoefficients, tokens: float, gpus: int, link: Link
) -> float:
    if gpus == 1:
        return 0.0
    model = job.model
    machines = -(-gpus // link.gpus_per_machine)
    rate = link_bytes_per_second(gpu, gpus, link) * c.link
    again = 1 if job.checkpointing else 0
    part = (gpus - 1) / gpus
    if job.sharding is Sharding.TP:
        # Two all-reduces of the activations a layer and pass.
        sent = 4 * 2 * model.layers * (2 + again) * tokens * model.width * part
        return sent / rate + model.layers * machines * c.hop
    reduced = 2 * job.trained_params * part
    if job.sharding is Sharding.FSDP:
        frozen_bytes = 0.5625 if job.method is Method.QLORA else 2.0
        gathered = (2 + again) * frozen_bytes * model.params * part
        return (gathered + reduced) / rate + model.layers * (2 + again) * machines * c.hop
    sent = (2 * reduced) / job.accumulation
    return sent / rate + model.layers * machines * c.hop / job.accumulation


def _optimiser(job: Training, gpus: int) -> float:
    """Bytes that the optimiser reads and writes, per micro-step."""
    shards = 1 if job.sharding is Sharding.DDP else gpus
    return 32 * job.trained_params / shards / job.accumulation


def _norm(a: float, b: float, power: int) -> float:
    """Of two that overlap: a little more than the longer one."""
    longer, shorter = (a, b) if a >= b else (b, a)
    if longer <= 0:
        return 0.0
    return float(longer * (1 + (shorter / longer) ** power) ** (1 / power))
