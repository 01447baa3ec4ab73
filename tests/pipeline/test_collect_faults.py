"""Whatever a provider's module gives back or raises: that provider fails, named, and no other."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from tests.pipeline.test_collect import listed, module, two
from tests.support.clouds import query
from tests.support.lab import Lab, at
from tracker import fx, registry
from tracker.collect import exchange
from tracker.domain.normalize import FxRate
from tracker.provider import (
    Discount,
    Extras,
    HttpClient,
    NativePrice,
    Parsed,
    ParseError,
    Payload,
    PriceUnit,
    ProviderConfig,
    Rejected,
    load_json,
)
from tracker.store.errors import DatabaseFailed, DatabaseUnreachable
from tracker.store.polls import Poll, Recorded

GOOD = listed("a", "2.5")
NAIVE = at(0).replace(tzinfo=None)


def _fetch(answer: Any) -> dict[str, Any]:
    async def give(http: HttpClient, config: ProviderConfig) -> Sequence[Payload]:
        if isinstance(answer, BaseException):
            raise answer
        return cast(Sequence[Payload], answer)

    return {"fetch": give}


def _parse(error: BaseException) -> dict[str, Any]:
    def fail(payloads: Sequence[Payload]) -> Parsed:
        raise error

    return {"parse": fail}


def _given(*offers: Any, **fields: Any) -> dict[str, Any]:
    return {"parsed": Parsed(offers, **fields)}


def _but(**fields: Any) -> Any:
    return replace(GOOD, **fields)


def _price(amount: Any) -> Any:
    return replace(GOOD, price=NativePrice(amount, "USD", PriceUnit.MACHINE_HOUR))


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_fetch(None), "its fetch gave NoneType, not a list of Payload"),
        (_fetch([b"{}"]), "payloads[0] is bytes, not Payload"),
        (_fetch([Payload("u", "{}", at(0))]), "payloads[0].body is str, not bytes"),  # type: ignore[arg-type]
        (_fetch([Payload("u", b"{}", NAIVE)]), "fetched_at has no time zone"),
        pytest.param(
            _fetch([Payload("u", b"{}", datetime(9999, 12, 31, tzinfo=UTC))]),
            "is the clock right?",
            id="far ahead",
        ),
        pytest.param(
            _fetch([Payload("u", b"{}", datetime(1, 1, 1, tzinfo=UTC))]),
            "is the clock right?",
            id="long ago",
        ),
        (_fetch(SystemExit(3)), "its fetch failed: SystemExit: 3"),
        (_fetch(asyncio.CancelledError()), "its fetch failed: CancelledError"),
        (_fetch(_Mute()), "its fetch failed: _Mute"),
        (_parse(SystemExit("bye")), "parse: failed with SystemExit: bye"),
        (_given(_but(gpu_count=1)), "offers[0].gpu_count is int, not Decimal"),
        (_given(GOOD, _price(3.5)), "offers[1].price.amount is float, not Decimal"),
        (_given(_but(gpu_name=None)), "offers[0].gpu_name is NoneType, not str"),
        (_given(_but(market="spot")), "offers[0].market is str, not Market"),
        (_given(_but(notes=(1,))), "offers[0].notes[0] is int, not str"),
        (_given(replace(GOOD, extras=Extras(stock_count=True))), "stock_count is bool, not int"),
        (
            _given(replace(GOOD, extras=Extras(expires_at=NAIVE))),
            "offers[0].extras.expires_at has no time zone",
        ),
        (_given({"id": 1}), "offers[0] is dict, not ListedOffer"),
        (_given(GOOD, rejected=("no price",)), "rejected[0] is str, not Rejected"),
        ({"parsed": Parsed(o for o in [GOOD])}, "offers is generator, not tuple"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "fault",
)
def test_one_modules_fault_is_its_own(lab: Lab, broken: dict[str, Any], reason: str) -> None:
    acme, runpod = lab.poll_all([module(lab, **broken), "runpod"], 0)
    assert (acme.status, runpod.status) == ("failed", "complete")
    assert reason in (acme.reason or "")
    assert "\n" not in (acme.reason or "")
    assert query(lab.url, "SELECT last_error FROM provider WHERE slug = 'acme'") == [(acme.reason,)]


def test_an_interval_that_no_calendar_has(lab: Lab) -> None:
    acme, runpod = lab.poll_all(
        [replace(module(lab, two()), every=timedelta(days=10**8)), "runpod"], 0
    )
    assert (acme.status, runpod.status) == ("failed", "complete")
    assert "its answer cannot be recorded: " in (acme.reason or "")


def test_an_interrupt_is_for_us(lab: Lab) -> None:
    with pytest.raises(KeyboardInterrupt):
        lab.poll(module(lab, **_fetch(KeyboardInterrupt())), 0)


def test_so_is_being_told_to_stop(lab: Lab) -> None:
    with pytest.raises(SystemExit):
        lab.poll(module(lab, **_fetch(SystemExit(143))), 0)


def test_a_parser_that_hangs_fails_its_poll_and_holds_nobody_up(lab: Lab) -> None:
    """Not even the end of the event loop, which waits for the threads of its pool."""
    begun, free = threading.Event(), threading.Event()

    def hang(payloads: Sequence[Payload]) -> Parsed:
        begun.set()
        free.wait(60)
        return two()

    lab.collector.parse_s = 0.2
    try:
        started = time.monotonic()
        acme, runpod = lab.poll_all([module(lab, parse=hang), "runpod"], 0)
        assert begun.is_set()
        assert (acme.status, acme.reason) == ("failed", "its answer was not read within 0.2 s")
        assert runpod.status == "complete"
        again = lab.poll(module(lab, parse=hang), 5)
        assert again.reason == "its answer before this one is still being read"
        assert time.monotonic() - started < 30
        hanging = [t for t in threading.enumerate() if t.name == "gpucost-parse-acme"]
        assert len(hanging) == 1
        assert hanging[0].daemon, "or the process could not end"
    finally:
        free.set()
    hanging[0].join(10)
    lab.collector.parse_s = 30
    assert lab.poll(module(lab, parse=hang), 10).status == "complete"


def test_many_hanging_parsers_leave_the_pool_to_the_others(lab: Lab) -> None:
    free = threading.Event()

    def hang(payloads: Sequence[Payload]) -> Parsed:
        free.wait(60)
        return two()

    lab.collector.parse_s = 0.2
    hung = [replace(module(lab, parse=hang), name=f"acme{n}") for n in range(40)]
    try:
        outcomes = lab.poll_all([*hung, "runpod"], 0)
    finally:
        free.set()
    assert {o.status for o in outcomes[:-1]} == {"failed"}
    assert outcomes[-1].status == "complete"


def _refusing(
    monkeypatch: pytest.MonkeyPatch, lab: Lab, error: Exception, statuses: set[str]
) -> None:
    recorder: Any = lab.collector.recorder
    record = recorder.record

    def refuse(poll: Poll) -> Recorded:
        if poll.source == "acme" and poll.status in statuses:
            raise error
        return cast(Recorded, record(poll))

    monkeypatch.setattr(recorder, "record", refuse)


def test_a_value_that_the_database_refuses(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    lab.poll(module(lab, two()), 0)
    _refusing(monkeypatch, lab, DatabaseFailed("value out of range"), {"complete"})
    acme, runpod = lab.poll_all([module(lab, two()), "runpod"], 5)
    assert (acme.status, runpod.status) == ("failed", "complete")
    assert acme.reason == "its answer cannot be recorded: DatabaseFailed: value out of range"
    assert query(lab.url, "SELECT error FROM poll WHERE status = 'failed'") == [(acme.reason,)]


def test_a_failure_that_cannot_be_recorded_either(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    _refusing(monkeypatch, lab, DatabaseFailed("no"), {"complete", "failed"})
    acme, runpod = lab.poll_all([module(lab, two()), "runpod"], 0)
    assert (acme.status, runpod.status) == ("failed", "complete")


def test_a_lost_database_is_everybodys_but_the_others_come_to_their_end(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    _refusing(monkeypatch, lab, DatabaseUnreachable("connection lost"), {"complete"})
    with pytest.raises(DatabaseUnreachable):
        lab.poll_all([module(lab, two()), "runpod"], 0)
    assert query(lab.url, "SELECT last_status FROM provider WHERE slug = 'runpod'") == [
        ("complete",)
    ]


def test_figures_out_of_range_cost_their_row(lab: Lab) -> None:
    broken = replace(listed("b", "3"), extras=Extras(stock_count=10**30))
    outcome = lab.poll(module(lab, two(GOOD, broken)), 0)
    assert (outcome.status, outcome.accepted) == ("complete", 1)
    assert outcome.rejected == {"a figure is out of range": 1}


def test_numbers_that_no_decimal_can_hold_are_no_json() -> None:
    for body in (b"[1e99999999999999999999]", b"[1e-99999999999999999999]"):
        with pytest.raises(ParseError, match="body: not JSON"):
            load_json(Payload("", body, at(0)))


# --- exchange rates -----------------------------------------------------------------------------


def _ecb(usd: str = "1.1", day: str = "2026-02-27", gbp: str = "0.85") -> bytes:
    return (
        f'<a><Cube time="{day}"/><Cube currency="USD" rate="{usd}"/>'
        f'<Cube currency="GBP" rate="{gbp}"/></a>'
    ).encode()


def test_the_banks_file() -> None:
    rates = fx.parse_ecb(_ecb())
    assert rates["EUR"] == FxRate(Decimal("1.1"), date(2026, 2, 27))
    assert rates["USD"].usd_per_unit == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"<a/>", _ecb(gbp="1e-999999999999"), _ecb(gbp="1e99999999999999999999"), _ecb(usd="0"),
     _ecb(gbp="NaN"), _ecb(day="soon"), b"<!DOCTYPE a>" + _ecb()],
)  # fmt: skip
def test_a_file_that_cannot_be_true(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        fx.parse_ecb(body)


def _rates_of(monkeypatch: pytest.MonkeyPatch, day: date) -> None:
    async def rates(http: HttpClient) -> dict[str, FxRate]:
        return {"EUR": FxRate(Decimal("1.1"), day)}

    monkeypatch.setattr(exchange, "fetch_rates", rates)


def test_rates_of_another_year_are_none(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    today = lab.clock.now().date()
    _rates_of(monkeypatch, today - timedelta(days=10))
    assert lab.poll(euro, 0).status == "complete"
    _rates_of(monkeypatch, today - timedelta(days=11))
    late = lab.poll(euro, 10)
    assert late.status == "partial"
    assert "exchange rates: those of 2026-02-18 are too old" in (late.reason or "")
    assert {o.native_id: o.seen_at for o in lab.live()} == {"a": at(0), "b": at(10)}


def test_rates_that_overflow_cost_the_foreign_prices_only(
    monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    async def rates(http: HttpClient) -> dict[str, FxRate]:
        raise ArithmeticError("overflow")

    monkeypatch.setattr(exchange, "fetch_rates", rates)
    euro = module(lab, two(listed("a", "2", "EUR"), listed("b", "3")))
    assert (lab.poll(euro, 0).status, len(lab.live())) == ("partial", 1)


# --- discounts ----------------------------------------------------------------------------------


def _discount(provider: str, gpu: str | None, percent: str = "10") -> Discount:
    day = date(2026, 2, 1)
    return Discount(provider, Decimal(percent), day, datetime(2027, 1, 1, tzinfo=UTC), gpu)


def test_a_discount_is_kept_under_the_names_that_offers_have(lab: Lab) -> None:
    typed = [
        _discount("runpod", None), _discount("vastai", "h100"), _discount("aws", "H100 SXM"),
        _discount("azure", "h100-pcie-80gb"), _discount("acme", "B200"),
    ]  # fmt: skip
    lab.poll(module(lab, Parsed((GOOD,), discounts=tuple(typed))), 0)
    assert set(query(lab.url, "SELECT provider, gpu FROM discount")) == {
        ("runpod", None), ("vastai", "H100"), ("aws", "H100-SXM-80GB"), ("aws", "H100-SXM-96GB"),
        ("azure", "H100-PCIE-80GB"), ("acme", "B200-SXM-180GB"),
    }  # fmt: skip


def test_a_discount_that_can_never_apply_says_so(lab: Lab) -> None:
    typed = (
        _discount("runpodd", None), _discount("runpod", "H1000"), _discount("runpod", None, "NaN"),
    )  # fmt: skip
    outcome = lab.poll(module(lab, Parsed((GOOD,), discounts=typed)), 0)
    assert outcome.rejected == {
        "discount for an unknown provider": 1,
        "discount for an unknown GPU": 1,
        "discount outside 0 to 100 percent": 1,
    }
    [(rejects,)] = query(lab.url, "SELECT rejects FROM poll")
    assert "did you mean runpod?" in json.dumps(rejects)
    assert "did you mean H100" in json.dumps(rejects)
    assert query(lab.url, "SELECT * FROM discount") == []


def test_a_seller_that_the_store_knows_may_have_a_discount(lab: Lab) -> None:
    lab.collector.sellers = lambda: {"elsewhere"}
    outcome = lab.poll(module(lab, Parsed((GOOD,), discounts=(_discount("elsewhere", None),))), 0)
    assert outcome.rejected == {}


# --- secrets ------------------------------------------------------------------------------------


def test_a_key_that_a_module_says_aloud(lab: Lab) -> None:
    key = "short-key-1"
    lab.collector.redact = lambda text: text.replace(key, "***")
    long = "x" * 115 + key  # where a cut would leave half of it
    row = Rejected("no price", f"asked with {key}")
    asked = [
        module(lab, **_fetch(RuntimeError(long))),
        module(lab, **_parse(ParseError(key, f"bad {long}"))),
        module(lab, **_parse(ValueError(long))),
        module(lab, Parsed((GOOD,), (row,), complete=False, incomplete_reason=f"{key} ran out")),
        module(lab, Parsed((replace(GOOD, gpu_name=f"Zork {key}"),), (row,))),
    ]
    for minute, acme in enumerate(asked):
        outcome = lab.poll(acme, minute)
        assert outcome.reason
        assert "short" not in outcome.reason
    for name in ("poll", "provider", "unmapped_gpu", "quarantine", "payload"):
        assert "short" not in repr(query(lab.url, f"SELECT t::text FROM {name} t"))  # noqa: S608


def test_only_being_told_to_stop_is_not_a_modules_doing() -> None:
    assert registry.stops_us(SystemExit(143))
    assert not registry.stops_us(SystemExit(1))
    assert not registry.stops_us(ValueError(143))
