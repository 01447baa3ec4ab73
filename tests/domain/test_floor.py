"""The steps that a floor is laid out in, against looking at every moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.floor import FloorIdentity, OpenStep, settle, stairs

START = datetime(2026, 3, 1, tzinfo=UTC)
TTL = timedelta(minutes=3)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


OFFERS = st.dictionaries(
    st.integers(1, 6),
    # price, and minutes before the poll at which it was last seen (0: by the poll)
    st.tuples(st.sampled_from(["1", "2", "2.0", "3"]).map(Decimal), st.integers(0, 4)),
    max_size=6,
)


@given(offers=OFFERS)
def test_stairs_are_the_lowest_price_still_known_at_every_moment(
    offers: dict[int, tuple[Decimal, int]],
) -> None:
    poll = at(10)
    members = {id_: price for id_, (price, _) in offers.items()}
    seen = {id_: poll - timedelta(minutes=ago) for id_, (_, ago) in offers.items() if ago}
    ahead = stairs(members, seen, at=poll, ttl=TTL)
    steps, begin = [], poll
    for stair in ahead:
        end = (stair.seen_until or poll) + TTL
        steps.append((begin, end, stair))
        begin = end
    assert [s.native for s in ahead] == sorted({s.native for s in ahead})
    for half_minutes in range(7):
        moment = poll + timedelta(minutes=half_minutes / 2)
        known = {id_: members[id_] for id_ in members if seen.get(id_, poll) + TTL > moment >= poll}
        found = [(start, stair) for start, end, stair in steps if start <= moment < end]
        assert len(found) == bool(known)
        for start, stair in found:
            assert stair.native == min(known.values())
            assert members[stair.offer_id] == stair.native
            assert seen.get(stair.offer_id, poll) + TTL > start  # it had it when the step began


def test_a_price_that_stays_goes_on_whoever_has_it() -> None:
    step = OpenStep(7, Decimal(2), at(0), None)
    ahead = stairs({8: Decimal("2.00")}, {}, at=at(1), ttl=TTL)
    settled = settle(
        [step], ahead, at=at(1), last_ok_at=at(0), ttl_before=TTL, ttl=TTL, expires_at=None
    )
    assert (settled.steps, settled.ended, settled.written) == ([step], [], [])


def test_a_gap_ends_a_step_where_its_price_ceased_to_be_known() -> None:
    step = OpenStep(7, Decimal(2), at(0), None)
    ahead = stairs({7: Decimal(2)}, {}, at=at(9), ttl=TTL)
    settled = settle(
        [step], ahead, at=at(9), last_ok_at=at(1), ttl_before=TTL, ttl=TTL, expires_at=None
    )
    assert settled.ended == [(step, at(4))]
    assert settled.steps == [OpenStep(7, Decimal(2), at(9), None)]


def test_nothing_of_a_floor_holds_beyond_its_expiry() -> None:
    step = OpenStep(7, Decimal(2), at(0), None)
    ahead = stairs({8: Decimal(1)}, {}, at=at(2), ttl=TTL)
    settled = settle(
        [step], ahead, at=at(2), last_ok_at=at(1), ttl_before=TTL, ttl=TTL, expires_at=at(1.5)
    )
    assert settled.ended == [(step, at(1.5))]
    assert settled.steps == []


def test_one_identity_has_one_digest_however_its_numbers_and_times_are_written() -> None:
    def digest(count: str, expires_at: datetime) -> bytes:
        return FloorIdentity(
            "acme", "acme", "H100", Decimal(count), "on_demand", "standard", "machine_hour", "USD",
            "fixed", 60, None, None, False, None, None, None, False, expires_at,
        ).digest  # fmt: skip

    local = at(0).astimezone(tz=None)
    assert digest("1", at(0)) == digest("1.0", local)
    assert digest("1", at(0)) != digest("2", at(0))
    assert digest("1", at(0)) != digest("1", at(1))
