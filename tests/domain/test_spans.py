"""The diff of a poll into history, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.offers import at, make_offer
from tracker.domain import spans
from tracker.domain.offer import Availability, Extras
from tracker.domain.spans import Changes, Live, Moving

TTL = timedelta(minutes=3)


def states(**prices: str | Decimal) -> dict[bytes, Moving]:
    return {n.encode(): spans.moving(make_offer(n, p)) for n, p in prices.items()}


def step(
    live: Live, seen: dict[bytes, Moving], minutes: float, last: float | None, *,
    complete: bool = True,
) -> tuple[Changes, Live]:  # fmt: skip
    last_ok_at = None if last is None else at(last)
    changes = spans.diff(
        live, seen, polled_at=at(minutes), last_ok_at=last_ok_at, ttl=TTL, complete=complete
    )
    return changes, spans.after(live, changes, seen, last_ok_at=last_ok_at, complete=complete)


def test_first_poll_opens_everything() -> None:
    changes, live = step(Live(), states(a="1", b="2"), 0, None)
    assert changes == Changes(opened=[b"a", b"b"])
    assert live == Live(states(a="1", b="2"))


def test_same_prices_change_nothing_whatever_their_notation_and_order() -> None:
    changes, _ = step(Live(states(a="1.5", b="2")), states(b="2.000", a="1.50"), 1, 0)
    assert changes == Changes(unchanged=2)


def test_new_price_closes_and_opens() -> None:
    changes, live = step(Live(states(a="1", b="2")), states(a="1.01", b="2"), 1, 0)
    assert changes == Changes(repriced=[b"a"], unchanged=1)
    assert live.states[b"a"].native == Decimal("1.01")


def test_what_a_complete_poll_does_not_see_closes_at_that_poll() -> None:
    changes, live = step(Live(states(a="1", b="2")), states(a="1"), 2, 0)
    assert changes == Changes(closed=[(b"b", at(2))], unchanged=1)
    assert live == Live(states(a="1"))


def test_ttl_is_still_known_at_its_very_end_but_not_after() -> None:
    live = Live(states(a="1"))
    assert step(live, states(a="1"), 3, 0)[0] == Changes(unchanged=1)
    assert step(live, states(a="1"), 3.01, 0)[0] == Changes(resumed=[(b"a", at(3))])


def test_gap_closes_all_at_its_beginning_even_with_a_new_price_or_none() -> None:
    changes, _ = step(Live(states(a="1", b="2")), states(a="7"), 60, 0)
    assert changes == Changes(resumed=[(b"a", at(3))], closed=[(b"b", at(3))])


def test_partial_poll_neither_closes_nor_confirms_what_it_does_not_see() -> None:
    changes, live = step(Live(states(a="1", b="2")), states(a="1"), 1, 0, complete=False)
    assert changes == Changes(unconfirmed=[b"b"], unchanged=1)
    assert live == Live(states(a="1", b="2"), {b"b": at(0)})

    again, live = step(live, states(a="1"), 2, 1, complete=False)
    assert again == Changes(unchanged=1)
    assert live.seen_until == {b"b": at(0)}

    confirmed, confirmed_live = step(live, states(a="1", b="2"), 3, 2, complete=False)
    assert confirmed == Changes(confirmed=[b"b"], unchanged=2)
    assert confirmed_live.seen_until == {}

    lapsed, lapsed_live = step(live, states(a="1"), 3.5, 2, complete=False)
    assert lapsed == Changes(closed=[(b"b", at(3))], unchanged=1)
    assert lapsed_live == Live(states(a="1"))


def test_complete_poll_closes_unconfirmed_no_later_than_their_ttl() -> None:
    live = Live(states(a="1", b="2"), {b"b": at(0)})
    assert step(live, states(a="1"), 2.5, 2)[0].closed == [(b"b", at(2.5))]
    assert step(live, states(a="1"), 3.5, 2)[0].closed == [(b"b", at(3))]


def test_moving_rate_and_extras_update_without_a_span() -> None:
    before = make_offer("a", "1", currency="EUR", fx_rate="1.10")
    for after in (
        make_offer("a", "1", currency="EUR", fx_rate="1.20"),
        make_offer("a", "1", currency="EUR", fx_rate="1.10", flags=("odd",)),
        make_offer("a", "1", currency="EUR", fx_rate="1.10",
                   extras=Extras(availability=Availability.NO)),
    ):  # fmt: skip
        assert after.key == before.key
        seen = {after.key: spans.moving(after)}
        changes, _ = step(Live({before.key: spans.moving(before)}), seen, 1, 0)
        assert changes == Changes(updated=[after.key])


def test_every_field_of_extras_is_compared() -> None:
    assert set(Extras.__dataclass_fields__) <= set(Moving._fields)
    values: dict[str, Any] = {
        "availability": Availability.YES, "stock_count": 3, "stock_label": "low",
        "interruption_percent_max": 5, "valid_as_of": at(0).date(), "expires_at": at(0),
        "fallback": True,
    }  # fmt: skip
    plain = spans.moving(make_offer("a", "1"))
    for name in Extras.__dataclass_fields__:
        value = values.get(name, Decimal("0.5"))
        moved = spans.moving(make_offer("a", "1", extras=Extras(**{name: value})))
        assert moved != plain
        assert getattr(moved, name) == value


def test_open_offers_without_a_poll_are_a_contradiction() -> None:
    changes = Changes(unconfirmed=[b"a"])
    with pytest.raises(ValueError, match="no poll"):
        spans.after(Live(states(a="1")), changes, {}, last_ok_at=None, complete=False)


WORLDS = st.lists(
    st.tuples(
        st.integers(1, 9),  # half minutes since the previous poll
        st.booleans(),
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"])),
    ),
    max_size=12,
)


@given(WORLDS)
def test_replaying_the_changes_gives_back_every_poll(
    world: list[tuple[int, bool, dict[str, str]]],
) -> None:
    live, now, last = Live(), 0.0, None
    open_since: dict[bytes, datetime] = {}
    for gap, complete, prices in world:
        now += gap / 2
        seen = states(**prices)
        before = live
        changes, live = step(before, seen, now, last, complete=complete)
        for key, end in (*changes.closed, *changes.resumed):
            assert open_since.pop(key) < end <= at(now)
        for key in (*changes.opened, *(k for k, _ in changes.resumed)):
            assert key not in open_since
            open_since[key] = at(now)
        for key in changes.repriced:
            assert before.states[key].native != seen[key].native
            open_since[key] = at(now)
        assert open_since.keys() == live.states.keys()
        assert {k: live.states[k] for k in seen} == seen
        if complete:
            assert live == Live(seen)
        assert live.seen_until.keys().isdisjoint(seen)
        total = len(changes.opened) + len(changes.repriced) + len(changes.resumed)
        assert total + len(changes.updated) + changes.unchanged == len(seen)
        last = now


def test_known_until_is_the_poll_plus_the_ttl() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert spans.known_until(moment, TTL) == datetime(2026, 1, 1, 0, 3, tzinfo=UTC)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 3)), max_size=6))
def test_marks_find_what_comparing_states_finds(rows: list[tuple[int, int, int]]) -> None:
    before = states(**{f"k{i}": str(a) for i, (_, a, _) in enumerate(rows)})
    seen = states(**{f"k{i}": f"{b}.0" for i, (_, _, b) in enumerate(rows)})
    plain = Live(dict(before))
    marked = Live(dict(before), marks=spans.marks_of(before))
    when: dict[str, Any] = {"polled_at": at(1), "last_ok_at": at(0), "ttl": TTL, "complete": True}
    marks = spans.marks_of(seen)
    assert spans.diff(marked, seen, marks=marks, **when) == spans.diff(plain, seen, **when)
