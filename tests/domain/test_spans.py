"""The diff of a poll into history, without a database."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.offers import at, make_offer
from tracker.domain import spans
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Availability, Extras, Offer
from tracker.domain.spans import Changes, Live, Seen

TTL = timedelta(minutes=3)


def poll(**prices: str | Decimal) -> Seen:
    return poll_of(**{name: make_offer(name, price) for name, price in prices.items()})


def poll_of(**offers: Offer) -> Seen:
    return spans.see({name.encode(): offer for name, offer in offers.items()}, 10**12)


def opened(seen: Seen, seen_until: dict[bytes, datetime] | None = None) -> Live:
    """What is open after a first poll."""
    natives = {key: seen.native(key) for key in seen.marks}
    return Live(dict(seen.marks), dict(seen.micro_usd), seen_until or {}, natives)


def live_of(**prices: str) -> Live:
    return opened(poll(**prices))


def step(
    live: Live, seen: Seen, minutes: float, last: float | None, *, complete: bool = True
) -> tuple[Changes, Live]:
    last_ok_at = None if last is None else at(last)
    changes = spans.diff(
        live, seen, spans.touched(live, seen), polled_at=at(minutes), last_ok_at=last_ok_at,
        ttl=TTL, complete=complete,
    )  # fmt: skip
    return changes, spans.after(live, changes, seen, last_ok_at=last_ok_at)


def test_first_poll_opens_everything() -> None:
    changes, live = step(Live(), poll(a="1", b="2"), 0, None)
    assert changes == Changes(opened=[b"a", b"b"])
    assert live == opened(poll(a="1", b="2"))


def test_same_prices_change_nothing_whatever_their_notation_and_order() -> None:
    changes, _ = step(live_of(a="1.5", b="2"), poll(b="2.000", a="1.50"), 1, 0)
    assert changes == Changes(unchanged=2)


def test_new_price_closes_and_opens() -> None:
    changes, live = step(live_of(a="1", b="2"), poll(a="1.01", b="2"), 1, 0)
    assert changes == Changes(repriced=[b"a"], unchanged=1)
    assert (live.natives[b"a"], live.micro_usd[b"a"]) == (Decimal("1.01"), 1_010_000)


def test_what_a_complete_poll_does_not_see_closes_at_that_poll() -> None:
    changes, live = step(live_of(a="1", b="2"), poll(a="1"), 2, 0)
    assert changes == Changes(closed=[(b"b", at(2))], unchanged=1)
    assert live == opened(poll(a="1"))


def test_ttl_is_still_known_at_its_very_end_but_not_after() -> None:
    live = live_of(a="1")
    assert step(live, poll(a="1"), 3, 0)[0] == Changes(unchanged=1)
    assert step(live, poll(a="1"), 3.01, 0)[0] == Changes(resumed=[(b"a", at(3))])


def test_gap_closes_all_at_its_beginning_even_with_a_new_price_or_none() -> None:
    changes, _ = step(live_of(a="1", b="2"), poll(a="7"), 60, 0)
    assert changes == Changes(resumed=[(b"a", at(3))], closed=[(b"b", at(3))])


def test_partial_poll_neither_closes_nor_confirms_what_it_does_not_see() -> None:
    changes, live = step(live_of(a="1", b="2"), poll(a="1"), 1, 0, complete=False)
    assert changes == Changes(unconfirmed=[b"b"], unchanged=1)
    assert live == opened(poll(a="1", b="2"), {b"b": at(0)})

    again, live = step(live, poll(a="1"), 2, 1, complete=False)
    assert again == Changes(unchanged=1)
    assert live.seen_until == {b"b": at(0)}

    confirmed, confirmed_live = step(live, poll(a="1", b="2"), 3, 2, complete=False)
    assert confirmed == Changes(confirmed=[b"b"], unchanged=2)
    assert confirmed_live.seen_until == {}

    lapsed, lapsed_live = step(live, poll(a="1"), 3.5, 2, complete=False)
    assert lapsed == Changes(closed=[(b"b", at(3))], unchanged=1)
    assert lapsed_live == opened(poll(a="1"))


def test_complete_poll_closes_unconfirmed_no_later_than_their_ttl() -> None:
    live = opened(poll(a="1", b="2"), {b"b": at(0)})
    assert step(live, poll(a="1"), 2.5, 2)[0].closed == [(b"b", at(2.5))]
    assert step(live, poll(a="1"), 3.5, 2)[0].closed == [(b"b", at(3))]


def test_moving_rate_and_extras_update_without_a_span() -> None:
    before = make_offer("a", "1", currency="EUR", fx_rate="1.10")
    for after in (
        make_offer("a", "1", currency="EUR", fx_rate="1.20"),
        make_offer("a", "1", currency="EUR", fx_rate="1.10", flags=("odd",)),
        make_offer("a", "1", currency="EUR", fx_rate="1.10",
                   extras=Extras(availability=Availability.NO)),
    ):  # fmt: skip
        assert after.key == before.key
        changes, _ = step(opened(poll_of(a=before)), poll_of(a=after), 1, 0)
        assert changes == Changes(updated=[b"a"])


def test_every_field_of_extras_is_compared_and_written() -> None:
    values: dict[str, Any] = {
        "availability": Availability.YES, "stock_count": 3, "stock_label": "low",
        "interruption_percent_max": 5, "valid_as_of": at(0).date(), "expires_at": at(0),
        "fallback": True,
    }  # fmt: skip
    plain = make_offer("a", "1")
    for name in Extras.__dataclass_fields__:
        value = values.get(name, Decimal("0.5"))
        moved = make_offer("a", "1", extras=Extras(**{name: value}))
        assert mark(moved) != mark(plain), name
        assert getattr(spans.moving(moved), name) == value


def test_native_prices_that_are_needed_and_not_known_are_named() -> None:
    live, seen = live_of(a="1", b="2", c="3"), poll(a="1", b="3", c="4", d="5")
    del live.natives[b"a"], live.natives[b"b"]
    moved = spans.touched(live, seen)
    assert moved == [b"b", b"c", b"d"]
    assert spans.unknown_natives(live, moved) == [b"b"]


def test_marks_that_mean_nothing_write_every_offer_once() -> None:
    seen = poll(a="1", b="2")
    live = opened(seen)
    live.marks = dict.fromkeys(live.marks, b"of older")
    changes, live = step(live, seen, 1, 0)
    assert changes == Changes(updated=[b"a", b"b"])
    assert step(live, seen, 2, 1)[0] == Changes(unchanged=2)


def test_prices_out_of_range_are_not_seen() -> None:
    offers = {
        name.encode(): make_offer(name, price)
        for name, price in (
            ("nothing", "0.0000005"), ("least", "0.0000006"), ("most", "3"), ("more", "3.000001")
        )
    }  # fmt: skip
    seen = spans.see(offers, 3_000_000)
    assert seen.micro_usd == {b"least": 1, b"most": 3_000_000}
    assert seen.marks.keys() == seen.micro_usd.keys()
    assert len(seen) == 2


def test_open_offers_without_a_poll_are_a_contradiction() -> None:
    changes = Changes(unconfirmed=[b"a"])
    with pytest.raises(ValueError, match="no poll"):
        spans.after(live_of(a="1"), changes, Seen(), last_ok_at=None)


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
        seen = poll(**prices)
        before = live
        changes, live = step(before, seen, now, last, complete=complete)
        for key, end in (*changes.closed, *changes.resumed):
            assert open_since.pop(key) < end <= at(now)
        for key in (*changes.opened, *(k for k, _ in changes.resumed)):
            assert key not in open_since
            open_since[key] = at(now)
        for key in changes.repriced:
            assert before.natives[key] != seen.native(key)
            open_since[key] = at(now)
        assert open_since.keys() == live.marks.keys() == live.micro_usd.keys()
        assert {k: live.marks[k] for k in seen.marks} == seen.marks
        assert all(live.natives[k] == seen.native(k) for k in seen.marks)
        if complete:
            assert live == opened(seen)
        assert live.seen_until.keys().isdisjoint(seen.marks)
        total = len(changes.opened) + len(changes.repriced) + len(changes.resumed)
        assert total + len(changes.updated) + changes.unchanged == len(seen)
        last = now


def test_known_until_is_the_poll_plus_the_ttl() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert spans.known_until(moment, TTL) == datetime(2026, 1, 1, 0, 3, tzinfo=UTC)


def mark(offer: Offer) -> bytes:
    return spans.mark_of(offer, to_micro_usd(offer.price.usd))


NUMBERS = st.none() | st.sampled_from(["0", "0.0", "0.05", "1", "1.0", "1.50", "1.5", "10", "100"])
DECIMALS = NUMBERS.map(lambda text: None if text is None else Decimal(text))
WORDS = st.none() | st.sampled_from(
    ["", "None", "'", "a\x1e", "a\x1f", "\x1f", "1.0\x1f", "é", "\ud800"]
)
OFFERS = st.builds(
    make_offer,
    st.just("a"),
    st.sampled_from(["1", "1.0", "1.5", "10"]),
    currency=st.sampled_from(["USD", "EUR"]),
    fx_rate=st.sampled_from(["1", "1.0", "1.1"]),
    flags=st.sampled_from([(), ("a",), ("a", "b"), ("a', 'b",), ("a\x1f",)]),
    extras=st.builds(
        Extras,
        availability=st.sampled_from(Availability),
        stock_count=st.none() | st.integers(0, 1),
        stock_label=WORDS,
        disk_gb=DECIMALS,
        network_down_mbps=DECIMALS,
        network_up_mbps=DECIMALS,
        reliability=DECIMALS,
        interruption_percent_max=st.none() | st.just(5),
        max_duration_hours=DECIMALS,
        valid_as_of=st.none() | st.just(at(0).date()),
        expires_at=st.none() | st.sampled_from([at(0), at(1)]),
        fallback=st.booleans(),
    ),
)


@given(OFFERS, OFFERS, st.sets(st.sampled_from([*Extras.__dataclass_fields__, "flags"])))
def test_marks_are_the_same_exactly_if_the_states_are(
    one: Offer, other: Offer, borrowed: set[str]
) -> None:
    extras = {k: getattr(other.listed.extras, k) for k in borrowed if k != "flags"}
    near = replace(
        one,
        listed=replace(one.listed, extras=replace(one.listed.extras, **extras)),
        flags=other.flags if "flags" in borrowed else one.flags,
    )
    for a, b in itertools.combinations((one, other, near), 2):
        assert (mark(a) == mark(b)) == (spans.moving(a) == spans.moving(b))


def test_marks_do_not_depend_on_process_or_release() -> None:
    # If this fails, what a mark is made of has changed: let its version change with it.
    everything = make_offer(
        "a", "1.50", currency="EUR", fx_rate="1.1", flags=("odd", "é"), extras=Extras(
            Availability.NO, 1, "wenig é", Decimal("1.0"), Decimal(2), Decimal(3), Decimal("0.5"),
            20, Decimal(100), at(0).date(), datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC), True),
    )  # fmt: skip
    assert [mark(o).hex() for o in (make_offer("a", "1.50"), everything)] == [
        "0e826ed8eabcb9cc", "9b6e38d2a5030e07"
    ]  # fmt: skip
