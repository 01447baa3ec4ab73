"""The measured peaks of memory, as workloads: ``measured_memory.csv``.

What a row does not say is told by its source: Qwen's table was made with DeepSpeed and GPTQ
weights, the GPU test with an 8-bit optimiser (nothing else fits), torchtune's as its notes say.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.shapes import shape_of
from tracker.domain.runtime.types import GIB, Inference, Method, Optimiser, Sharding, Training

_STACKS = {
    "QwenLM": "hf-deepspeed",
    "LLaMA-Factory": "llama-factory",
    "GPU Test": "hf",
    "Lightning-AI": "litgpt",
    "pytorch/torchtune": "torchtune",
    "unsloth": "hf",
}


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """``peak_gib`` None: it ran out of memory. ``known``: shape and checkpointing are given."""

    source: str
    model: str
    job: Training | Inference
    gpu_key: str
    gpus: int
    peak_gib: float | None
    known: bool
    capacity: bool  # what fits a card, not what was measured


def read_memory(path: Path) -> Iterator[MemoryRow]:
    """The rows of one file."""
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield memory_row(row)


def memory_row(row: dict[str, str]) -> MemoryRow:
    """A line of it as a workload. Raises ValueError or KeyError for one that cannot be read."""
    shape = shape_of(row["model"], float(row["params_b"]))
    if shape is None:
        raise ValueError(f"no parameters: {row}")
    source = row["source"]
    stack = next((s for start, s in _STACKS.items() if source.startswith(start)), "typical")
    if row["notes"].startswith("Unsloth"):
        stack = "unsloth"
    gib = "GiB" in row["notes"] or source.startswith(("pytorch/torchtune", "unsloth"))
    peak = None
    if row["oom"] != "1":
        peak = float(row["peak_gb"]) * (1.0 if gib else 1e9 / GIB)
    precision = row["precision"].removeprefix("bnb.")
    job: Training | Inference
    if row["method"] == "inference":
        job = Inference(shape, input_tokens=128, output_tokens=256, weights=precision)
    else:
        trainable = row["lora_trainable_m"]
        job = Training(
            model=shape,
            tokens=1e6,
            seq_len=int(row["seq_len"]),
            method=Method(row["method"]),
            batch=int(row["batch"]),
            checkpointing={"1": True, "0": False}.get(row["grad_ckpt"]),
            optimiser=_optimiser(source, row["method"]),
            stack=stack,
            trainable=float(trainable) * 1e6 if trainable else None,
            sharding=Sharding.FSDP if int(row["gpu_count"]) > 1 else Sharding.DDP,
        )
    return MemoryRow(
        source=source,
        model=row["model"],
        job=job,
        gpu_key=row["gpu"],
        gpus=int(row["gpu_count"]),
        peak_gib=peak,
        known=bool(row["n_layers"]) and row["grad_ckpt"] != "",
        capacity=source.startswith("unsloth"),
    )


def _optimiser(source: str, method: str) -> Optimiser:
    if method == "full" and source.startswith("GPU Test"):
        return Optimiser.ADAM_8BIT
    if method == "full" and source.startswith("pytorch/torchtune"):
        return Optimiser.IN_BACKWARD_8BIT
    if method == "full" and source.startswith("QwenLM"):
        return Optimiser.ADAM_FP32_GRADS
    return Optimiser.ADAM
