"""What the page of the past shows where there is hardly any past."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.harness import A100, H100, RTX4090, polled
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.pages.test_pages import columns, link, page, text
from tests.web.pages.world import Pages, shop
from tracker.report.shapes import texts


@pytest.fixture(scope="module")
def fresh(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:  # fmt: skip
    """A shop that was asked once, a few minutes ago."""
    offers = [
        make_offer("h", "2.99", gpu=H100), make_offer("a", "1.19", gpu=A100),
        make_offer("r", "0.34", gpu=RTX4090),
    ]  # fmt: skip
    with shop(database_server, tmp_path_factory.mktemp("fresh"), polled("acme", offers)) as served:
        yield served


def test_the_table_begins_where_something_is_known(fresh: Pages) -> None:
    found = page(f"{fresh.url}/history?job=bert-large")
    rows = columns(found, "#buckets")
    assert 1 <= len(rows) <= 2, "the polled day, and perhaps midnight between"
    assert any(cell != texts.DASH for cell in rows[0][1:])
    assert f"nothing is known before {rows[0][0]}" in text(found, "#buckets caption")


def test_a_lower_bound_is_one_in_every_figure(fresh: Pages) -> None:
    found = page(f"{fresh.url}/history?job=bert-large")
    rows = {row[0]: row for row in columns(found, '[aria-label="Figures of each line"]')}
    bound = rows["RTX4090 (at least)"]
    assert [cell for cell in bound if "$" in cell] == ["≥ $16.32"] * 6
    assert not any(cell.startswith("≥") for cell in rows["H100"])


def test_what_a_view_changes_is_said(fresh: Pages) -> None:
    found = page(f"{fresh.url}/history?job=bert-large&show=price")
    assert "Chart and buckets show:" in text(found, ".views")
    assert link(found, "job cost")
    assert "USD for the job" in text(found, "#in-figures + .scroll caption")
    assert "Of 3 kinds of offers" in text(found, "#left-out + p")
