"""Rows of the measured tables' format, made up."""

from __future__ import annotations

from tools.measurements import Row

COLUMNS = (
    "source", "workload", "family", "model", "params_b", "precision", "method", "seq_len", "in_len",
    "out_len", "batch", "gpu", "gpu_variant", "gpu_count", "metric", "value", "unit", "mfu",
    "config_id", "framework", "extra", "gpu_key", "split_group", "split", "quality",
)  # fmt: skip


def row(**fields: str) -> Row:
    """A row of the format; what is not said is empty."""
    given = {"gpu_count": "1", "quality": "ok", "precision": "fp16-amp", "family": "vision_cnn"}
    known = dict.fromkeys(COLUMNS, "") | given | fields
    pairs = (part.split("=", 1) for part in known["extra"].split(";") if "=" in part)
    return Row(known, dict(pairs))
