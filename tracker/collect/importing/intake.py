"""From what a file says to what is staged: offers identified, prices judged, everything counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from tracker.collect.importing.days import Days
from tracker.collect.importing.observation import (
    OUTSIDE,
    SAMPLE_LENGTH,
    Observation,
    Refused,
    Report,
    Snapshot,
)
from tracker.collect.importing.rules import COMPONENT, is_component, refusal
from tracker.domain.gpu import Catalogue, Gpu
from tracker.domain.money import PerMachineHour, to_micro_usd
from tracker.domain.normalize import FxRate, Unnormalised, normalise
from tracker.domain.offer import ListedOffer, Market, Offer
from tracker.domain.quality import Known, Rules, assess
from tracker.store.imports import StagedMoment, StagedPrice
from tracker.store.poll_types import MAX_MICRO_USD

# Many independent hosts: of many asks one is bogus.
MARKETPLACES = frozenset({"vastai", "tensordock", "salad"})
UNMAPPED = "GPU name not in the catalogue"
BROKEN = "a listing with less than half of the offers of the one before, taken for a broken one"
OUT_OF_RANGE = "price out of range"
HELD = "held by the quality gate"
_CACHED = 50_000  # offers kept as objects; only a file of more pays for looking at one twice


class Entry(NamedTuple):
    """An offer that has been identified: its number among the staged ones."""

    n: int
    offer: Offer


@dataclass(slots=True)
class Taken:
    """What one file adds to the staging tables."""

    offers: list[tuple[int, Offer]] = field(default_factory=list)
    prices: list[StagedPrice] = field(default_factory=list)
    moments: list[StagedMoment] = field(default_factory=list)


def sample_of(o: Observation) -> str:
    """An observation in one line: where it stood, and what it says."""
    listed = o.offer
    text = (
        f"{o.where}: {listed.seller} {listed.source_id}, {listed.gpu_count} x {listed.gpu_name},"
        f" {o.amount:f} {listed.price.currency} per {listed.price.unit}, {listed.market}"
        f" {listed.region or ''} at {o.at:%Y-%m-%dT%H:%MZ}"
    )
    return text[:SAMPLE_LENGTH]


class Intake:
    """Judges observations one file after the other.

    *slug* is the source that they are recorded under; *numbers* are the offers staged before (by
    key). *listings*: files are whole listings of sellers, to be judged as polls are. *state* is
    what the judgement of a listing needs of earlier ones; it survives an interruption.
    """

    def __init__(
        self, catalogue: Catalogue, rules: Rules, slug: str, report: Report, *,
        listings: bool = False, numbers: Mapping[bytes, int] | None = None,
        state: Mapping[str, Any] | None = None, since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:  # fmt: skip
        self.report = report
        self.state: dict[str, list[int]] = {k: list(v) for k, v in (state or {}).items()}
        self._catalogue = catalogue
        self._rules = rules
        self._slug = slug
        self._listings = listings
        self._numbers = dict(numbers or {})
        self._since, self._until = since, until
        self._entries: dict[tuple[str | None, ListedOffer, Gpu | None], Entry | str] = {}
        self._days: Days | None = None

    def doubt_the_whole(self) -> None:
        """Have ``doubt`` look at all that is taken, where there is no database to ask."""
        self._days = Days()

    def doubt(self) -> None:
        """Count as refused what is far below all others, now that everything has been taken."""
        if self._days is not None:
            self._days.doubt(self.report)

    def take(self, snapshot: Snapshot) -> Taken:
        """Judge one file. Everything in it is counted in the report, kept or refused."""
        self.report.rows += snapshot.rows
        self.report.refuse(snapshot.refused)
        taken = Taken()
        new: list[tuple[int, Offer]] = []
        judged: list[tuple[Observation, Entry, int]] = []
        for o in snapshot.observations:
            found = self._judge(o, new)
            if isinstance(found, str):
                shown = found not in self.report.samples
                self.report.refuse([Refused(found, sample_of(o) if shown else "")])
            else:
                judged.append((o, *found))
        if self._listings:
            judged = self._as_listings(judged)
        for o, entry, micro_usd in judged:
            taken.prices.append(self._keep(o, entry, micro_usd))
        taken.offers = new
        sellers = {entry.offer.provider for _, entry, _ in judged}
        taken.moments = [
            StagedMoment(self._slug, seller, at)
            for seller, at in snapshot.moments
            if seller in sellers and self._inside(at)
        ]
        return taken

    def _inside(self, at: datetime) -> bool:
        return (self._since is None or at >= self._since) and (
            self._until is None or at < self._until
        )

    def _judge(self, o: Observation, new: list[tuple[int, Offer]]) -> tuple[Entry, int] | str:
        """The offer and its price in micro-USD per machine-hour, or why it is not believed."""
        if not self._inside(o.at):
            return OUTSIDE
        entry = self._entry(o, new)
        if isinstance(entry, str):
            return entry
        offer = entry.offer
        if o.micro_usd is not None:
            return (entry, o.micro_usd) if 0 < o.micro_usd <= MAX_MICRO_USD else OUT_OF_RANGE
        usd = self._usd(o, offer)
        micro_usd = to_micro_usd(usd)
        if not 0 < micro_usd <= MAX_MICRO_USD:
            return OUT_OF_RANGE
        problem = refusal(offer.provider, offer.listed, offer.gpu, usd, self._catalogue)
        return problem or (entry, micro_usd)

    @staticmethod
    def _usd(o: Observation, offer: Offer) -> Decimal:
        price = replace(offer.listed.price, amount=o.amount)
        return price.machine_hour(offer.listed.gpu_count, o.usd_per_unit or Decimal(1)).usd

    def _entry(self, o: Observation, new: list[tuple[int, Offer]]) -> Entry | str:
        named = o.source, o.offer, o.gpu  # of our own exports, the words alone do not tell the GPU
        known = self._entries.get(named)
        if known is None:
            known = self._identify(o, new)
            if len(self._entries) >= _CACHED:
                self._entries.clear()
            self._entries[named] = known
        return known

    def _identify(self, o: Observation, new: list[tuple[int, Offer]]) -> Entry | str:
        source = o.source or self._slug
        if o.gpu is not None:
            price = PerMachineHour(Decimal(0))  # each observation brings its own
            offer = Offer(source, o.offer.seller or source, o.gpu, price, o.offer)
        else:
            if is_component(o.offer.source_id):
                return COMPONENT
            day = o.fx_date or o.at.date()
            fx = {o.offer.price.currency: FxRate(o.usd_per_unit or Decimal(1), day)}
            found = normalise(source, o.offer, self._catalogue, fx)
            if isinstance(found, Unnormalised):
                return UNMAPPED if found.unmapped else found.reason
            offer = found
        n = self._numbers.get(offer.key)
        if n is None:
            n = self._numbers[offer.key] = len(self._numbers) + 1
            new.append((n, offer))
        return Entry(n, offer)

    def _keep(self, o: Observation, entry: Entry, micro_usd: int) -> StagedPrice:
        offer = entry.offer
        self.report.keep(o.at, offer.provider, offer.gpu.key)
        listed = offer.listed.market == Market.ON_DEMAND and not offer.gpu.is_slice
        if self._days is not None and listed:
            per_gpu = int(micro_usd / offer.listed.gpu_count)
            self._days.add(entry.n, offer.gpu, offer.provider, o.at.date(), per_gpu)
        return StagedPrice(
            entry.n, o.at, o.until, o.exact, o.amount, micro_usd, o.usd_per_unit, o.fx_date,
            o.valid_as_of, o.expires_at, o.fallback,
        )  # fmt: skip

    # -- whole listings ------------------------------------------------------------------------

    def _as_listings(
        self, judged: Sequence[tuple[Observation, Entry, int]]
    ) -> list[tuple[Observation, Entry, int]]:
        """Those that pass the gates of a poll, seller by seller."""
        by_seller: dict[str, list[tuple[Observation, Entry, int]]] = defaultdict(list)
        for item in judged:
            by_seller[item[1].offer.provider].append(item)
        kept: list[tuple[Observation, Entry, int]] = []
        for seller, items in by_seller.items():
            kept += self._as_poll(seller, items)
        return kept

    def _as_poll(
        self, seller: str, items: Sequence[tuple[Observation, Entry, int]]
    ) -> list[tuple[Observation, Entry, int]]:
        offers = [self._as_polled(seller, *item) for item in items]
        # The first number is that of the last whole listing, the others of broken ones since.
        before = self.state.get(seller, [])
        known = Known(complete_count=before[0] if before else None, shrunk_counts=before[:0:-1])
        outcome = assess(
            offers, known, self._catalogue, self._rules,
            marketplace=seller in MARKETPLACES, complete=True,
        )  # fmt: skip
        if outcome.verdict == "shrunk":
            self.state[seller] = [*before, len(outcome.accepted)]
            self.report.refuse(Refused(BROKEN, sample_of(item[0])) for item in items)
            return []
        self.state[seller] = [len(outcome.accepted)]
        held = {(h.offer.key, h.offer.price): h for h in outcome.held}
        kept: dict[tuple[bytes, PerMachineHour], tuple[Observation, Entry, int]] = {}
        for offer, item in zip(offers, items, strict=True):
            problem = held.get((offer.key, offer.price))
            if problem is None:
                kept.setdefault((offer.key, offer.price), item)
            else:
                sample = f"{problem.reason}: {sample_of(item[0])}"[:SAMPLE_LENGTH]
                self.report.refuse([Refused(f"{HELD} {problem.gate}", sample)])
        return list(kept.values())

    def _as_polled(self, seller: str, o: Observation, entry: Entry, micro_usd: int) -> Offer:
        """The offer as if its seller had been polled: that is how the gates judge best."""
        listed = replace(
            entry.offer.listed, price=replace(entry.offer.listed.price, amount=o.amount)
        )
        price = PerMachineHour(self._usd(o, entry.offer))
        return Offer(seller, seller, entry.offer.gpu, price, listed)
