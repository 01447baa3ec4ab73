"""Measured training throughput as workloads: which software, how sharded, which batch."""

from __future__ import annotations

from dataclasses import dataclass

from tools.measurements import Row
from tools.shapes import shape_of
from tracker.domain.runtime.training import flops_per_token
from tracker.domain.runtime.types import Method, Sharding, Training

FAMILIES = frozenset({"llm_pretrain", "llm_sft", "llm_lora", "llm_qlora"})

# start of the source: stack, sharding over several GPUs, activations computed anew
_SOURCES: dict[str, tuple[str, Sharding, bool]] = {
    "mosaicml/llm-foundry": ("llm-foundry", Sharding.FSDP, False),
    "NVIDIA NeMo": ("nemo", Sharding.ZERO1, False),
    "NVIDIA/Megatron-LM": ("megatron", Sharding.ZERO1, False),
    "Megatron-LM paper": ("megatron-2021", Sharding.ZERO1, True),
    "pytorch/torchtitan": ("torchtitan", Sharding.FSDP, True),
    "pytorch/torchtune": ("torchtune", Sharding.FSDP, True),
    "QwenLM/Qwen": ("hf-deepspeed", Sharding.FSDP, True),
    "hiyouga/LLaMA-Factory": ("llama-factory", Sharding.DDP, True),
    "InternLM/xtuner": ("xtuner", Sharding.FSDP, True),
    "jzhang38/TinyLlama": ("tinyllama", Sharding.FSDP, False),
    "muxup.com": ("olmo-core", Sharding.FSDP, True),
    "GPU Test": ("hf", Sharding.FSDP, True),
}


@dataclass(frozen=True)
class TrainingRow:
    """A measurement as a workload: ``tokens_per_second`` of one GPU."""

    row: Row
    job: Training
    batch: int
    gpus: int
    tokens_per_second: float

    @property
    def absolute(self) -> bool:
        return not self.row.ratio_only


def training_row(row: Row) -> TrainingRow | None:
    """The workload behind *row*; None where it is not one of tokens per second."""
    if row.family not in FAMILIES or not row.usable:
        return None
    known = _SOURCES.get(row.source)
    metric = row["metric"]
    seq = row.number("seq_len")
    if known is None or seq is None:
        return None
    if metric not in ("train_throughput_per_gpu", "hardware_tflops_per_gpu"):
        return None
    shape = shape_of(row["model"], row.number("params_b"))
    if shape is None:
        return None
    stack, sharding, again = known
    if row["framework"].startswith("ZeRO-3"):
        stack, sharding = "zero3-2021", Sharding.FSDP
    if row["framework"].startswith("Unsloth"):
        stack = "unsloth"
    if "act_ckpt" in row.extra:
        again = row.extra["act_ckpt"] == "True"
    method = _method(row["method"])
    micro = row.extra.get("microbatch") or row.extra.get("mbs")
    batch = int(micro) if micro else int(row.number("batch") or 1) if stack.startswith("hf") else 1
    job = Training(
        model=shape,
        tokens=1e9,
        seq_len=int(seq),
        method=method,
        precision=_precision(row.precision),
        batch=batch,
        accumulation=int(row.extra.get("grad_accum") or 8),
        checkpointing=again,
        stack=stack,
        sharding=sharding,
    )
    speed = row.speed
    if metric == "hardware_tflops_per_gpu":
        speed = speed * 1e12 / flops_per_token(job)
    elif "total_tok_s" in row.extra and stack == "llm-foundry":
        speed = float(row.extra["total_tok_s"]) / row.gpus
    return TrainingRow(row, job, batch, row.gpus, speed)


def _method(text: str) -> Method:
    if text.startswith("qlora"):
        return Method.QLORA
    return Method.LORA if text.startswith("lora") else Method.FULL


def _precision(text: str) -> str:
    return text if text in ("fp8", "fp16", "fp4") else "bf16"
