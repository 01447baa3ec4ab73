"""Negotiated percentages off list prices, as typed into a price book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from tracker.domain.terms import Discount
from tracker.store.reads import StoredOffer


class DiscountBook(NamedTuple):
    """The discounts in force. The one that names most (GPU, then market) wins; never added up."""

    by_provider: Mapping[str, list[Discount]] = MappingProxyType({})

    @classmethod
    def at(cls, discounts: Iterable[Discount], now: datetime) -> DiscountBook:
        """Those of *discounts* that hold at *now*: neither expired nor told later."""
        book: dict[str, list[Discount]] = {}
        for d in discounts:
            known = d.since is None or d.since <= now
            if known and d.valid_as_of <= now.date() and now < d.expires_at:
                book.setdefault(d.provider, []).append(d)
        return cls(book)

    def percent_for(self, offer: StoredOffer) -> Decimal | None:
        """The percentage off *offer*'s price, or None."""
        found = self.discount_for(offer)
        return None if found is None else found.percent

    def discount_for(self, offer: StoredOffer) -> Discount | None:
        """What is taken off *offer*'s price, or None: only off prices that its seller told itself.

        A typed price is never discounted again.
        """
        of_seller = self.by_provider.get(offer.provider)
        if not of_seller or offer.valid_as_of is not None or offer.source != offer.provider:
            return None
        fitting = [
            d
            for d in of_seller
            if d.gpu in (None, offer.gpu_key, offer.gpu_family) and d.market in (None, offer.market)
        ]
        if not fitting:
            return None
        return max(
            fitting, key=lambda d: (d.gpu == offer.gpu_key, d.gpu is not None,
                                    d.market is not None, d.valid_as_of, d.percent)
        )  # fmt: skip
