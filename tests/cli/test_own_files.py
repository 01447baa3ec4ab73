"""Mistakes in a price book of one's own: named by the file, the row and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import run
from tracker.cli.poll import MAX_MISTAKES

GOOD = '[[price]]\nseller = "acme"\ngpu = "H100-SXM-80GB"\nprice = "3"\nunit = "machine_hour"\n'
DATED = "valid_as_of = 2026-11-20\n"


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one price book that is configured."""
    file = tmp_path / "rates.toml"
    config = tmp_path / "gpucost.toml"
    config.write_text('pricebook_paths = ["rates.toml"]\n[providers.pricebook]\nshipped = false\n')
    monkeypatch.setenv("GPUCOST_CONFIG", str(config))
    return file


@pytest.mark.usefixtures("_database")
def test_poll_names_the_row_and_the_key(book: Path) -> None:
    typo = GOOD.replace("price =", "prise =") + DATED
    book.write_text(GOOD + DATED + typo + GOOD.replace("unit", "market"))
    answer = run("poll", "--provider", "pricebook")
    assert answer.code == 0
    wrong = [line for line in answer.lines if line.startswith("pricebook: ")]
    assert len(wrong) == 2
    assert "rates.toml price 2 (acme H100-SXM-80GB)" in wrong[0]
    assert "prise" in wrong[0]
    assert "rates.toml price 3 (acme H100-SXM-80GB)" in wrong[1]
    answer = run("poll", "--provider", "pricebook", "--dry-run", "-o", "json")
    assert answer.json()["rows"][0]["provider"] == "pricebook"
    assert answer.err.splitlines() == wrong


@pytest.mark.usefixtures("_database")
def test_many_mistakes_are_counted(book: Path) -> None:
    book.write_text(GOOD + DATED + "".join(f"{GOOD}key{n} = 1\n" for n in range(MAX_MISTAKES + 3)))
    lines = run("poll", "--provider", "pricebook", "--dry-run").lines
    assert "pricebook: and 3 more mistakes" in lines


def test_parse_names_a_file_that_is_no_price_book(tmp_path: Path) -> None:
    file = tmp_path / "rates.toml"
    file.write_text("[[price]\nseller = ")
    answer = run("provider", "parse", "pricebook", str(file))
    assert answer.code == 2
    assert answer.complaint.startswith("not a price book: rates.toml: not TOML (")
    assert "live service" not in answer.complaint
    file.write_text(GOOD + GOOD)  # undated
    answer = run("provider", "parse", "pricebook", str(file))
    for row in (1, 2):
        assert f"rates.toml price {row} (acme H100-SXM-80GB)" in answer.out
    assert answer.code == 3


def test_parse_names_the_file_that_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<html>sorry</html>")
    answer = run("provider", "parse", "runpod", str(file))
    assert answer.code == 6
    assert answer.complaint.startswith(f"{file}: runpod: unexpected answer: ")


@pytest.fixture
def _database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)


@pytest.mark.usefixtures("_database")
def test_a_price_by_the_month_is_ranked_where_its_term_is_stated(book: Path) -> None:
    """As docs/price-book.md says; without a term nobody knows what one is bound to."""
    monthly = GOOD.replace("machine_hour", "machine_month").replace('"3"', '"1460"') + DATED
    book.write_text(monthly)
    parsed = run("provider", "parse", "pricebook", str(book))
    assert "not ranked: its term is not stated" in parsed.out
    run("poll", "--provider", "pricebook")
    answer = run("cheapest", "--hours", "H100=5")
    assert (answer.code, "1 sold for a term that is not stated" in answer.out) == (3, True)
    book.write_text(monthly + "commitment_hours = 730\n")
    assert "not ranked" not in run("provider", "parse", "pricebook", str(book)).out
    run("poll", "--provider", "pricebook")
    assert "Job: $1,460.00 on 1 x H100-SXM-80GB" in run("cheapest", "--hours", "H100=5").out
