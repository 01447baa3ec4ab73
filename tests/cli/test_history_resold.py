"""Over time, too, a resold machine counts once, however old its prices are (docs/adr/0014)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.harness import H100, filled, run
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.store import floor_rebuild, floor_rows, retention
from tracker.store.engine import connect
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
# The shop sells hub's machine at 1 and its own at 2: one floor, if nobody asked whose they are.
SHOP = (("hubs", "1", "hub"), ("own", "2", None), ("faraways", "2.5", "faraway"))


def _polls() -> Iterable[Poll]:
    """The shop every day of a month; the hub itself, at 3, from the 11th to the 20th."""
    for day in range(30):
        moment = START + timedelta(days=day)
        listed = [("shop", SHOP)] + ([("hub", (("direct", "3", None),))] if 10 <= day < 20 else [])
        for source, offers in listed:
            yield make_poll(
                0, [make_offer(name, price, source=source, gpu=H100, upstream=upstream)
                    for name, price, upstream in offers],
                source=source, started_at=moment, polled_at=moment, every_seconds=8 * 3600,
            )  # fmt: skip


def _bills() -> list[tuple[str, str]]:
    """When which bill of an hour on one H100 began to be the lowest, by history."""
    answer = run("history", "--hours", "H100=1", "--since", "2026-03-02", "--until", "2026-04-01",
                 "--bucket", "1d", "-o", "json")  # fmt: skip
    rows = [row for row in answer.json()["rows"] if row["series"] == "H100"]
    return [
        (row["start"][5:10], row["usd"])
        for before, row in zip([None, *rows], rows, strict=False)
        if before is None or before["usd"] != row["usd"]
    ]


LIVE = [("03-02", "1"), ("03-12", "2"), ("03-22", "1")]


def test_the_hubs_machine_counts_while_the_hub_itself_is_not_known(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(database_server, *_polls()) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        assert _bills() == LIVE
        for day, lowest in ((5, "1"), (15, "2"), (25, "1")):
            then = (START + timedelta(days=day, hours=1)).isoformat()
            answer = run("cheapest", "--hours", "H100=1", "--as-of", then, "-o", "json").json()
            assert answer["rows"][0]["total_usd"] == lowest
        with connect(url) as connection:
            floor_rebuild.rebuild(connection)
        assert _bills() == LIVE
        # It is in the floor, so that it lasts longer than the prices of single offers.
        with connect(url) as connection:
            assert retention.forget(connection, datetime(2026, 7, 14, tzinfo=UTC), 1)
        assert _bills() == LIVE


def test_a_floor_that_does_not_know_whose_machine_it_is_is_noticed(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity_of = floor_rows.identity_of
    monkeypatch.setattr(
        floor_rows, "identity_of", lambda offer: identity_of(offer)._replace(upstream=None)
    )
    with filled(database_server, *_polls()) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        assert _bills() != LIVE
