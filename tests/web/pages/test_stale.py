"""Where only typed prices match whose time is up: no poll renews them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from urllib.parse import urljoin

import pytest

from tests.cli.harness import A100, H100, ago, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.pages.test_pages import link, page, text
from tests.web.pages.world import Pages, shop
from tracker.domain.offer import Extras

EXPIRED = Extras(valid_as_of=date(2026, 1, 1), expires_at=ago(60))
DAY = timedelta(days=1).total_seconds() / 60


@pytest.fixture(scope="module")
def typed(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:  # fmt: skip
    """An expired price of one's own book for each of two GPUs."""
    book = [
        make_offer(name, "2.00", source="pricebook", seller="me", gpu=gpu, extras=EXPIRED)
        for name, gpu in (("h", H100), ("a", A100))
    ]
    folder = tmp_path_factory.mktemp("typed")
    with shop(database_server, folder, polled("pricebook", book)) as served:
        yield served


@pytest.mark.parametrize("path", ["/?job=bert-large", "/break-even?job=bert-large"])
def test_the_price_book_is_to_be_renewed_not_polled(typed: Pages, path: str) -> None:
    found = page(typed.url + path)
    assert "no poll renews them" in text(found, ".empty")
    assert text(found, ".empty pre") == "gpucost poll --provider pricebook"
    shown = page(urljoin(typed.url, link(found, "show them, marked as stale")))
    assert shown.css_first(".answer") is not None


def test_the_command_line_says_the_same(typed: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", str(typed.app.boot.database_url))
    for argv in (("cheapest", "bert-large"), ("compare", "H100", "A100", "bert-large")):
        told = run(*argv)
        assert told.code == 4
        assert "renew them in your price book, or --include-stale" in told.err


def test_history_says_why_there_is_nothing_as_the_command_does(
    typed: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", str(typed.app.boot.database_url))
    told = run("history", "bert-large", "--gpu", "RTX4090").complaint
    found = page(f"{typed.url}/history?job=bert-large&gpu=RTX4090")
    assert told[1:] in text(found, ".empty p")
