"""What the database knows of an import's offers: providers, ids, and what was staged before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracker.store import poll_log
from tracker.store.bulk.cells import Flags, Ints
from tracker.store.imports import KIND, Connection


@dataclass(slots=True)
class Met:
    """The providers that an import has met: their ids, and those who have offers already."""

    ids: dict[str, int] = field(default_factory=dict)
    with_offers: set[str] = field(default_factory=set)


def meet(connection: Connection, met: Met, sources: set[str], sellers: set[str]) -> None:
    """Make the rows of providers that are new, like the recorder does, and learn their ids."""
    missing = (sources | sellers) - met.ids.keys()
    if not missing:
        return
    with connection.transaction(), connection.cursor() as cursor:
        poll_log.make_providers(cursor, missing, dict.fromkeys(sources, KIND))
        cursor.execute(
            "SELECT slug, id, EXISTS (SELECT FROM offer o WHERE o.source_id = p.id)"
            " FROM provider p WHERE slug = ANY (%s)",
            (sorted(missing),),
        )
        for slug, id_, has_offers in cursor:
            met.ids[slug] = id_
            if has_offers:
                met.with_offers.add(slug)


def ids_for(
    connection: Connection, keys: Sequence[bytes], *, looked_up: bool
) -> tuple[Ints, Flags]:
    """The ids of the offers with these *keys*, set aside for those that have none, and which had
    one. Not *looked_up*: none has."""
    known: dict[bytes, int] = {}
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        if looked_up:
            cursor.execute("SELECT key, id FROM offer WHERE key = ANY (%s)", (list(keys),))
            known = dict(cursor)
        # The name is looked up once, not for each number.
        cursor.execute(
            "SELECT string_agg(int8send(nextval(s.name)), '') FROM (SELECT"
            " pg_get_serial_sequence('offer', 'id')::regclass AS name OFFSET 0) s,"
            " generate_series(1, %s)",
            (len(keys) - len(known),),
        )
        [(fresh,)] = cursor.fetchall()
    had = np.fromiter((key in known for key in keys), bool, len(keys))
    ids = np.zeros(len(keys), dtype=np.int64)
    ids[had] = [known[key] for key in keys if key in known]
    ids[~had] = np.frombuffer(fresh or b"", dtype=">i8")
    return ids, had
