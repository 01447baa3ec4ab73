"""The exchange rates of one poll: the bank's of today, or the last ones that were kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from tracker import registry
from tracker.domain.normalize import FxRate
from tracker.domain.offer import ListedOffer
from tracker.fx import MAX_AGE, current, fetch_rates
from tracker.provider import (
    FetchError,
    HttpClient,
    ParseError,
    Payload,
    Provider,
    ProviderConfig,
)

if TYPE_CHECKING:
    from tracker.collect.collector import Collector

log = logging.getLogger(__name__)

# A fixing moves by tenths of a per cent a day. One that differs by more from a fixing of the last
# MAX_AGE is a mix-up (of two currencies, of a decimal point) and would make all prices in it wrong.
_LIKELY = Decimal("0.8"), Decimal("1.25")


class Rates(Protocol):
    """Where rates are kept from one poll to the next (``tracker.store.exchange_rates``)."""

    def keep(self, rates: Mapping[str, FxRate]) -> None:
        """Write *rates*. Raises StoreError."""
        ...

    def latest(self, first: date, last: date) -> Mapping[str, FxRate]:
        """The newest of each currency, fixed on *first* to *last*. Raises StoreError."""
        ...


def foreign(offers: Iterable[ListedOffer]) -> frozenset[str]:
    """The currencies of *offers* that are not the dollar."""
    return frozenset(offer.price.currency.strip().upper() for offer in offers) - {"USD"}


async def rates_for(
    currencies: frozenset[str], http: HttpClient, kept: Rates | None, today: date
) -> tuple[Mapping[str, FxRate], str | None]:
    """Rates for *currencies*, and why they could not be had (None: they could, or the bank was
    reached and has no such currency).

    What the bank says is kept, but for a rate far from the newest that was kept, which is not
    believed. Where it cannot be reached, or says nothing believable of one of *currencies*, the
    newest kept fixing counts, if it is no older than MAX_AGE; rates older than that are none.
    Raises StoreError.
    """
    found: Mapping[str, FxRate] = {}
    problem: str | None = None
    try:
        found = current(await fetch_rates(http), today)
    except (FetchError, ValueError, ArithmeticError) as error:
        problem = str(error)
    if kept is None:
        return found, problem
    before = await asyncio.to_thread(kept.latest, today - MAX_AGE, today)
    if found:
        found = _likely(found, before)
        await asyncio.to_thread(kept.keep, found)
    if currencies <= found.keys():
        return found, None
    found = {**before, **found}
    if problem is not None and currencies <= found.keys():
        oldest = min(found[currency].on for currency in currencies)
        log.warning("exchange rates of %s are used: %s", oldest, problem)
        problem = None
    return found, problem


def _likely(found: Mapping[str, FxRate], before: Mapping[str, FxRate]) -> Mapping[str, FxRate]:
    """*found* without the rates that are far from those *before*."""
    kept = {}
    for currency, rate in found.items():
        last = before.get(currency, rate)
        if _LIKELY[0] <= rate.usd_per_unit / last.usd_per_unit <= _LIKELY[1]:
            kept[currency] = rate
        else:
            log.warning(
                "exchange rates: %s of %s is not believed: $%.6g, and $%.6g on %s",
                currency, rate.on, rate.usd_per_unit, last.usd_per_unit, last.on,
            )  # fmt: skip
    return kept


async def rates_once(
    collector: Collector, provider: Provider[Any], config: ProviderConfig,
    payloads: Sequence[Payload], deadline_s: float,
) -> Mapping[str, FxRate]:  # fmt: skip
    """Today's exchange rates where *payloads* hold prices in other currencies; none without.

    None either for what cannot be parsed or where there are no rates: for looking, not recording.
    """
    try:
        currencies = foreign((await asyncio.to_thread(registry.parse, provider, payloads)).offers)
    except ParseError:
        return {}
    if not currencies:
        return {}
    async with collector.client(provider, config, deadline_s) as http:
        found, problem = await rates_for(
            currencies, http, collector.rates, collector.utc_now().date()
        )
    if problem is not None:
        log.warning("no exchange rates: %s", problem)
    return found
