"""Measured serving, decode and prefill speeds as workloads."""

from __future__ import annotations

from dataclasses import dataclass

from tools.measurements import Row
from tools.shapes import shape_of
from tracker.domain.runtime.figures import BYTES_PER_WEIGHT
from tracker.domain.runtime.types import GIB, Inference

SERVING = "llm_serving_throughput"
DECODE = "llm_decode_bs1"
PREFILL = "llm_prefill_bs1"
LATENCY = "llm_prefill_latency"
FAMILIES = frozenset({SERVING, DECODE, PREFILL, LATENCY})

# ShareGPT's mean prompt and answer, for tables that name the data set only.
_SHAREGPT = (220, 195)

_NO_FP8 = ("a100", "a10", "a30", "a40", "a6000", "v100", "t4", "rtx30")

_STACKS = {
    "NVIDIA/TensorRT-LLM": "tensorrt-llm",
    "LambdaLabsML/vllm-benchmark": "vllm-0.5",
    "XiongjieDai": "llama.cpp",
    "pavlokhmel": "llama.cpp",
    "mlc-ai": "mlc-llm",
    "aaronzhfeng": "vllm",
    "johnmusgrave": "vllm",
    "Lightning-AI/litgpt": "litgpt",
}


@dataclass(frozen=True)
class InferenceRow:
    """A measurement as a workload; ``requests_per_second`` of all its GPUs, one copy."""

    row: Row
    job: Inference
    gpus: int
    requests_per_second: float

    @property
    def absolute(self) -> bool:
        return not self.row.ratio_only


def inference_row(row: Row) -> InferenceRow | None:
    """The workload behind *row*; None where it is not one of these families."""
    if row.family not in FAMILIES or not row.usable:
        return None
    shape = shape_of(row["model"], row.number("params_b"))
    if shape is None:
        return None
    weights = row.precision if row.precision in BYTES_PER_WEIGHT else "bf16"
    stack = next((s for start, s in _STACKS.items() if row.source.startswith(start)), "typical")
    if stack == "mlc-llm" and row["framework"] != "MLC-LLM":
        stack = "exllama" if "xllama" in row["framework"] else "llama.cpp"
    prompt = row.number("in_len")
    answer = row.number("out_len")
    gpus = row.gpus
    concurrency = row.number("batch")
    if row.family == SERVING:
        if not prompt or not answer:
            prompt, answer = _SHAREGPT
        requests = row.speed * gpus / answer
    elif row.family == DECODE:
        prompt, answer, concurrency = 16.0, answer or 128.0, 1.0
        requests = row.speed / answer
    elif row.family == PREFILL:
        prompt, answer, concurrency = prompt or row.number("seq_len") or 512.0, 0.0, 1.0
        requests = row.speed / prompt
    else:
        prompt, answer, concurrency = prompt or 128.0, 0.0, 1.0
        requests = row.speed * 1e3  # the table's times are in ms
    size = row.extra.get("weights_gb")
    gib = row.extra.get("weights_gib")
    job = Inference(
        model=shape,
        input_tokens=int(prompt),
        output_tokens=int(answer),
        weights=weights,
        concurrency=int(concurrency) if concurrency else None,
        stack=stack,
        weight_gb=float(size) if size else float(gib) * GIB / 1e9 if gib else None,
        weight_only=weights == "fp8" and row.gpu.startswith(_NO_FP8),
        tensor_parallel=gpus,
        layer_split=gpus > 1 and stack in ("llama.cpp", "exllama"),
    )
    return InferenceRow(row, job, gpus, requests)
