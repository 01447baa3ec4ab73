"""The offers that a question is about, read without most of those that it leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.report.filters import NOT_WHOLE, Filters, gives_way, select_kinds
from tracker.store import reads
from tracker.store.beginnings import not_whole_at
from tracker.store.reads import Shelf, StoredOffer

if TYPE_CHECKING:
    import psycopg

    from tracker.report.prepared import View


class Asked(NamedTuple):
    """Offers, and what is known of those that were not read.

    ``left_out`` counts those of the GPUs asked for, by reason; ``total`` counts all offers of all
    GPUs. ``shelves`` are those of ``reads.live_shelves``. ``prepared``: what was worked out of
    these offers before, where they are kept.
    """

    offers: list[StoredOffer]
    total: int
    left_out: Counter[str]
    shelves: frozenset[Shelf]
    prepared: View | None = None


def ask(
    connection: psycopg.Connection[Any],
    filters: Filters,
    gpu_keys: Collection[str] | None,
    now: datetime,
    as_of: datetime | None = None,
) -> Asked:
    """Read what *filters* are about: offers of *gpu_keys* (None: of all GPUs), now or *as_of*."""
    kinds, left_out = None, Counter[str]()
    if as_of is None:
        kinds, left_out = select_kinds(reads.live_kinds(connection, gpu_keys=gpu_keys), filters)
    offers = reads.live_offers(connection, gpu_keys=gpu_keys, kinds=kinds, as_of=as_of)
    if as_of is not None and (lacking := not_whole_at(connection, as_of)):
        # Some of them are left; whether they were the cheapest ones nobody knows.
        whole = [offer for offer in offers if offer.source not in lacking]
        left_out[NOT_WHOLE] += len(offers) - len(whole)
        offers = whole
    told = {offer.provider for offer in offers if gives_way(offer)}
    return Asked(
        offers,
        reads.count_live_offers(connection, as_of=as_of),
        left_out,
        reads.live_shelves(connection, sellers=told, now=now, as_of=as_of),
    )
