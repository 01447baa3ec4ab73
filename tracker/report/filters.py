"""Which offers a question is about, and how many it leaves out for which reason.

Every filter that an offer cannot answer (the provider does not say) leaves the offer out, under a
reason of its own, so that a footer can tell "with too little RAM" from "with RAM not stated".
A reason is a phrase that reads behind a number: "8 of other GPUs".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from tracker.domain.gpu import Catalogue
from tracker.domain.kind import Kind as RentedKind
from tracker.domain.kind import kind_of
from tracker.domain.mig import part_of
from tracker.domain.place import within
from tracker.report.ages import is_stale, known_at
from tracker.store.reads import Kind, Shelf, StoredOffer

# Ranked unless the user names markets: what one gets for sure once it is rented. Interruptible
# machines are another product and must be asked for.
DEFAULT_MARKETS = ("on_demand", "monthly", "reserved")
ANY = "any"

OTHER_GPUS = "of other GPUs"
REPLACED = "replaced by live prices"
REPLACED_IMPORT = "imported, and told by their sellers themselves"
NOT_WHOLE = "of sources whose single prices are not kept from then"
IMPORTED = "import-"  # what the names of sources that were imported begin with
RESOLD = "also sold by who runs them"
STALE = "stale"

NOTHING: Mapping[str, int] = MappingProxyType({})


class Filters(NamedTuple):
    """A question's constraints. Empty or None means "no constraint"; see each default.

    ``gpus`` are the names as asked (``H100``, ``A100-80GB``); ``markets`` and ``tiers`` empty mean
    the defaults (DEFAULT_MARKETS; each provider's default tiers), ``("any",)`` means all.
    """

    gpus: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()  # with their zones; exact or with * and ?, case-insensitive
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
    kinds: tuple[RentedKind, ...] = ()  # of what is rented (domain/kind.py)
    dedicated: bool = False
    ecc: bool = False
    available: bool = False
    max_age: timedelta | None = None
    include_stale: bool = False
    include_slices: bool = False

    def echo(self) -> dict[str, object]:
        """The constraints in force, as plain JSON values."""
        out: dict[str, object] = {}
        for name, value in self._asdict().items():
            if value in ((), None, False):
                continue
            if isinstance(value, timedelta):
                out[f"{name}_seconds"] = int(value.total_seconds())
            elif isinstance(value, tuple):
                out[name] = list(value)
            elif isinstance(value, Decimal):
                out[name] = int(value) if value == value.to_integral_value() else float(value)
            else:
                out[name] = value
        return out


@dataclass(slots=True)
class Selection:
    """The offers left, and the reasons of the others. ``total`` counts all live offers asked."""

    kept: list[StoredOffer] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    total: int = 0


def select(
    offers: Iterable[StoredOffer],
    filters: Filters,
    catalogue: Catalogue,
    now: datetime,
    *,
    total_offers: int | None = None,
    left_out: Mapping[str, int] = NOTHING,
    shelves: Collection[Shelf] = (),
) -> Selection:
    """Apply *filters*; each left-out offer is counted once, under its first reason.

    Not among *offers* may be those of other GPUs, which are known from *total_offers*, and those
    that ``select_kinds`` left out: *left_out*.

    *shelves* are those of ``reads.live_shelves``: fallback prices on them give way. They are not
    worked out of *offers*, which may be of a few GPUs or sellers only.

    What a reseller lists is left out last, where the one who runs the machine is among those kept.
    """
    offers = list(offers)
    checks = _checks(filters, catalogue, now, frozenset(shelves))
    selection = Selection(excluded=Counter(left_out), total=len(offers) + sum(left_out.values()))
    for offer in offers:
        for check in checks:
            reason = check(offer)
            if reason is not None:
                selection.excluded[reason] += 1
                break
        else:
            selection.kept.append(offer)
    leave_out_resold(selection, now)
    if total_offers is not None and total_offers > selection.total:
        selection.excluded[OTHER_GPUS] += total_offers - selection.total
    return selection


def reason_by(
    filters: Filters, catalogue: Catalogue, now: datetime,
    shelves: frozenset[Shelf] = frozenset(), *, of_kinds: bool = False,
) -> Callable[[StoredOffer], str | None]:  # fmt: skip
    """Why *filters* leave an offer out, looked at alone; None for one that they keep.

    *shelves* as in ``select``. *of_kinds*: what is looked at is of kinds that they keep.
    """
    checks = _checks(filters, catalogue, now, shelves, of_kinds=of_kinds)

    def reason(offer: StoredOffer) -> str | None:
        for check in checks:
            found = check(offer)
            if found is not None:
                return found
        return None

    return reason


def leave_out_resold(selection: Selection, now: datetime) -> None:
    """Count each machine once: a resold one gives way to the same one of its upstream provider.

    The same are those of one GPU, in one number, on one market, wherever they stand: a form factor
    that either side does not say may be that of the other. Only what has been kept counts, so
    that a question which leaves the upstream's own offers out can still be answered by a reseller.
    """
    if not any(o.upstream for o in selection.kept):
        return
    direct: dict[tuple[object, ...], set[str | None]] = {}
    for o in selection.kept:
        if o.upstream is None and o.source == o.provider and not is_stale(o, now):
            direct.setdefault(machine_of(o, o.provider), set()).add(o.form_factor)
    kept = []
    for o in selection.kept:
        forms = direct.get(machine_of(o, o.upstream)) if o.upstream else None
        if forms and (o.form_factor is None or None in forms or o.form_factor in forms):
            selection.excluded[RESOLD] += 1
        else:
            kept.append(o)
    selection.kept = kept


def machine_of(o: StoredOffer, run_by: str | None) -> tuple[object, ...]:
    """What two offers of one machine, which *run_by* runs, have in common."""
    part = part_of(o.native_id) if o.is_slice else None
    return run_by, o.gpu_family, o.vram_gb, o.is_slice, part, o.gpu_count, o.market


def select_kinds(kinds: Mapping[Kind, int], filters: Filters) -> tuple[list[Kind], Counter[str]]:
    """The kinds that *filters* may leave something of, and the reasons of the others.

    *kinds* are of the GPUs asked for. The reasons are those that ``select`` would count for each
    offer of such a kind, as it looks at nothing else before.
    """
    checks = _kind_checks(filters)
    kept, excluded = [], Counter[str]()
    for kind, count in kinds.items():
        reason = next(filter(None, (check(kind) for check in checks)), None)
        if reason is None:
            kept.append(kind)
        else:
            excluded[reason] += count
    return kept, excluded


def rented_kind(offer: StoredOffer) -> RentedKind:
    """What is rented: a share of a GPU, one, several, a machine or a cluster."""
    return kind_of(
        offer.gpu_count, is_slice=offer.is_slice, dedicated=offer.dedicated,
        family=offer.gpu_family, form_factor=offer.form_factor,
    )  # fmt: skip


def nothing_left(excluded: Counter[str]) -> str:
    """The line that says that no offer matches, and why not even a list price does."""
    if count := excluded[REPLACED]:
        prices = "1 list price" if count == 1 else f"{count:,} list prices"
        return f"no offer matches; {prices} replaced by live ones"
    return "no offer matches"


Check = Callable[[StoredOffer], str | None]
KindCheck = Callable[[StoredOffer | Kind], str | None]


def _checks(
    f: Filters, catalogue: Catalogue, now: datetime, live: frozenset[Shelf], *,
    of_kinds: bool = False,
) -> list[Check]:  # fmt: skip
    """The checks in force. What live prices replace and age come last, in this order: offers
    counted there would have matched otherwise."""
    checks: list[Check] = []
    if f.gpus:
        wanted = frozenset().union(*(catalogue.select(name) for name in f.gpus))
        checks.append(lambda o: None if o.gpu_key in wanted else OTHER_GPUS)
    if not of_kinds:
        checks += _kind_checks(f)
    if f.available:
        checks.append(lambda o: None if o.availability == "yes" else _stock(o.availability))
    else:
        checks.append(lambda o: _stock("no") if o.availability == "no" else None)
    checks += _place(f) + _hardware(f, catalogue)
    if live:
        checks.append(lambda o: _replaced(o) if (o.provider, o.market) in live else None)
    if f.max_age is not None:
        oldest = now - f.max_age
        checks.append(lambda o: "older than asked for" if _older(o, oldest) else None)
    if not f.include_stale:
        checks.append(lambda o: STALE if is_stale(o, now) else None)
    return checks


def _older(o: StoredOffer, oldest: datetime) -> bool:
    seen_at = known_at(o)
    return seen_at is None or seen_at < oldest


def _replaced(o: StoredOffer) -> str | None:
    if o.fallback:
        return REPLACED
    return REPLACED_IMPORT if gives_way(o) else None


def gives_way(o: StoredOffer) -> bool:
    """Whether what its seller tells itself counts instead (docs/adr/0020)."""
    return o.fallback or o.source.startswith(IMPORTED)


def _kind_checks(f: Filters) -> list[KindCheck]:
    """The first checks but for the GPU: those that a kind can answer."""
    checks: list[KindCheck] = []
    if not f.include_slices:
        checks.append(lambda o: "sold as a slice of a GPU" if o.is_slice else None)
    if f.providers:
        checks.append(lambda o: None if o.provider in f.providers else "of other providers")
    return [*checks, _market(f), _tier(f)]


def _stock(availability: str) -> str:
    return "not in stock" if availability == "no" else "with stock not stated"


def _market(f: Filters) -> KindCheck:
    markets = f.markets or DEFAULT_MARKETS
    if ANY in markets:
        return lambda o: None
    return lambda o: None if o.market in markets else f"on the {o.market.replace('_', '-')} market"


def _tier(f: Filters) -> KindCheck:
    if ANY in f.tiers:
        return lambda o: None
    if f.tiers:
        return lambda o: None if o.tier in f.tiers else "of other tiers"

    def tier(o: StoredOffer | Kind) -> str | None:
        # Who typed a price has chosen it already; the tiers are for what a market throws in.
        typed = o.source != o.provider
        usual = typed or not o.default_tiers or o.tier in o.default_tiers
        return None if usual else f"of tier {o.tier}"

    return tier


def _place(f: Filters) -> list[Check]:
    checks: list[Check] = []
    if f.regions:
        inside = within(f.regions)

        def region(o: StoredOffer) -> str | None:
            if o.region is None:
                return "with region not stated"
            return None if inside(o.region) else "in other regions"

        checks.append(region)
    if f.countries:
        countries = {c.upper() for c in f.countries}

        def country(o: StoredOffer) -> str | None:
            if o.country is None:
                return "with country not stated"
            return None if o.country in countries else "in other countries"

        checks.append(country)
    return checks


def _hardware(f: Filters, catalogue: Catalogue) -> list[Check]:
    checks = [
        _at_least(f.min_vram_gb, lambda o: o.vram_gb, "VRAM"),
        _at_least(f.min_ram_gib, lambda o: o.ram_gib, "RAM"),
        _at_least(f.min_vcpus, lambda o: o.vcpus, "vCPUs", "few"),
        _at_least(f.min_disk_gb, _disk, "disk"),
        _at_least(f.min_network_mbps, lambda o: o.network_down_mbps, "network speed"),
    ]
    if f.min_gpus is not None:
        need = f.min_gpus
        checks.append(lambda o: None if o.gpu_count >= need else "with too few GPUs")
    if f.interconnect:
        word = f.interconnect.lower()

        def link(o: StoredOffer) -> str | None:
            if o.interconnect is None:
                return "with interconnect not stated"
            return None if word in o.interconnect.lower() else "with another interconnect"

        checks.append(link)
    if f.kinds:
        checks.append(lambda o: None if rented_kind(o) in f.kinds else "of other kinds")
    if f.dedicated:
        checks.append(
            lambda o: _yes(o.dedicated, "on shared machines", "not stated to be dedicated")
        )
    if f.ecc:

        def ecc(o: StoredOffer) -> str | None:
            spec = catalogue.spec(o.gpu_key)
            return _yes(spec.ecc if spec else None, "without ECC", "with ECC not known")

        checks.append(ecc)
    return [check for check in checks if check is not None]


def _disk(o: StoredOffer) -> Decimal | None:
    return o.disk_gb if o.disk_gb is not None else o.disk_included_gb


def _yes(value: bool | None, no: str, unknown: str) -> str | None:
    return unknown if value is None else (None if value else no)


def _at_least(
    least: Decimal | None, value: Callable[[StoredOffer], Decimal | int | None], what: str,
    too: str = "little",
) -> Check | None:  # fmt: skip
    if least is None:
        return None

    def check(o: StoredOffer) -> str | None:
        have = value(o)
        if have is None:
            return f"with {what} not stated"
        return None if have >= least else f"with too {too} {what}"

    return check
