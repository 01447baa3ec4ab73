"""What people do with the outbox: try again, dismiss, test; and what is kept of it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Engine

from tests.alert.outbox_world import (
    HOUR,
    MINUTE,
    NOW,
    RULE,
    Events,
    claim,
    claimed,
    events_of,
    statuses,
)
from tests.store.worlds import rows
from tracker.store import alerts, outbox_admin
from tracker.store.engine import read_connection, transaction
from tracker.store.outbox import Outbox


def test_given_up_rows_can_be_tried_again(
    engine: Engine, outbox: Outbox, events: Events, database_url: str
) -> None:
    events.add(rule="a", channels=("hook", "mail"))
    outbox.dead(claimed(outbox), NOW, "HTTP 404")
    outbox.dead(claimed(outbox, "mail"), NOW, "refused")
    with read_connection(database_url) as connection:
        assert [(c.channel, c.pending, c.dead) for c in outbox_admin.counts(connection)] == [
            ("hook", 0, 1), ("mail", 0, 1),
        ]  # fmt: skip
        dead = outbox_admin.listed(connection, statuses=["dead"], channel="hook")
    assert [(d.event_id, d.last_error, d.ended_at) for d in dead] == [("a-1", "HTTP 404", NOW)]
    assert outbox_admin.retry_dead(engine, NOW + HOUR, channel="hook") == [dead[0].id]
    again = claimed(outbox, later=HOUR)
    assert (events_of(again), again.rows[0].attempts) == (["a-1"], 1)
    assert statuses(database_url, "mail") == {"a-1": "dead"}
    assert outbox_admin.retry_dead(engine, NOW + HOUR, ids=[dead[0].id]) == []  # it is not dead


def test_a_firing_whose_end_is_told_is_not_tried_again(
    engine: Engine, outbox: Outbox, events: Events
) -> None:
    """Its notice would come after that of its end."""
    events.add("fired")
    outbox.dead(claimed(outbox), NOW, "HTTP 404")
    events.add("resolved")
    over = claimed(outbox)
    assert outbox_admin.retry_dead(engine, NOW) == []
    outbox.sent(over, NOW)
    assert outbox_admin.retry_dead(engine, NOW) == []


def test_an_old_row_tried_again_holds_back_the_whole_message_that_waits_for_it(
    engine: Engine, outbox: Outbox, events: Events
) -> None:
    """A message in two halves under one id would lose the second half at the receiver."""
    events.add("data_problem", rule="a")
    outbox.dead(claimed(outbox), NOW, "HTTP 404")
    events.add("data_ok", rule="a")
    events.add("fired", rule="b")
    both = claimed(outbox)
    assert events_of(both) == ["a-2", "b-1"]
    outbox.retry(both, NOW, NOW, "HTTP 500")
    outbox_admin.retry_dead(engine, NOW)
    first = claimed(outbox)
    assert events_of(first) == ["a-1"]
    assert claim(outbox) is None
    outbox.sent(first, NOW)
    again = claimed(outbox)
    assert (events_of(again), again.batch) == (["a-2", "b-1"], both.batch)


def test_a_test_goes_at_once_alone_and_outside_the_order(outbox: Outbox, events: Events) -> None:
    events.add("fired", rule="a")
    outbox.retry(claimed(outbox), NOW, NOW + HOUR, "HTTP 500")
    first, second = events.add("test", rule="a"), events.add("test", rule="a")
    events.add("fired", rule="b")
    wait = timedelta(seconds=30)
    assert events_of(claim(outbox, group_wait=wait)) == [first]
    found = claimed(outbox, group_wait=wait, event_id=second)
    assert (events_of(found), found.batch) == ([second], second)
    # And it holds nothing up: only the wait for others does.
    assert events_of(claim(outbox, later=wait, group_wait=wait)) == ["b-1"]


def test_asked_for_one_event_no_other_is_taken(outbox: Outbox, events: Events) -> None:
    events.add(rule="a")
    events.add(rule="b")
    assert events_of(claim(outbox, event_id="b-1")) == ["b-1"]
    assert claim(outbox, event_id="nothing") is None


def test_old_rows_go_and_their_events_stay(
    outbox: Outbox, events: Events, database_url: str
) -> None:
    events.add("data_problem", rule="a")
    outbox.sent(claimed(outbox), NOW)
    events.add("data_problem", rule="b")
    assert outbox.prune(NOW) == 0
    assert outbox.prune(NOW + MINUTE) == 1
    assert statuses(database_url) == {"b-1": "pending"}
    assert rows(database_url, "SELECT count(*) FROM alert_event") == [(2,)]


def test_whom_a_firing_was_told_is_kept_until_its_end(
    outbox: Outbox, events: Events, engine: Engine, database_url: str
) -> None:
    events.add()
    outbox.sent(claimed(outbox), NOW)
    assert outbox.prune(NOW + HOUR) == 0
    with transaction(engine) as cursor:
        assert alerts.channels_told(cursor, RULE, 1) == ["hook"]
    events.add("resolved")
    events.add("fired")  # which is another firing
    outbox.sent(claimed(outbox), NOW)
    outbox.sent(claimed(outbox), NOW)
    assert outbox.prune(NOW + HOUR) == 2
    assert statuses(database_url) == {f"{RULE}-3": "sent"}


def test_what_was_given_up_is_dismissed_and_still_told_with_its_end(
    outbox: Outbox, events: Events, engine: Engine, database_url: str
) -> None:
    events.add()
    events.add("test", rule="b")
    outbox.dead(claimed(outbox), NOW, "no")
    outbox.dead(claimed(outbox), NOW, "no")
    with read_connection(database_url) as connection:
        [counted] = outbox_admin.counts(connection)
        assert counted == ("hook", 0, None, 1), "the test counts not"
    assert outbox_admin.dismiss_dead(engine, channel="other") == []
    assert len(outbox_admin.dismiss_dead(engine, channel="hook")) == 2
    assert outbox_admin.retry_dead(engine, NOW) == []
    with read_connection(database_url) as connection:
        assert outbox_admin.counts(connection) == []
    events.add("resolved")
    [row] = claimed(outbox).rows
    assert row.message["merged"]["event_ids"] == [f"{RULE}-1"]
