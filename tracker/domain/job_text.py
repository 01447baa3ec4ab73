"""Reading jobs: from the text of a TOML file, and hours typed on a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import (
    GIVEN_BASES,
    Basis,
    GpuCatalogue,
    Job,
    RuntimeHours,
    is_slice,
)
from tracker.domain.job_fields import (
    BOM,
    JobError,
    hours_at,
    known_keys,
    plain,
    read_amount,
    read_count,
    read_hours,
    read_number,
    read_table,
    read_text,
    shown,
)

if TYPE_CHECKING:
    from tracker.domain.job_download import Downloads
    from tracker.domain.job_limits import Limits
    from tracker.domain.job_spot import OnSpot
    from tracker.domain.job_workload import Knowledge, Task

MAX_GB = Decimal(10) ** 9  # an exabyte
MAX_SETUP_HOURS = Decimal(30 * 24)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_GPU = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)*")

_JOB_KEYS = (
    "name", "title", "description", "hours", "workload", "limits", "spot", "gpus_needed",
    "min_vram_gb", "disk_gb", "egress_gb", "setup_hours", "download", "completes",
)  # fmt: skip
_RATES = {f"{unit}_per_second": unit for unit in ("samples", "tokens", "requests")}
_HOURS_KEYS = ("hours", *_RATES, "gpus", "basis", "lower_bound", "note", "source")


class _Hours:
    """The entries of an hours table, spread over the GPUs that their names mean."""

    def __init__(self, catalogue: GpuCatalogue | None) -> None:
        self.catalogue = catalogue
        self.entries: dict[str, tuple[int, str, RuntimeHours]] = {}

    def add(self, name: str, entry: RuntimeHours) -> None:
        """Enter *entry* for *name*; a narrower name beats a wider one for the same GPU."""
        keys = _gpu_keys(name, self.catalogue)
        for key in keys:
            before = self.entries.get(key)
            if before is not None and before[0] == len(keys):
                raise JobError(f"hours: {before[1]!r} and {name!r} both mean {key}; keep one")
            if before is None or len(keys) < before[0]:
                self.entries[key] = (len(keys), name, entry)

    def table(self) -> Mapping[str, RuntimeHours]:
        return MappingProxyType({key: entry for key, (_, _, entry) in self.entries.items()})


def job_from_text(
    text: str, catalogue: GpuCatalogue | None = None, knowledge: Knowledge | None = None
) -> Job:
    """A job from the text of a TOML file. Raises JobError, also on text that is not TOML."""
    import tomllib

    try:
        data = tomllib.loads(text.removeprefix(BOM), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise JobError(f"not TOML: {error}") from None
    return job_from_toml(data, catalogue, knowledge)


def job_from_toml(
    data: Mapping[str, Any],
    catalogue: GpuCatalogue | None = None,
    knowledge: Knowledge | None = None,
) -> Job:
    """A job from parsed TOML (read with ``parse_float=Decimal``; job_from_text does).

    ``name`` and ``[hours]`` are required, or ``[workload]``, which needs *knowledge*. With a
    *catalogue*, a GPU that nobody knows is refused with the nearest names. An entry of ``[hours]``
    is a number of hours, or a table with ``hours`` (or a rate of what the workload counts),
    ``gpus``, ``basis``, ``lower_bound``, ``note`` and ``source``.
    Raises JobError naming the key, and for a mistyped key the nearest valid one.
    """
    known_keys(data, _JOB_KEYS, "")
    name = read_text(data, "name", "")
    if not _NAME.fullmatch(name):
        raise JobError(f"name: {name!r} must be lower-case letters, digits, '-', '_' or '.'")
    gpus_needed = read_count(data, "gpus_needed", "")
    task = _task(data, knowledge)
    hours = read_table(data.get("hours"), "hours")
    if not hours and task is None:
        raise JobError("hours: give at least one GPU, such as  [hours]  A100 = 12")
    table = _Hours(catalogue)
    for gpu, value in hours.items():
        table.add(gpu, _entry(gpu, value, gpus_needed, task))
    vram = read_amount(data, "min_vram_gb", MAX_GB) if "min_vram_gb" in data else None
    job = Job(
        name=name,
        hours=table.table(),
        title=read_text(data, "title", name),
        description=read_text(data, "description", ""),
        gpus_needed=gpus_needed,
        min_vram_gb=vram,
        disk_gb=read_amount(data, "disk_gb", MAX_GB),
        egress_gb=read_amount(data, "egress_gb", MAX_GB),
        setup_hours=read_amount(data, "setup_hours", MAX_SETUP_HOURS),
        limits=_limits(data),
        spot=_spot(data),
        download=_download(data),
        completes=read_count(data, "completes", "", limit=10**12) if "completes" in data else None,
        task=task,
        count_given=task is not None and "gpus_needed" in data,
        estimator=knowledge.estimator if knowledge is not None and task is not None else None,
    )
    if task is not None:
        from tracker.domain import evidence

        evidence.check(job, catalogue)
    return job


def _task(data: Mapping[str, Any], knowledge: Knowledge | None) -> Task | None:
    """What ``[workload]`` says; None where there is none, and for ``kind = "hours"``."""
    if "workload" not in data:
        return None
    from tracker.domain.job_workload import task_from_toml

    return task_from_toml(read_table(data["workload"], "workload", "what is run"), knowledge)


def _limits(data: Mapping[str, Any]) -> Limits | None:
    if "limits" not in data:
        return None
    from tracker.domain.job_limits import limits_from_toml

    return limits_from_toml(read_table(data["limits"], "limits", "what an offer must be"))


def _spot(data: Mapping[str, Any]) -> OnSpot | None:
    if "spot" not in data:
        return None
    from tracker.domain.job_spot import spot_from_toml

    return spot_from_toml(read_table(data["spot"], "spot", "how it gets over interruptions"))


def _download(data: Mapping[str, Any]) -> Downloads | None:
    if "download" not in data:
        return None
    from tracker.domain.job_download import downloads_from_toml

    return downloads_from_toml(read_table(data["download"], "download", "what every machine gets"))


def parse_hours(text: str, catalogue: GpuCatalogue) -> Mapping[str, RuntimeHours]:
    """Hours typed on a command line: ``A100=12,H100=4,RTX4090=48``, basis ``stated``.

    Raises JobError on anything else, and on a GPU nobody knows with the nearest names.
    """
    table = _Hours(catalogue)
    for part in text.split(","):
        gpu, equals, hours = (piece.strip() for piece in part.partition("="))
        if not (gpu and equals and hours):
            raise JobError(f"hours: {part.strip()!r} is not GPU=HOURS, as in A100=12,H100=4")
        number = hours[:-1] if hours[-2:-1].isdigit() and hours[-1] in "hH" else hours  # "4h"
        table.add(gpu, RuntimeHours(read_hours(number, f"hours: {gpu}")))
    return table.table()


def _gpu_keys(name: str, catalogue: GpuCatalogue | None) -> tuple[str, ...]:
    """The hours-table keys that *name* means: one family, or the exact parts it selects."""
    if catalogue is None:
        key = name.strip().upper()
        if not _GPU.fullmatch(key):
            raise JobError(f"hours: {name!r} is not a GPU name, such as A100 or A100-SXM-80GB")
        return (key,)
    try:
        keys = catalogue.select(name)
    except UnknownGpu as error:
        raise JobError(f"hours: {error}") from None
    if any(is_slice(key) for key in keys):
        raise JobError(f"hours: {name!r} is a slice of a GPU; hours are for whole GPUs")
    families = {key.split("-", 1)[0] for key in keys}
    if len(families) == 1 and keys == catalogue.select(family := next(iter(families))):
        return (family,)
    return tuple(sorted(keys))


def _entry(gpu: str, value: Any, gpus_needed: int, task: Task | None) -> RuntimeHours:
    where = f"hours.{gpu}"
    if not isinstance(value, Mapping):
        return RuntimeHours(read_hours(value, where), gpus=gpus_needed)
    known_keys(value, _HOURS_KEYS, f"{where}.")
    gpus = read_count(value, "gpus", f"{where}.", gpus_needed)
    if gpus < gpus_needed:
        raise JobError(
            f"{where}.gpus: {gpus}, but the job needs {gpus_needed} GPUs; "
            f"give the hours that {gpus_needed} take together"
        )
    basis = read_text(value, "basis", Basis.STATED, f"{where}.")
    if basis not in GIVEN_BASES:
        raise JobError(f"{where}.basis: {basis!r} is none of {', '.join(GIVEN_BASES)}")
    lower_bound = value.get("lower_bound", False)
    if not isinstance(lower_bound, bool):
        raise JobError(f"{where}.lower_bound: {shown(lower_bound)} is not true or false")
    return RuntimeHours(
        hours=_hours_of(value, where, task),
        gpus=gpus,
        basis=Basis(basis),
        lower_bound=lower_bound,
        note=read_text(value, "note", "", f"{where}.") or None,
        source=read_text(value, "source", "", f"{where}.") or None,
    )


def _hours_of(entry: Mapping[str, Any], where: str, task: Task | None) -> Decimal:
    """The hours of an entry, or those that its rate (of all its GPUs together) makes."""
    rates = [key for key in _RATES if key in entry]
    if len(rates) + ("hours" in entry) > 1:
        both = " and ".join((["hours"] if "hours" in entry else []) + rates)
        raise JobError(f"{where}: {both} say the same thing; keep one")
    if not rates:
        if "hours" not in entry:
            raise JobError(f"{where}: hours is missing")
        return read_hours(entry["hours"], f"{where}.hours")
    key = rates[0]
    if task is None:
        raise JobError(
            f"{where}.{key}: a job without a workload counts no {_RATES[key]}; give hours"
        )
    amount = task.units.get(_RATES[key])
    if amount is None:
        raise JobError(f"{where}.{key}: the workload does not say how many {_RATES[key]} there are")
    rate = read_number(entry[key], f"{where}.{key}")
    if rate <= 0:
        raise JobError(f"{where}.{key}: {plain(rate)} is not above 0")
    return hours_at(amount, rate, f"{where}.{key}")
