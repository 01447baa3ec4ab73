"""A typed price is as old as its date says, and gives way only to what replaces it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.harness import ago, by_id, filled, polled, run
from tests.support.offers import A100, make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Availability, Extras, Market, Offer, Terms

READ_ON = datetime.now(UTC).date() - timedelta(days=20)


def book() -> Extras:
    return Extras(valid_as_of=READ_ON, expires_at=ago(-60 * 24 * 300), fallback=True)


def test_polling_the_file_again_does_not_make_its_price_younger(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = make_offer("live", "4.00")
    typed = make_offer("typed", "3.00", source="pricebook", seller="lambda", extras=book())
    with filled(database_server, polled("acme", [live]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        recent = run("cheapest", "bert-large", "--max-age", "2h", "-o", "json").json()
        assert set(by_id(recent["rows"])) == {"live"}
        assert recent["excluded"]["older than asked for"] == 1
        everything = by_id(run("cheapest", "bert-large", "-o", "json").json()["rows"])
        midnight = datetime.combine(READ_ON, datetime.min.time(), UTC)
        age = (datetime.now(UTC) - midnight).total_seconds()
        assert abs(everything["typed"]["age_seconds"] - age) < 60
        assert date.fromisoformat(everything["typed"]["valid_as_of"]) == READ_ON


def test_a_live_spot_price_does_not_hide_the_typed_on_demand_one(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spot = make_offer("spot", "1.00", source="aws", market=Market.SPOT)
    typed = make_offer("typed", "3.00", source="pricebook", seller="aws", extras=book())
    with filled(database_server, polled("aws", [spot]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert set(by_id(found["rows"])) == {"typed"}


def test_a_gpu_that_its_seller_does_not_list_now_is_not_ranked_by_an_old_list(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = make_offer("answered", "1.50", source="hub", gpu=A100)
    typed = make_offer("typed", "1.00", source="pricebook", seller="hub", extras=book())
    with filled(database_server, polled("hub", [answered]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert set(by_id(found["rows"])) == {"answered"}


def ranked(server: TestServer, patch: pytest.MonkeyPatch, *offers: Offer, gpu: str) -> list[str]:
    """What a question about *gpu* ranks when each source of *offers* has told its own."""
    sources = {o.source: [p for p in offers if p.source == o.source] for o in offers}
    polls = [polled(name, own, default_tiers=("standard",)) for name, own in sources.items()]
    with filled(server, *polls) as url:
        patch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "--gpu", gpu, "-o", "json")
        return [row["offer_id"] for row in found.json()["rows"]]


@pytest.mark.parametrize("gpu", ["H100", "A100", "A100,H100"])
def test_whether_a_list_price_gives_way_does_not_depend_on_the_gpus_asked_for(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, gpu: str
) -> None:
    answered = make_offer("answered", "1.50", source="hub", gpu=A100)
    typed = make_offer("typed", "1.00", source="pricebook", seller="hub", extras=book())
    found = ranked(database_server, monkeypatch, answered, typed, gpu=gpu)
    assert found == (["answered"] if "A100" in gpu else [])


SOLD_OUT = make_offer("own", "4", source="hub", extras=Extras(availability=Availability.NO))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (SOLD_OUT, []),
        (make_offer("own", "4", source="hub", tier="unverified"), []),
        (make_offer("own", "4", source="hub", terms=Terms(commitment_unknown=True)), ["typed"]),
        (make_offer("own", "4", source="pricebook", seller="hub"), ["typed", "own"]),
        (make_offer("own", "4", source="other"), ["typed", "own"]),
    ],
    ids=["sold out", "of an unusual tier", "without a bill", "typed", "of somebody else"],
)
def test_what_makes_a_list_price_give_way(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, own: Offer, expected: list[str]
) -> None:
    typed = make_offer("typed", "1.00", source="pricebook", seller="hub", extras=book())
    assert ranked(database_server, monkeypatch, own, typed, gpu="H100") == expected


@pytest.mark.parametrize("command", [("cheapest", "bert-large"), ("offers",)])
def test_an_answer_left_empty_by_live_prices_says_so(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    typed = [
        make_offer(name, "1.00", source="pricebook", seller="hub", extras=book())
        for name in ("one", "two")
    ]
    with filled(database_server, polled("hub", [SOLD_OUT]), polled("pricebook", typed)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        answer = run(*command, "--gpu", "H100")
        assert (answer.code, answer.complaint) == (
            3, "no offer matches; 2 list prices replaced by live ones",
        )  # fmt: skip
        assert "2 replaced by live prices" in answer.lines[-1]
        assert "1 not in stock" in answer.lines[-1]


def test_a_seller_that_has_fallen_silent_leaves_the_field_to_its_list_price(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_offer("own", "4", source="hub")
    typed = make_offer("typed", "1.00", source="pricebook", seller="hub", extras=book())
    with filled(
        database_server, polled("hub", [own], minutes_ago=181), polled("pricebook", [typed])
    ) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert [row["offer_id"] for row in found["rows"]] == ["typed"]


def test_a_price_you_typed_is_ranked_whatever_tier_its_seller_usually_has(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Extras(valid_as_of=READ_ON, expires_at=ago(-60 * 24 * 300))
    live = make_offer("live", "4.00", source="hub", tier="verified")
    typed = make_offer("typed", "3.00", source="pricebook", seller="hub", extras=own)
    tiers = ("verified",)
    with filled(
        database_server,
        polled("hub", [live], default_tiers=tiers),
        polled("pricebook", [typed]),
    ) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        found = run("cheapest", "bert-large", "-o", "json").json()
        assert [row["offer_id"] for row in found["rows"]] == ["typed", "live"]
        only = run("cheapest", "bert-large", "--tier", "verified", "-o", "json").json()
        assert [row["offer_id"] for row in only["rows"]] == ["live"]


def test_explain_does_not_call_a_typed_price_live(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = make_offer("typed", "3.00", source="pricebook", seller="hub", extras=book())
    with filled(database_server, polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        out = run("explain", typed.key.hex()).out
        assert f"read on {READ_ON}" in out
        assert "not live" in out
        assert "confirmed" not in out


@pytest.mark.parametrize(("fallback", "kind"), [(True, "list"), (False, "typed")])
def test_the_headline_says_that_its_price_is_not_live(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, fallback: bool, kind: str
) -> None:
    extras = Extras(valid_as_of=READ_ON, expires_at=ago(-60 * 24 * 300), fallback=fallback)
    typed = make_offer("typed", "3.00", source="pricebook", seller="hub", extras=extras)
    live = make_offer("live", "4.00")
    with filled(database_server, polled("acme", [live]), polled("pricebook", [typed])) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        answer = run("cheapest", "bert-large", "-o", "json").json()["answer"]
        assert f"4 h x $3.0000/h (a {kind} price of {READ_ON}, not live)" in answer
        assert answer in run("cheapest", "bert-large").out
        live_one = run("cheapest", "bert-large", "--provider", "acme", "-o", "json").json()
        assert "not live" not in live_one["answer"]


def test_a_price_book_is_shown_with_the_words_of_other_answers_and_its_notes(
    tmp_path: Path,
) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text(
        '[[price]]\nseller = "acme"\ngpu = "H100-SXM-80GB"\nprice = "2.50"\ncurrency = "USD"\n'
        f'unit = "machine_hour"\nvalid_as_of = {READ_ON}\nnote = "by phone"\n'
    )
    shown = run("provider", "parse", "pricebook", str(rates), "-o", "wide")
    assert shown.code == 0, shown.err
    heads, row = shown.lines[0], shown.lines[1]
    assert row[heads.index("STOCK") :].split()[0] == "list"
    assert "by phone" in row[heads.index("NOTE") :]
