"""The outbox on a real PostgreSQL: order, leases, messages that stay the same, ends that merge."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from tests.alert.outbox_world import (
    HOUR,
    LEASE,
    MINUTE,
    NOW,
    Events,
    claim,
    claimed,
    events_of,
    statuses,
)
from tracker.store import outbox_admin
from tracker.store.engine import read_connection
from tracker.store.errors import StoreError
from tracker.store.outbox import Outbox


def test_a_notice_alone_goes_under_its_own_id(outbox: Outbox, events: Events) -> None:
    event = events.add()
    found = claimed(outbox)
    assert (found.batch, events_of(found), found.rows[0].attempts) == (event, [event], 1)
    assert found.rows[0].message["when"] == "cost(H100) < cost(A100)"
    assert claim(outbox) is None
    assert outbox.sent(found, NOW) == 1
    assert claim(outbox, later=HOUR) is None


def test_a_rule_is_in_order_and_a_later_row_waits_for_the_earlier(
    outbox: Outbox, events: Events, database_url: str
) -> None:
    first = events.add("fired")
    second = events.add("data_problem")
    found = claimed(outbox)
    assert events_of(found) == [first]
    assert claim(outbox, holder="two") is None  # the second waits while the first is on its way
    outbox.retry(found, NOW, NOW + 10 * MINUTE, "HTTP 500")
    assert claim(outbox, later=9 * MINUTE) is None  # and while it waits for its next try
    again = claimed(outbox, later=10 * MINUTE)
    assert (events_of(again), again.batch, again.rows[0].attempts) == ([first], first, 2)
    outbox.sent(again, NOW)
    assert events_of(claim(outbox, later=10 * MINUTE)) == [second]
    assert statuses(database_url) == {first: "sent", second: "sending"}


def test_channels_and_rules_do_not_wait_for_one_another(outbox: Outbox, events: Events) -> None:
    event = events.add(channels=("hook", "mail"))
    found = claimed(outbox)
    outbox.retry(found, NOW, NOW + HOUR, "HTTP 500")
    assert events_of(claim(outbox, "mail")) == [event]
    other = events.add(rule="other")
    assert events_of(claim(outbox)) == [other]


def test_given_up_rows_do_not_hold_up_their_rule(outbox: Outbox, events: Events) -> None:
    events.add("fired")
    problem = events.add("data_problem")
    outbox.dead(claimed(outbox), NOW, "HTTP 404")
    assert events_of(claim(outbox)) == [problem]


def test_a_lease_that_ran_out_sends_the_same_message_again(outbox: Outbox, events: Events) -> None:
    one, two = events.add(rule="a"), events.add(rule="b")
    lost = claimed(outbox)
    assert events_of(lost) == [one, two]
    assert lost.batch.startswith("group-")
    three = events.add(rule="c")  # comes meanwhile: a message of its own
    assert events_of(claim(outbox, holder="two")) == [three]
    again = claimed(outbox, holder="two", later=LEASE)
    assert (events_of(again), again.batch) == ([one, two], lost.batch)
    assert [row.attempts for row in again.rows] == [2, 2]
    # Who lost the lease has no say any more.
    assert outbox.sent(lost, NOW) == 0
    assert outbox.retry(lost, NOW, NOW, "late") == 0
    assert outbox.sent(again, NOW) == 2


def test_the_lease_holds_to_the_microsecond(outbox: Outbox, events: Events) -> None:
    events.add()
    claimed(outbox)
    assert claim(outbox, later=LEASE - timedelta(microseconds=1)) is None
    assert claim(outbox, later=LEASE) is not None


def test_who_stops_gives_its_leases_back(outbox: Outbox, events: Events) -> None:
    events.add(rule="a")
    claimed(outbox, holder="one")
    events.add(rule="b")
    claimed(outbox, holder="two")
    assert outbox.release_all("one", NOW) == 1
    assert events_of(claim(outbox, holder="three")) == ["a-1"]


@pytest.mark.parametrize("end", ["resolved", "closed"])
def test_an_end_swallows_a_firing_that_is_not_out_yet(
    outbox: Outbox, events: Events, database_url: str, end: str
) -> None:
    fired = events.add("fired", value="0.9")
    outbox.retry(claimed(outbox), NOW, NOW + HOUR, "HTTP 500")
    reminder = events.add("reminder")
    over = events.add(end)
    found = claimed(outbox)  # now, and not when the firing would have been tried again
    assert events_of(found) == [over]
    merged = found.rows[0].message["merged"]
    assert merged["event_ids"] == [fired, reminder]
    assert merged["fired"]["value"] == "0.9"
    assert statuses(database_url) == {fired: "merged", reminder: "merged", over: "sending"}


def test_an_end_swallows_reminders_of_a_firing_that_is_out(outbox: Outbox, events: Events) -> None:
    events.add("fired")
    outbox.sent(claimed(outbox), NOW)
    reminder = events.add("reminder")
    over = events.add("resolved")
    found = claimed(outbox)
    assert events_of(found) == [over]
    assert found.rows[0].message["merged"] == {"event_ids": [reminder], "fired": None}


def test_a_firing_on_its_way_is_not_merged(outbox: Outbox, events: Events) -> None:
    """Its sender may have been killed after sending: it goes again as it was, then its end."""
    fired = events.add("fired")
    claimed(outbox)
    over = events.add("resolved")
    assert claim(outbox) is None
    again = claimed(outbox, later=LEASE)
    assert events_of(again) == [fired]
    outbox.sent(again, NOW)
    last = claimed(outbox, later=LEASE)
    assert events_of(last) == [over]
    assert "merged" not in last.rows[0].message


def test_only_ends_of_the_same_firing_and_channel_merge(outbox: Outbox, events: Events) -> None:
    events.add("fired", rule="a", channels=("hook", "mail"))
    events.add("fired", rule="b")
    events.add("resolved", rule="a", channels=("mail",))
    assert events_of(claim(outbox)) == ["a-1", "b-1"]
    assert events_of(claim(outbox, "mail")) == ["a-2"]


def test_an_end_tells_of_a_firing_that_was_given_up(
    outbox: Outbox, events: Events, database_url: str
) -> None:
    """No end without a beginning."""
    fired = events.add("fired")
    outbox.dead(claimed(outbox), NOW, "HTTP 404")
    over = events.add("resolved")
    found = claimed(outbox)
    assert found.rows[0].message["merged"]["event_ids"] == [fired]
    assert statuses(database_url) == {fired: "dead", over: "sending"}


def test_notices_wait_for_one_another_only_as_long_as_the_oldest_may(
    outbox: Outbox, events: Events
) -> None:
    wait = timedelta(seconds=30)
    events.add(rule="a")
    late = timedelta(seconds=29)
    events.add(rule="b", at=NOW + late)
    assert claim(outbox, later=late, group_wait=wait) is None
    assert events_of(claim(outbox, later=wait, group_wait=wait)) == ["a-1", "b-1"]


def test_a_group_has_a_bound_and_one_row_of_each_rule(outbox: Outbox, events: Events) -> None:
    for number in range(5):
        events.add(rule=f"r{number}")
        events.add("data_problem", rule=f"r{number}")
    found = claimed(outbox, most=3)
    assert events_of(found) == ["r0-1", "r1-1", "r2-1"]


def test_a_clock_turned_back_stops_nothing(outbox: Outbox, events: Events) -> None:
    ahead = timedelta(days=400)
    events.add(rule="a", at=NOW + ahead)
    events.add(rule="b", at=NOW + ahead)
    found = claimed(outbox, later=ahead)
    assert len(found.rows) == 2
    # Turned back by 400 days: neither lease nor due times of then count.
    again = claimed(outbox, group_wait=timedelta(seconds=30))
    assert events_of(again) == ["a-1", "b-1"]
    outbox.retry(again, NOW, NOW + ahead, "HTTP 500")  # no wait is longer than six hours
    assert claim(outbox, later=timedelta(hours=5)) is None
    assert claim(outbox, later=timedelta(hours=6)) is not None


def test_a_guard_that_refuses_leaves_all_as_it_was(
    engine: Engine, events: Events, database_url: str
) -> None:
    def refuse(_cursor: object) -> None:
        raise StoreError("not leading")

    event = events.add()
    with pytest.raises(StoreError, match="not leading"):
        claim(Outbox(engine, refuse))
    assert statuses(database_url) == {event: "pending"}


def test_what_was_sent_may_be_marked_after_the_lead_is_lost(
    engine: Engine, events: Events, database_url: str
) -> None:
    leads = [True]

    def guard(_cursor: object) -> None:
        if not leads[0]:
            raise StoreError("not leading")

    outbox = Outbox(engine, guard)
    event = events.add()
    found = claimed(outbox)
    leads[0] = False
    assert outbox.sent(found, NOW) == 1
    assert statuses(database_url) == {event: "sent"}


def test_many_claimers_never_share_a_row_nor_break_the_order(
    engine: Engine, events: Events, database_url: str
) -> None:
    for number in range(6):
        for kind in ("fired", "data_problem", "data_ok"):
            events.add(kind, rule=f"r{number}")
    seen: list[str] = []
    lock = threading.Lock()

    def work(holder: str) -> None:
        outbox = Outbox(engine)
        for _ in range(200):
            found = claim(outbox, holder=holder, most=2)
            if found is not None:
                with lock:
                    seen.extend(events_of(found))
                outbox.sent(found, NOW)
            elif set(statuses(database_url).values()) == {"sent"}:
                return

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(events.ids)
    for number in range(6):
        own = [event for event in seen if event.startswith(f"r{number}-")]
        assert own == sorted(own)


def test_rows_of_unknown_channels_say_so_and_are_given_up_in_the_end(
    outbox: Outbox, events: Events, database_url: str
) -> None:
    event = events.add(channels=("gone",))
    day = timedelta(days=1)
    assert outbox.unknown(["hook"], NOW, day) == ["gone"]
    assert outbox.unknown(["hook"], NOW, day) == []  # said once
    with read_connection(database_url) as connection:
        (row,) = outbox_admin.listed(connection)
    assert (row.status, row.last_error) == ("pending", "no channel of this name is configured")
    assert outbox.unknown(["hook"], NOW + day, day) == ["gone"]
    assert statuses(database_url, "gone") == {event: "dead"}
