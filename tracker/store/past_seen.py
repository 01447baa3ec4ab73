"""When prices of a past moment had last been confirmed, as far as that is on record.

Spans keep between which moments a price was known, not every confirmation within them:

- of a source that was polled, a complete poll confirms all that stays open, so that the last one
  before the moment is what the answer of then went by; a partial poll counts where it began a span;
- of an import of whole listings, the listings are on record in the same way;
- of any other import only the first observation of a span is. As long as that one still holds it
  is the last that is known; after that there was another, and nobody knows when: None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tracker.store.stored import Connection, Seller, StoredOffer, fetch

_IMPORT = "import"
_LISTINGS_SQL = (
    "SELECT r.source_id, k.seller, max(at::timestamptz) FROM import_run r,"
    " jsonb_each(r.position -> 'moments') AS k (seller, moments),"
    " jsonb_array_elements_text(k.moments) AS at"
    " WHERE r.state = 'done' AND r.source_id = ANY (%(sources)s)"
    " AND at::timestamptz <= %(as_of)s GROUP BY 1, 2"
)
_POLLS_SQL = (
    "SELECT s.id, (SELECT max(l.polled_at) FROM poll l WHERE l.provider_id = s.id"
    " AND l.status = 'complete' AND l.polled_at <= %(as_of)s)"
    " FROM unnest(%(sources)s::integer[]) AS s (id)"
)


def seen(
    connection: Connection,
    offers: Sequence[StoredOffer],
    sellers: Mapping[int, Seller],
    as_of: datetime,
) -> list[StoredOffer]:
    """*offers* as of that moment, each with when it had last been confirmed (None: not known)."""
    told = {o.source for o in offers}
    sources = {id_: seller for id_, seller in sellers.items() if seller.slug in told}
    values = {"sources": list(sources), "as_of": as_of}
    polled = {
        sources[id_].slug: at for id_, at in fetch(connection, _POLLS_SQL, values) if at is not None
    }
    imports = {s.slug: s.ttl for s in sources.values() if s.kind == _IMPORT}
    listed: dict[tuple[str, str], datetime] = {}
    if imports:
        listed = {
            (sources[id_].slug, seller): at
            for id_, seller, at in fetch(connection, _LISTINGS_SQL, values)
        }

    def last(o: StoredOffer) -> datetime | None:
        at = polled.get(o.source) or listed.get((o.source, o.provider))
        if at is not None:
            return max(at, o.valid_from)
        if o.source in imports and as_of - o.valid_from > imports[o.source]:
            return None
        return o.valid_from

    new = tuple.__new__
    return [new(StoredOffer, (*o[:-2], last(o), o.stale_at)) for o in offers]
