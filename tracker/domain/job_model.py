"""The model of a job's workload: a name, the path of a ``config.json``, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracker.domain.job_fields import JobError, known_keys, read_flag
from tracker.domain.model import ModelShape
from tracker.domain.models import Kind, UnknownModel

if TYPE_CHECKING:
    from tracker.domain.job_workload import Knowledge

_WHERE = "workload.model"
_NUMBERS = (
    "params", "active_params", "layers", "width", "heads", "kv_heads", "ffn", "vocab", "head_dim",
    "experts", "gated", "tied",
)  # fmt: skip
_SHAPE = ("layers", "width", "heads", "vocab")
_OF_A_SHAPE = ("kv_heads", "ffn", "head_dim", "experts", "gated", "tied")
# What is left out of the count, and gates that are not told of, make less than this.
_MOST_APART = 2.0
_LEAST_PARAMS, _MOST_PARAMS = 1e5, 1e14
_MOST_OF_A_SIZE = 1e8  # layers, widths, heads, words: the largest are a thousandth of it


def shape_of(data: Mapping[str, Any], knowledge: Knowledge) -> tuple[ModelShape, int | None]:
    """The model's shape, and the tokens that it is made for where known. Raises JobError."""
    value = data.get("model")
    if isinstance(value, Mapping):
        return _from_numbers(value), None
    if not isinstance(value, str) or not value.strip():
        raise JobError(f'{_WHERE}: name one, as in model = "Llama 3.1 8B", or give its numbers')
    if value.strip().endswith(".json"):
        from tracker.domain.models_config import ConfigError, shape_from_config

        try:
            return shape_from_config(knowledge.config_text(value.strip())), None
        except ConfigError as error:
            raise JobError(f"{_WHERE}: {error}") from None
    try:
        model = knowledge.models.get(value)
    except UnknownModel as error:
        raise JobError(f"{_WHERE}: {error}") from None
    shape = model.shape
    if model.kind is not Kind.DECODER or shape is None:
        groups = " or ".join(dict.fromkeys((model.group, model.inference_group)))
        raise JobError(
            f"{_WHERE}: {model.name} is no language model that writes text, and its speed is not "
            f"modelled; use kind = family, group = {groups}, and hours measured on a GPU"
        )
    return shape, model.context


def divided_among(shape: ModelShape, gpus: int) -> int:
    """*gpus* of tensor parallelism. Raises JobError where they do not divide the model's heads."""
    if shape.divides_among(gpus):
        return gpus
    counts = [n for n in range(1, shape.heads + 1) if shape.divides_among(n)]
    among = ", ".join(map(str, counts[:-1])) + (" or " if counts[1:] else "") + str(counts[-1])
    why = f"does not divide the {shape.heads} heads of {shape.name}"
    if shape.heads % gpus == 0:
        why = (
            f"neither divides the {shape.kv_heads} KV heads of {shape.name} nor is a multiple of "
            "them"
        )
    raise JobError(f"workload.tensor_parallel: {gpus} {why}; take {among}")


def _from_numbers(data: Mapping[str, Any]) -> ModelShape:
    from tracker.domain.job_workload import quantity

    known_keys(data, _NUMBERS, f"{_WHERE}.")
    numbers = {
        key: float(quantity(data[key], f"{_WHERE}.{key}"))
        for key in data
        if key not in ("gated", "tied")
    }
    for key in numbers:
        if key not in ("params", "active_params") and numbers[key] != int(numbers[key]):
            raise JobError(f"{_WHERE}.{key}: {numbers[key]:g} is not a whole number")
        if key not in ("params", "active_params") and numbers[key] > _MOST_OF_A_SIZE:
            raise JobError(f"{_WHERE}.{key}: {numbers[key]:g} cannot be meant; it is too many")
    if "params" in numbers and not _LEAST_PARAMS <= numbers["params"] <= _MOST_PARAMS:
        raise JobError(
            f"{_WHERE}.params: {numbers['params']:g} parameters cannot be meant; write k, M, B or "
            "T behind the number"
        )
    flags = {key: bool(read_flag(data, key, f"{_WHERE}.")) for key in ("gated", "tied")}
    try:
        return _shape(numbers, flags)
    except ValueError as error:
        raise JobError(f"{_WHERE}: {error}") from None


def _shape(numbers: Mapping[str, float], flags: Mapping[str, bool]) -> ModelShape:
    whole = {key: int(value) for key, value in numbers.items() if "params" not in key}
    given = [key for key in _SHAPE if key in whole]
    if not given or given == ["vocab"]:
        alone = next((key for key in (*whole, *flags) if key in _OF_A_SHAPE), None)
        if alone is not None and (alone in whole or flags[alone]):
            raise JobError(f"{_WHERE}.{alone}: is of a shape; give {', '.join(_SHAPE)} too")
        if "params" not in numbers:
            raise JobError(f'{_WHERE}.params: is missing, as in params = "7B"')
        vocab = whole.get("vocab", 32_000)
        return ModelShape.of_params(
            "the model", numbers["params"], numbers.get("active_params"), vocab
        )
    if len(given) < len(_SHAPE):
        missing = [key for key in _SHAPE if key not in whole]
        raise JobError(f"{_WHERE}.{missing[0]}: is missing; a shape has {', '.join(_SHAPE)}")
    shape = ModelShape(
        name="the model",
        params=1.0,
        layers=whole["layers"],
        width=whole["width"],
        vocab=whole["vocab"],
        heads=whole["heads"],
        kv_heads=whole.get("kv_heads", whole["heads"]),
        ffn=whole.get("ffn", 4 * whole["width"]),
        gated=flags["gated"],
        tied=flags["tied"],
        head_dim=whole.get("head_dim"),
        experts=whole.get("experts", 1),
    )
    _consistent(shape, numbers)
    params = numbers.get("params", float(shape.params_of_shape))
    return replace(shape, params=params, active_params=numbers.get("active_params"))


def _consistent(shape: ModelShape, numbers: Mapping[str, float]) -> None:
    """Refuse numbers that contradict each other."""
    if shape.head_dim is None and shape.width % shape.heads:
        raise JobError(
            f"{_WHERE}.heads: a width of {shape.width} cannot be divided among {shape.heads} heads"
            "; give head_dim, or mend one of them"
        )
    if shape.heads % shape.kv_heads:
        raise JobError(
            f"{_WHERE}.kv_heads: {shape.heads} heads cannot share {shape.kv_heads} KV heads evenly"
        )
    if "active_params" in numbers and shape.experts == 1:
        raise JobError(f"{_WHERE}.active_params: is of a mixture of experts; give experts too")
    params, counted = numbers.get("params"), float(shape.params_of_shape)
    if not counted <= _MOST_PARAMS:
        raise JobError(
            f"{_WHERE}.layers: with the width, ffn and vocab given they make {counted:.3g} "
            "parameters, which cannot be meant"
        )
    if params is not None and not counted / _MOST_APART <= params <= counted * _MOST_APART:
        raise JobError(
            f"{_WHERE}.params: {params:g}, but the layers, width, ffn and vocab given make "
            f"{counted:.3g} parameters; leave one or the other out"
        )
