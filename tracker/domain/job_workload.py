"""What a job computes: ``[workload]`` of a job file, read into a workload of the estimator.

Counts may be written with k, M, B or T behind them (``"300B"``). What cannot be meant is refused
with the reason: a number of tokens that is three zeros short reads as well as the right one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from tracker.domain.job_fields import (
    JobError,
    known_keys,
    nearest,
    plain,
    read_flag,
    read_hours,
    read_number,
    read_text,
    shown,
)
from tracker.domain.job_model import divided_among, shape_of
from tracker.domain.models import Models
from tracker.domain.money import parse_decimal
from tracker.domain.runtime.estimator import Estimator
from tracker.domain.runtime.figures import BYTES_PER_WEIGHT
from tracker.domain.runtime.stacks import STACKS
from tracker.domain.runtime.types import (
    Family,
    Hpc,
    Inference,
    Method,
    Optimiser,
    Sharding,
    Stack,
    Training,
    Workload,
    WorkloadError,
)

W = "workload."

_TRAINING_KEYS = (
    "kind", "model", "method", "precision", "tokens", "samples", "epochs", "seq_len", "batch",
    "accumulation", "checkpointing", "optimiser", "fused_loss", "trainable", "stack", "sharding",
)  # fmt: skip
_INFERENCE_KEYS = (
    "kind", "model", "precision", "kv", "input_tokens", "output_tokens", "requests",
    "request_rate", "service_hours", "concurrency", "ttft_seconds", "tpot_seconds", "stack",
    "tensor_parallel", "weight_only", "utilisation",
)  # fmt: skip
_FAMILY_KEYS = ("kind", "group", "precision", "samples", "vram_gib")
_HPC_KEYS = ("kind", "flops", "bytes", "precision", "vram_gib")

_TRAINED_IN = ("bf16", "fp16", "fp8", "tf32", "fp32")
_MEASURED_IN = ("best", "fp16-amp", "tf32", "fp32", "fp16", "bf16", "fp8", "int8")
_NUMERICAL = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")

# Beyond these a number is a slip of the unit. The largest models saw about 4e13 tokens.
_MOST_TOKENS = Decimal(10) ** 14
_LEAST_TRAINED = Decimal(10) ** 6
_LEAST_TUNED = Decimal(10) ** 4
_MOST_TUNED = Decimal(10) ** 12
# Beyond these a latency is one in milliseconds: nobody waits so long for a word.
_MOST_TTFT_S = Decimal(60)
_MOST_TPOT_S = Decimal(2)

_MOST_AT_ONCE = 1_000_000

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgbt]?)", re.IGNORECASE)
_TIMES = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9, "t": 12}
E = TypeVar("E", bound=StrEnum)


class Knowledge(Protocol):
    """What reading and estimating a workload needs beside the job file."""

    @property
    def models(self) -> Models: ...

    @property
    def estimator(self) -> Estimator: ...

    def config_text(self, path: str) -> str:
        """The text of a ``config.json`` that the job file names. Raises JobError."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """A workload, and how to read what is said of it.

    ``units``: how many of what there are, by which a rate becomes hours. ``service_hours``: it
    runs so long, whatever its speed. ``sharding_open``: it is divided where it must be, or is
    faster. ``reference_open``: the measurement that it is known by is in the job's hours.
    """

    kind: str
    workload: Workload
    units: Mapping[str, Decimal]
    service_hours: Decimal | None = None
    sharding_open: bool = False
    reference_open: bool = False


def task_from_toml(data: Mapping[str, Any], knowledge: Knowledge | None) -> Task | None:
    """The task of a parsed table; None for ``kind = "hours"``. Raises JobError."""
    kind = read_text(data, "kind", "", W)
    if kind not in _KINDS:
        raise JobError(f"{W}kind: {kind!r} is no kind of job; {nearest(kind, _KINDS)}")
    keys, read = _KINDS[kind]
    known_keys(data, keys, f"{W}")
    if read is None:
        return None
    if knowledge is None:
        raise JobError("workload: jobs that are estimated cannot be read here")
    try:
        return read(data, knowledge)
    except WorkloadError as error:
        raise JobError(f"workload: {error}") from None


def _training(data: Mapping[str, Any], knowledge: Knowledge) -> Task:
    kind = read_text(data, "kind", "", W)
    model, context = shape_of(data, knowledge)
    seq_len = _whole(data, "seq_len", 10_000_000)
    if seq_len < 16:
        raise JobError(f"{W}seq_len: {seq_len} tokens; write 4096 for 4k")
    if context is not None and seq_len > 8 * context:
        raise JobError(f"{W}seq_len: {seq_len}, but {model.name} is made for {context} tokens")
    tokens = _tokens(data, seq_len, kind)
    if kind == "finetune" and "method" not in data:
        raise JobError(f"{W}method: say which: {', '.join(Method)}")
    method = _choice(data, "method", Method, Method.FULL)
    precision = _word(data, "precision", _TRAINED_IN, "bf16")
    if method is Method.QLORA and precision == "fp8":
        raise JobError(f"{W}precision: fp8 and method = qlora contradict each other; leave one out")
    if method is not Method.FULL and "optimiser" in data:
        raise JobError(f"{W}optimiser: of adapters it is Adam; it goes with method = full only")
    if method is Method.FULL and "trainable" in data:
        raise JobError(f"{W}trainable: method = full trains all parameters; leave it out")
    workload = Training(
        model=model,
        tokens=float(tokens),
        seq_len=seq_len,
        method=method,
        precision=precision,
        batch=_whole(data, "batch", 100_000) if "batch" in data else None,
        accumulation=_whole(data, "accumulation", 100_000) if "accumulation" in data else 8,
        checkpointing=read_flag(data, "checkpointing", W),
        optimiser=_choice(data, "optimiser", Optimiser, Optimiser.ADAM),
        fused_loss=read_flag(data, "fused_loss", W),
        stack=_word(data, "stack", sorted(STACKS), Stack.TYPICAL),
        sharding=_choice(data, "sharding", Sharding, Sharding.DDP),
        trainable=float(quantity(data["trainable"], f"{W}trainable"))
        if "trainable" in data
        else None,
    )
    units = {"tokens": tokens, "samples": tokens / seq_len}
    return Task(kind, workload, units, sharding_open="sharding" not in data)


def _tokens(data: Mapping[str, Any], seq_len: int, kind: str) -> Decimal:
    """All tokens that pass through the model, however they are given."""
    if "tokens" in data and ("samples" in data or "epochs" in data):
        both = "samples" if "samples" in data else "epochs"
        raise JobError(f"{W}tokens: all of them are counted; {both} beside it contradicts")
    if "tokens" not in data and "samples" not in data:
        raise JobError(f'{W}tokens: say how many, as in tokens = "300M", or samples and epochs')
    key = "tokens" if "tokens" in data else "samples"
    tokens = quantity(data[key], f"{W}{key}")
    if key == "samples":
        epochs = read_number(data.get("epochs", 1), f"{W}epochs")
        if not 0 < epochs <= 10_000:
            raise JobError(f"{W}epochs: {plain(epochs)} is not above 0 and at most 10,000")
        tokens = tokens * seq_len * epochs
    said = data[key]
    unit = "write k, M, B or T behind the number"
    least, most = (
        (_LEAST_TUNED, _MOST_TUNED) if kind == "finetune" else (_LEAST_TRAINED, _MOST_TOKENS)
    )
    if tokens < least:
        raise JobError(
            f"{W}{key}: {said} makes {plain(tokens)} tokens, too few for kind = {kind} (at least "
            f"{_short(least)}); {unit}"
        )
    if tokens > most:
        raise JobError(
            f"{W}{key}: {said} makes {_short(tokens)} tokens, more than any {kind} has seen "
            f"(at most {_short(most)}); {unit}"
        )
    return tokens


def _inference(data: Mapping[str, Any], knowledge: Knowledge) -> Task:
    model, context = shape_of(data, knowledge)
    given = _whole(data, "input_tokens", 100_000_000)
    made = _whole(data, "output_tokens", 100_000_000, least=0)
    if context is not None and given + made > context:
        raise JobError(
            f"{W}input_tokens: {given} and {made} output tokens are more than the {context} that "
            f"{model.name} holds"
        )
    if "concurrency" in data and "request_rate" in data:
        raise JobError(f"{W}concurrency: request_rate says it already; keep one")
    rate = _seconds(data, "request_rate", Decimal(10) ** 6)
    requests, service = _requests(data, rate)
    workload = Inference(
        model=model,
        input_tokens=given,
        output_tokens=made,
        requests=float(requests),
        weights=_word(data, "precision", tuple(BYTES_PER_WEIGHT), "bf16"),
        kv=_word(data, "kv", tuple(BYTES_PER_WEIGHT), "bf16") if "kv" in data else None,
        concurrency=_at_once(data, None if rate is not None else requests),
        request_rate=None if rate is None else float(rate),
        ttft_seconds=_float(_seconds(data, "ttft_seconds", _MOST_TTFT_S)),
        tpot_seconds=_float(_seconds(data, "tpot_seconds", _MOST_TPOT_S)),
        stack=_word(data, "stack", sorted(STACKS), Stack.OPTIMISED),
        tensor_parallel=divided_among(model, _whole(data, "tensor_parallel", 4096))
        if "tensor_parallel" in data
        else None,
        weight_only=bool(read_flag(data, "weight_only", W)),
        utilisation=_utilisation(data, rate),
    )
    units = {"requests": requests, "tokens": requests * (made or given)}
    return Task("inference", workload, units, service_hours=service)


def _at_once(data: Mapping[str, Any], requests: Decimal | None) -> int | None:
    """Requests under way at once, where something limits them: no more than there are."""
    said = _whole(data, "concurrency", _MOST_AT_ONCE) if "concurrency" in data else None
    if requests is None or requests >= (said or _MOST_AT_ONCE):
        return said
    return max(1, int(requests))


def _requests(data: Mapping[str, Any], rate: Decimal | None) -> tuple[Decimal, Decimal | None]:
    """How many requests there are, and how long a service is kept up for them."""
    if rate is None:
        if "service_hours" in data:
            raise JobError(f"{W}service_hours: goes with request_rate only")
        if "requests" not in data:
            raise JobError(f'{W}requests: say how many, as in requests = "1M", or a request_rate')
        return quantity(data["requests"], f"{W}requests"), None
    if "requests" in data:
        raise JobError(f"{W}requests: request_rate and service_hours say it already; keep one")
    hours = read_hours(data.get("service_hours", 730), f"{W}service_hours")
    return rate * hours * 3600, hours


def _utilisation(data: Mapping[str, Any], rate: Decimal | None) -> float:
    """The share of their time that machines may be busy; 1 unless given."""
    if "utilisation" not in data:
        return 1.0
    if rate is None:
        raise JobError(f"{W}utilisation: goes with request_rate only")
    share = read_number(data["utilisation"], f"{W}utilisation")
    if not 0 < share <= 1:
        raise JobError(f"{W}utilisation: {plain(share)} is not above 0 and at most 1, such as 0.7")
    return float(share)


def _family(data: Mapping[str, Any], knowledge: Knowledge) -> Task:
    groups = knowledge.estimator.calibration.groups()
    group = read_text(data, "group", "", W)
    if group not in groups:
        raise JobError(
            f"{W}group: {group!r} is no group of measured jobs; {nearest(group, groups)}"
        )
    vram = _positive(data, "vram_gib")
    # What it is measured on comes with the hours.
    workload = Family(
        group, "", 1.0, precision=_word(data, "precision", _MEASURED_IN, "best"), vram_gib=vram
    )
    units = {}
    if "samples" in data:
        units["samples"] = quantity(data["samples"], f"{W}samples")
    return Task("family", workload, units, reference_open=True)


def _hpc(data: Mapping[str, Any], knowledge: Knowledge) -> Task:
    if "flops" not in data and "bytes" not in data:
        raise JobError(f'{W}flops: say how many operations, as in flops = "3.6e18", or bytes')
    workload = Hpc(
        flops=float(_large(data, "flops")),
        bytes_moved=float(_large(data, "bytes")),
        precision=_word(data, "precision", _NUMERICAL, "fp64"),
        vram_gib=_positive(data, "vram_gib"),
    )
    return Task("hpc", workload, {})


_Read = Callable[[Mapping[str, Any], Knowledge], Task]
_KINDS: Mapping[str, tuple[tuple[str, ...], _Read | None]] = {
    "training": (_TRAINING_KEYS, _training),
    "finetune": (_TRAINING_KEYS, _training),
    "inference": (_INFERENCE_KEYS, _inference),
    "family": (_FAMILY_KEYS, _family),
    "hpc": (_HPC_KEYS, _hpc),
    "hours": (("kind",), None),
}


def quantity(value: Any, where: str) -> Decimal:
    """A count above 0: a number, or text with k, M, B or T behind one. Raises JobError."""
    number: Decimal | None = None
    if isinstance(value, str) and (match := _QUANTITY.fullmatch(value.strip())):
        number = Decimal(match[1]).scaleb(_TIMES[match[2].lower()])
    elif not isinstance(value, str):
        number = read_number(value, where)
    if number is None:
        raise JobError(f'{where}: {shown(value)} is not a count such as 5000, "300M" or "1.5T"')
    if number <= 0:
        raise JobError(f"{where}: {plain(number)} is not above 0")
    return read_number(number, where)


def _whole(data: Mapping[str, Any], key: str, limit: int, least: int = 1) -> int:
    if key not in data:
        raise JobError(f"{W}{key}: is missing")
    if least == 0 and data[key] == 0:
        return 0
    number = quantity(data[key], f"{W}{key}")
    if number != number.to_integral_value() or number > limit:
        raise JobError(
            f"{W}{key}: {shown(data[key])} is not a whole number from {least} to {limit}"
        )
    return int(number)


def _seconds(data: Mapping[str, Any], key: str, limit: Decimal) -> Decimal | None:
    """A number above 0. A latency beyond *limit* is one in milliseconds."""
    if key not in data:
        return None
    number = read_number(data[key], f"{W}{key}")
    if not 0 < number <= limit:
        hint = "; give seconds, not milliseconds" if key.endswith("_seconds") else ""
        raise JobError(f"{W}{key}: {plain(number)} is not above 0 and at most {limit}{hint}")
    return number


def _positive(data: Mapping[str, Any], key: str) -> float | None:
    if key not in data:
        return None
    number = read_number(data[key], f"{W}{key}")
    if not 0 < number <= 10_000_000:
        raise JobError(f"{W}{key}: {plain(number)} is not above 0 and plausible")
    return float(number)


def _large(data: Mapping[str, Any], key: str) -> Decimal:
    """A count that may be written with an exponent; 0 where it is not there."""
    if key not in data:
        return Decimal(0)
    value = data[key]
    if isinstance(value, str) and _QUANTITY.fullmatch(value.strip()):
        value = quantity(value, f"{W}{key}")
    try:
        number = parse_decimal(value)
    except ValueError:
        raise JobError(f'{W}{key}: {shown(value)} is not a count such as "3.6e18"') from None
    if not 0 < number <= Decimal(10) ** 30:
        raise JobError(f"{W}{key}: {shown(value)} is not above 0 and at most 1e30")
    if key == "flops" and number < 10**12:
        raise JobError(f"{W}flops: {value} takes a GPU no second; give all operations of the job")
    return number


def _choice(data: Mapping[str, Any], key: str, kinds: type[E], default: E) -> E:
    return kinds(_word(data, key, tuple(kinds), default))


def _word(data: Mapping[str, Any], key: str, known: Any, default: str) -> str:
    word = read_text(data, key, default, W)
    if word.lower() not in known:
        raise JobError(f"{W}{key}: {word!r} is not known; {nearest(word.lower(), known)}")
    return word.lower()


def _float(number: Decimal | None) -> float | None:
    return None if number is None else float(number)


def _short(number: Decimal) -> str:
    for letter, exponent in (("T", 12), ("B", 9), ("M", 6), ("k", 3)):
        if number >= Decimal(10) ** exponent:
            return f"{plain(round(number.scaleb(-exponent), 1))}{letter}"
    return plain(number)
