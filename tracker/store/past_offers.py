"""What offers of history are, by their ids, and what they cost in their own currency."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tracker.store.stored import IDENTITY, Connection, StoredOffer, fetch, sellers_by_id, told_by

_NEVER = datetime.max.replace(tzinfo=UTC)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_OPEN: dict[str, Any] = dict.fromkeys(StoredOffer._fields) | {
    "price_native": Decimal(0), "price_micro_usd": 0, "availability": "unknown", "flags": (),
    "fallback": False, "valid_from": _LONG_AGO, "seen_at": _LONG_AGO, "stale_at": _NEVER,
}  # fmt: skip


def offers_by_id(connection: Connection, ids: Collection[int]) -> dict[int, StoredOffer]:
    """The offers *ids* with what never changes of them.

    Their prices are 0 and stand for none, and what history does not keep is unknown.
    """
    return {o.offer_id: o for o in _identities(connection, "id = ANY (%(of)s)", list(ids))}


def offers_by_key(connection: Connection, keys: Collection[bytes]) -> dict[bytes, StoredOffer]:
    """Those of *keys* that were ever offered at an accepted price, as ``offers_by_id`` has them."""
    return {o.key: o for o in _identities(connection, "key = ANY (%(of)s)", list(keys))}


def _identities(connection: Connection, which: str, of: list[Any]) -> Iterator[StoredOffer]:
    known_by = sellers_by_id(connection)
    columns = ", ".join(("id", "key", *IDENTITY))
    for id_, key, *identity, source_id, seller_id in fetch(
        connection,
        f"SELECT {columns}, source_id, seller_id FROM offer WHERE {which}",
        {"of": of},
    ):
        source, seller = known_by[source_id], known_by[seller_id]
        told = told_by(source, seller)
        fields = _OPEN | dict(zip(IDENTITY, identity, strict=True)) | {
            "offer_id": id_, "key": key, "provider": seller.slug, "source": source.slug,
            "marketplace": told.marketplace, "default_tiers": told.default_tiers,
        }  # fmt: skip
        yield StoredOffer(**fields)


def native_prices(
    connection: Connection, ids: Collection[int], key_ids: Collection[int]
) -> dict[tuple[int, int], tuple[Decimal, Decimal | None]]:
    """What the offers *ids* cost in their own unit and currency, with its rate (None: USD).

    By offer and price in micro-USD: a month's price is no multiple of the latter. *key_ids* are
    their floor keys, as far as they are known.
    """
    tables = {
        "price_span": "", "offer_now": "", "floor_now": "",
        "price_floor": " AND key_id = ANY (%(key_ids)s)",
    }  # fmt: skip
    rows = fetch(
        connection,
        " UNION ".join(
            f"SELECT offer_id, price_micro_usd, price_native, fx_rate FROM {table}"
            f" WHERE offer_id = ANY (%(ids)s){where}"
            for table, where in tables.items()
        )
        + " ORDER BY 1, 2, 3 DESC, 4 DESC",
        {"ids": list(ids), "key_ids": list(key_ids)},
    )
    return {(offer_id, micro): (native, rate) for offer_id, micro, native, rate in rows}
