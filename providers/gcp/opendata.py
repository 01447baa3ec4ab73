"""Prices of whole machines from Cyclenerd's open data, for whoever has no Google API key.

https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0), file pricing.yml:
``compute.instance.<type>.cost.<region>.{hour, hour_spot, month_1y, month_3y}`` in USD for the whole
machine, local SSD included, made up of the same Billing Catalog about daily. Of the YAML only what
that program writes is read: mappings by indentation with plain values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from providers.gcp.machines import BY_NAME, ON_DEMAND, SPOT, Machine
from providers.gcp.offers import NOT_THERE, Priced, is_sold
from providers.gcp.regions import is_in
from tracker.provider import (
    ParseError,
    Payload,
    PriceUnit,
    Rejected,
    load_json,
    parse_decimal,
)

PATH = "/Cyclenerd/google-cloud-pricing-cost-calculator/raw/master/pricing.yml"

# The file is written anew about daily. One that has not been for so long is no price any more.
BELIEVED_FOR = timedelta(days=14)

_COLUMNS = (
    ("hour", ON_DEMAND, PriceUnit.MACHINE_HOUR),
    ("hour_spot", SPOT, PriceUnit.MACHINE_HOUR),
    ("month_1y", "1", PriceUnit.MACHINE_MONTH),
    ("month_3y", "3", PriceUnit.MACHINE_MONTH),
)
_GPU_FAMILY = re.compile(r"(?:a\d+x?|g[24])-")
_MAX_LINE = 1000  # characters of a key and its value: the pattern below takes their square
_LINE = re.compile(r"( *)(?:\"([^\"]+)\"|'([^']+)'|([^\s\"'#:][^:]*)):(?: +(\S.*?))? *")
_ABSURD = Decimal(1_000_000)
_MICRO_USD = Decimal("0.000001")


def is_open_data(payload: Payload) -> bool:
    """Whether an answer is of this source and not of the Billing Catalog."""
    start = payload.body.lstrip()[:200]
    return start.startswith(b"---") or (b'"about"' in start and b'"skus"' not in start)


def read(payload: Payload, rejected: list[Rejected]) -> Iterator[Priced]:
    """The prices of the GPU machines in pricing.yml, or in the same as JSON.

    Raises ParseError when it has another shape.
    """
    data = load_json(payload) if payload.body.lstrip()[:1] == b"{" else _from_yaml(payload.text())
    instances = data
    for name in ("compute", "instance"):
        instances = instances.get(name) if isinstance(instances, dict) else None
    if not isinstance(instances, dict):
        raise ParseError("compute.instance", "missing or not a mapping")
    generated = _generated(data.get("about"), payload.fetched_at)
    for name, row in instances.items():
        machine = BY_NAME.get(name)
        if machine is None:
            if _GPU_FAMILY.match(str(name)):
                rejected.append(Rejected("no GPU facts for this machine type", str(name)[:200]))
            continue
        problem = _mismatch(machine, row)
        if problem:
            rejected.append(Rejected(problem, f"{name} | {str(_facts(row))[:180]}"))
            continue
        yield from _prices(machine, row["cost"], generated, payload.url, rejected)


def _generated(about: Any, now: datetime) -> datetime:
    stamp = about.get("timestamp") if isinstance(about, dict) else None
    try:
        moment = datetime.fromtimestamp(int(parse_decimal(stamp)), UTC)
    except (ValueError, OverflowError, OSError):
        raise ParseError("about.timestamp", "missing or not a moment") from None
    if moment > now + timedelta(days=1):
        raise ParseError("about.timestamp", "lies in the future")
    return moment


def _mismatch(machine: Machine, row: Any) -> str | None:
    """Why the machine that was priced is not, for sure, the one we know. None: it is."""
    if not isinstance(row, dict) or not isinstance(row.get("cost"), dict):
        return "machine type without prices"
    counts = [row[name] for name in machine.gpu.counts if name in row]
    if [_number(count) for count in counts] != [machine.gpu_count]:
        return "GPUs of the machine type are not in its price as expected"
    if machine.ssd_gib is not None and _number(row.get("local-ssd", 0)) != machine.ssd_gib:
        return "local SSD of the machine type is not in its price as expected"
    if _number(row.get("cpu")) != machine.vcpus or _number(row.get("ram")) != machine.ram_gib:
        return "vCPUs or memory of the machine type are not as expected"
    return None


def _facts(row: Any) -> Any:
    return {k: v for k, v in row.items() if k != "cost"} if isinstance(row, dict) else row


def _prices(
    machine: Machine, regions: Mapping[str, Any], generated: datetime, url: str,
    rejected: list[Rejected],
) -> Iterator[Priced]:  # fmt: skip
    for region, cost in regions.items():
        if not isinstance(cost, dict):
            rejected.append(Rejected("region without prices", f"{machine.name} | {region}"[:200]))
            continue
        if is_in(machine.gpu, region) is False:
            rejected.append(Rejected(NOT_THERE, f"{machine.name} | {region}"[:200]))
            continue
        for column, market, unit in _COLUMNS:
            if column not in cost or not is_sold(machine, region, market, rejected):
                continue
            amount = _number(cost[column])
            if amount is None or not _MICRO_USD <= amount <= _ABSURD:
                shown = f"{machine.name} | {region} | {column} | {cost[column]}"
                rejected.append(Rejected("no readable price above zero", shown[:200]))
                continue
            yield Priced(
                machine, region, market, amount, unit,
                "whole machine as Cyclenerd's open data has it",
                url or "https://gcloud-compute.com", generated + BELIEVED_FOR,
            )  # fmt: skip


def _number(value: Any) -> Decimal | None:
    try:
        return parse_decimal(value)
    except ValueError:
        return None


def _from_yaml(text: str) -> dict[str, Any]:
    """The mappings ``about`` and ``compute.instance``; what else the file holds is passed over.

    Values stay text. Raises ParseError for a line in them that is no key with a plain value.
    """
    root: dict[str, Any] = {}
    stack: list[tuple[int, str, dict[str, Any]]] = [(-1, "", root)]
    skipped: int | None = None  # indentation of a key whose block is not read
    lines = text.splitlines()
    cut_off = None if text.endswith("\n") else len(lines)
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or line == "---" or (skipped is not None and indent > skipped):
            continue
        match = _LINE.fullmatch(line) if len(line) <= _MAX_LINE else None
        if match is None:
            if skipped is not None and line.lstrip().startswith("- "):
                continue  # a list below a key that is not read
            raise ParseError(f"line {number}", "not the plain YAML that was expected")
        skipped = None
        while indent <= stack[-1][0]:
            stack.pop()
        key, value = (match[2] or match[3] or match[4]).strip(), match[5]
        if not _is_wanted([name for _, name, _ in stack[1:]], key) or (value or " ")[0] in "|>":
            skipped = indent
        elif value is None:
            child: dict[str, Any] = {}
            stack[-1][2][key] = child
            stack.append((indent, key, child))
        elif number == cut_off:
            raise ParseError(f"line {number}", "the file ends within it")  # 4 of 40.55
        else:
            stack[-1][2][key] = value.strip("'\"")
    return root


def _is_wanted(above: list[str], key: str) -> bool:
    if not above:
        return key in ("about", "compute")
    return above != ["compute"] or key == "instance"
