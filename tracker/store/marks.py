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


def read(connection: psycopg.Connection[Any]) -> Mark:
    """The mark of the database as *connection* sees it; small tables only."""
    offers = connection.execute(
        "SELECT count(*), coalesce(sum(seq), 0), max(last_ok_at), max(last_attempt_at)"
        " FROM provider"
    ).fetchone()
    rest = connection.execute(
        "SELECT (SELECT count(*) FROM measurement), (SELECT coalesce(sum(seq), 0) FROM alert_rule),"
        " (SELECT max(evaluated_at) FROM alert_rule), (SELECT count(*) FROM alert_silence),"
        " (SELECT sum(extract(epoch FROM until)) FROM alert_silence),"
        " (SELECT count(*) FROM discount)"
    ).fetchone()
    return Mark(tuple(offers or ()), tuple(rest or ()))
