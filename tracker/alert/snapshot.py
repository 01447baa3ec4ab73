"""Everything that an evaluation may look at, read in one go: two sides never see two moments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tracker.alert.rules import Rule
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.domain.rule.condition import CostDrops
from tracker.report.costing import End
from tracker.report.discounts import DiscountBook
from tracker.store import reads
from tracker.store.alert_inputs import Coverage, HeldOffer, coverage, held_offers, sold_before
from tracker.store.reads import StoredOffer

if TYPE_CHECKING:
    import psycopg

    from tracker.store.status import StoredProvider

# What has been stale, or held back by a gate, for so long counts as gone.
DOUBT_HOLDS = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Past:
    """What was known so many days ago, and who had been polled by then.

    ``sold``: who had which GPU on offer in the DOUBT_HOLDS before, as (source, GPU key).
    """

    at: datetime
    offers: tuple[StoredOffer, ...]
    coverage: Mapping[str, Coverage]
    sold: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Prices, doubts and polls of one moment.

    ``offers`` are all that are live, stale ones included, without those that a gate holds back by
    now; these are in ``held``. ``past`` is keyed by days. ``sources`` are the providers that are to
    be polled, where that is known, and ``off`` those of the others that are turned off. ``costing``
    makes the bills of a job otherwise than in full (see ``past_bills``).
    """

    offers: tuple[StoredOffer, ...]
    held: tuple[HeldOffer, ...]
    providers: Mapping[str, StoredProvider]
    discounts: DiscountBook
    catalogue: Catalogue
    past: Mapping[int, Past] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    costing: Callable[[Job, End | None], Any] | None = None

    @classmethod
    def read(
        cls,
        connection: psycopg.Connection[Any],
        rules: Iterable[Rule],
        catalogue: Catalogue,
        now: datetime,
        *,
        sources: Collection[str] = (),
        left_out: Collection[str] = (),
    ) -> Snapshot:
        """What *rules* need to be evaluated at *now*.

        *sources* are the providers that are polled, *left_out* those that should be and cannot.
        The connection must be in one transaction of isolation level repeatable read.
        """
        rules = list(rules)
        keys = frozenset[str]().union(*(k for rule in rules for k in rule.gpus.values()))
        held = held_offers(connection, keys)
        doubted = {h.offer.offer_id for h in held}
        live = reads.live_offers(connection, gpu_keys=keys)
        providers = {p.slug: p for p in reads.providers(connection)}
        return cls(
            offers=tuple(o for o in live if o.offer_id not in doubted),
            held=tuple(held),
            providers=providers,
            discounts=DiscountBook.at(reads.discounts(connection, now), now),
            catalogue=catalogue,
            past=_past(connection, rules, now),
            sources=frozenset(sources),
            off=frozenset(providers).difference(sources, left_out) if sources else frozenset(),
        )

    def interval(self, source: str) -> timedelta:
        """How often *source* is polled; zero when it never was."""
        provider = self.providers.get(source)
        return timedelta(seconds=(provider.every_seconds or 0) if provider else 0)

    def unasked(self, now: datetime, wanted: Collection[str] = ()) -> list[str]:
        """The sources (of *wanted*, if any are named) that nobody has tried to poll yet: at all,
        or after so long a pause that their last prices count as gone."""
        return sorted(
            name
            for name in self.sources
            if (not wanted or name in wanted)
            and (
                (p := self.providers.get(name)) is None
                or p.last_attempt_at is None
                or now - p.last_attempt_at >= DOUBT_HOLDS
            )
        )


def _past(
    connection: psycopg.Connection[Any], rules: Iterable[Rule], now: datetime
) -> dict[int, Past]:
    keys: dict[int, frozenset[str]] = {}
    for rule in rules:
        if isinstance(rule.condition, CostDrops):
            days = rule.condition.days
            keys[days] = keys.get(days, frozenset()).union(*rule.gpus.values())
    found = {}
    for days, wanted in keys.items():
        moment = now - timedelta(days=days)
        offers = reads.live_offers(connection, gpu_keys=wanted, as_of=moment)
        sold = sold_before(connection, wanted, moment, DOUBT_HOLDS)
        found[days] = Past(moment, tuple(offers), coverage(connection, moment), frozenset(sold))
    return found
