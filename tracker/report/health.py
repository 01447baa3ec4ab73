"""How each provider stands: its last good poll, its failures, and what its feed hides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.terms import OWN
from tracker.store import reads, schedule, status

if TYPE_CHECKING:
    import psycopg

    from tracker.store.status import StoredPoll, StoredProvider

# List prices may stand still for months; a feed whose every byte does is more likely dead.
UNCHANGED_ALARM = timedelta(days=14)

# Silent for so long a provider is gone rather than down (``[quality] retired_after_days``).
RETIRED_AFTER = timedelta(days=30)

# A poll with less than the one part of the offers that are usual, or more than the other, is worth
# a look.
LOW_COVERAGE, HIGH_COVERAGE = Decimal("0.8"), Decimal(5)


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """One provider's row of ``gpucost providers``. ``last_poll`` may be a failed one.

    ``stale``: it has no prices that may be ranked, since they are too old or it never gave any.
    ``retired``: it has been stale for so long that nobody should wait for it. ``usual_offers`` is
    the median of its own past (``status.own_past``); None where there is too little of that.
    """

    provider: StoredProvider
    last_poll: StoredPoll | None
    stale: bool
    unchanged_since: datetime | None  # set when the content has not moved for suspiciously long
    retired: bool = False
    latest_offers: int | None = None  # of its latest accepted poll
    usual_offers: int | None = None
    planned_at: datetime | None = None  # when the daemon meant to ask next, as it was set last

    @property
    def next_due_at(self) -> datetime | None:
        """When it is to be asked next: as the daemon has set since the last try, else an interval
        after the last good poll. None where neither is known."""
        p = self.provider
        tried = max(filter(None, (p.last_attempt_at, p.last_ok_at)), default=None)
        if self.planned_at is not None and (tried is None or self.planned_at > tried):
            return self.planned_at
        if p.last_ok_at is None or p.every_seconds is None:
            return None
        return p.last_ok_at + timedelta(seconds=p.every_seconds)

    @property
    def coverage(self) -> Decimal | None:
        """Offers of the latest accepted poll / those that are usual, to 3 places; may be above 1.
        None where either is not known."""
        if self.latest_offers is None or not self.usual_offers:
            return None
        return round(Decimal(self.latest_offers) / self.usual_offers, 3)

    def as_dict(self, now: datetime) -> dict[str, Any]:
        """Plain values for output."""
        p = self.provider
        age = None if p.last_ok_at is None else int((now - p.last_ok_at).total_seconds())
        rejects = (self.last_poll.rejects or {}) if self.last_poll else {}
        return {
            "provider": p.slug,
            "kind": p.kind,
            "last_ok_at": p.last_ok_at,
            "age_seconds": age,
            "stale": self.stale,
            "last_status": p.last_status,
            "last_error": p.last_error,
            "consecutive_failures": p.consecutive_failures,
            "offers": p.offers,
            "quarantined": p.quarantined,
            "rejected": self.last_poll.rejected if self.last_poll else None,
            "rejects": {reason: found.get("count") for reason, found in rejects.items()},
            "unmapped": p.unmapped,
            "unchanged_since": self.unchanged_since,
            "every_seconds": p.every_seconds,
            "next_due_at": self.next_due_at,
            "usual_offers": self.usual_offers,
            "coverage": self.coverage,
            "retired": self.retired,
            "reachable": None if p.last_attempt_at is None else not p.consecutive_failures,
        }


# What the built-in providers' facts name, and any.
_TIERS = frozenset(
    ("any", "standard", "secure", "community", "verified", "unverified", "dedicated", "vps")
)


def check_providers(connection: psycopg.Connection[Any], names: Iterable[str]) -> None:
    """Raise UnknownProvider, with the nearest, for a name that neither sells nor can be polled."""
    names = tuple(names)
    if not names:
        return
    known = {OWN, *(provider.slug for provider in reads.providers(connection))}
    if known.issuperset(names):
        return
    import difflib

    from tracker import registry

    known |= set(registry.names())
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {_list(known)}"
            raise registry.UnknownProvider(f"no provider is called {name!r}; {hint}")


def check_tiers(connection: psycopg.Connection[Any], names: Iterable[str]) -> None:
    """Raise UnknownTier, with the nearest, for a tier that no provider has."""
    asked = tuple(name for name in names if name not in _TIERS)
    if not asked:
        return
    known = {*_TIERS, *reads.tiers(connection)}
    for name in asked:
        if name not in known:
            import difflib

            from tracker import registry

            near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {_list(known)}"
            raise registry.UnknownTier(f"no provider has a tier {name!r}; {hint}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def provider_health(
    connection: psycopg.Connection[Any], now: datetime, *, retired_after: timedelta = RETIRED_AFTER
) -> list[ProviderHealth]:
    """Every provider ever polled, and every seller known from a price book, by name."""
    health, past = [], status.own_past(connection)
    planned = {row.provider: row.next_due_at for row in schedule.standings(connection)}
    for provider in reads.providers(connection):
        latest = reads.polls(connection, provider.slug, limit=1)
        own = past.get(provider.slug)
        health.append(
            ProviderHealth(
                provider, latest[0] if latest else None, _stale(provider, now),
                _unchanged(provider, now), _retired(provider, now, retired_after),
                own.latest if own else None, own.usual if own else None,
                planned.get(provider.slug),
            )
        )  # fmt: skip
    return health


def _retired(provider: StoredProvider, now: datetime, after: timedelta) -> bool:
    """Whether it has been asked and silent for longer than *after* and its own time to live."""
    if provider.last_ok_at is None or not _stale(provider, now):
        return False
    return now - provider.last_ok_at >= after


def _stale(provider: StoredProvider, now: datetime) -> bool:
    if provider.last_ok_at is None:
        return provider.last_attempt_at is not None  # asked, and never answered
    if provider.ttl_seconds is None:
        return False
    return now >= provider.last_ok_at + timedelta(seconds=provider.ttl_seconds)


def _unchanged(provider: StoredProvider, now: datetime) -> datetime | None:
    since = provider.content_since
    typed = provider.facts.get("key") == "none" and provider.slug == "pricebook"
    return since if since is not None and not typed and now - since > UNCHANGED_ALARM else None
