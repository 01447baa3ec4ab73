"""The measured tables that the estimator is fitted to and scored on: one format, several files.

A configuration is what was held equal while GPUs were compared; an option is a GPU at a precision
inside it. Rounds of MLPerf are configurations of their own. Speeds are what ``value`` says, or one
over it where it is a time.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

OPEN_FILES = (
    "measured_training_open.csv",
    "measured_inference_open.csv",
    "measured_vision_open.csv",
)
MEMORY_FILE = "measured_memory.csv"

_TIMES = frozenset({"time_to_train", "first_token_latency", "gpu_hours", "job_minutes"})

# How the tables word a precision that the submitter chose, and what weights are only stored in.
_PRECISIONS = {
    "submitter choice (fp16/bf16/fp8/fp4)": "best",
    "submitter choice (fp8/int8/fp4)": "best",
    "tf32/fp32": "tf32",
    "nf4+bf16": "nf4",
    "int4+fp16": "int4",
    "f16": "fp16",
}


@dataclass(frozen=True)
class Row:
    """One measurement. ``usable`` rows may be fitted; ``ratio_only``: not their absolute value."""

    fields: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    def number(self, name: str) -> float | None:
        text = self.fields.get(name) or ""
        return float(text) if text else None

    @property
    def usable(self) -> bool:
        return self.fields["quality"].startswith("ok")

    @property
    def positive(self) -> bool:
        """Whether there is a value that a speed can be made of."""
        return float(self.fields["value"] or 0) > 0

    @property
    def ratio_only(self) -> bool:
        return self.fields["quality"] != "ok"

    @property
    def family(self) -> str:
        return self.fields["family"]

    @property
    def gpu(self) -> str:
        return self.fields["gpu_key"]

    @property
    def gpus(self) -> int:
        return int(float(self.fields["gpu_count"] or 1))

    @property
    def source(self) -> str:
        """The publisher, without the version of its page."""
        text = self.fields["source"]
        for name in _SOURCES:
            if text.startswith(name):
                return name
        return text

    @property
    def group(self) -> str:
        """The unit that is left out as a whole."""
        return self.fields["split_group"]

    @property
    def precision(self) -> str:
        text = self.fields["precision"]
        return _PRECISIONS.get(text, text.lower())

    @cached_property
    def config(self) -> str:
        name = self.fields["config_id"]
        if self.fields["source"].startswith("MLPerf"):
            name += "@" + self.extra.get("ver", "")
        return f"{self.family}|{self.fields['metric']}|{name}"

    @property
    def speed(self) -> float:
        value = float(self.fields["value"])
        return 1 / value if self.fields["metric"] in _TIMES else value


_SOURCES = (
    "mosaicml/llm-foundry",
    "MLPerf Training",
    "MLPerf Inference",
    "lambdal/deeplearning-benchmark",
    "NVIDIA/TensorRT-LLM",
    "XiongjieDai",
    "pavlokhmel",
    "LambdaLabsML/vllm-benchmark",
    "GPU Test",
    "QwenLM/Qwen",
    "InternLM/xtuner",
    "hiyouga/LLaMA-Factory",
    "PaddleNLP",
    "Lightning-AI/litgpt",
    "pytorch/torchtune",
    "pytorch/torchtitan",
    "NVIDIA NeMo",
    "NVIDIA/Megatron-LM",
    "Megatron-LM paper",
    "NVIDIA/DeepLearningExamples",
    "mosaicml/diffusion-benchmark",
    "mlc-ai",
    "jzhang38/TinyLlama",
    "muxup.com",
)


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """All rows of these files, flagged ones too, in their order."""
    return [row for path in paths for row in _read(path)]


def _read(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from map(row_of, csv.DictReader(lines))


def row_of(fields: dict[str, str]) -> Row:
    """A line of a table."""
    pairs = (part.split("=", 1) for part in fields["extra"].split(";") if "=" in part)
    return Row(fields, {name.strip(): value for name, value in pairs})


@dataclass(frozen=True)
class Option:
    """A GPU at a precision inside a configuration: the median of its rows."""

    config: str
    family: str
    group: str
    source: str
    model: str
    gpu: str
    precision: str
    log_speed: float
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return f"{self.gpu}@{self.precision}"


def options(rows: Sequence[Row]) -> list[Option]:
    """The options of every configuration that has at least two GPUs, in a fixed order."""
    found: dict[str, dict[tuple[str, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.usable and row.positive:
            found[row.config][row.gpu, row.precision].append(row)
    return [
        Option(
            config=config,
            family=of_option[0].family,
            group=of_option[0].group,
            source=of_option[0].source,
            model=of_option[0]["model"],
            gpu=gpu,
            precision=precision,
            log_speed=math.log(statistics.median(row.speed for row in of_option)),
            rows=tuple(of_option),
        )
        for config, by_option in sorted(found.items())
        if len({gpu for gpu, _ in by_option}) > 1
        for (gpu, precision), of_option in sorted(by_option.items())
    ]
