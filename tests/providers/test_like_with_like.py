"""H100, A100 and RTX 4090 at every provider: what is compared with what.

Every offer of these families in any fixture is listed in ``like_with_like.txt``, by what makes it
another thing; a difference from it is a thing that has become another one. The rules that no offer
may break are put to recorded answers that are not part of this repository, too.

``python -m tests.providers.test_like_with_like`` writes the list anew, to be looked over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import polled, record, run
from tests.providers.test_contract import NOW, RATES
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED, cases
from tests.support.offers import make_offer
from tests.support.providers import OURS
from tracker import registry
from tracker.collect import digest
from tracker.domain.gpu import Gpu
from tracker.domain.kind import kind_of
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules
from tracker.provider import Availability, NativePrice, ParseError, Payload, PriceUnit

FAMILIES = ("H100", "A100", "RTX4090")
LISTED = Path(__file__).with_name("like_with_like.txt")
# What says that a GPU is of the board kind: the module's hand-kept table or the provider's words.
BOARD = re.compile(r"sxm|hgx|hbm3\b|nvswitch", re.IGNORECASE)
FORMS = {"SXM": re.compile(r"sxm|hgx|hbm3\b", re.I), "PCIE": re.compile(r"pci-?e", re.I),
         "NVL": re.compile(r"nvl(?!ink)", re.I)}  # fmt: skip
MEMORY = re.compile(r"(?<![\d.])(24|40|48|80|94)\s?G(?:i?B)?\b", re.IGNORECASE)

RECORDED = SHARED / "providers" / "payloads"
GPU_HOUR = NativePrice(Decimal("2.5"), "USD", PriceUnit.GPU_HOUR)


def offers_of(name: str, payloads: list[Payload]) -> list[Offer]:
    """What came of an answer, held back or not, of the families that are looked at."""
    try:
        found = digest(
            registry.load(name), payloads, catalogue(), fx=RATES, known=Known(), rules=Rules()
        )
    except ParseError:
        return []
    offers = [*found.accepted, *(held.offer for held in found.held)]
    return [offer for offer in offers if offer.gpu.family in FAMILIES]


@cache
def of_fixtures(name: str) -> list[Offer]:
    """Those of all fixtures of a provider."""
    return [
        o for case in cases() if case.provider == name for o in offers_of(name, case.payloads())
    ]


def kind(offer: Offer) -> str:
    x, gpu = offer.listed, offer.gpu
    return kind_of(
        x.gpu_count, is_slice=gpu.is_slice, dedicated=x.dedicated,
        family=gpu.family, form_factor=gpu.form_factor,
    )  # fmt: skip


def line(name: str, offer: Offer) -> str:
    """What an offer is, for comparing: one line of the list."""
    x, gpu = offer.listed, offer.gpu
    stock = "not said" if x.extras.availability is Availability.UNKNOWN else "told"
    memory = f"{gpu.vram_gb} GB" if gpu.vram_gb else "-"
    return " | ".join((
        name, gpu.key, gpu.form_factor or "-", memory, kind(offer), x.tier,
        str(x.market).replace("_", "-"), f"stock {stock}",
    ))  # fmt: skip


def lines() -> list[str]:
    """The whole list."""
    return sorted({line(name, offer) for name in OURS for offer in of_fixtures(name)})


def test_the_list_is_as_it_was_looked_over() -> None:
    assert lines() == LISTED.read_text().splitlines()


def test_every_provider_sells_one_of_them_in_some_fixture() -> None:
    assert {text.partition(" |")[0] for text in LISTED.read_text().splitlines()} == set(OURS)


# -- rules -----------------------------------------------------------------------------------------


def check(offer: Offer) -> None:
    """What must hold of every offer."""
    x, gpu = offer.listed, offer.gpu
    words = f"{x.gpu_name} {x.form_factor or ''}"
    shown = (offer.source, x.source_id, words, gpu.key)
    if gpu.is_slice:
        assert gpu.key.endswith("-SLICE"), shown
        assert kind(offer) == "slice", shown
    else:
        assert x.gpu_count >= 1, shown
        _whole(offer, words, shown)
    # The price of a GPU times their number is the price of the machine, however it was listed.
    assert abs(offer.price_per_gpu.usd * x.gpu_count - offer.price.usd) < Decimal("1e-20"), shown
    by_gpu = x.price.unit in ("gpu_hour", "gpu_month")
    hours = 730 if x.price.unit.endswith("month") else 1
    times = x.gpu_count if by_gpu else 1
    usd = x.price.amount * offer.fx_rate * times / hours
    assert abs(usd - offer.price.usd) < Decimal("1e-9"), shown


def _whole(offer: Offer, words: str, shown: Any) -> None:
    gpu = offer.gpu
    parts = [gpu.family, *([gpu.form_factor] if gpu.form_factor else []), f"{gpu.vram_gb}GB"]
    if gpu.family != "RTX4090":  # which is a card, whatever is said of it
        assert gpu.key == "-".join(parts), shown
        if gpu.form_factor == "SXM":
            assert BOARD.search(words), (*shown, "an SXM without evidence")
        named = {form for form, told in FORMS.items() if told.search(words)}
        assert not named or gpu.form_factor in named, (*shown, "another form than it says")
    said = {int(found) for found in MEMORY.findall(words)}
    assert not said or gpu.vram_gb in said, (*shown, "another memory than it says")
    known = {"H100": {80, 94}, "A100": {40, 80}, "RTX4090": {24, 48}}[gpu.family]
    assert gpu.vram_gb in known, shown
    assert (gpu.family, gpu.vram_gb) != ("H100", 94) or gpu.form_factor == "NVL", shown
    if offer.listed.vram_gb is not None and not offer.listed.vram_is_total:
        assert abs(offer.listed.vram_gb - gpu.vram_gb) / gpu.vram_gb < Decimal("0.1"), shown


PLAIN = make_offer(
    "a", "2.5", gpu=Gpu("H100-SXM-80GB", "H100", "SXM", 80), gpu_name="H100 SXM5 80GB"
)


@pytest.mark.parametrize(
    "broken",
    [
        {"gpu_name": "H100 80GB"},  # an SXM that nobody says is one
        {"gpu_name": "H100 PCIe 80GB"}, {"gpu_name": "H100 80GB", "form_factor": "NVL"},
        {"gpu_name": "H100 SXM5 94GB"}, {"vram_gb": Decimal(94)},
        {"gpu_count": Decimal("0.5")}, {"gpu_count": Decimal(8), "price": GPU_HOUR},
    ],
    ids=range(7),
)  # fmt: skip
def test_the_rules_see_what_they_are_for(broken: dict[str, Any]) -> None:
    check(PLAIN)
    with pytest.raises(AssertionError):
        check(replace(PLAIN, listed=replace(PLAIN.listed, **broken)))


@pytest.mark.parametrize("name", OURS)
def test_no_offer_of_a_fixture_breaks_a_rule(name: str) -> None:
    found = of_fixtures(name)
    assert found
    for offer in found:
        check(offer)


def recorded() -> Iterator[tuple[str, Path]]:
    for folder in sorted(RECORDED.iterdir()) if RECORDED.is_dir() else ():
        if folder.name in OURS:
            yield from ((folder.name, file) for file in sorted(folder.iterdir()))


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_no_offer_of_a_recorded_answer_breaks_a_rule() -> None:
    seen = set()
    for name, file in recorded():
        for offer in offers_of(name, [Payload("", file.read_bytes(), NOW)]):
            check(offer)
            seen.add(name)
    assert len(seen) >= 15


@pytest.mark.parametrize("name", OURS)
def test_without_its_evidence_no_gpu_is_of_the_board_kind(name: str) -> None:
    """The form comes from what is said, and from nothing else: taken away, it is not known."""
    for offer in of_fixtures(name):
        x, gpu = offer.listed, offer.gpu
        if gpu.form_factor != "SXM" or gpu.is_slice:
            continue
        silent = replace(x, gpu_name=gpu.family, form_factor=None)
        found = catalogue().identify(
            silent.gpu_name, gpu_count=x.gpu_count, vram_gb=Decimal(gpu.vram_gb or 0),
        )  # fmt: skip
        assert not isinstance(found, Gpu) or found.form_factor is None, (name, x.source_id)


# -- as it is shown --------------------------------------------------------------------------------


def test_the_command_line_shows_of_each_what_it_is(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in one answer: kinds, forms and list prices as the list has them."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    known: dict[tuple[str, str, str], Offer] = {}
    for name in OURS:
        if name == "pricebook":  # its sellers are others
            continue
        by_key = {offer.key: offer for offer in of_fixtures(name)}
        clean = [
            replace(o, listed=replace(o.listed, extras=replace(o.listed.extras, expires_at=None)))
            for o in by_key.values()
        ]
        record(database_url, polled(name, clean))
        known |= {(name, o.key.hex()[:10], o.gpu.key): o for o in clean}
    asked = ["H100", "A100", "4090", "H100-SLICE", "A100-SLICE"]
    shown = 0
    for gpu in asked:
        answer = run(
            "offers", "--gpu", gpu, "--market", "any", "--tier", "any", "--all", "-o", "json"
        ).json()
        for row in answer["rows"]:
            offer = known[row["provider"], row["offer"], row["gpu"]]
            assert row["kind"] == kind(offer)
            assert row["list_price"] == (row["availability"] == "unknown")
            assert row["tier"] == offer.listed.tier
            assert row["form_factor"] == offer.gpu.form_factor
            per_gpu = Decimal(row["price_usd_per_gpu_hour"])
            machine = Decimal(row["price_usd_per_machine_hour"])
            assert abs(per_gpu * Decimal(str(row["gpus"])) - machine) < Decimal("0.0001")
            shown += 1
    assert shown > 200


if __name__ == "__main__":
    LISTED.write_text("".join(f"{text}\n" for text in lines()))
