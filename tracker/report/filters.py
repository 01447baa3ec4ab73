"""Which offers a question is about, and how many it leaves out for which reason.

Every filter that an offer cannot answer (the provider does not say) leaves the offer out, under a
reason of its own, so that a footer can tell "too little RAM" from "RAM not said".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase

from tracker.domain.gpu import Catalogue
from tracker.store.reads import StoredOffer

# Ranked unless the user names markets: what one gets for sure once it is rented. Interruptible
# machines are another product and must be asked for.
DEFAULT_MARKETS = ("on_demand", "monthly", "reserved")
ANY = "any"


@dataclass(frozen=True, slots=True)
class Filters:
    """A question's constraints. Empty or None means "no constraint"; see each default.

    ``gpus`` are the names as asked (``H100``, ``A100-80GB``); ``markets`` and ``tiers`` empty mean
    the defaults (DEFAULT_MARKETS; each provider's default tiers), ``("any",)`` means all.
    """

    gpus: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()  # exact or with * and ?, case-insensitive
    countries: tuple[str, ...] = ()
    markets: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    min_vram_gb: Decimal | None = None  # per GPU
    min_gpus: int | None = None
    min_ram_gib: Decimal | None = None
    min_vcpus: Decimal | None = None
    min_disk_gb: Decimal | None = None
    min_network_mbps: Decimal | None = None
    interconnect: str | None = None
    dedicated: bool = False
    ecc: bool = False
    available: bool = False
    max_age: timedelta | None = None
    include_stale: bool = False
    include_slices: bool = False

    def echo(self) -> dict[str, object]:
        """The constraints in force, as plain JSON values."""
        out: dict[str, object] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value in ((), None, False):
                continue
            if isinstance(value, timedelta):
                out[f"{name}_seconds"] = int(value.total_seconds())
            elif isinstance(value, tuple):
                out[name] = list(value)
            else:
                out[name] = str(value) if isinstance(value, Decimal) else value
        return out


@dataclass(slots=True)
class Selection:
    """The offers left, and the reasons of the others. ``total`` counts all live offers asked."""

    kept: list[StoredOffer] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    total: int = 0


def select(
    offers: Iterable[StoredOffer], filters: Filters, catalogue: Catalogue, now: datetime
) -> Selection:
    """Apply *filters*; each left-out offer is counted once, under its first reason."""
    offers = list(offers)
    checks = _checks(filters, catalogue, now, _with_live_prices(offers, now))
    selection = Selection(total=len(offers))
    for offer in offers:
        reason = next((r for check in checks if (r := check(offer)) is not None), None)
        if reason is None:
            selection.kept.append(offer)
        else:
            selection.excluded[reason] += 1
    return selection


def is_stale(offer: StoredOffer, now: datetime) -> bool:
    """Whether the price has not been confirmed for longer than its source's time to live."""
    return now >= offer.stale_at


def _with_live_prices(offers: Iterable[StoredOffer], now: datetime) -> frozenset[tuple[str, str]]:
    """The (seller, GPU family) pairs that have a fresh price of their own which can be billed."""
    return frozenset(
        (o.provider, o.gpu_family)
        for o in offers
        if not (o.fallback or o.commitment_unknown or is_stale(o, now))
    )


Check = Callable[[StoredOffer], str | None]


def _checks(
    f: Filters, catalogue: Catalogue, now: datetime, live: frozenset[tuple[str, str]]
) -> list[Check]:
    """The checks in force, those that say most to a user first."""
    checks: list[Check] = []
    if f.gpus:
        wanted = frozenset().union(*(catalogue.select(name) for name in f.gpus))
        checks.append(lambda o: None if o.gpu_key in wanted else "other GPU")
    if not f.include_slices:
        checks.append(lambda o: "slice of a GPU" if o.is_slice else None)
    if f.providers:
        checks.append(lambda o: None if o.provider in f.providers else "other provider")
    checks.append(
        lambda o: (
            "list price where live ones are known"
            if o.fallback and (o.provider, o.gpu_family) in live
            else None
        )
    )
    if not f.include_stale:
        checks.append(lambda o: "stale" if is_stale(o, now) else None)
    if f.max_age is not None:
        oldest = now - f.max_age
        checks.append(lambda o: "older than asked" if o.seen_at < oldest else None)
    checks += [_market(f), _tier(f)]
    if f.available:
        checks.append(lambda o: None if o.availability == "yes" else _stock(o.availability))
    else:
        checks.append(lambda o: "not available" if o.availability == "no" else None)
    return checks + _place(f) + _hardware(f, catalogue)


def _stock(availability: str) -> str:
    return "not available" if availability == "no" else "availability not said"


def _market(f: Filters) -> Check:
    markets = f.markets or DEFAULT_MARKETS
    if ANY in markets:
        return lambda o: None
    return lambda o: None if o.market in markets else f"market {o.market}"


def _tier(f: Filters) -> Check:
    if ANY in f.tiers:
        return lambda o: None
    if f.tiers:
        return lambda o: None if o.tier in f.tiers else "other tier"
    return lambda o: None if not o.default_tiers or o.tier in o.default_tiers else f"tier {o.tier}"


def _place(f: Filters) -> list[Check]:
    checks: list[Check] = []
    if f.regions:
        patterns = [p.lower() for p in f.regions]

        def region(o: StoredOffer) -> str | None:
            if o.region is None:
                return "region not said"
            name = o.region.lower()
            return None if any(fnmatchcase(name, p) for p in patterns) else "other region"

        checks.append(region)
    if f.countries:
        countries = {c.upper() for c in f.countries}

        def country(o: StoredOffer) -> str | None:
            if o.country is None:
                return "country not said"
            return None if o.country in countries else "other country"

        checks.append(country)
    return checks


def _hardware(f: Filters, catalogue: Catalogue) -> list[Check]:
    checks = [
        _at_least(f.min_vram_gb, lambda o: o.vram_gb, "VRAM"),
        _at_least(f.min_ram_gib, lambda o: o.ram_gib, "RAM"),
        _at_least(f.min_vcpus, lambda o: o.vcpus, "vCPUs"),
        _at_least(f.min_disk_gb, _disk, "disk"),
        _at_least(f.min_network_mbps, lambda o: o.network_down_mbps, "network"),
    ]
    if f.min_gpus is not None:
        need = f.min_gpus
        checks.append(lambda o: None if o.gpu_count >= need else "too few GPUs")
    if f.interconnect:
        word = f.interconnect.lower()

        def link(o: StoredOffer) -> str | None:
            if o.interconnect is None:
                return "interconnect not said"
            return None if word in o.interconnect.lower() else "other interconnect"

        checks.append(link)
    if f.dedicated:
        checks.append(lambda o: _yes(o.dedicated, "shared machine", "dedicated or shared not said"))
    if f.ecc:

        def ecc(o: StoredOffer) -> str | None:
            spec = catalogue.spec(o.gpu_key)
            return _yes(spec.ecc if spec else None, "no ECC", "ECC not known")

        checks.append(ecc)
    return [check for check in checks if check is not None]


def _disk(o: StoredOffer) -> Decimal | None:
    return o.disk_gb if o.disk_gb is not None else o.disk_included_gb


def _yes(value: bool | None, no: str, unknown: str) -> str | None:
    return unknown if value is None else (None if value else no)


def _at_least(
    least: Decimal | None, value: Callable[[StoredOffer], Decimal | int | None], what: str
) -> Check | None:
    if least is None:
        return None

    def check(o: StoredOffer) -> str | None:
        have = value(o)
        if have is None:
            return f"{what} not said"
        return None if have >= least else f"too little {what}"

    return check
