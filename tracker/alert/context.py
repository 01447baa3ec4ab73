"""What is written down of an evaluation, and what a notice is made from: plain JSON.

Money and ratios are text, exact or to the millionth; what is not known is None.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from tracker.alert.evaluate import Evaluation
from tracker.alert.rules import Rule, job_dict
from tracker.alert.sides import TYPED, Ask, Side
from tracker.domain.bounds import in_full
from tracker.domain.break_even import break_even
from tracker.domain.rule.condition import (
    ANY,
    CostAgainstCost,
    CostBelow,
    NewOfferBelow,
    PriceBelow,
    ProviderStale,
)
from tracker.domain.rule.types import Event, Health, Sample
from tracker.report.ages import age_of, known_at
from tracker.report.filters import Filters

SCHEMA_VERSION = 1
YOUNG = timedelta(days=7)  # typed prices are usually older, live ones are not
MAX_FOUND = 20  # offers that one notice names

_STEP = Decimal("1e-6")
_LIMIT = Decimal("1e20")


def number_text(number: Decimal | None) -> str | None:
    """A number as text: plain digits, rounded to the millionth."""
    if number is None or not number.is_finite():
        return None
    if abs(number) < _LIMIT:
        number = number.quantize(_STEP, ROUND_HALF_EVEN)
    return in_full(number)


def inputs_of(
    evaluation: Evaluation, sample: Sample, urls: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """All that an evaluation looked at and left out, as it is kept with the rule and its events."""
    e, rule, urls = evaluation, evaluation.rule, urls or {}
    sides = {"left": e.left, "right": e.right}
    named = sides | {f"label {name}": side for name, side in e.labels.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "at": e.at.isoformat(),
        "health": str(sample.health),
        "reason": sample.reason,
        "value": None if sample.value is None else in_full(sample.value),
        "label": sample.label,
        **{name: side and side_dict(side, e, urls) for name, side in sides.items()},
        "labels": {name: side_dict(side, e, urls) for name, side in e.labels.items()},
        "found": found_dicts(e, e.found, urls),
        "found_count": len(e.found),
        "break_even_usd_per_gpu_hour": _break_even(e),
        "threshold_usd": _threshold(rule),
        "provider": None if e.provider is None else {
            "name": e.provider.slug,
            "last_ok_at": e.provider.last_ok_at and e.provider.last_ok_at.isoformat(),
            "last_status": e.provider.last_status,
        },
        "checks": {name: _checks(side) for name, side in named.items() if side is not None},
        "command": command(rule, typed=_typed_out(e)),
        "explain": explain_commands(e),
    }  # fmt: skip


def found_dicts(
    e: Evaluation, keys: Iterable[str], urls: Mapping[int, str]
) -> list[dict[str, Any]]:
    """The offers *keys* of those found, the cheapest MAX_FOUND of them."""
    asks = sorted((e.found[key] for key in keys if key in e.found), key=lambda ask: ask.usd)
    return [_ask_dict(ask, "", e, urls) for ask in asks[:MAX_FOUND]]


def _checks(side: Side) -> dict[str, Any]:
    return {
        "health": str(side.health), "reason": side.reason, "counts": dict(side.counts),
        "excluded": dict(side.excluded), "least_usd": number_text(side.least_usd),
        "unknown": side.unknown,
    }  # fmt: skip


def side_dict(side: Side, e: Evaluation, urls: Mapping[int, str]) -> dict[str, Any] | None:
    """The offer that stands for a side, with its bill; None when there is none."""
    return None if side.best is None else _ask_dict(side.best, side.selection, e, urls)


def _ask_dict(ask: Ask, selection: str, e: Evaluation, urls: Mapping[int, str]) -> dict[str, Any]:
    o, row = ask.offer, ask.row
    bill = row.bill if row else None
    per_machine = bill.price.usd if bill else ask.usd * o.gpu_count
    seen_at = known_at(o)
    return {
        "selection": selection or o.gpu_family,
        "gpu": o.gpu_key,
        "provider": o.provider,
        "native_id": o.native_id,
        "offer": o.key.hex()[:10],
        "offer_id": o.offer_id,
        "market": o.market,
        "tier": o.tier,
        "region": o.region,
        "gpu_count": number_text(o.gpu_count),
        "machines": bill.machines if bill else None,
        "price_usd_per_hour": number_text(per_machine),
        "price_usd_per_gpu_hour": number_text(per_machine / o.gpu_count),
        "runtime_hours": number_text(bill.runtime_hours) if bill else None,
        "billed_hours": number_text(bill.billed_hours) if bill else None,
        "job_cost_usd": number_text(bill.at_least_usd) if bill else None,
        "lower_bound": ask.lower_bound,
        "basis": str(bill.basis) if bill else None,
        "estimate_version": estimate_version(e.rule) if bill else None,
        "seen_at": None if seen_at is None else seen_at.isoformat(),
        "age_seconds": None if seen_at is None else max(0, int((e.at - seen_at).total_seconds())),
        "source_url": urls.get(o.offer_id),
    }


def estimate_version(rule: Rule) -> str | None:
    """A name for the job's figures that changes whenever they do."""
    if rule.job is None:
        return None
    text = json.dumps(job_dict(rule.job), sort_keys=True)
    return f"{rule.job.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _break_even(e: Evaluation) -> str | None:
    if not isinstance(e.rule.condition, CostAgainstCost) or e.left is None or e.right is None:
        return None
    rows = [side.best.row for side in (e.left, e.right) if side.best and side.best.row]
    found = break_even(rows[0].bill, rows[1].bill) if len(rows) == 2 else None
    return None if found is None else number_text(found.per_gpu.usd)


def _threshold(rule: Rule) -> str | None:
    match rule.condition:
        case CostBelow(_, usd) | PriceBelow(_, usd) | NewOfferBelow(_, usd):
            return number_text(usd)
        case _:
            return None


def _typed_out(e: Evaluation) -> bool:
    """Whether typed prices were left out, and none that the rule stands on is typed or as old."""
    sides = [side for side in (e.left, e.right, *e.labels.values()) if side is not None]
    used = [side.best.offer for side in sides if side.best is not None]
    return any(side.excluded.get(TYPED) for side in sides) and not any(
        o.valid_as_of is not None or ((age := age_of(o, e.at)) is not None and age > YOUNG)
        for o in used
    )


def command(rule: Rule, *, typed: bool = False) -> str:
    """The command line that shows what the rule looks at, without typed prices if *typed*."""
    if isinstance(rule.condition, ProviderStale):
        return "gpucost providers"
    gpus = [name for name in rule.gpus if name != ANY]
    chosen = ["--gpu", ",".join(gpus)] if gpus else []
    parts = ["gpucost", "offers"]
    if rule.job is not None:
        parts = ["gpucost", "cheapest", str(rule.definition.get("job_reference") or rule.job.name)]
    parts += [*chosen, *_filter_options(rule.filters, with_gpus=rule.job is None)]
    if typed and rule.filters.max_age is None:
        parts += ["--max-age", f"{YOUNG.days}d"]
    return shlex.join(parts)


def _filter_options(f: Filters, *, with_gpus: bool) -> Iterator[str]:
    lists = {"provider": f.providers, "region": f.regions, "country": f.countries,
             "market": f.markets, "tier": f.tiers, "kind": f.kinds}  # fmt: skip
    for option, names in lists.items():
        if names:
            yield from (f"--{option}", ",".join(names))
    numbers = {"min-vram": f.min_vram_gb, "min-ram": f.min_ram_gib, "min-vcpus": f.min_vcpus,
               "min-disk": f.min_disk_gb, "min-network": f.min_network_mbps,
               "gpus": f.min_gpus if with_gpus else None}  # fmt: skip
    for option, number in numbers.items():
        if number is not None:
            yield from (f"--{option}", number_text(Decimal(number)) or "")
    if f.interconnect:
        yield from ("--interconnect", f.interconnect)
    for option in ("dedicated", "ecc", "available"):
        if getattr(f, option):
            yield f"--{option}"
    if f.max_age is not None:
        yield from ("--max-age", f"{int(f.max_age.total_seconds())}s")


def explain_commands(e: Evaluation) -> list[str]:
    """The command lines that show where each side's price comes from."""
    asks = [side.best for side in (e.left, e.right) if side is not None and side.best is not None]
    asks += list(e.found.values())[:MAX_FOUND]
    return list(dict.fromkeys(f"gpucost explain {ask.offer.key.hex()[:10]}" for ask in asks))


def event_dict(event: Event) -> dict[str, Any]:
    """What of an event has no column of its own."""
    return {
        "phase_from": str(event.phase_from),
        "phase_to": str(event.phase_to),
        "reason": event.reason,
        "firing_since": event.firing_since and event.firing_since.isoformat(),
        "firing_until": event.firing_until and event.firing_until.isoformat(),
        "best": number_text(event.best),
        "worst": number_text(event.worst),
        "label": event.label,
        "previous_label": event.previous_label,
        "found": sorted(event.found),
    }


def message(
    event: Event,
    event_id: str,
    rule: str,
    version: int,
    definition: Mapping[str, Any],
    inputs: Mapping[str, Any],
    *,
    found: Sequence[Mapping[str, Any]] = (),
    health_since: datetime | None = None,
) -> dict[str, Any]:
    """The context of a notice (docs/alerts.md). *inputs* are those of ``inputs_of``."""
    job = definition.get("job")
    return {
        "schema_version": SCHEMA_VERSION,
        "event_id": event_id,
        "kind": str(event.kind),
        "rule": rule,
        "rule_version": version,
        "seq": event.seq,
        "firing_seq": event.firing_seq,
        "at": event.at.isoformat(),
        "title": definition.get("title") or rule,
        "when": definition.get("when"),
        "job": job and {"name": job.get("name"), "title": definition.get("job_title")},
        "value": number_text(event.value),
        "enter": definition.get("enter"),
        "exit": definition.get("exit"),
        "left": inputs.get("left"),
        "right": inputs.get("right"),
        "break_even_usd_per_gpu_hour": inputs.get("break_even_usd_per_gpu_hour"),
        "margin_percent": _margin(event.value),
        "firing": _firing(event),
        "health": _health(inputs, health_since),
        "reason": event.reason,
        "previous_label": event.previous_label,
        "label": event.label,
        "found": list(found),
        "threshold_usd": inputs.get("threshold_usd"),
        "rank": definition.get("rank"),
        "command": inputs.get("command"),
        "explain": inputs.get("explain") or [],
    }


def _margin(value: Decimal | None) -> str | None:
    return None if value is None else number_text(round((1 - value) * 100, 2))


def _firing(event: Event) -> dict[str, Any] | None:
    if event.firing_since is None:
        return None
    length = ((event.firing_until or event.at) - event.firing_since).total_seconds()
    return {
        "since": event.firing_since.isoformat(),
        "until": event.firing_until and event.firing_until.isoformat(),
        "duration_seconds": max(0, int(length)),
        "best": number_text(event.best),
        "worst": number_text(event.worst),
    }


def _health(inputs: Mapping[str, Any], since: datetime | None) -> dict[str, Any] | None:
    """What is the matter with the data; of a rule about providers, with the provider."""
    provider = inputs.get("provider")
    if inputs.get("health") != Health.GOOD:
        started = since and since.isoformat()
        return {"state": inputs.get("health"), "reason": inputs.get("reason"), "since": started}
    if provider:
        seen = provider.get("last_ok_at")
        reason = f"{provider.get('name')} has not answered since {seen}"
        return {"state": str(Health.STALE), "reason": reason, "since": seen}
    return None


def offers_of(evaluations: Iterable[Evaluation]) -> set[int]:
    """The ids of the offers that notices of *evaluations* may name."""
    asks: list[Ask] = []
    for e in evaluations:
        asks += [s.best for s in (e.left, e.right, *e.labels.values()) if s and s.best]
        asks += e.found.values()
    return {ask.offer.offer_id for ask in asks}
