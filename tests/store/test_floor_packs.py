"""Which months are packed, and what throws a pack away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.worlds import recording_engine, rows
from tests.support.offers import A100, make_offer, make_poll
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Offer
from tracker.store import floor_packs, floor_rebuild
from tracker.store.engine import connect
from tracker.store.polls import Recorder
from tracker.store.series.packing import unpack

DAY = 24 * 60
APRIL, MAY = "2026-04-01", "2026-05-01"


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


def poll(recorder: Recorder, days: float, *offers: Offer, source: str = "acme") -> None:
    """*days* after 30 March 2026, 22:00."""
    recorder.record(make_poll(days * DAY, offers, every_seconds=40 * 86_400, source=source))


def build(url: str, now: datetime) -> int:
    with connect(url) as connection:
        return floor_packs.build(connection, now=now)


def packed(url: str, gpu: Gpu | None = None) -> list[str]:
    found = rows(url, "SELECT gpu_key, month FROM floor_pack ORDER BY 2, 1")
    return [str(month) for key, month in found if gpu is None or key == gpu.key]


def test_settled_months_are_packed_once(database_url: str, recorder: Recorder) -> None:
    poll(recorder, 0, make_offer("a", "1"), make_offer("b", "2", gpu=A100))
    poll(recorder, 40, make_offer("a", "3"), make_offer("b", "2", gpu=A100))
    just_over = datetime(2026, 5, 1, tzinfo=UTC)
    assert build(database_url, just_over) == 2  # March
    assert build(database_url, just_over + timedelta(days=1)) == 2
    assert build(database_url, just_over + timedelta(days=1)) == 0
    assert packed(database_url, A100) == ["2026-03-01", APRIL]
    [(body,)] = rows(
        database_url, "SELECT body FROM floor_pack WHERE gpu_key LIKE 'H100%%' AND month = %s",
        (APRIL,),
    )  # fmt: skip
    steps = unpack(body)
    assert steps.micro_usd.tolist() == [1_000_000]
    assert (steps.ends - steps.starts).tolist() == [30 * 86_400 * 10**6]


def test_a_late_poll_throws_away_its_month_and_those_after(
    database_url: str, recorder: Recorder
) -> None:
    poll(recorder, 0, make_offer("a", "1"))
    assert build(database_url, datetime(2026, 6, 3, tzinfo=UTC)) == 3
    poll(recorder, 10, make_offer("a", "1"))  # unchanged: but known for longer now
    assert packed(database_url) == ["2026-03-01"]


def test_a_rate_throws_away_the_months_of_an_open_step(
    database_url: str, recorder: Recorder
) -> None:
    def euros(rate: str) -> Offer:
        return make_offer("a", "1", currency="EUR", fx_rate=rate)

    now = datetime.now(UTC)
    first = now - timedelta(days=70)
    for moment, rate in ((first, "1.1"), (now - timedelta(minutes=2), "1.1")):
        recorder.record(
            make_poll(
                0, [euros(rate), make_offer("b", "2", gpu=A100)], polled_at=moment,
                every_seconds=40 * 86_400,
            )
        )  # fmt: skip
    assert build(database_url, now) >= 2
    others = packed(database_url, A100)
    recorder.record(
        make_poll(
            0, [euros("1.2"), make_offer("b", "2", gpu=A100)], polled_at=now,
            every_seconds=40 * 86_400,
        )
    )  # fmt: skip
    assert packed(database_url) == packed(database_url, A100) == others
    [(micro, rate)] = rows(
        database_url,
        "SELECT f.price_micro_usd, f.fx_rate FROM floor_now f JOIN floor_key k ON k.id = f.key_id"
        " WHERE k.currency = 'EUR'",
    )
    assert (micro, str(rate)) == (1_200_000, "1.2")


def test_a_rebuild_throws_the_packs_of_its_gpus_away(database_url: str, recorder: Recorder) -> None:
    poll(recorder, 0, make_offer("a", "1"))
    other = make_offer("b", "2", gpu=A100, source="other")
    poll(recorder, 0, other, source="other")
    build(database_url, datetime(2026, 5, 3, tzinfo=UTC))
    with connect(database_url) as connection:
        floor_rebuild.rebuild(connection, "acme")
    assert packed(database_url) == packed(database_url, A100) == ["2026-03-01", APRIL]


def test_nothing_is_packed_while_floors_are_missing(database_url: str, recorder: Recorder) -> None:
    poll(recorder, 0, make_offer("a", "1"))
    rows(database_url, "UPDATE provider SET floor_built = false")
    assert build(database_url, datetime(2026, 6, 3, tzinfo=UTC)) == 0
