"""The gates every offer of a poll passes before its price may enter history.

Wrong-looking is quarantined, never dropped: it is counted, shown with its reason, and (where a
real market can do such a thing) released once the same price has been confirmed by later polls.
Alert rules use the same gates, not a second copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from tracker.domain.findings import Quarantined
from tracker.domain.gpu import Catalogue
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Market, Offer


class Gate(StrEnum):
    """The gates, in the order they are explained."""

    BAND = "band"
    DUPLICATE = "duplicate"
    SPOT_AGAINST_ON_DEMAND = "spot_against_on_demand"
    COUNT_SCALING = "count_scaling"
    REGION_OUTLIER = "region_outlier"
    MARKET_OUTLIER = "market_outlier"
    JUMP = "jump"


# A market can really crash or be undercut by one host, so these two open again once the price
# has been confirmed. The others describe errors (units, placeholders, wrong fields) that repeat
# themselves for months: repetition proves nothing there.
RELEASABLE = frozenset({Gate.JUMP, Gate.MARKET_OUTLIER})


@dataclass(frozen=True, slots=True)
class Rules:
    """Thresholds of the gates. All ratios are dimensionless.

    ``bands`` overrides the catalogue's plausibility band: family → market → (low, high) in USD
    per GPU-hour.
    """

    bands: Mapping[str, Mapping[str, tuple[Decimal, Decimal]]] = field(default_factory=dict)
    confirmations: int = 3
    confirm_tolerance: Decimal = Decimal("0.05")
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
    """A quarantined price that earlier polls have seen: how often in a row, and whether freed."""

    price_micro_usd: int
    confirmations: int
    released: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a source before this poll.

    ``shrunk_counts`` are the offer counts of the polls refused as shrunk since the last good one,
    newest first. ``pending`` is keyed by (offer key, gate).
    """

    last_price_micro_usd: Mapping[bytes, int] = field(default_factory=dict)
    complete_count: int | None = None
    shrunk_counts: Sequence[int] = ()
    pending: Mapping[tuple[bytes, str], Pending] = field(default_factory=dict)


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
) -> Assessment:
    """Pass every offer of one poll through every gate, then judge the poll as a whole.

    The first gate that an offer fails names its quarantine. Identical repeats count once.
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
    verdict, reason = _poll_verdict(len(accepted), len(distinct), known, rules, complete=complete)
    return Assessment(
        tuple(accepted), tuple(held), tuple(released), len(offers) - len(distinct), verdict, reason
    )


def _poll_verdict(
    accepted: int, seen: int, known: Known, rules: Rules, *, complete: bool
) -> tuple[str | None, str | None]:
    """A poll without offers, or one that lost half of them, is a failed poll, not a market."""
    if accepted == 0:
        return "empty", f"no usable offers ({seen} seen)"
    before = known.complete_count
    if not complete or before is None or accepted >= before * rules.shrink_fraction:
        return None, None
    recent = list(known.shrunk_counts[: rules.confirmations])
    slack = accepted * rules.shrink_tolerance
    if len(recent) >= rules.confirmations and all(abs(n - accepted) <= slack for n in recent):
        return None, None  # it really is that small now: several polls in a row agree
    return "shrunk", f"{accepted} offers where the last complete poll had {before}"


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
        self._on_demand: dict[tuple[object, ...], Decimal] = {}
        self._by_count: dict[tuple[object, ...], dict[Decimal, Decimal]] = defaultdict(dict)
        self._regions: dict[tuple[object, ...], list[Decimal]] = defaultdict(list)
        self._market: dict[tuple[object, ...], list[Decimal]] = defaultdict(list)
        self._prices: dict[bytes, int] = defaultdict(int)
        for o in offers:
            self._index(o)
        self._region_median = {k: _sorted(v) for k, v in self._regions.items()}
        self._market_median = {k: _sorted(v) for k, v in self._market.items()}

    def _index(self, o: Offer) -> None:
        usd, per_gpu = o.price.usd, o.price_per_gpu.usd
        self._prices[o.key] += 1
        plausible = self._band(o) is None  # or it would make others look wrong
        if plausible and o.listed.market is Market.ON_DEMAND:
            key = _machine_key(o)
            self._on_demand[key] = min(usd, self._on_demand.get(key, usd))
        if plausible and o.listed.gpu_count >= 1:
            cheapest, count = self._by_count[_family_key(o)], o.listed.gpu_count
            cheapest[count] = min(usd, cheapest.get(count, usd))
        self._regions[_type_key(o)].append(usd)
        self._market[_market_key(o)].append(per_gpu)

    def judge(self, offer: Offer) -> Quarantined | None:
        """The first gate that *offer* fails, or None."""
        for gate in Gate:
            problem = self._problem(gate, offer)
            if problem is None:
                continue
            price = to_micro_usd(offer.price.usd)
            pending = self._known.pending.get((offer.key, gate))
            same = pending is not None and _close(
                price, pending.price_micro_usd, self._rules.confirm_tolerance
            )
            if pending and same and pending.released and gate in RELEASABLE:
                continue  # freed before, and still the same price
            before = pending.confirmations if pending and same else 0
            return Quarantined(offer, gate, problem, gate in RELEASABLE, before + 1)
        return None

    def flagged(self, offer: Offer) -> Offer:
        """*offer* with a remark where its price is odd for its size, though not impossible.

        Clouds do sell eight GPUs for less than four, and a promotion need not scale; so this is
        shown and ranked. Hosts of a marketplace are not compared: they are different sellers.
        """
        if self._marketplace or offer.gpu.is_slice:
            return offer
        count, usd = offer.listed.gpu_count, offer.price.usd
        prices = self._by_count.get(_family_key(offer), {})
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
                return "two prices for one offer" if self._prices[o.key] > 1 else None
            case Gate.SPOT_AGAINST_ON_DEMAND:
                return self._spot(o)
            case Gate.COUNT_SCALING:
                return self._scaling(o)
            case Gate.REGION_OUTLIER:
                return self._outlier(
                    o.price.usd, self._region_median.get(_type_key(o), ()), self._rules.region_low,
                    self._rules.region_high, self._rules.region_others, "of the other regions",
                )  # fmt: skip
            case Gate.MARKET_OUTLIER:
                return self._market_outlier(o)
            case Gate.JUMP:
                return self._jump(o)

    def band(self, o: Offer) -> tuple[Decimal, Decimal] | None:
        """The plausible USD per GPU-hour for this GPU and market, or None when unknown."""
        own = self._rules.bands.get(o.gpu.family, {}).get(o.listed.market)
        return own or self._catalogue.band(o.gpu.family, o.listed.market)

    def _band(self, o: Offer) -> str | None:
        if o.gpu.is_slice:
            return None  # a share of a card has no band, and is never ranked beside whole cards
        band, usd = self.band(o), o.price_per_gpu.usd
        if band is None or band[0] <= usd <= band[1]:
            return None
        return f"${usd:.4f} per GPU-hour is outside the plausible ${band[0]} to ${band[1]}"

    def _spot(self, o: Offer) -> str | None:
        if o.listed.market is not Market.SPOT:
            return None
        on_demand = self._on_demand.get(_machine_key(o))
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
        single = self._by_count.get(_family_key(o), {}).get(Decimal(1))
        if single is None or o.price.usd > single * (1 + self._rules.same_price_tolerance):
            return None
        gpus = o.listed.gpu_count
        return f"{gpus} GPUs for ${o.price.usd:.4f}, no more than one GPU (${single:.4f})"

    def _market_outlier(self, o: Offer) -> str | None:
        if not self._marketplace or o.listed.market is Market.SPOT or o.gpu.is_slice:
            return None
        return self._outlier(
            o.price_per_gpu.usd, self._market_median.get(_market_key(o), ()),
            self._rules.market_low, self._rules.market_high, self._rules.market_others,
            "of the other hosts",
        )  # fmt: skip

    def _outlier(
        self, usd: Decimal, prices: Sequence[Decimal], low: Decimal, high: Decimal, need: int,
        whose: str,
    ) -> str | None:  # fmt: skip
        """Compare *usd*, one of the sorted *prices*, with the median of the others."""
        if len(prices) - 1 < need:
            return None
        median = _median_of_others(prices, bisect_left(prices, usd))
        if median * low <= usd <= median * high:
            return None
        return f"${usd:.4f} against a median of ${median:.4f} {whose}"

    def _jump(self, o: Offer) -> str | None:
        last = self._known.last_price_micro_usd.get(o.key)
        price = to_micro_usd(o.price.usd)
        if last is None or (
            price <= last * self._rules.jump_factor and price * self._rules.jump_factor >= last
        ):
            return None
        return f"${o.price.usd:.4f} where the last accepted price was ${Decimal(last) / 10**6:.4f}"

    def _fine(self, gate: Gate, o: Offer) -> str:
        """What a passed gate compared, for people who want to see it."""
        if gate is Gate.BAND and not o.gpu.is_slice and (band := self.band(o)):
            return f"${o.price_per_gpu.usd:.4f} per GPU-hour lies within ${band[0]} to ${band[1]}"
        if gate is Gate.SPOT_AGAINST_ON_DEMAND and o.listed.market is Market.SPOT:
            on_demand = self._on_demand.get(_machine_key(o))
            return f"on-demand ${on_demand:.4f}" if on_demand else "no on-demand price to compare"
        if gate is Gate.JUMP:
            last = self._known.last_price_micro_usd.get(o.key)
            return "first price seen" if last is None else f"last ${Decimal(last) / 10**6:.4f}"
        return "nothing against it"


def _machine_key(o: Offer) -> tuple[object, ...]:
    x = o.listed
    return (o.provider, x.source_id, o.gpu.key, x.gpu_count, x.region, x.tier)


def _family_key(o: Offer) -> tuple[object, ...]:
    x = o.listed
    return (o.provider, o.gpu.key, x.market, x.tier, x.region, x.terms.commitment_hours)


def _type_key(o: Offer) -> tuple[object, ...]:
    x = o.listed
    return (o.provider, x.source_id, x.gpu_count, x.market, x.tier)


def _market_key(o: Offer) -> tuple[object, ...]:
    return (o.provider, o.gpu.key, o.listed.market, o.listed.tier)


def _median_of_others(prices: Sequence[Decimal], leave_out: int) -> Decimal:
    """The median of sorted *prices* without the one at index *leave_out*."""

    def at(index: int) -> Decimal:
        return prices[index if index < leave_out else index + 1]

    n = len(prices) - 1
    return at(n // 2) if n % 2 else (at(n // 2 - 1) + at(n // 2)) / 2


def _sorted(prices: list[Decimal]) -> tuple[Decimal, ...]:
    return tuple(sorted(prices))


def _close(a: int, b: int, tolerance: Decimal) -> bool:
    return abs(a - b) <= b * tolerance
