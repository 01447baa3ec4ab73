"""One rule on one snapshot: a sample for the state machine, and everything that led to it. Pure.

What may decide, beside what ``sides`` says of each side:

* A rule says that its left side is cheap. So the left figure is of bills that are wholly known and
  of hours that are no lower bound, where there are such. Where there are none, its lower bound can
  say that the rule is not true, and never that it is: then the sample is NO_DATA.
* The right side may be cheaper than its figure, by a bill of which a part is not stated. Where the
  rule would not be true at that, the sample is NO_DATA. A lower bound of hours on the right is on
  the safe side: the rule is true of any longer time, too.
* A drop compares what the same providers asked: those that answer now and had answered then. Where
  one that answers now was silent just then, its price of then is not known: STALE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from tracker.alert import sides
from tracker.alert.rules import Rule
from tracker.alert.sides import Ask, Pool, Side
from tracker.alert.snapshot import DOUBT_HOLDS, Past, Snapshot
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.domain.rule.condition import (
    ANY,
    CheapestChanges,
    CostAgainstCost,
    CostBelow,
    CostDrops,
    NewOfferBelow,
    PriceBelow,
    ProviderStale,
)
from tracker.domain.rule.state import State
from tracker.domain.rule.types import Health, Sample
from tracker.report.costing import End
from tracker.store.status import StoredProvider

__all__ = ["Evaluation", "evaluate", "judged_by"]

# Worst first: what is said of two sides that cannot be believed for different reasons.
_WORST = (Health.ERROR, Health.NO_DATA, Health.STALE, Health.SUSPECT)

# A provider that nobody has tried to poll for so long is not polled any more.
FORGOTTEN_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A sample with its origin.

    ``right`` of a drop is the past. ``labels`` are the sides of ``cheapest changes``, ``found``
    the offers of ``new offer`` by key, ``stale_found`` those that would be among them if their
    provider answered. ``provider`` is the one that a rule about providers is true of, or nearest.
    """

    rule: Rule
    at: datetime
    sample: Sample
    left: Side | None = None
    right: Side | None = None
    labels: Mapping[str, Side] = field(default_factory=dict)
    found: Mapping[str, Ask] = field(default_factory=dict)
    stale_found: frozenset[str] = frozenset()
    provider: StoredProvider | None = None

    def sample_for(self, state: State) -> Sample:
        """The sample for a rule in *state*: what it means may depend on what was known before.

        A label comes with the ratio of its cost to that of the label before it; an offer that was
        known is not gone only because its provider does not answer.
        """
        sample = self.sample
        if sample.health is not Health.GOOD:
            return sample
        if self.stale_found:
            known = self.stale_found & frozenset(state.offers)
            return replace(sample, found=sample.found | known)
        before = self.labels.get(state.label or "")
        if sample.label and before is not None and sample.label != state.label:
            amount = before.usd if before.health is Health.GOOD else before.least_usd
            if amount is not None:
                return replace(sample, value=ratio(self.labels[sample.label].usd, amount))
        return sample


NOT_POLLED = "not polled yet"


def evaluate(rule: Rule, snapshot: Snapshot, now: datetime) -> Evaluation:
    """What *rule* finds in *snapshot* at *now*. Never raises: what goes wrong is an ERROR."""
    try:
        unasked = snapshot.unasked(now, rule.filters.providers) if rule.gpus else []
        if unasked:
            return Evaluation(rule, now, _bad(Health.NO_DATA, _not_polled(unasked)))
        return _evaluate(rule, snapshot, now)
    except Exception as error:  # one rule's trouble is not another's
        reason = f"cannot be evaluated: {type(error).__name__}: {str(error)[:200]}"
        return Evaluation(rule, now, _bad(Health.ERROR, " ".join(reason.split())))


def _not_polled(names: Iterable[str]) -> str:
    shown = sorted(names)
    return f"{NOT_POLLED}: {', '.join(shown[:5])}{', …' if len(shown) > 5 else ''}"


def ratio(left: Decimal, right: Decimal) -> Decimal:
    """left / right, to 40 digits: exact wherever a margin could lie."""
    with localcontext() as context:
        context.prec = 40
        return left / right


def _evaluate(rule: Rule, snapshot: Snapshot, now: datetime) -> Evaluation:
    match rule.condition:
        case CostAgainstCost(left, right):
            return _against(rule, snapshot, now, left, right)
        case CostBelow(selection, usd):
            return _below(rule, now, _cost_side(rule, snapshot, now, selection), usd)
        case PriceBelow(selection, usd):
            return _below(rule, now, _price_side(rule, snapshot, now, selection), usd)
        case CostDrops(selection, _, days):
            return _drops(rule, snapshot, now, selection, snapshot.past[days])
        case CheapestChanges():
            return _cheapest(rule, snapshot, now)
        case NewOfferBelow(selection, usd):
            return _new_offer(rule, snapshot, now, selection, usd)
        case ProviderStale(name):
            return _provider_stale(rule, snapshot, now, name)


def _bad(health: Health, reason: str | None) -> Sample:
    return Sample(health, reason=reason)


def _worst(*found: Side) -> Sample | None:
    """The health of the worst side, with everything that is the matter; None: all are GOOD."""
    bad = [s for s in found if s.health is not Health.GOOD]
    if not bad:
        return None
    health = min((s.health for s in bad), key=_WORST.index)
    return _bad(health, "; ".join(s.reason for s in bad if s.reason))


def _cost_side(
    rule: Rule, snapshot: Snapshot, now: datetime, selection: str, end: End | None = None
) -> Side:
    found = sides.pool(rule, rule.gpus[selection], snapshot, now)
    return _billed(rule, found, snapshot, now, selection, certain=True, end=end)


def _billed(
    rule: Rule, found: Pool, snapshot: Snapshot, now: datetime, selection: str,
    *, certain: bool, job: Job | None = None, end: End | None = None,
) -> Side:  # fmt: skip
    wanted = job or rule.job
    if wanted is None:
        raise ValueError("the rule names no job")
    cost = sides.job_costing(wanted, snapshot, now, end)
    return sides.side(selection, rule, found, cost, snapshot, certain=certain)


def _price_side(rule: Rule, snapshot: Snapshot, now: datetime, selection: str) -> Side:
    found = sides.pool(rule, rule.gpus[selection], snapshot, now)
    cost = sides.price_costing(snapshot, now)
    return sides.side(selection, rule, found, cost, snapshot, certain=True)


def _against(rule: Rule, snapshot: Snapshot, now: datetime, one: str, other: str) -> Evaluation:
    conservative = rule.confidence == "conservative"
    left = _cost_side(rule, snapshot, now, one, "high" if conservative else None)
    keys = rule.gpus[other]
    job = rule.job
    if job is not None and conservative:
        job = fastest(job, keys, snapshot.catalogue)
    found = sides.pool(rule, keys, snapshot, now)
    right = _billed(
        rule, found, snapshot, now, other, certain=False, job=job,
        end="low" if conservative else None,
    )  # fmt: skip
    return Evaluation(rule, now, _of_sides(rule, left, right), left, right)


def fastest(job: Job, keys: frozenset[str], catalogue: Catalogue) -> Job:
    """*job* with carried-over hours at their short end: as on the family's reference part.

    Hours of a family are carried over to its other parts by the slower of two measures, at most
    as fast as the reference part; what is known is that they lie between the two.
    """
    hours = dict(job.hours)
    for key in sorted(keys):
        gpu = catalogue.gpu(key)
        if gpu is not None and key not in hours and gpu.family in hours:
            hours[key] = hours[gpu.family]
    return replace(job, hours=hours)


def _of_sides(rule: Rule, left: Side, right: Side) -> Sample:
    return _worst(left, right) or _judged(rule, left, ratio(left.usd, right.usd), right)


def _of_number(rule: Rule, left: Side, usd: Decimal) -> Sample:
    return _worst(left) or _judged(rule, left, ratio(left.usd, usd), None)


def judged_by(rule: Rule, e: Evaluation) -> Evaluation:
    """*e* as *rule* judges it, which is the same rule with another policy.

    What is not wholly known counts only while it does not decide, and the margins say when it does.
    """
    if e.left is None:
        return replace(e, rule=rule)
    match rule.condition:
        case CostBelow(_, usd) | PriceBelow(_, usd):
            return replace(e, rule=rule, sample=_of_number(rule, e.left, usd))
        case CostAgainstCost() | CostDrops() if e.right is not None:
            return replace(e, rule=rule, sample=_of_sides(rule, e.left, e.right))
        case _:
            return replace(e, rule=rule)


def _judged(rule: Rule, left: Side, value: Decimal, right: Side | None) -> Sample:
    """The sample of two good sides, unless what is not known of them could undo it."""
    if value <= rule.policy.enter:
        bounds_agree = right is not None and right.lower_bound and _is_drop(rule)
        if left.lower_bound and not bounds_agree:
            gpu = left.best.offer.gpu_family if left.best else left.selection
            reason = f"{left.selection}: the hours on {gpu} are a lower bound, so this is not sure"
            return _bad(Health.NO_DATA, reason)
        if right is not None and right.unknown and right.unknown_usd is not None:
            at_least = right.unknown_usd
            if at_least <= 0 or ratio(left.usd, at_least) > rule.policy.enter:
                reason = f"{right.selection} may cost less: {right.unknown}"
                return _bad(Health.NO_DATA, reason)
    return Sample(Health.GOOD, value)


def _is_drop(rule: Rule) -> bool:
    return isinstance(rule.condition, CostDrops)


def _below(rule: Rule, now: datetime, left: Side, usd: Decimal) -> Evaluation:
    return Evaluation(rule, now, _of_number(rule, left, usd), left)


def _drops(rule: Rule, snapshot: Snapshot, now: datetime, selection: str, past: Past) -> Evaluation:
    keys = rule.gpus[selection]
    asked = {name for name, p in snapshot.providers.items() if _counts(p, now)} - snapshot.off
    known = {name for name, c in past.coverage.items() if c.known_at(past.at)}
    day = past.at.strftime("%Y-%m-%d %H:%M UTC")
    # Sellers of these GPUs, at one of the two times at least.
    selling = {o.source for o in snapshot.offers if o.gpu_key in keys}
    selling |= {name for name, key in past.sold if key in keys}
    silent = sorted(
        name
        for name in (asked & selling) - known
        if (c := past.coverage.get(name)) and c.first_ok_at and c.first_ok_at <= past.at
    )
    if silent:
        reason = f"{selection}: {', '.join(silent)} was not known on {day}"
        return Evaluation(rule, now, _bad(Health.STALE, reason))
    found = sides.pool(rule, keys, snapshot, now, sources=known)
    left = _billed(rule, found, snapshot, now, selection, certain=True)
    then = Pool(
        tuple(
            o for o in past.offers
            if o.gpu_key in keys and o.source in asked and sides.takes_part(rule, o)
        ),
        (), (), found.excluded.copy(),
    )  # fmt: skip
    right = _billed(rule, then, snapshot, past.at, f"{selection} on {day}", certain=True)
    return Evaluation(rule, now, _of_sides(rule, left, right), left, right)


def _counts(p: StoredProvider, now: datetime) -> bool:
    """Whether a provider answers, or has been silent for so short that it may again."""
    if p.last_ok_at is None or p.ttl_seconds is None:
        return False
    return now - p.last_ok_at - timedelta(seconds=p.ttl_seconds) < DOUBT_HOLDS


def _cheapest(rule: Rule, snapshot: Snapshot, now: datetime) -> Evaluation:
    found = {name: _cost_side(rule, snapshot, now, name) for name in rule.gpus}
    sure = [s for s in found.values() if s.best is not None and not s.lower_bound]
    if not sure:
        sample = _worst(*found.values()) or _bad(
            Health.NO_DATA, "the hours on all of these GPUs are lower bounds"
        )
        return Evaluation(rule, now, sample, labels=found)
    winner = min(sure, key=lambda s: s.usd)
    # Another one's doubt matters only if it might be the cheapest.
    rivals = [
        s
        for s in found.values()
        if s is not winner and s.least_usd is not None and s.least_usd < winner.usd
    ]
    bad = _worst(winner, *rivals)
    if bad is None and rivals:
        why = rivals[0].unknown or "its hours are a lower bound"
        bad = _bad(Health.NO_DATA, f"{rivals[0].selection} may be the cheapest: {why}")
    sample = bad or Sample(Health.GOOD, label=winner.selection)
    return Evaluation(rule, now, sample, left=winner, labels=found)


def _new_offer(
    rule: Rule, snapshot: Snapshot, now: datetime, selection: str, usd: Decimal
) -> Evaluation:
    """Every offer below *usd* that is a list price, or that ``sides.believed`` has it.

    Nothing on offer is an answer, too, but for who has it only from providers that are silent.
    """
    found = sides.pool(rule, rule.gpus[selection], snapshot, now)
    cost = sides.price_costing(snapshot, now)
    asks, _ = sides.asked(rule, found.fresh, cost)
    stale, _ = sides.asked(rule, found.stale, cost)
    below = sides.believed([a for a in asks if a.usd < usd], asks, snapshot)
    keys = {a.offer.key.hex(): a for a in below}
    sample = Sample(Health.GOOD, found=frozenset(keys))
    if not asks and stale:
        sample = _worst(_price_side(rule, snapshot, now, selection)) or sample
    elif not asks and not any(_answers(p, now) for p in snapshot.providers.values()):
        sample = _bad(Health.NO_DATA, "no provider answers")
    old = frozenset(a.offer.key.hex() for a in stale if a.usd < usd)
    return Evaluation(rule, now, sample, found=keys, stale_found=old)


def _answers(p: StoredProvider, now: datetime) -> bool:
    return p.last_ok_at is not None and p.ttl_seconds is not None and _freshness(p, now) > 1


def _provider_stale(rule: Rule, snapshot: Snapshot, now: datetime, name: str) -> Evaluation:
    """How long the prices of a provider hold, by how old they are.

    Where nobody has asked since they came (nothing ran, or nothing could be recorded), their age
    says nothing of the provider: then its next poll is awaited.
    """
    polled = [
        p
        for p in snapshot.providers.values()
        if p.ttl_seconds is not None
        and (p.slug == name or (name == ANY and _in_use(p, snapshot, now)))
    ]
    answered = [p for p in polled if p.last_ok_at is not None]
    if not answered:
        who = "no provider has ever" if name == ANY else f"{name} has never"
        return Evaluation(rule, now, _bad(Health.NO_DATA, f"{who} answered"))
    waited_for = [p for p in answered if _unasked(p, snapshot, now)]
    asked = [p for p in answered if p not in waited_for]
    worst = min(asked or answered, key=lambda p: (_freshness(p, now), p.slug))
    if waited_for and (not asked or _freshness(worst, now) > 1):
        return Evaluation(rule, now, _bad(Health.NO_DATA, _not_polled(p.slug for p in waited_for)))
    return Evaluation(rule, now, Sample(Health.GOOD, _freshness(worst, now)), provider=worst)


def _in_use(p: StoredProvider, snapshot: Snapshot, now: datetime) -> bool:
    if snapshot.sources:
        return p.slug in snapshot.sources
    return p.last_attempt_at is not None and now - p.last_attempt_at < FORGOTTEN_AFTER


def _unasked(p: StoredProvider, snapshot: Snapshot, now: datetime) -> bool:
    """Whether prices of a provider that is to be polled are too old since nobody has asked."""
    if p.slug not in snapshot.sources or p.last_ok_at is None or p.last_attempt_at is None:
        return False
    return p.last_attempt_at <= p.last_ok_at and _freshness(p, now) <= 1


def _freshness(p: StoredProvider, now: datetime) -> Decimal:
    """ttl / age; 1 or less is stale, as ``report.ages.is_stale`` has it."""
    if p.last_ok_at is None or p.ttl_seconds is None:
        raise ValueError(f"{p.slug} has never answered")
    age_us = max((now - p.last_ok_at) // timedelta(microseconds=1), 1_000_000)
    return ratio(Decimal(p.ttl_seconds * 1_000_000), Decimal(age_us))
