"""The gates every offer of a poll passes before its price may enter history.

Wrong-looking is quarantined, never dropped: it is counted, shown with its reason, and (where a
real market can do such a thing) released once the same price has been confirmed by later polls.
Alert rules use the same gates, not a second copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from tracker.domain.findings import Quarantined
from tracker.domain.gpu import Catalogue
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Market, Offer
from tracker.domain.references import References, median_without
from tracker.domain.surge import Sizes, surge


class Gate(StrEnum):
    """The gates, in the order they are explained."""

    BAND = "band"
    DUPLICATE = "duplicate"
    SPOT_AGAINST_ON_DEMAND = "spot_against_on_demand"
    COUNT_SCALING = "count_scaling"
    REGION_OUTLIER = "region_outlier"
    MARKET_OUTLIER = "market_outlier"
    JUMP = "jump"
    SURGE = "surge"


# A market can really crash or be undercut by one host, so these two open again once the price
# has been confirmed. The others describe errors (units, placeholders, wrong fields) that repeat
# themselves for months: repetition proves nothing there.
RELEASABLE = frozenset({Gate.JUMP, Gate.MARKET_OUTLIER})

SAME_WITHIN = Decimal("0.05")  # a price that moved by less is still the one that was confirmed


@dataclass(frozen=True, slots=True)
class Rules:
    """Thresholds of the gates. All ratios are dimensionless.

    ``bands`` overrides the catalogue's plausibility band: family → market → (low, high) in USD
    per GPU-hour.
    """

    bands: Mapping[str, Mapping[str, tuple[Decimal, Decimal]]] = field(default_factory=dict)
    confirmations: int = 3
    confirm_tolerance: Decimal = SAME_WITHIN
    shrink_fraction: Decimal = Decimal("0.5")
    shrink_tolerance: Decimal = Decimal("0.2")
    jump_factor: Decimal = Decimal(3)
    spot_floor: Decimal = Decimal("0.02")
    odd_scaling: Decimal = Decimal(2)
    same_price_tolerance: Decimal = Decimal("0.01")
    region_low: Decimal = Decimal("0.2")
    region_high: Decimal = Decimal(5)
    region_others: int = 3
    market_low: Decimal = Decimal("0.33")
    market_high: Decimal = Decimal(4)
    market_others: int = 5


@dataclass(frozen=True, slots=True)
class Pending:
    """A quarantined price that earlier polls have seen: how often in a row, and whether freed.

    ``due``: enough time has passed for another poll to count. Polls within minutes of each other
    are one observation, however many they are.
    """

    price_micro_usd: int
    confirmations: int
    released: bool = False
    due: bool = True


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a source before this poll.

    ``complete_count`` are the offers of the last complete poll, those held until confirmed
    included. ``shrunk_counts`` are the offer counts of the polls refused as shrunk since the last
    good one, newest first and not in quick succession. ``pending`` is keyed by (offer key, gate).
    ``sizes`` are what tells a surge from a usual poll.
    """

    last_price_micro_usd: Mapping[bytes, int] = field(default_factory=dict)
    complete_count: int | None = None
    shrunk_counts: Sequence[int] = ()
    pending: Mapping[tuple[bytes, str], Pending] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)


@dataclass(frozen=True, slots=True)
class GateResult:
    """What one gate said of one offer. ``detail`` is a phrase with the figures it compared."""

    gate: Gate
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Assessment:
    """The outcome for a whole poll. ``verdict`` is None, ``empty`` or ``shrunk`` (both failed)."""

    accepted: tuple[Offer, ...]
    held: tuple[Quarantined, ...]
    released: tuple[Quarantined, ...]
    duplicates: int
    verdict: str | None = None
    verdict_reason: str | None = None


def assess(
    offers: Sequence[Offer],
    known: Known,
    catalogue: Catalogue,
    rules: Rules,
    *,
    marketplace: bool,
    complete: bool,
    beside: int = 0,
) -> Assessment:
    """Pass every offer of one poll through every gate, then judge the poll as a whole.

    The first gate that an offer fails names its quarantine. Identical repeats count once.
    *beside*: how many usable things the answer says that are no offers, such as discounts.
    """
    unique = list(dict.fromkeys((o.key, o.price) for o in offers))
    first = {(o.key, o.price): o for o in reversed(offers)}
    distinct = [first[pair] for pair in unique]
    keeper = Gatekeeper(distinct, known, catalogue, rules, marketplace=marketplace)
    accepted: list[Offer] = []
    held: list[Quarantined] = []
    released: list[Quarantined] = []
    for offer in distinct:
        outcome = keeper.judge(offer)
        if outcome is None:
            accepted.append(keeper.flagged(offer))
        elif outcome.releasable and outcome.confirmations >= rules.confirmations:
            accepted.append(keeper.flagged(offer))
            released.append(outcome)
        else:
            held.append(outcome)
    # Whoever types prices may take half of them out: only a feed loses them by accident.
    feed = any(o.source == o.provider for o in distinct)
    verdict, reason = None, None
    if accepted or not beside:
        verdict, reason = _poll_verdict(len(accepted), held, known, rules, guard=complete and feed)
    return Assessment(
        tuple(accepted), tuple(held), tuple(released), len(offers) - len(distinct), verdict, reason
    )


def _poll_verdict(
    accepted: int, held: Sequence[Quarantined], known: Known, rules: Rules, *, guard: bool
) -> tuple[str | None, str | None]:
    """A poll without offers, or one that lost half of them, is a failed poll, not a market.

    Offers that wait for confirmation are there: they are not what a broken feed has lost.
    """
    waiting = sum(h.releasable for h in held)
    if accepted == 0 and waiting:
        return "empty", f"all offers are held, {waiting} of {len(held)} until confirmed"
    if accepted == 0:
        return "empty", f"no usable offers ({len(held)} seen)"
    before = known.complete_count
    if not guard or before is None or accepted + waiting >= before * rules.shrink_fraction:
        return None, None
    recent = list(known.shrunk_counts[: rules.confirmations])
    slack = accepted * rules.shrink_tolerance
    if len(recent) >= rules.confirmations and all(abs(n - accepted) <= slack for n in recent):
        return None, None  # it really is that small now: several polls in a row agree
    more = f" and {waiting} held until confirmed" if waiting else ""
    return "shrunk", f"{accepted} offers{more} where the last complete poll had {before}"


class Gatekeeper:
    """The gates over one poll's offers. Build once, then judge or explain each offer."""

    def __init__(
        self,
        offers: Sequence[Offer],
        known: Known,
        catalogue: Catalogue,
        rules: Rules,
        *,
        marketplace: bool,
    ) -> None:
        self._known = known
        self._catalogue = catalogue
        self._rules = rules
        self._marketplace = marketplace
        self._grown = surge(len(offers), known.sizes)
        self._references = References(
            offers, lambda o: self._band(o) is None and self._surge(o) is None
        )
        self._references.add_machines(lambda o: self._region(o) is not None)

    def judge(self, offer: Offer) -> Quarantined | None:
        """The first gate that *offer* fails, or None."""
        for gate in Gate:
            problem = self._problem(gate, offer)
            if problem is None:
                continue
            pending = self._known.pending.get((offer.key, gate))
            if gate is Gate.MARKET_OUTLIER and self._freed(offer, pending):
                continue
            same = pending is not None and not pending.released and self._same(offer, pending)
            before, due = (pending.confirmations, pending.due) if pending and same else (0, True)
            return Quarantined(offer, gate, problem, gate in RELEASABLE, before + due, due)
        return None

    def _freed(self, o: Offer, pending: Pending | None) -> bool:
        """Freed before, and still at the price that was accepted last: drift is no new bargain.

        A freed jump needs no such memory: its price has become the last accepted one.
        """
        if pending is None or not pending.released:
            return False
        last = self._known.last_price_micro_usd.get(o.key, pending.price_micro_usd)
        return same_price(to_micro_usd(o.price.usd), last, self._rules.confirm_tolerance)

    def _same(self, o: Offer, pending: Pending) -> bool:
        price = to_micro_usd(o.price.usd)
        return same_price(price, pending.price_micro_usd, self._rules.confirm_tolerance)

    def flagged(self, offer: Offer) -> Offer:
        """*offer* with a remark where its price is odd for its size, though not impossible.

        Clouds do sell eight GPUs for less than four, and a promotion need not scale; so this is
        shown and ranked. Hosts of a marketplace are not compared: they are different sellers.
        """
        if self._marketplace or offer.gpu.is_slice:
            return offer
        count, usd = offer.listed.gpu_count, offer.price.usd
        prices = self._references.sizes(offer)
        remarks = []
        fewer = [n for n, price in prices.items() if n < count and price > usd]
        if fewer:
            remarks.append(f"costs less than {max(fewer)} of these GPUs")
        if count > 1 and 1 in prices:
            ratio = usd / count / prices[Decimal(1)]
            if not 1 / self._rules.odd_scaling <= ratio <= self._rules.odd_scaling:
                remarks.append(f"a GPU costs {ratio:.2f} times as much as one alone")
        return replace(offer, flags=(*offer.flags, *remarks)) if remarks else offer

    def explain(self, offer: Offer) -> list[GateResult]:
        """Every gate's word on *offer*, passed ones included."""
        results = []
        for gate in Gate:
            problem = self._problem(gate, offer)
            results.append(GateResult(gate, problem is None, problem or self._fine(gate, offer)))
        return results

    def _problem(self, gate: Gate, o: Offer) -> str | None:
        match gate:
            case Gate.BAND:
                return self._band(o)
            case Gate.DUPLICATE:
                return "two prices for one offer" if self._references.times_listed(o) > 1 else None
            case Gate.SPOT_AGAINST_ON_DEMAND:
                return self._spot(o)
            case Gate.COUNT_SCALING:
                return self._scaling(o)
            case Gate.REGION_OUTLIER:
                return self._region(o)
            case Gate.MARKET_OUTLIER:
                return self._market_outlier(o)
            case Gate.JUMP:
                return self._jump(o)
            case Gate.SURGE:
                return self._surge(o)

    def band(self, o: Offer) -> tuple[Decimal, Decimal] | None:
        """The plausible USD per GPU-hour for this GPU and market, or None when unknown."""
        own = self._rules.bands.get(o.gpu.family, {}).get(o.listed.market)
        return own or self._catalogue.band(o.gpu.family, o.listed.market)

    def _band(self, o: Offer) -> str | None:
        band, usd = self.band(o), o.price_per_gpu.usd
        if o.gpu.is_slice:
            # A share has no band of its own, and is never ranked beside whole cards; but none
            # costs more than the whole.
            share_usd = o.price.usd / max(o.listed.gpu_count, Decimal(1))
            if band is None or share_usd <= band[1]:
                return None
            return f"${share_usd:.4f} for a slice, above the ${band[1]} of a whole GPU"
        if band is None or band[0] <= usd <= band[1]:
            return None
        return f"${usd:.4f} per GPU-hour is outside the plausible ${band[0]} to ${band[1]}"

    def _spot(self, o: Offer) -> str | None:
        if o.listed.market is not Market.SPOT:
            return None
        on_demand = self._references.on_demand(o)
        if on_demand is None:
            return None
        if o.price.usd > on_demand:
            return f"spot ${o.price.usd:.4f} is above its on-demand price ${on_demand:.4f}"
        if o.price.usd < on_demand * self._rules.spot_floor:
            return f"spot ${o.price.usd:.4f} is under 2 % of its on-demand price ${on_demand:.4f}"
        return None

    def _scaling(self, o: Offer) -> str | None:
        if self._marketplace or o.listed.gpu_count < 2:
            return None
        sizes, gpus, usd = self._references.sizes(o), o.listed.gpu_count, o.price.usd
        single, slack = sizes.get(Decimal(1)), self._rules.same_price_tolerance
        if single is None or usd > single * (1 + slack):
            return None
        if usd < single * (1 - slack) and not self._single_is_right(o, single):
            return None
        return f"{gpus} GPUs for ${usd:.4f}, no more than one GPU (${single:.4f})"

    def _single_is_right(self, o: Offer, single: Decimal) -> bool:
        """Which of two contradicting prices is wrong: ask the other sizes, else the band."""
        sizes, count = self._references.sizes(o), o.listed.gpu_count
        others = sorted(usd / n for n, usd in sizes.items() if n != count)
        if len(others) > 1:
            return o.price_per_gpu.usd * self._rules.odd_scaling < median_without(others, None)
        band = self.band(o)
        return band is None or single < band[1] / 2 or o.price_per_gpu.usd < band[0] * 2

    def _region(self, o: Offer) -> str | None:
        if o.listed.market is Market.SPOT:
            return None  # spare capacity really costs five times as much where there is little
        r = self._rules
        median_usd = self._references.region_median(o, r.region_others)
        return _far(o.price.usd, median_usd, r.region_low, r.region_high, "of the other regions")

    def _market_outlier(self, o: Offer) -> str | None:
        if not self._marketplace or o.listed.market is Market.SPOT or o.gpu.is_slice or _typed(o):
            return None
        r, usd = self._rules, o.price_per_gpu.usd
        median_usd = self._references.market_median(o, r.market_others)
        return _far(usd, median_usd, r.market_low, r.market_high, "of the other hosts")

    def _jump(self, o: Offer) -> str | None:
        last = self._known.last_price_micro_usd.get(o.key)
        price = to_micro_usd(o.price.usd)
        if (
            last is None
            or _typed(o)
            or (price <= last * self._rules.jump_factor and price * self._rules.jump_factor >= last)
        ):
            return None
        return f"${o.price.usd:.4f} where the last accepted price was ${Decimal(last) / 10**6:.4f}"

    def _surge(self, o: Offer) -> str | None:
        if self._grown is None or _typed(o) or o.key in self._known.last_price_micro_usd:
            return None
        return self._grown

    def _fine(self, gate: Gate, o: Offer) -> str:
        """What a passed gate compared, for people who want to see it."""
        if gate is Gate.BAND and not o.gpu.is_slice and (band := self.band(o)):
            return f"${o.price_per_gpu.usd:.4f} per GPU-hour lies within ${band[0]} to ${band[1]}"
        if gate is Gate.SPOT_AGAINST_ON_DEMAND and o.listed.market is Market.SPOT:
            on_demand = self._references.on_demand(o)
            return f"on-demand ${on_demand:.4f}" if on_demand else "no on-demand price to compare"
        if gate is Gate.JUMP:
            last = self._known.last_price_micro_usd.get(o.key)
            return "first price seen" if last is None else f"last ${Decimal(last) / 10**6:.4f}"
        return "nothing against it"


def _typed(o: Offer) -> bool:
    """A price from a book: the person who typed it may correct it as far as it takes."""
    return o.source != o.provider


def _far(
    usd: Decimal, median_usd: Decimal | None, low: Decimal, high: Decimal, whose: str
) -> str | None:
    if median_usd is None or median_usd * low <= usd <= median_usd * high:
        return None
    return f"${usd:.4f} against a median of ${median_usd:.4f} {whose}"


def same_price(a: int, b: int, tolerance: Decimal = SAME_WITHIN) -> bool:
    """Whether *a* (micro-USD) is *b*, or has moved from it by no more than *tolerance*."""
    return abs(a - b) <= b * tolerance
