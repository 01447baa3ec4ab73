"""The state of the database in a few numbers: while they stand still, answers stay the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg


class Mark(NamedTuple):
    """What has happened so far. Equal marks: no poll, evaluation, silence or measurement since.

    ``offers`` alone is what live prices depend on.
    """

    offers: tuple[Any, ...]
    rest: tuple[Any, ...]


_SQL = (
    "SELECT p.*, r.* FROM (SELECT count(*), coalesce(sum(seq), 0),"
    " sum(extract(epoch FROM last_ok_at)), coalesce(sum(ttl_seconds), 0), max(last_attempt_at)"
    " FROM provider) p CROSS JOIN (SELECT (SELECT count(*) FROM measurement),"
    " (SELECT max(id) FROM measurement), (SELECT coalesce(sum(seq), 0) FROM alert_rule),"
    " (SELECT max(evaluated_at) FROM alert_rule), (SELECT count(*) FROM alert_silence),"
    " (SELECT sum(extract(epoch FROM until)) FROM alert_silence), (SELECT count(*) FROM discount),"
    " (SELECT max(id) FROM discount), (SELECT count(ended_at) FROM discount)) r"
)
_OF_OFFERS = 5


def read(connection: psycopg.Connection[Any]) -> Mark:
    """The mark of the database as *connection* sees it; small tables only."""
    row = connection.execute(_SQL).fetchone() or ()
    return Mark(tuple(row[:_OF_OFFERS]), tuple(row[_OF_OFFERS:]))
