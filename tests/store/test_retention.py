"""Old spans go by the month, floors stay, and what an older version left is built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.store.floors import stored_floors
from tests.store.worlds import recording_engine, rows
from tests.support.offers import make_offer, make_poll
from tracker.store import floor_rebuild, partitions, retention
from tracker.store.engine import connect
from tracker.store.polls import Recorder

NOW = datetime(2026, 7, 14, tzinfo=UTC)
START = datetime(2026, 3, 30, 22, tzinfo=UTC)  # of the polls' minutes
DAY = 24 * 60


@pytest.mark.parametrize(
    ("months", "oldest"),
    [(0, None), (1, "2026-06-01"), (6, "2026-01-01"), (7, "2025-12-01"), (25, "2024-06-01")],
)
def test_whole_months_are_kept_beside_the_current_one(months: int, oldest: str | None) -> None:
    found = retention.horizon(NOW, months)
    assert (found and found.date().isoformat()) == oldest


def record(url: str, *polls: tuple[float, dict[str, str]]) -> None:
    with recording_engine(url) as engine:
        recorder = Recorder(engine)
        for days, prices in polls:
            offers = [make_offer(name, price) for name, price in prices.items()]
            recorder.record(make_poll(days * DAY, offers, every_seconds=40 * 86_400))


def spans(url: str) -> list[tuple[datetime, datetime]]:
    return rows(url, "SELECT valid_from, valid_to FROM price_span ORDER BY 1, 2")


# March: a at 1. 20 April: 2. 20 May: 1.5, and b, which goes on. 20 June: only b.
POLLS = (
    (0, {"a": "1"}), (20, {"a": "2"}), (50, {"a": "1.5", "b": "3"}), (81, {"b": "3"}),
)  # fmt: skip


def test_spans_go_and_floors_stay(database_url: str) -> None:
    record(database_url, *POLLS)
    before = stored_floors(database_url, "acme")
    [steps] = before.values()
    assert [str(price) for _, _, price in steps] == ["1", "2", "1.5", "3"]
    with connect(database_url) as connection:
        assert [m.month.month for m in retention.expired(connection, NOW, 1)] == [3, 4, 5]
        assert len(spans(database_url)) == 3
        assert [m.month.month for m in retention.forget(connection, NOW, 1)] == [3, 4, 5]
        assert retention.forget(connection, NOW, 1) == []
    assert [end > datetime(2026, 6, 1, tzinfo=UTC) for _, end in spans(database_url)] == [True]
    assert stored_floors(database_url, "acme") == before
    # Built anew, what the spans do not tell any more is kept.
    with connect(database_url) as connection:
        floor_rebuild.rebuild(connection)
    assert stored_floors(database_url, "acme") == before
    record(database_url, (82, {"b": "2"}))
    [steps] = stored_floors(database_url, "acme").values()
    assert [str(price) for _, _, price in steps] == ["1", "2", "1.5", "3", "2"]


def test_an_open_step_from_before_the_first_span_is_kept_too(database_url: str) -> None:
    # b was cheaper in April, and c has been as cheap ever since: one step, of which no span is left
    # from April on but c's.
    record(database_url, (0, {"b": "1"}), (20, {"b": "1", "c": "1"}), (50, {"c": "1"}))
    before = stored_floors(database_url, "acme")
    assert [len(steps) for steps in before.values()] == [1]
    with connect(database_url) as connection:
        assert retention.forget(connection, NOW, 1)
        floor_rebuild.rebuild(connection)
    assert stored_floors(database_url, "acme") == before


def test_an_open_step_ends_when_it_was_last_known(database_url: str) -> None:
    """Its source has not been polled for longer than spans are kept."""
    record(database_url, (0, {"a": "1"}))
    before = stored_floors(database_url, "acme")
    with connect(database_url) as connection:
        retention.forget(connection, NOW + timedelta(days=999), 1)
        floor_rebuild.rebuild(connection)
    assert rows(database_url, "SELECT spans_from > last_ok_at FROM provider") == [(True,)]
    assert stored_floors(database_url, "acme") == before


def test_everything_is_kept_for_ever_if_asked(database_url: str) -> None:
    record(database_url, *POLLS)
    with connect(database_url) as connection:
        assert retention.forget(connection, NOW + timedelta(days=9999), 0) == []
    assert len(spans(database_url)) == 3


def test_a_days_work_makes_months_and_the_floors_that_are_missing(database_url: str) -> None:
    record(database_url, *POLLS)
    before = stored_floors(database_url, "acme")
    for statement in (  # as an older version left it
        "DELETE FROM price_floor", "DELETE FROM floor_now", "DELETE FROM floor_key",
        "UPDATE offer_now SET floor_id = NULL", "UPDATE provider SET floor_built = false",
    ):  # fmt: skip
        rows(database_url, statement)
    record(database_url, (82, {"b": "2"}), (83, {"b": "3"}))  # polls go on without floors
    assert stored_floors(database_url, "acme") == {}
    done = retention.keep_up(database_url, NOW, 25)
    assert done == (["acme"], [])
    [steps] = stored_floors(database_url, "acme").values()
    [earlier] = before.values()
    assert [str(p) for _, _, p in steps] == ["1", "2", "1.5", "3", "2", "3"]
    assert steps[:3] == earlier[:3]
    months = rows(database_url, "SELECT relname FROM pg_class WHERE relispartition")
    expected = {partitions.partition_name(datetime(2026, m, 1, tzinfo=UTC)) for m in (7, 8, 9)}
    assert expected <= {name for (name,) in months}
    # And from then on they are maintained.
    record(database_url, (84, {"b": "2.5"}))
    [steps] = stored_floors(database_url, "acme").values()
    assert str(steps[-1][2]) == "2.5"
