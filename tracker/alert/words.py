"""What happened, in one sentence: the words of a notice, from its context.

A context is JSON that an engine wrote, perhaps an older one: whatever is missing is left out, and
nothing here raises for it. Figures come as text and are shown as they are when they are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from tracker.domain.rule.condition import ANY
from tracker.domain.texts import dollars
from tracker.telemetry import one_line

Context = Mapping[str, Any]

UNKNOWN = "unknown"
_CHARACTERS = 300  # of one value


def text(value: Any) -> str:
    """*value* as a piece of one line."""
    return one_line(str(value), _CHARACTERS) if value is not None else UNKNOWN


def part(context: Context, name: str) -> Context:
    """A table of the context, empty when there is none."""
    value = context.get(name)
    return value if isinstance(value, Mapping) else {}


def number(value: Any) -> Decimal | None:
    """A finite number, or None."""
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found) < Decimal("1e15") else None


def plain(value: Any, places: int) -> str:
    """A number rounded to *places*, without trailing zeros."""
    found = number(value)
    if found is None:
        return text(value)
    shown = format(found.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN), "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def usd(value: Any, places: int = 2) -> str:
    """Dollars: to cents, hourly prices to more where they have more."""
    found = number(value)
    if found is None:
        return text(value)
    whole, _, cents = dollars(found, places).partition(".")
    return f"{whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def duration(seconds: Any) -> str:
    """A length of time in one unit, rounded down."""
    found = number(seconds)
    if found is None:
        return UNKNOWN
    length = max(0, int(found))
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if length < limit:
            return f"{length // unit} {name}"
    return f"{length // 86_400} days"


def moment(value: Any) -> str:
    """A time in UTC, to the second, with a Z."""
    try:
        at = datetime.fromisoformat(str(value))
        known = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return text(value)
    return known.isoformat(timespec="seconds").replace("+00:00", "Z")


def title(context: Context) -> str:
    """How the rule is called."""
    return text(context.get("title") or context.get("rule"))


def _job(context: Context) -> str:
    job = part(context, "job")
    return text(job.get("title") or job.get("name") or "The job")


def cost(side: Context) -> str:
    """A side's bill, with the "at least" that belongs to it."""
    amount = usd(side.get("job_cost_usd"))
    return f"at least {amount}" if side.get("lower_bound") else amount


def _difference(context: Context) -> str:
    """How the left bill compares with the right one: ``9 % less than``."""
    ratio = number(context.get("value"))
    if ratio is None:
        return "other than"
    percent = (1 - ratio) * 100
    if percent == 0:
        return "as much as"
    return f"{plain(abs(percent), 1)} % {'less' if percent > 0 else 'more'} than"


def _names(side: Context) -> str:
    return text(side.get("selection") or side.get("gpu"))


def state(context: Context) -> str:
    """What a rule looks at, as it stands: a sentence without its full stop."""
    when = str(context.get("when") or "").strip().lower()
    left, right = part(context, "left"), part(context, "right")
    place = f" at {text(left['provider'])}" if left.get("provider") else ""
    threshold = usd(context.get("threshold_usd"), 4)
    if when.startswith("cost") and left and right:
        return (
            f"{_job(context)} on {_names(left)} costs {cost(left)}, "
            f"{_difference(context)} on {_names(right)} ({cost(right)})"
        )
    if when.startswith("cost") and left and "drops" in when:
        change = _difference(context).removesuffix("than")
        return f"{_job(context)} on {_names(left)} costs {cost(left)}{place}, {change}than before"
    if when.startswith("cost") and left and context.get("threshold_usd") is not None:
        return f"{_job(context)} on {_names(left)} costs {cost(left)}{place}, against {threshold}"
    if when.startswith("price") and left:
        price = usd(left.get("price_usd_per_gpu_hour"), 4)
        limit = f", against {threshold}" if context.get("threshold_usd") is not None else ""
        return f"{_names(left)} costs {price} per GPU-hour{place}{limit}"
    if provider := provider_of(context):
        fresh = (number(context.get("value")) or 0) > 1
        whose = "every provider" if provider == ANY else text(provider)
        return f"the prices of {whose} are fresh" if fresh else f"no fresh prices of {whose}"
    called, condition = title(context), text(context.get("when"))
    return called if called == condition else f"{called}: {condition}"


def provider_of(context: Context) -> str | None:
    """The provider that a rule about providers watches (or "any"); None for any other rule."""
    found = re.fullmatch(r"provider\((.+)\) stale", str(context.get("when") or "").strip().lower())
    return found[1].strip() if found else None


def sentence(context: Context) -> str:
    """What happened, in one sentence."""
    words = _SENTENCES.get(str(context.get("kind")), _other)(context)
    return f"{words}."


def _after(context: Context) -> str:
    firing = part(context, "firing")
    if firing.get("duration_seconds") is None:
        return ""
    return f" after {duration(firing['duration_seconds'])}"


def _late(context: Context) -> str:
    """Of an end that is told after it: when it was."""
    until = part(context, "firing").get("until")
    return f", at {moment(until)}, while a silence kept notices back" if until else ""


def _fired(context: Context) -> str:
    when = str(context.get("when") or "").lower()
    if when.startswith("provider"):
        reason = part(context, "health").get("reason")
        told = f" ({text(reason)})" if reason else ""
        return f"No fresh prices: {text(context.get('when'))}{told}"
    return state(context)


def _resolved(context: Context) -> str:
    begun, late = part(part(context, "merged"), "fired"), _late(context)
    # How it stands now, after a silence, need not be how it stood when it cleared.
    now = title(context) if late else state(context)
    if begun:
        return f"Fired and cleared{_after(context)}{late}: {now}; it was: {state(begun)}"
    return f"Cleared{_after(context)}{late}: {now}"


def _reminder(context: Context) -> str:
    since = part(context, "firing").get("duration_seconds")
    length = f" (for {duration(since)} now)" if since is not None else ""
    return f"Still so{length}: {_fired(context)}"


def _still_firing(context: Context) -> str:
    cooled = str(context.get("reason") or "").endswith("cooldown")
    over = "The cooldown is over" if cooled else "A silence has ended"
    return f"{over}, and this goes on: {_fired(context)}"


def _closed(context: Context) -> str:
    begun = part(part(context, "merged"), "fired")
    reason = text(context.get("reason") or "closed")
    told = f"; it had fired: {state(begun)}" if begun else ""
    length = part(context, "firing").get("duration_seconds")
    since = "" if length is None else f", for {duration(length)}"
    late = _late(context)
    return f"Rule {text(context.get('rule'))} was {reason} while it was true{since}{late}{told}"


def _data_problem(context: Context) -> str:
    health = part(context, "health")
    since = f", since {moment(health['since'])}" if health.get("since") else ""
    reason = text(health.get("reason") or health.get("state"))
    return f"{title(context)} cannot be judged{since}: {reason}; until it can, nothing changes"


def _data_ok(context: Context) -> str:
    return f"{title(context)} can be judged again"


def _changed(context: Context) -> str:
    job = part(context, "job")
    what = f" for {_job(context)}" if job else ""
    before = context.get("previous_label")
    was = f", before it was {text(before)}" if before is not None else ""
    return f"The cheapest GPU{what} is now {text(context.get('label'))}{was}"


def found(context: Context) -> list[Context]:
    """The offers that were found."""
    offers = context.get("found")
    every = offers if isinstance(offers, list) else []
    return [offer for offer in every if isinstance(offer, Mapping)]


def _found(context: Context) -> str:
    offers = found(context)
    if not offers:
        return f"New offers: {text(context.get('when'))}"
    many = "1 new offer" if len(offers) == 1 else f"{len(offers)} new offers"
    first = offers[0]
    price = usd(first.get("price_usd_per_gpu_hour"), 4)
    gpu = text(first.get("gpu") or first.get("selection"))
    return f"{many}: {gpu} at {text(first.get('provider'))} for {price} per GPU-hour"


def _test(context: Context) -> str:
    return f"TEST of rule {text(context.get('rule'))}: this notice got through, nothing happened"


def _other(context: Context) -> str:
    return f"{title(context)} ({text(context.get('kind'))}): {text(context.get('when'))}"


_SENTENCES = {
    "fired": _fired,
    "resolved": _resolved,
    "reminder": _reminder,
    "still_firing": _still_firing,
    "closed": _closed,
    "data_problem": _data_problem,
    "data_ok": _data_ok,
    "changed": _changed,
    "found": _found,
    "test": _test,
}
