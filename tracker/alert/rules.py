"""Alert rules as their users write them: ``[alerts.rules.NAME]``, over the ones that are shipped.

A mistake names the rule and the key, and stops no other rule.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, get_args

from tracker import data
from tracker.alert import fields
from tracker.alert.fields import RuleProblem, Table
from tracker.alert.keys import EDGE, FILTERS, MARGINS, ONLY_NOW, POLICY, policy_dict
from tracker.domain import confirm
from tracker.domain.bounds import in_full
from tracker.domain.gpu import Catalogue, UnknownGpu
from tracker.domain.job import Job, JobError, NoEstimate, runtime_for
from tracker.domain.offer import Market
from tracker.domain.rule.condition import (
    ANY,
    CheapestChanges,
    Condition,
    ConditionError,
    CostAgainstCost,
    CostBelow,
    CostDrops,
    NewOfferBelow,
    PriceBelow,
    ProviderStale,
    default_margins,
    parse,
    policy_for,
    selections_of,
)
from tracker.domain.rule.types import Policy
from tracker.report.filters import Filters

__all__ = ["Rule", "RuleProblem", "load_rules", "shipped_rules"]

Confidence = Literal["point", "conservative"]
WITH_JOB = (CostAgainstCost, CostBelow, CostDrops, CheapestChanges)

DEFAULT_EVERY = timedelta(minutes=5)
DEFAULT_MAX_GAP = timedelta(hours=1)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.IGNORECASE)

KEYS = (
    "when", "job", "enabled", "every", *MARGINS, *POLICY, "rank", "confidence", "typed_prices",
    "channels", "title", "template", *FILTERS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, ready to be evaluated.

    ``gpus`` maps each selection of the condition to the GPU keys that it means, in the order of
    the condition; for ``cheapest changes`` these are the GPUs compared. ``filters`` hold for all
    of them. ``typed_prices``: the user's own prices from a price book take part (a fallback price
    never does). ``definition`` says all of it as plain JSON; ``sha256`` is of those parts of it
    that decide what it watches, so that another channel or margin to clear is no other rule.
    """

    name: str
    condition: Condition
    job: Job | None
    gpus: Mapping[str, frozenset[str]]
    filters: Filters
    policy: Policy
    rank: str
    confidence: Confidence
    typed_prices: bool
    every: timedelta
    channels: tuple[str, ...]
    title: str
    template: str | None
    definition: Mapping[str, Any]
    sha256: bytes


def shipped_rules() -> dict[str, dict[str, Any]]:
    """The tables of the rules that come with gpucost, by name."""
    return {
        name.rpartition("/")[2].removesuffix(".toml"): tomllib.loads(
            data.text(name), parse_float=Decimal
        )
        for name in data.names("alerts", ".toml")
    }


def load_rules(
    tables: Mapping[str, Any],
    *,
    catalogue: Catalogue,
    job: Callable[[str], Job],
    channels: Collection[str],
    default_channels: Collection[str] = ("log",),
    providers: Collection[str] | None = None,
    shipped: bool = True,
) -> tuple[tuple[Rule, ...], tuple[RuleProblem, ...]]:
    """The rules of *tables*, by name, and what is wrong with those that are left out.

    *job* finds a job by name or path (JobError). *channels* are those configured; *providers*,
    where given, all that can be polled or sell. *shipped*: lay *tables* over the shipped rules.
    """
    merged: dict[str, Any] = dict(shipped_rules()) if shipped else {}
    rules: list[Rule] = []
    problems: list[RuleProblem] = []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            merged[name] = {**merged.get(name, {}), **table}
        else:
            merged.pop(name, None)
            problems.append(RuleProblem(name, "", f"{fields.shown(table)} is not a table of keys"))
    for name in sorted(merged):
        found = Table(name, merged[name])
        rule = _Loader(found, catalogue, job, channels, tuple(default_channels), providers).rule()
        problems += found.problems
        if rule is not None:
            rules.append(rule)
    return tuple(rules), tuple(problems)


class _Loader:
    """Reads one table."""

    def __init__(
        self,
        table: Table,
        catalogue: Catalogue,
        job: Callable[[str], Job],
        channels: Collection[str],
        default_channels: tuple[str, ...],
        providers: Collection[str] | None,
    ) -> None:
        self._table = table
        self._catalogue = catalogue
        self._find_job = job
        self._channels = channels
        self._default_channels = default_channels
        self._providers = providers

    def rule(self) -> Rule | None:
        """The rule; None when it is turned off, or when a problem was noted."""
        table = self._table
        if not table.get("enabled", fields.flag, True):
            return None
        if not _NAME.fullmatch(table.rule):
            table.problem("name", "a rule's name is lower-case letters, digits, '-', '_' or '.'")
        table.refuse_unknown(KEYS)
        condition = self._condition()
        if condition is None:
            return None
        job = self._job(condition)
        gpus = self._gpus(condition, job)
        every = table.get("every", fields.positive_duration, DEFAULT_EVERY)
        policy = self._policy(condition, every)
        filters = self._filters(condition)
        channels = self._channel_names()
        title = table.get("title", fields.text(200), str(condition))
        template = table.get("template", fields.text(20_000), "") or None
        rank = table.get("rank", fields.one_of(confirm.RANKS), confirm.AUTO)
        confidence: Any = table.get("confidence", fields.one_of(get_args(Confidence)), "point")
        typed = table.get("typed_prices", fields.flag, False)
        self._without_effect(condition)
        if table.problems:
            return None
        decides = {
            "when": str(condition), "job": job and job_dict(job), "filters": filters.echo(),
            "rank": rank, "confidence": confidence, "typed_prices": typed,
            **{k: v for k, v in policy_dict(policy).items() if k in EDGE},
        }  # fmt: skip
        tells = {
            **{k: v for k, v in policy_dict(policy).items() if k not in EDGE},
            "every": every.total_seconds(), "channels": list(channels), "title": title,
            "template": template,
            "job_title": job and job.title, "job_reference": table.get("job", str, "") or None,
        }  # fmt: skip
        digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).digest()
        return Rule(
            name=table.rule, condition=condition, job=job, gpus=gpus, filters=filters,
            policy=policy, rank=rank, confidence=confidence, typed_prices=typed, every=every,
            channels=channels, title=title, template=template, definition=decides | tells,
            sha256=digest,
        )  # fmt: skip

    def _condition(self) -> Condition | None:
        if not self._table.has("when"):
            self._table.problem("when", 'is missing, such as  when = "cost(H100) < cost(A100)"')
            return None
        line = self._table.get("when", fields.text(1000), "")
        try:
            return parse(line) if line else None
        except ConditionError as error:
            self._table.problem("when", str(error))
            return None

    def _job(self, condition: Condition) -> Job | None:
        needs = isinstance(condition, WITH_JOB)
        name = self._table.get("job", fields.text(1000), "")
        if not needs:
            self._table.refuse(("job",), f"has no effect on {condition}")
            return None
        if not self._table.has("job"):
            self._table.problem("job", 'is missing: what is to be run, such as  job = "bert-large"')
        if not name:
            return None
        try:
            return self._find_job(name)
        except JobError as error:
            self._table.problem("job", str(error))
            return None

    def _gpus(self, condition: Condition, job: Job | None) -> dict[str, frozenset[str]]:
        """The GPU keys of each selection, those that have hours; problems where there are none."""
        found: dict[str, frozenset[str]] = {}
        if isinstance(condition, ProviderStale):
            self._known_providers("when", (condition.name,))
            return found
        for name in self._selections(condition, job):
            keys = self._keys(name)
            if job is not None and keys:
                timed = frozenset(key for key in keys if self._has_hours(job, key))
                if not timed:
                    given = ", ".join(sorted(job.hours)) or "no GPU"
                    self._table.problem(
                        "when", f"job {job.name} has no hours for {name}; it has some for {given}"
                    )
                keys = timed
            found[name] = keys
        names = list(found)
        for index, left in enumerate(names):
            for right in names[index + 1 :]:
                if found[left] & found[right]:
                    self._table.problem(
                        "when", f"{left} and {right} are in part the same GPUs; name different ones"
                    )
        return found

    def _selections(self, condition: Condition, job: Job | None) -> tuple[str, ...]:
        named = selections_of(condition)
        if named or job is None:
            return named
        # All that the job has hours for, by family: two parts of one are no news.
        keys = set(job.hours)
        if job.task is not None:
            gpus = {gpu.key for gpu in self._catalogue.gpus() if not gpu.is_slice}
            keys |= {key for key in gpus if self._has_hours(job, key)}
        families = tuple(dict.fromkeys(key.split("-", 1)[0] for key in sorted(keys)))
        if not families:
            self._table.problem("when", f"job {job.name} can be estimated on no GPU")
        return families

    def _keys(self, name: str) -> frozenset[str]:
        if name == ANY:
            return frozenset(gpu.key for gpu in self._catalogue.gpus() if not gpu.is_slice)
        try:
            return self._catalogue.select(name)
        except UnknownGpu as error:
            self._table.problem("when", str(error))
            return frozenset()

    def _has_hours(self, job: Job, key: str) -> bool:
        return not isinstance(runtime_for(job, key, self._catalogue), NoEstimate)

    def _policy(self, condition: Condition, every: timedelta) -> Policy:
        table = self._table
        if isinstance(condition, ProviderStale | NewOfferBelow):
            table.refuse(MARGINS, f"has no effect on {condition}")
        if isinstance(condition, CostDrops):
            table.refuse(("enter_percent",), f"has no effect on {condition}: the drop is the edge")
        default = default_margins(condition)
        margins = default
        for name in MARGINS:
            value = table.get(name, fields.number, getattr(default, name))
            try:
                margins = replace(margins, **{name: value})
            except ValueError as error:
                table.problem(name, str(error))
        policy = policy_for(condition, margins)
        changes = {
            name: table.get(name, read, getattr(policy, name))
            for name, read in POLICY.items()
            if table.has(name)
        }
        if "max_gap" not in changes:
            changes["max_gap"] = max(policy.max_gap, 3 * every)
        elif changes["max_gap"] <= every:
            table.problem("max_gap", "is not longer than every: no two evaluations would count")
        return replace(policy, **changes)

    def _filters(self, condition: Condition) -> Filters:
        table = self._table
        if isinstance(condition, ProviderStale):
            table.refuse(FILTERS, f"has no effect on {condition}")
        if isinstance(condition, CostDrops):
            table.refuse(ONLY_NOW, f"cannot be asked of the past, as {condition} does")
        values = {
            name: table.get(name, read, None) for name, read in FILTERS.items() if table.has(name)
        }
        chosen = {name: value for name, value in values.items() if value is not None}
        self._known_providers("providers", chosen.get("providers", ()))
        if isinstance(condition, PriceBelow | NewOfferBelow):
            # Without a job nothing weighs what must be paid for a month or for years.
            chosen.setdefault("markets", (str(Market.ON_DEMAND),))
        return Filters(**chosen)

    def _known_providers(self, field: str, names: tuple[str, ...]) -> None:
        for name in names:
            if self._providers is not None and name not in self._providers and name != ANY:
                hint = fields.nearest(name, self._providers)
                self._table.problem(field, f"no provider is called {name!r}; {hint}")

    def _channel_names(self) -> tuple[str, ...]:
        names = self._table.get("channels", fields.words, self._default_channels)
        for name in names:
            if name not in self._channels:
                hint = fields.nearest(name, self._channels)
                # Perhaps an address that belongs into a channel's url: it is a secret.
                called = f"called {name!r}" if _CHANNEL.fullmatch(name) else "called so"
                self._table.problem("channels", f"no channel is {called}; {hint}")
        return names

    def _without_effect(self, condition: Condition) -> None:
        table = self._table
        if isinstance(condition, ProviderStale | NewOfferBelow):
            table.refuse(("rank",), f"has no effect on {condition}")
        if isinstance(condition, ProviderStale):
            table.refuse(("typed_prices",), f"has no effect on {condition}")
        if not isinstance(condition, CostAgainstCost):
            table.refuse(("confidence",), f"has no effect on {condition}")


def job_dict(job: Job) -> dict[str, Any]:
    """What of a job decides its bills."""
    return {
        "name": job.name,
        "hours": {
            gpu: [in_full(h.hours.normalize()), h.gpus, h.lower_bound]
            for gpu, h in sorted(job.hours.items())
        },
        "gpus_needed": job.gpus_needed,
        **{
            name: None if (value := getattr(job, name)) is None else in_full(value.normalize())
            for name in ("min_vram_gb", "disk_gb", "egress_gb", "setup_hours")
        },
        **{
            name: repr(value)
            for name in ("task", "limits", "spot")
            if (value := getattr(job, name)) is not None
        },
    }
