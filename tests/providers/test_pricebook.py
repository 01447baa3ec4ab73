"""The price book: what may be typed, what is refused and in which words, and the shipped one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from providers.pricebook import MAX_FILE_BYTES, Config, fetch, parse
from tracker.provider import (
    FetchError,
    HttpClient,
    ListedOffer,
    Market,
    Parsed,
    ParseError,
    Payload,
    PriceUnit,
    Terms,
)

D = Decimal
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROW = {
    "seller": '"acme"',
    "gpu": '"H100-SXM-80GB"',
    "price": "2.5",
    "unit": '"machine_hour"',
    "valid_as_of": "2026-11-01",
}
DISCOUNT = {"provider": '"runpod"', "percent": "10", "valid_as_of": "2026-11-01"}


Changes = Mapping[str, str | None]


class NoHttp:
    """A price book asks nobody: any use of it is an error."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the price book must not use the network")


def read(config: Config) -> list[Payload]:
    return list(asyncio.run(fetch(cast(HttpClient, NoHttp()), config)))


def table(kind: str, row: dict[str, str], changes: Changes) -> str:
    fields = {key: value for key, value in {**row, **changes}.items() if value is not None}
    return f"[[{kind}]]\n" + "".join(f"{key} = {value}\n" for key, value in fields.items())


def parsed(*texts: str, now: datetime = NOW) -> Parsed:
    return parse([Payload(f"{n}.toml", text.encode(), now) for n, text in enumerate(texts)])


def only(changes: Changes) -> ListedOffer:
    result = parsed(table("price", ROW, changes))
    assert not result.rejected
    return result.offers[0]


# --- what may be typed ----------------------------------------------------------------------


def test_a_row_with_the_least_that_is_needed() -> None:
    got = only({})
    assert (got.seller, got.gpu_name, got.gpu_count, got.tier) == (
        "acme",
        "H100-SXM-80GB",
        D(1),
        "standard",
    )
    assert (got.price.amount, got.price.currency) == (D("2.5"), "USD")
    assert got.market is Market.ON_DEMAND
    assert got.extras.valid_as_of == date(2026, 11, 1)
    assert got.extras.expires_at == datetime(2027, 1, 30, tzinfo=UTC)  # 90 days later
    assert not got.extras.fallback
    assert (got.region, got.country, got.vram_gb) == (None, None, None)
    assert got.terms == Terms()


def test_the_digits_typed_are_the_digits_kept() -> None:
    assert str(only({"price": "2.10000000000000000001"}).price.amount) == "2.10000000000000000001"
    assert str(only({"price": '"2.10"', "currency": '"EUR"'}).price.amount) == "2.10"


@pytest.mark.parametrize(
    ("unit", "market"),
    [
        ("machine_hour", Market.ON_DEMAND),
        ("gpu_hour", Market.ON_DEMAND),
        ("machine_month", Market.MONTHLY),
        ("gpu_month", Market.MONTHLY),
    ],
)
def test_a_price_by_the_month_is_a_monthly_server(unit: str, market: Market) -> None:
    got = only({"unit": f'"{unit}"'})
    assert (got.price.unit, got.market) == (PriceUnit(unit), market)
    # Nothing is assumed of the term: a monthly price without one is kept, and not ranked.
    assert got.terms.commitment_unknown == (market is Market.MONTHLY)


@pytest.mark.parametrize(
    ("typed", "expires"),
    [
        ({"expires": "2027-01-01"}, datetime(2027, 1, 1, tzinfo=UTC)),
        ({"max_age_days": "30"}, datetime(2026, 12, 1, tzinfo=UTC)),
        ({"valid_as_of": "2025-01-01", "expires": "2025-02-01"}, datetime(2025, 2, 1, tzinfo=UTC)),
    ],
)
def test_a_price_is_stale_from_its_expiry_on(typed: Changes, expires: datetime) -> None:
    assert only(typed).extras.expires_at == expires


def test_todays_date_is_no_future_date_anywhere_on_earth() -> None:
    row = table("price", ROW, {"valid_as_of": "2026-12-01"})
    late = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)  # 1 December has begun at UTC+14
    assert parsed(row, now=late).offers
    early = datetime(2026, 11, 30, 9, 59, tzinfo=UTC)
    assert [r.reason for r in parsed(row, now=early).rejected] == ["valid_as_of in the future"]


def test_a_link_and_a_plain_source_are_both_kept() -> None:
    assert only({"source": '"https://acme.example/p"'}).source_url == "https://acme.example/p"
    got = only({"source": '"mail of 3 May"', "note": '"24 h notice"', "product": '"X8"'})
    assert got.source_url is None
    assert got.notes == ("X8", "24 h notice", "source: mail of 3 May")


def test_a_changed_price_is_the_same_offer_and_another_term_is_not() -> None:
    assert only({"price": "3"}).source_id == only({}).source_id
    ids = {
        only(change).source_id
        for change in (
            {}, {"gpu_count": "8"}, {"tier": '"gold"'}, {"region": '"eu"'},
            {"market": '"spot"'}, {"market": '"reserved"', "commitment_hours": "730"},
            {"market": '"reserved"', "commitment_hours": "8760"}, {"product": '"X"'},
            {"seller": '"other"'}, {"id": '"mine"'},
        )
    }  # fmt: skip
    assert len(ids) == 10


def test_what_rows_share_is_written_once_and_a_row_may_differ() -> None:
    text = (
        'defaults = { unit = "gpu_hour", expires = 2027-05-01, seller = "acme", tier = "gold" }\n'
        'price = [ { gpu = "H100", price = 2, valid_as_of = 2026-11-01 },'
        ' { gpu = "A100", price = 1, valid_as_of = 2026-11-01, tier = "tin", max_age_days = 1 } ]'
    )
    first, second = parsed(text).offers
    assert (first.tier, second.tier) == ("gold", "tin")
    assert first.extras.expires_at == datetime(2027, 5, 1, tzinfo=UTC)
    assert second.extras.expires_at == datetime(2026, 11, 2, tzinfo=UTC)


def test_a_discount() -> None:
    [got] = parsed(table("discount", DISCOUNT, {"gpu": '"H100"', "market": '"spot"'})).discounts
    assert (got.provider, got.percent, got.gpu, got.market) == (
        "runpod",
        D(10),
        "H100",
        Market.SPOT,
    )
    assert got.expires_at == datetime(2027, 1, 30, tzinfo=UTC)


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"gpu_cout": "8"}, "unknown key", "'gpu_cout'; did you mean 'gpu_count'?"),
        ({"zzzz": "8"}, "unknown key", "'zzzz'; known: seller, gpu"),
        ({"seller": None}, "missing key", "seller"),
        ({"gpu": None}, "missing key", "gpu"),
        ({"price": None}, "missing key", "price"),
        ({"unit": None}, "missing key", "unit"),
        ({"valid_as_of": None}, "missing key", "valid_as_of"),
        ({"seller": '"Acme Inc"'}, "wrong value", "seller: 'Acme Inc' is not lower-case"),
        ({"gpu": '" "'}, "wrong value", "gpu: ' ' is not text"),
        ({"gpu": "4090"}, "wrong value", "gpu: '4090' is not text"),
        ({"price": "0.00"}, "price not above zero", "price: 0.00"),
        ({"price": "-1"}, "price not above zero", "price: -1"),
        ({"price": "nan"}, "wrong value", "not a finite number"),
        ({"price": "true"}, "wrong value", "price: not a decimal number: True"),
        ({"price": '"$2.50"'}, "wrong value", "not a decimal number: '$2.50'"),
        ({"price": '"1.600,00"'}, "wrong value", "not a decimal number"),
        ({"price": "1e99"}, "wrong value", "price: is out of range: at most 30 digits"),
        ({"gpu_count": "0"}, "wrong value", "gpu_count: '0' is too small"),
        ({"gpu_count": "-8"}, "wrong value", "gpu_count: '-8' is too small"),
        ({"unit": '"hour"'}, "wrong value", "is none of machine_hour, gpu_hour"),
        ({"market": '"ondemand"'}, "wrong value", "is none of on_demand, spot"),
        ({"market": '"spot"', "unit": '"gpu_month"'}, "wrong value", "by the month is not spot"),
        ({"currency": '"$"'}, "wrong value", "currency: '$' is not three capital letters"),
        ({"country": '"Germany"'}, "wrong value", "country: 'Germany' is not two capital letters"),
        ({"commitment_hours": "0"}, "wrong value", "is not a whole number from 1 to"),
        ({"commitment_hours": "1.5"}, "wrong value", "commitment_hours: '1.5' is not a whole"),
        (
            {"commitment_hours": "730", "commitment_unknown": "true"},
            "wrong value",
            "commitment_unknown: but commitment_hours is given",
        ),
        ({"egress_usd_per_gb": "-0.1"}, "wrong value", "egress_usd_per_gb: '-0.1' is too small"),
        ({"slice": '"yes"'}, "wrong value", "slice: 'yes' is not true or false"),
        ({"available": "true"}, "wrong value", "available: 'True' is not text"),
        ({"valid_as_of": "2026-12-02"}, "valid_as_of in the future", "2026-12-02"),
        ({"valid_as_of": "2026"}, "wrong value", "valid_as_of: '2026' is not a date"),
        ({"valid_as_of": "2026-11-01T00:00:00Z"}, "wrong value", "is not a date"),
        ({"valid_as_of": '"1.11.2026"'}, "wrong value", "'1.11.2026' is not a date"),
        ({"expires": "2026-11-01"}, "wrong value", "is not after valid_as_of"),
        ({"expires": "2027-01-01", "max_age_days": "3"}, "wrong value", "both given; keep one"),
        ({"max_age_days": "0"}, "wrong value", "max_age_days: '0' is not a whole number"),
    ],
)
def test_a_mistake_in_a_row_is_named_and_the_other_rows_go_on(
    changes: Changes, reason: str, says: str
) -> None:
    good = table("price", ROW, {"id": '"good"'})
    result = parsed(table("price", ROW, changes) + good)
    assert [offer.source_id for offer in result.offers] == ["good"]
    [rejected] = result.rejected
    assert rejected.reason == reason
    assert says in rejected.sample
    assert rejected.sample.startswith("0.toml price 1 (")
    assert len(rejected.sample) <= 200
    assert result.complete


@pytest.mark.parametrize("percent", ["0", "100", "-5", "250"])
def test_a_percentage_must_be_between_0_and_100(percent: str) -> None:
    result = parsed(table("discount", DISCOUNT, {"percent": percent}))
    assert not result.discounts
    [rejected] = result.rejected
    assert rejected.reason == "percent outside 0 to 100"
    assert rejected.sample == f"0.toml discount 1 (runpod): percent: {percent}"


def test_a_discounts_mistyped_key_is_named() -> None:
    [rejected] = parsed(table("discount", DISCOUNT, {"percnt": "5"})).rejected
    assert "did you mean 'percent'?" in rejected.sample


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[price]]\nseller = ", "not TOML"),
        ("caf\u00e9 = 1", "not TOML"),
        ("[" * 5000, "not TOML"),
        ("[[prices]]\n", "unknown key 'prices'; did you mean 'price'?"),
        ("[price]\n", "price must be written as [[price]]"),
        ("price = 3\n", "price must be written as [[price]]"),
        ('fallback = "yes"\n', "fallback must be true or false"),
        ("defaults = 3\n", "defaults must be a table"),
        (
            "[defaults]\ncurency = 'EUR'\n",
            "defaults: unknown key 'curency'; did you mean 'currency'?",
        ),
    ],
)
def test_a_file_that_is_no_price_book_is_named_and_hides_no_other(text: str, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parsed(text)
    assert str(caught.value).startswith("0.toml: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    result = parsed(text, table("price", ROW, {}))
    assert len(result.offers) == 1
    assert [rejected.reason for rejected in result.rejected] == ["file is not a price book"]
    # Its prices are not gone, only unreadable for now: nothing may be closed.
    assert not result.complete
    assert says in (result.incomplete_reason or "")


def test_bytes_that_are_not_utf8_are_not_guessed() -> None:
    with pytest.raises(ParseError, match="not TOML"):
        parse([Payload("x.toml", b"\xff\xfe", NOW)])


def test_what_is_listed_twice_is_refused_both_times() -> None:
    row, other = table("price", ROW, {}), table("price", ROW, {"price": "3"})
    for result in (parsed(row + other), parsed(row, other)):
        assert not result.offers
        assert [rejected.reason for rejected in result.rejected] == ["listed twice"] * 2
        assert "keep one" in result.rejected[0].sample
    same_name = [Payload("rates.toml", text.encode(), NOW) for text in (row, other)]
    assert len(parse(same_name).rejected) == 2


def test_a_users_price_and_the_fallback_for_the_same_thing_are_two_offers() -> None:
    row = table("price", ROW, {})
    result = parsed(row, "fallback = true\n" + row)
    assert [offer.extras.fallback for offer in result.offers] == [False, True]
    assert not result.rejected


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["seller", "gpu", "price", "unit", "market", "gpu_count", "valid_as_of",
                         "expires", "max_age_days", "tier", "commitment_hours", "zzz", "slice"]),
        st.sampled_from(['""', '"x"', "0", "-1", "1", "1e400", "nan", "inf", "true", "[]", "{}",
                         "2026-11-30", "9999-12-31", "0001-01-01", "07:32:00", '"\\u0000\\n"',
                         "12345678901234567890123456789012345678901234567890"]),
    )
)  # fmt: skip
def test_junk_in_any_field_is_a_rejected_row_or_a_sane_offer(
    changes: Changes,
) -> None:
    result = parsed(table("price", ROW, changes))
    assert len(result.offers) + len(result.rejected) == 1
    for offer in result.offers:
        assert offer.price.amount > 0
        assert offer.gpu_count > 0
        assert offer.extras.expires_at is not None
        assert offer.extras.expires_at.tzinfo is UTC
    for rejected in result.rejected:
        assert "\n" not in rejected.sample


# --- reading files --------------------------------------------------------------------------


def test_files_and_folders_are_read_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    for name in ("b.toml", "a.toml", "notes.txt"):
        (folder / name).write_text(table("price", ROW, {"id": f'"{name}"'}))
    single = tmp_path / "single.txt"
    single.write_text("# nothing yet")
    got = read(Config(paths=(folder, single), shipped=False))
    assert [payload.url for payload in got] == ["a.toml", "b.toml", "single.txt"]
    assert {payload.method for payload in got} == {"FILE"}
    assert got[2].body == b"# nothing yet"
    assert got[0].fetched_at.tzinfo is UTC
    assert [offer.source_id for offer in parse(got).offers] == ["a.toml", "b.toml"]


def test_a_missing_file_hides_nothing_and_is_named(tmp_path: Path) -> None:
    result = parse(read(Config(paths=(tmp_path / "gone.toml",))))
    assert result.offers
    assert not result.complete
    assert result.incomplete_reason == "gone.toml: No such file or directory"
    with pytest.raises(ParseError, match=r"gone\.toml: No such file"):
        parse(read(Config(paths=(tmp_path / "gone.toml",), shipped=False)))


def test_an_endless_file_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    [payload] = read(Config(paths=(tmp_path,), shipped=False))
    assert payload.status == 413
    with pytest.raises(ParseError, match="larger than 4 MiB"):
        parse([payload])


@pytest.mark.parametrize("with_empty_folder", [False, True])
def test_nothing_to_read_is_said(tmp_path: Path, with_empty_folder: bool) -> None:
    config = Config(paths=(tmp_path,) if with_empty_folder else (), shipped=False)
    with pytest.raises(FetchError, match="no price book to read"):
        read(config)


def test_a_mistyped_setting_is_refused() -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"path": ["x"]})


def test_what_is_no_ordinary_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")  # reading it would wait for ever
    paths = (
        tmp_path, tmp_path / "pipe.toml", Path("/dev/zero"), Path("~nosuchuser/x.toml"),
        Path("a\0b"),
    )  # fmt: skip
    payloads = read(Config(paths=paths, shipped=False))
    assert [p.status for p in payloads] == [415, 415, 415, 404, 404]
    with pytest.raises(ParseError, match=r"pipe\.toml: not an ordinary file"):
        parse(payloads)


def test_long_ids_are_kept_whole() -> None:
    ids = [f'"{"x" * 250}{n}"' for n in (1, 2)]
    got = parsed("".join(table("price", ROW, {"id": typed}) for typed in ids))
    assert [len(offer.source_id) for offer in got.offers] == [251, 251]
