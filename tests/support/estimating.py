"""Jobs with a workload, read with the models and the calibration that are shipped."""

from __future__ import annotations

from functools import cache

from tests.support.catalogue import catalogue
from tracker import data
from tracker.domain.job import Job, JobError
from tracker.domain.job_text import job_from_text
from tracker.domain.models import Models
from tracker.domain.runtime.calibration import Calibration
from tracker.domain.runtime.estimator import Estimator


class Shipped:
    """What jobs are read with. ``files`` are the config.json files that there are."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self._files = files or {}

    @property
    def models(self) -> Models:
        return _models()

    @property
    def estimator(self) -> Estimator:
        return _estimator()

    def config_text(self, path: str) -> str:
        if path not in self._files:
            raise JobError(f"workload.model: {path}: No such file or directory")
        return self._files[path]


@cache
def _models() -> Models:
    return Models.from_toml(data.text("models.toml"))


@cache
def _estimator() -> Estimator:
    return Estimator(catalogue().spec, Calibration.from_csv(data.text("efficiency.csv")))


def job_of(workload: str, rest: str = "", files: dict[str, str] | None = None) -> Job:
    """The job of these lines of a ``[workload]`` table. *rest* follows it: ``[hours]``."""
    text = f'name = "j"\n[workload]\n{workload}\n{rest}'
    return job_from_text(text, catalogue(), Shipped(files))


LORA = """kind = "finetune"
model = "Llama 3.1 8B"
method = "lora"
tokens = "50M"
seq_len = 2048
checkpointing = true
"""
SERVE = """kind = "inference"
model = "Llama 3.1 8B"
input_tokens = 1024
output_tokens = 256
requests = "1M"
"""
FAMILY = """kind = "family"
group = "vision_cnn"
samples = "100M"
precision = "fp16-amp"
"""
HPC = """kind = "hpc"
flops = "2e17"
"""
