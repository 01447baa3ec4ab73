"""What the database knows of an import's offers: providers, ids, and what was staged before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracker.store import poll_log
from tracker.store.bulk.cells import Flags, Ints
from tracker.store.imports import KIND, Connection

_AHEAD = 100_000  # ids that are set aside before they are needed


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


class Ids:
    """Ids for new offers, set aside many at a time; those that are left over are never used."""

    def __init__(self) -> None:
        self._left: Ints = np.zeros(0, dtype=np.int64)
        self._taken = 0

    def fresh(self, connection: Connection, count: int) -> Ints:
        """So many that no offer has."""
        if len(self._left) < count:
            # As many as have been needed so far: a small import leaves few over.
            wanted = count - len(self._left) + min(self._taken, _AHEAD)
            self._left = np.concatenate((self._left, _set_aside(connection, wanted)))
        self._taken += count
        found, self._left = self._left[:count], self._left[count:]
        return found


def _set_aside(connection: Connection, count: int) -> Ints:
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        # Whatever is committed with such an id has the server write down first that it is taken.
        cursor.execute("SET LOCAL synchronous_commit = off")
        # The name is looked up once, not for each number.
        cursor.execute(
            "SELECT string_agg(int8send(nextval(s.name)), '') FROM (SELECT"
            " pg_get_serial_sequence('offer', 'id')::regclass AS name OFFSET 0) s,"
            " generate_series(1, %s)",
            (count,),
        )
        [(fresh,)] = cursor.fetchall()
    return np.frombuffer(fresh, dtype=">i8").astype(np.int64)


def ids_for(
    connection: Connection, ids: Ids, keys: Sequence[bytes], *, looked_up: bool
) -> tuple[Ints, Flags]:
    """The ids of the offers with these *keys*, set aside for those that have none, and which had
    one. Not *looked_up*: none has."""
    known: dict[bytes, int] = {}
    if looked_up:
        with connection.transaction(), connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT key, id FROM offer WHERE key = ANY (%s)", (list(keys),))
            known = dict(cursor)
    if not known:
        return ids.fresh(connection, len(keys)), np.zeros(len(keys), dtype=bool)
    had = np.fromiter((key in known for key in keys), bool, len(keys))
    found = np.zeros(len(keys), dtype=np.int64)
    found[had] = [known[key] for key in keys if key in known]
    found[~had] = ids.fresh(connection, int(np.count_nonzero(~had)))
    return found, had
