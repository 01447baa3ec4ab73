"""What the command line reads: filters, staleness, past moments, references."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.store.worlds import recording_engine
from tests.support.offers import A100, at, make_offer, make_poll
from tracker.domain.offer import Availability, Extras, Market, Terms
from tracker.provider import Payload
from tracker.store import archive, reads
from tracker.store.engine import connect
from tracker.store.polls import Recorder


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database_url, autocommit=True) as opened:
        yield opened


def names(offers: list[reads.StoredOffer]) -> set[str]:
    return {offer.native_id for offer in offers}


def test_filters(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    assert reads.live_offers(connection) == []
    recorder.record(make_poll(0, [
        make_offer("h", "1"), make_offer("a", "1", gpu=A100),
        make_offer("s", "1", market=Market.SPOT),
    ]))  # fmt: skip
    recorder.record(make_poll(0, {"other": "1"}, source="other"))

    def found(**filters: Any) -> set[str]:
        past = reads.live_offers(connection, **filters, as_of=at(0))
        current = reads.live_offers(connection, **filters)
        assert names(past) == names(current)
        return names(current)

    assert found() == {"h", "a", "s", "other"}
    assert found(gpu_keys=["A100-PCIE-40GB"]) == {"a"}
    assert found(gpu_keys=[]) == set()
    assert found(providers={"acme"}) == {"h", "a", "s"}
    assert found(providers=["nobody"]) == set()
    assert found(markets=[Market.SPOT]) == {"s"}
    assert found(markets=["on_demand"], gpu_keys=["H100-SXM-80GB"], providers=["acme"]) == {"h"}


def test_staleness(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    expires = Extras(expires_at=at(2), fallback=True)
    recorder.record(make_poll(0, [make_offer("a", "1"), make_offer("b", "1", extras=expires)]))
    recorder.record(make_poll(1, [make_offer("b", "1", extras=expires)], status="partial"))
    times = {o.native_id: (o.seen_at, o.stale_at) for o in reads.live_offers(connection)}
    assert times == {"a": (at(0), at(3)), "b": (at(1), at(2))}


def test_past_moments_are_exact(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    stocked = Extras(availability=Availability.YES, stock_count=4, fallback=True)
    recorder.record(make_poll(0, [make_offer("a", "1", extras=stocked)]))
    recorder.record(make_poll(1, [make_offer("a", "2", extras=stocked)]))

    def price(minutes: float) -> list[Decimal]:
        return [o.price_native for o in reads.live_offers(connection, as_of=at(minutes))]

    assert [price(m) for m in (-0.01, 0, 0.99, 1, 3.99, 4)] == [[], [1], [1], [2], [2], []]
    for minutes, seen, end in ((0.5, 0, 1), (1, 1, 4), (2, 1, 4)):
        [past] = reads.live_offers(connection, as_of=at(minutes))
        assert (past.seen_at, past.stale_at) == (at(seen), at(end))
        assert (past.availability, past.stock_count) == ("unknown", None)  # not kept in history
        assert past.fallback


def test_typed_prices_keep_their_dates(
    recorder: Recorder, connection: psycopg.Connection[Any]
) -> None:
    typed = Extras(valid_as_of=at(0).date(), expires_at=at(2.5))
    for minutes, price in ((0, "1"), (1, "2"), (2, "2")):
        recorder.record(make_poll(minutes, [make_offer("a", price, extras=typed)]))
    for moment, seen, stale_at in ((0.5, 0, 1.0), (1.5, 1, 2.5), (2.7, 2, 2.5)):
        [past] = reads.live_offers(connection, as_of=at(moment))
        assert (past.valid_as_of, past.expires_at) == (at(0).date(), at(2.5))
        assert (past.seen_at, past.stale_at) == (at(seen), at(stale_at))


def test_a_past_price_was_confirmed_by_the_last_complete_poll_before(
    recorder: Recorder, connection: psycopg.Connection[Any]
) -> None:
    recorder.record(make_poll(0, {"a": "1", "b": "1"}))
    recorder.record(make_poll(1, {"b": "1", "c": "1"}, status="partial"))
    recorder.record(make_poll(2, {"a": "1", "b": "2"}))
    recorder.record(make_poll(0.4, {"z": "1"}, source="other"))
    recorder.record(make_poll(2.5, (), source="other", status="failed"))

    def seen(minutes: float) -> dict[str, float]:
        found = reads.live_offers(connection, as_of=at(minutes))
        return {o.native_id: (o.seen_at - at(0)).total_seconds() / 60 for o in found if o.seen_at}

    assert seen(0.3) == {"a": 0, "b": 0}
    # Of a partial poll it is only known whom it began with.
    assert seen(1.5) == {"a": 0, "b": 0, "c": 1, "z": 0.4}
    assert seen(2.7) == {"a": 2, "b": 2, "z": 0.4}
    assert all(o.confirmed_at == o.seen_at for o in reads.live_offers(connection, as_of=at(2.7)))


def test_shelves(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    unknown = Terms(commitment_unknown=True)
    month = Terms(commitment_hours=730)
    recorder.record(make_poll(0, [
        make_offer("a", "1"), make_offer("gone", "1", market=Market.SPOT),
        make_offer("m", "1", market=Market.MONTHLY, terms=month),
        make_offer("r", "1", market=Market.RESERVED),
        make_offer("c", "1", market=Market.CAPACITY_BLOCK, terms=unknown),
    ]))  # fmt: skip
    expiring, listed = Extras(expires_at=at(2)), Extras(fallback=True)
    recorder.record(make_poll(0, [
        make_offer("x", "1", source="other", extras=expiring),
        make_offer("f", "1", source="other", market=Market.SPOT, extras=listed),
        make_offer("s", "1", source="other", seller="third"),
    ], source="other"))  # fmt: skip
    recorder.record(make_poll(1, {"a": "2"}, status="partial"))

    everybody = {"acme", "other", "third", "never heard of"}

    def found(minutes: float, **options: Any) -> frozenset[reads.Shelf]:
        return reads.live_shelves(connection, sellers=everybody, now=at(minutes), **options)

    def shelves(minutes: float) -> set[str]:
        now = found(minutes)
        assert found(99, as_of=at(minutes)) == now
        return {f"{seller} {market}" for seller, market in now}

    assert shelves(1) == {"acme on_demand", "acme spot", "acme monthly", "other on_demand"}
    assert shelves(2) == {"acme on_demand", "acme spot", "acme monthly"}
    assert shelves(3) == {"acme on_demand"}
    assert shelves(4) == set()
    recorder.record(make_poll(9, {"a": "3"}))  # what was open is closed: read from the past
    assert ("acme", "spot") in found(99, as_of=at(1))
    assert found(9) == {("acme", "on_demand")}
    everybody = {"other"}
    assert found(1) == found(99, as_of=at(1)) == {("other", "on_demand")}
    everybody = set()
    assert found(1) == frozenset()


def test_references(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    a, b = make_offer("a/1", "1"), make_offer("b", "2")
    payloads = [Payload("https://x", b"{}", at(0))]
    recorder.record(make_poll(0, [a, b], payloads=payloads))
    recorder.record(make_poll(1, [a]))
    recorder.record(make_poll(0, {"b": "3"}, source="other"))

    def found(reference: str) -> list[tuple[str, str, bool]]:
        return [
            (f.offer.provider, f.offer.native_id, f.live)
            for f in reads.find_offer(connection, reference)
        ]

    assert found(a.key.hex()) == found(a.key.hex()[:5].upper()) == [("acme", "a/1", True)]
    assert found("acme/a/1") == found("a/1") == [("acme", "a/1", True)]
    assert found("b") == [("other", "b", True), ("acme", "b", False)]
    assert found("acme/b") == [("acme", "b", False)]
    assert found("nothing") == found("abc") == found("%") == []
    assert reads.find_offer(connection, "b", limit=1)[0].live

    [gone] = reads.find_offer(connection, "acme/b")
    assert (gone.offer.price_native, gone.offer.valid_from) == (Decimal(2), at(0))
    assert (gone.offer.seen_at, gone.offer.stale_at) == (at(0), at(1))
    poll = reads.poll_that_saw(connection, gone.offer.source, gone.offer.seen_at)
    assert poll is not None
    assert archive.payloads_of_poll(connection, poll.id) == payloads
    assert reads.poll_that_saw(connection, "acme", at(77)) is None


def test_offer_spans(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    for minutes, price in ((0, "1"), (1, "2"), (9, "2")):
        recorder.record(make_poll(minutes, {"a": price}))
    [offer] = reads.live_offers(connection)
    spans = reads.offer_spans(connection, offer.offer_id)
    assert [(s.valid_from, s.valid_to, s.price_native, s.open) for s in spans] == [
        (at(0), at(1), Decimal(1), False),
        (at(1), at(4), Decimal(2), False),
        (at(9), at(12), Decimal(2), True),
    ]
    assert reads.offer_spans(connection, -1) == []


def test_polls_and_providers(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    recorder.record(make_poll(0, {"a": "1"}, facts={"title": "Acme"}, requests=3, bytes=10))
    recorder.record(make_poll(1, status="failed", error="time-out"))
    recorder.record(make_poll(0, {"a": "1"}, source="other", status="partial",
                              incomplete_reason="page 2 missing"))  # fmt: skip
    newest, middle, _ = reads.polls(connection)
    assert (newest.provider, newest.incomplete_reason) == ("other", "page 2 missing")
    assert (middle.status, middle.error) == ("failed", "time-out")
    [first] = reads.polls(connection, "acme", limit=5)[1:]
    assert (first.requests, first.bytes, first.opened) == (3, 10, 1)
    assert reads.polls(connection, "nobody") == []
    acme, _ = reads.providers(connection)
    assert acme.slug == "acme"
    assert acme.facts == {"title": "Acme"}
    assert (acme.last_ok_at, acme.last_attempt_at) == (at(0), at(1))
    assert (acme.last_error, acme.consecutive_failures, acme.offers) == ("time-out", 1, 1)


def test_database_size(recorder: Recorder, connection: psycopg.Connection[Any]) -> None:
    assert reads.database_size(connection).since is None
    recorder.record(make_poll(0, {"a": "1"}))
    recorder.record(make_poll(1, {"a": "2"}))
    size = reads.database_size(connection)
    assert (size.live_offers, size.since) == (1, at(0))
    assert size.bytes > size.tables["price_span"].bytes > 0
    assert not any(name.startswith("price_span_") for name in size.tables)


def test_reading_needs_no_sqlalchemy() -> None:
    code = (
        "import sys; from tracker.store import reads, archive, engine;"
        "print([m for m in ('sqlalchemy', 'alembic', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
