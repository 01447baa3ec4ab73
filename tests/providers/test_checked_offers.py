"""Every recorded answer of the five providers, against offers worked out by hand."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from providers.pricebook import Config, fetch
from tests.providers.checked_offers import (
    ERROR_ANSWERS,
    EXPECTED,
    TRANSCRIBED,
    Row,
    cells,
    usd,
)
from tests.support.catalogue import catalogue
from tests.support.command import Cli
from tests.support.fixtures import NO_SHARED, SHARED
from tracker import registry
from tracker.collect import Digest, digest
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules
from tracker.provider import HttpClient, ParseError, Payload

PAYLOADS = SHARED / "providers" / "payloads"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FILES = sorted(EXPECTED)
OFFERS = [name for name in FILES if EXPECTED[name].error is None]
REFUSED = [name for name in FILES if EXPECTED[name].error is not None]

needs_recordings = pytest.mark.skipif(not PAYLOADS.is_dir(), reason=NO_SHARED)


def digest_of(provider: str, *bodies: bytes) -> Digest:
    payloads = [Payload("", body, NOW) for body in bodies]
    it = registry.load(provider)
    return digest(it, payloads, catalogue(), fx={}, known=Known(), rules=Rules())


def digest_file(name: str) -> Digest:
    return digest_of(name.partition("/")[0], (PAYLOADS / name).read_bytes())


def row(o: Offer) -> Row:
    x = o.listed
    return (
        x.source_id, o.gpu.key, format(x.gpu_count.normalize(), "f"), str(x.market), x.tier,
        x.region, usd(str(o.price.usd)), str(x.extras.availability),
    )  # fmt: skip


@needs_recordings
def test_no_recorded_answer_is_left_out() -> None:
    folders = {name.partition("/")[0] for name in EXPECTED}
    assert folders == {"aws", "azure", "databasemart", "runpod", "vastai"}
    found = {
        f"{folder}/{file.name}"
        for folder in folders
        for file in (PAYLOADS / folder).iterdir()
        if file.name != "sources.md"
    }
    assert found == EXPECTED.keys()


@needs_recordings
@pytest.mark.parametrize("name", OFFERS)
def test_a_recorded_answer_gives_exactly_these_offers(name: str) -> None:
    expected, found = EXPECTED[name], digest_file(name)
    assert sorted(map(row, found.accepted), key=str) == sorted(expected.offers, key=str)
    assert not found.held
    assert not found.unmapped
    assert Counter(r.reason for r in found.rejected) == expected.rejected
    assert found.parsed.complete == expected.complete
    assert (found.assessment.verdict == "empty") == (not expected.offers)
    for offer in found.accepted:
        assert offer.gpu.is_slice == offer.gpu.key.endswith("-SLICE")
        assert offer.gpu.is_slice or offer.gpu.key.endswith(f"-{offer.gpu.vram_gb}GB")
        assert abs(offer.price_per_gpu.usd * offer.listed.gpu_count - offer.price.usd) < Decimal(
            "1e-20"
        )


@needs_recordings
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_answer_fails_the_poll_and_names_the_field(name: str) -> None:
    with pytest.raises(ParseError) as caught:
        digest_file(name)
    assert str(caught.value).startswith(str(EXPECTED[name].error))
    assert "\n" not in str(caught.value)


@needs_recordings
@pytest.mark.parametrize(("name", "key", "error"), ERROR_ANSWERS)
def test_an_error_answer_fails_the_poll_and_is_quoted(
    name: str, key: str | None, error: str
) -> None:
    answer: Any = json.loads((PAYLOADS / name).read_text())
    body = (answer[key] if key else answer)["body"]
    raw = body if isinstance(body, str) else json.dumps(body)
    with pytest.raises(ParseError) as caught:
        digest_of(name.partition("/")[0], raw.encode())
    assert str(caught.value).startswith(error)


@needs_recordings
@pytest.mark.parametrize(
    ("name", "machine", "with_8_gb"),
    [
        ("bundles_h100_2026-07-18.json", "52300/1", "2.135556"),
        ("bundles_h100_2026-07-18.json", "68392/8", "16.002222"),
        ("bundles_h100_2026-07-18.json", "20897/2", "4.402222"),
        ("bundles_h100_2026-07-18.json", "92731/2", "7.560148"),
        ("bundles_mixed_synthetic.json", "501/1", "0.601667"),
    ],
)
def test_the_disk_of_a_machine_is_a_line_of_its_own(
    name: str, machine: str, with_8_gb: str
) -> None:
    [offer] = [
        o
        for o in digest_file(f"vastai/{name}").accepted
        if (o.listed.source_id, o.listed.market) == (machine, "on_demand")
    ]
    disk = offer.listed.terms.disk_usd_per_gb_hour
    assert disk is not None
    assert usd(str(offer.price.usd + 8 * disk)) == with_8_gb


@needs_recordings
def test_a_plan_whose_term_is_not_stated_says_so() -> None:
    offers = digest_file("databasemart/pricing_page_synthetic.html").accepted
    terms = {o.listed.source_id: o.listed.terms for o in offers}
    # /mo alone says how often one pays, not for how long: the 24-month H100 looked the same.
    assert {name for name, t in terms.items() if not t.commitment_unknown} == {
        "professional-gpu-vps-a4000"
    }
    assert not any(t.commitment_hours for t in terms.values())


@needs_recordings
def test_the_transcribed_plans_come_from_the_shipped_price_book() -> None:
    payloads = asyncio.run(fetch(cast(HttpClient, None), Config()))  # it reads files only
    book = registry.load("pricebook")
    found = digest(book, payloads, catalogue(), fx={}, known=Known(), rules=Rules())
    plans = [
        (o.gpu.key, str(o.listed.gpu_count), o.listed.tier, usd(str(o.price.usd)),
         o.listed.terms.commitment_hours, str(o.listed.market))
        for o in found.accepted
        if o.provider == "databasemart"
    ]  # fmt: skip
    assert sorted(plans) == sorted(
        (gpu, count, tier, usd(price, parts="730"), int(months) * 730, "monthly")
        for gpu, count, tier, price, months in cells(TRANSCRIBED)
    )
    assert not found.held


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    return Cli(monkeypatch, tmp_path)


@needs_recordings
@pytest.mark.parametrize("name", FILES)
def test_the_command_line_parses_a_recorded_file(name: str, cli: Cli) -> None:
    expected = EXPECTED[name]
    result = cli("provider", "parse", name.partition("/")[0], str(PAYLOADS / name), "-o", "json")
    if expected.error is not None:
        assert result.code == 6
        assert expected.error in result.err
        assert result.err.count("\n") == 1
        assert not result.out
        return
    assert result.code == (0 if expected.offers else 3)
    document = result.json()
    assert document["complete"] == expected.complete
    assert {r["reason"]: r["count"] for r in document["rejected"]} == expected.rejected
    columns = ("source_id", "gpu", "gpus", "market", "tier", "region",
               "price_usd_per_machine_hour", "availability")  # fmt: skip
    listed = [tuple(offer[c] for c in columns) for offer in document["rows"]]
    assert sorted(
        ((*o[:2], str(o[2]), *o[3:6], usd(o[6]), o[7]) for o in listed), key=str
    ) == sorted(expected.offers, key=str)
