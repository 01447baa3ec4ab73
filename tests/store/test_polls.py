"""Recording single polls: what is written, what is refused, and what the gates are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.store.worlds import recording_engine, rows, stored_history
from tests.support.offers import A100, at, make_offer, make_poll
from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.offer import Availability, Discount, Extras, Market, Offer, Terms
from tracker.domain.quality import Pending
from tracker.provider import Rejected
from tracker.store import reads
from tracker.store.engine import read_connection
from tracker.store.errors import StoreError
from tracker.store.polls import Poll, PollContext, Recorder


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


def live(url: str) -> dict[str, reads.StoredOffer]:
    with read_connection(url) as connection:
        return {offer.native_id: offer for offer in reads.live_offers(connection)}


def test_everything_said_of_an_offer_is_kept(recorder: Recorder, database_url: str) -> None:
    offer = make_offer(
        "x'\"\\{},é 1", "10.50", gpu=A100, currency="EUR", fx_rate="1.0834", flags=('a "b"', "c,d"),
        gpu_count=Decimal("0.5"), market=Market.SPOT, tier="secure", region="eu\\1", country="DE",
        interconnect="NVLink", vcpus=Decimal("7.5"), ram_gib=Decimal(64), dedicated=True,
        datacenter=False, upstream="other", notes=("one", 'two "2"'), source_url="https://x/?a={b}",
        terms=Terms(60, 3600, 730, True, Decimal(100), Decimal("0.0001"), Decimal("0.09")),
        extras=Extras(
            Availability.YES, 3, "low, very", Decimal("1.10"), Decimal(1000), Decimal(500),
            Decimal("0.99"), 5, Decimal(72), at(0).date(), at(9000), True,
        ),
    )  # fmt: skip
    recorder.record(make_poll(0, [offer], default_tiers=("secure",), marketplace=True))
    [(name, stored)] = live(database_url).items()
    x = offer.listed
    assert name == x.source_id
    assert stored.key == offer.key
    for group in (x, x.terms, x.extras):
        for field in dataclasses.fields(group):
            if field.name in stored._fields and field.name not in ("vram_gb", "form_factor"):
                assert getattr(stored, field.name) == getattr(group, field.name), field.name
    assert stored.price_native == Decimal("10.50")
    assert stored.price_micro_usd == 11_375_700
    assert (stored.fx_rate, stored.fx_date) == (Decimal("1.0834"), at(0).date())
    assert (stored.gpu_key, stored.gpu_family, stored.form_factor, stored.vram_gb) == (
        "A100-PCIE-40GB", "A100", "PCIE", 40,
    )  # fmt: skip
    assert stored.flags == ('a "b"', "c,d")
    assert (stored.provider, stored.source) == ("acme", "acme")
    assert (stored.marketplace, stored.default_tiers) == (True, ("secure",))
    assert (stored.valid_from, stored.seen_at, stored.stale_at) == (at(0), at(0), at(3))
    with read_connection(database_url) as connection:
        [found] = reads.find_offer(connection, offer.key.hex()[:8])
    assert found.offer == stored
    assert (found.gpu_raw, found.source_url, found.notes) == ("A100", x.source_url, x.notes)


def test_same_payload_again_writes_no_span(recorder: Recorder, database_url: str) -> None:
    first = recorder.record(make_poll(0, {"a": "1", "b": "2"}))
    assert (first.status, first.offers, first.opened) == ("complete", 2, 2)
    before = rows(database_url, "SELECT *, xmin::text FROM offer_now ORDER BY offer_id")
    again = recorder.record(make_poll(1, {"a": "1", "b": "2"}))
    cold = Recorder(recorder._engine).record(make_poll(2, {"b": "2", "a": "1.0"}))
    for recorded in (again, cold):
        assert recorded == dataclasses.replace(
            first, poll_id=recorded.poll_id, opened=0, unchanged=2
        )
    assert rows(database_url, "SELECT *, xmin::text FROM offer_now ORDER BY offer_id") == before
    assert rows(database_url, "SELECT count(*) FROM price_span") == [(0,)]


def test_cold_and_warm_recorders_agree_on_every_kind_of_offer(recorder: Recorder) -> None:
    offers = [
        make_offer("plain", "1"),
        make_offer("euro", "2.00", currency="EUR", fx_rate="1.1", flags=("odd", "dear")),
        make_offer("full", "3", extras=Extras(
            Availability.NO, 1, "x", Decimal("1.0"), Decimal(2), Decimal(3), Decimal("0.5"), 20,
            Decimal("1E+2"), at(0).date(), datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC), True)),
    ]  # fmt: skip
    recorder.record(make_poll(0, offers))
    assert Recorder(recorder._engine).record(make_poll(1, offers)).unchanged == 3


def test_price_change_closes_one_span(recorder: Recorder, database_url: str) -> None:
    recorder.record(make_poll(0, {"a": "1", "b": "2"}))
    recorded = recorder.record(make_poll(1, {"a": "1.5", "b": "2"}))
    assert (recorded.changed, recorded.unchanged) == (1, 1)
    assert stored_history(database_url) == {
        "a": [(at(0), at(1), Decimal(1)), (at(1), at(4), Decimal("1.5"))],
        "b": [(at(0), at(4), Decimal(2))],
    }


def test_moving_rate_is_not_a_price_change(recorder: Recorder, database_url: str) -> None:
    recorder.record(make_poll(0, [make_offer("a", "1", currency="EUR", fx_rate="1.1")]))
    moved = [make_offer("a", "1", currency="EUR", fx_rate="1.2")]
    recorded = recorder.record(make_poll(1, moved))
    assert (recorded.changed, recorded.updated) == (0, 1)
    assert live(database_url)["a"].price_micro_usd == 1_200_000
    assert live(database_url)["a"].valid_from == at(0)
    recorder.record(make_poll(2, {"b": "1"}))
    assert rows(database_url, "SELECT price_native, price_micro_usd, fx_rate FROM price_span") == [
        (Decimal(1), 1_200_000, Decimal("1.2"))
    ]


def test_offer_that_comes_back_keeps_its_id(recorder: Recorder, database_url: str) -> None:
    recorder.record(make_poll(0, {"a": "1", "b": "1"}))
    ids = {name: offer.offer_id for name, offer in live(database_url).items()}
    recorder.record(make_poll(1, {"b": "1"}))
    recorder.record(make_poll(2, {"a": "1", "b": "1", "c": "1"}))
    assert {n: o.offer_id for n, o in live(database_url).items() if n != "c"} == ids
    assert len(stored_history(database_url)["a"]) == 2


@pytest.mark.parametrize("status", ["failed", "empty", "shrunk"])
def test_refused_polls_leave_prices_alone(
    recorder: Recorder, database_url: str, status: str
) -> None:
    recorder.record(make_poll(0, {"a": "1"}))
    before = stored_history(database_url)
    for count in (1, 2):
        poll = make_poll(count, {"b": "9"}, status=status, error="it broke")
        assert recorder.record(poll).status == status
        [(failures, error, last)] = rows(
            database_url, "SELECT consecutive_failures, last_error, last_status FROM provider"
        )
        assert (failures, error, last) == (count, "it broke", status)
    assert stored_history(database_url) == before
    recorder.record(make_poll(2.5, {"a": "1"}))
    assert rows(database_url, "SELECT consecutive_failures, last_error FROM provider") == [
        (0, None)
    ]


def test_poll_that_brings_nothing_is_empty_whatever_it_claims(
    recorder: Recorder, database_url: str
) -> None:
    recorder.record(make_poll(0, {"a": "1"}))
    assert recorder.record(make_poll(1)).status == "empty"
    assert live(database_url).keys() == {"a"}


def test_late_and_repeated_polls_are_kept_apart(recorder: Recorder, database_url: str) -> None:
    recorder.record(make_poll(2, {"a": "1"}))
    recorder.record(make_poll(3, {"a": "2"}))
    before = stored_history(database_url)
    assert recorder.record(make_poll(2.5, {"a": "7"})).status == "late"
    assert recorder.record(make_poll(3, {"a": "8"})).status == "duplicate"
    assert recorder.record(make_poll(2, {"a": "9"})).status == "duplicate"
    assert recorder.record(make_poll(2, {"a": "9"})).status == "duplicate"
    assert recorder.record(make_poll(3, status="failed", error="slow")).status == "failed"
    assert stored_history(database_url) == before
    assert rows(database_url, "SELECT consecutive_failures FROM provider") == [(0,)]
    with read_connection(database_url) as connection:
        assert len(reads.polls(connection, "acme")) == 7


def test_two_prices_for_one_offer_keep_the_dearer(recorder: Recorder, database_url: str) -> None:
    for minutes, prices in enumerate((("1", "3", "2"), ("3", "2", "1"))):
        recorded = recorder.record(make_poll(minutes, [make_offer("a", p) for p in prices]))
        assert recorded.offers == 1
    assert recorded.unchanged == 1
    assert live(database_url)["a"].price_native == Decimal(3)


def test_price_that_cannot_be_stored_costs_only_itself(
    recorder: Recorder, database_url: str
) -> None:
    recorded = recorder.record(make_poll(0, {"a": "1", "tiny": "0.0000001", "huge": "1E+15"}))
    assert (recorded.offers, recorded.rejected) == (1, 2)
    [(rejects,)] = rows(database_url, "SELECT rejects FROM poll")
    assert rejects["price out of range"]["count"] == 2


def test_odd_text_does_not_cost_the_poll(recorder: Recorder, database_url: str) -> None:
    offers = [
        make_offer("nul\0", "1", notes=("\ud800",)),
        make_offer("half", "1", gpu_name="\ud83d", extras=Extras(stock_label="\0\ud800")),
    ]
    rejected = [Rejected("bad\0", "\ud800"), Rejected("bad\0", "other")]
    poll = make_poll(0, offers, rejected=rejected, error="x\0y", facts={"title": "é"})
    assert recorder.record(poll).opened == 2
    assert live(database_url).keys() == {"nul\ufffd", "half"}
    assert live(database_url)["half"].stock_label == "\ufffd?"
    assert rows(database_url, "SELECT rejects, error FROM poll") == [
        ({"bad\ufffd": {"count": 2, "sample": "?"}}, "x\ufffdy")
    ]


def test_unchanged_content_is_dated(recorder: Recorder) -> None:
    for minutes, content in enumerate((b"1" * 32, b"1" * 32, b"2" * 32)):
        recorder.record(make_poll(minutes, {"a": "1"}, content_sha256=content))
        context = recorder.context("acme")
        assert context.content_sha256 == content
        assert context.content_since == at(2 if minutes == 2 else 0)


def test_partition_that_is_missing_is_made_again(recorder: Recorder, database_url: str) -> None:
    recorder.record(make_poll(0, {"a": "1"}))
    rows(database_url, "DROP TABLE price_span_2026_03")
    with pytest.raises(StoreError):
        recorder.record(make_poll(1, {"a": "2"}))
    assert len(stored_history(database_url)["a"]) == 1
    Recorder(recorder._engine).record(make_poll(1, {"a": "2"}))
    assert len(stored_history(database_url)["a"]) == 2


def test_price_book_has_sellers_of_its_own_and_of_others(
    recorder: Recorder, database_url: str
) -> None:
    recorder.record(make_poll(0, {"r": "1"}, source="runpod", default_tiers=("secure",)))
    book = [
        make_offer("1", "2", source="pricebook", seller="runpod"),
        make_offer("2", "3", source="pricebook", seller="friend"),
    ]
    poll = make_poll(0, book, source="pricebook", kind="pricebook", default_tiers=("any",))
    recorder.record(poll)
    offers = live(database_url)
    assert (offers["1"].provider, offers["1"].source) == ("runpod", "pricebook")
    assert offers["1"].default_tiers == ("secure",)
    assert offers["2"].provider == "friend"
    assert offers["2"].default_tiers == ("any",)
    with read_connection(database_url) as connection:
        kinds = {p.slug: (p.kind, p.offers) for p in reads.providers(connection)}
    assert kinds == {
        "runpod": ("stream", 1),
        "pricebook": ("pricebook", 2),
        "friend": ("seller", 0),
    }
    recorder.record(make_poll(0, {"f": "1"}, source="friend"))
    assert live(database_url)["2"].default_tiers == ()


def held(offer: Offer, confirmations: int, gate: str = "jump") -> Quarantined:
    return Quarantined(offer, gate, "looks wrong", True, confirmations)


def test_quarantine_follows_its_offers(recorder: Recorder, database_url: str) -> None:
    cheap = make_offer("a", "0.1")
    recorder.record(make_poll(0, {"a": "5", "b": "1"}))
    recorder.record(make_poll(1, {"b": "1"}, quarantined=[held(cheap, 1)]))
    context = recorder.context("acme")
    assert context.pending == {(cheap.key, "jump"): Pending(100_000, 1)}
    assert context.last_price_micro_usd[cheap.key] == 5_000_000  # though its span is closed
    assert Recorder(recorder._engine).context("acme") == context

    # Not seen by a partial poll: nothing is known of it. Seen again: counted on.
    recorder.record(make_poll(2, {"b": "1"}, status="partial"))
    assert recorder.context("acme").pending == context.pending
    recorder.record(make_poll(3, {"b": "1"}, quarantined=[held(cheap, 2)]))
    with read_connection(database_url) as connection:
        [row] = reads.quarantined(connection)
    assert (row.first_seen_at, row.last_seen_at, row.confirmations) == (at(1), at(3), 2)
    assert (row.accepted_micro_usd, row.price_micro_usd) == (5_000_000, 100_000)

    # Released, it stays known to its gate as long as the offer lives.
    released = make_poll(4, [cheap, make_offer("b", "1")], released=[held(cheap, 3)])
    recorder.record(released)
    recorder.record(make_poll(5, [cheap]))
    assert recorder.context("acme").pending == {(cheap.key, "jump"): Pending(100_000, 3, True)}
    with read_connection(database_url) as connection:
        assert reads.quarantined(connection) == []
        assert len(reads.quarantined(connection, include_released=True)) == 1
    recorder.record(make_poll(6, {"b": "1"}))
    assert recorder.context("acme").pending, "missed once"
    recorder.record(make_poll(7, {"b": "1"}))
    assert recorder.context("acme").pending == {}


def test_offer_that_passes_by_itself_leaves_quarantine(recorder: Recorder) -> None:
    recorder.record(make_poll(0, {"b": "1"}, quarantined=[held(make_offer("a", "9"), 1, "band")]))
    recorder.record(make_poll(1, {"a": "2", "b": "1"}, status="partial"))
    assert recorder.context("acme").pending == {}


def test_two_held_prices_of_one_offer_are_one_row(recorder: Recorder, database_url: str) -> None:
    both = [held(make_offer("a", price), 1, "duplicate") for price in ("2", "1", "3")]
    recorded = recorder.record(make_poll(0, {"b": "1"}, quarantined=both))
    assert recorded.quarantined == 3
    assert rows(database_url, "SELECT price_micro_usd FROM quarantine") == [(1_000_000,)]


def test_unknown_gpus_are_listed_while_they_are_seen(recorder: Recorder, database_url: str) -> None:
    known = {"a": "1"}
    recorder.record(make_poll(0, known, unmapped=[UnmappedGpu("GX1", "80 GB", "s", 2)]))
    recorder.record(make_poll(1, known, status="partial"))
    recorder.record(make_poll(2, known, unmapped=[UnmappedGpu("GX1", "80 GB", "t", 5)]))
    with read_connection(database_url) as connection:
        [row] = reads.unmapped(connection)
    assert (row.name, row.rows_last_poll, row.sample) == ("GX1", 5, "t")
    assert (row.first_seen_at, row.last_seen_at) == (at(0), at(2))
    Recorder(recorder._engine).record(make_poll(3, known))
    with read_connection(database_url) as connection:
        assert reads.unmapped(connection) == []


def test_discounts_are_replaced_by_complete_polls_only(
    recorder: Recorder, database_url: str
) -> None:
    one = Discount("aws", Decimal(10), at(0).date(), at(60), market=Market.ON_DEMAND)
    two = Discount("aws", Decimal(20), at(0).date(), at(60), gpu="H100", note="yearly")

    def in_force(minutes: float) -> list[Discount]:
        with read_connection(database_url) as connection:
            told = reads.discounts(connection, at(minutes))
        assert {d.since for d in told} <= {at(0), at(4)}
        plain = {d.provider + str(d.percent): d for d in (one, two)}
        now = [d for d in told if d.since and d.since <= at(minutes)]
        return [plain[d.provider + str(d.percent)] for d in now]

    recorder.record(make_poll(0, discounts=[one, two]))
    assert in_force(59) == [one, two]
    assert in_force(60) == []
    recorder.record(make_poll(1, {"a": "1"}, status="partial", discounts=[one]))
    assert in_force(1) == [one, two]
    ids = rows(database_url, "SELECT id FROM discount")
    Recorder(recorder._engine).record(make_poll(2, {"a": "1"}, discounts=[two, one]))
    assert rows(database_url, "SELECT id FROM discount") == ids
    recorder.record(make_poll(3, {"a": "1"}, discounts=[two]))
    assert in_force(3) == [two]
    assert in_force(2.9) == [one, two]  # what was in force then is kept
    Recorder(recorder._engine).record(make_poll(4, {"a": "1"}, discounts=[one]))
    assert (in_force(4), in_force(3.9), in_force(2.9)) == ([one], [two], [one, two])
    recorder.record(make_poll(5, {"a": "1"}, discounts=[one]))
    assert len(rows(database_url, "SELECT id FROM discount")) == 3


def test_context_tells_what_the_shrink_guard_needs(recorder: Recorder) -> None:
    assert recorder.context("acme") == PollContext()
    recorder.record(make_poll(0, {"a": "1", "b": "1", "c": "1"}))
    recorder.record(make_poll(1, {"a": "1"}, status="partial"))
    recorder.record(make_poll(2, {"a": "1"}, status="shrunk"))
    recorder.record(make_poll(2.5, status="failed"))
    recorder.record(make_poll(3, {"a": "1", "b": "1"}, status="shrunk"))
    context = recorder.context("acme")
    assert (context.complete_count, context.shrunk_counts) == (3, (2, 1))
    assert (context.last_ok_at, context.consecutive_failures) == (at(1), 3)
    recorder.record(make_poll(3.5, {"a": "1"}))
    context = recorder.context("acme")
    assert (context.complete_count, context.shrunk_counts) == (1, ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": "late"}, "complete, partial, empty, failed, shrunk"),
        ({"polled_at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"every_seconds": 0}, "positive"),
    ],
)
def test_contradictory_polls_are_refused(fields: dict[str, object], message: str) -> None:
    options = {"source": "x", "status": "complete", "started_at": at(0), "polled_at": at(0)}
    with pytest.raises(ValueError, match=message):
        Poll(**(options | {"every_seconds": 60} | fields))  # type: ignore[arg-type]


def test_offers_of_another_source_are_refused(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="an offer of acme in a poll of other"):
        recorder.record(make_poll(0, [make_offer("a", "1")], source="other"))
