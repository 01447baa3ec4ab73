"""Tables sorted by a column, and what of the past is not sure."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.web.pages.test_pages import JOB, columns, get, link, page, text
from tests.web.pages.world import ESTIMATED, RULE, Pages
from tracker.report.shapes import texts
from tracker.web.pages.addresses import Address
from tracker.web.pages.sorting import Column, heads, in_order

RANKING = '[aria-label="Ranking"]'


def address(sort: str = "") -> Address:
    return Address("/", [("job", "bert-large")], {"sort": sort} if sort else {})


def test_up_then_down_then_as_it_was() -> None:
    known = [Column("age", "Age", lambda one: one), Column("bill", "Bill")]
    ways = [
        (head.href, head.direction)
        for sort in ("", "age", "-age")
        for head in heads(address(sort), known, "t")[:1]
    ]
    assert ways == [
        ("/?job=bert-large&sort=age#t", None), ("/?job=bert-large&sort=-age#t", "ascending"),
        ("/?job=bert-large#t", "descending"),
    ]  # fmt: skip
    assert heads(address(), known, "t")[1].href is None


def test_what_stands_on_a_second_line_is_sorted_by_too() -> None:
    tier = Column("tier", "tier", lambda one: one[1])
    known = [Column("region", "Region", lambda one: one[0], under=(tier,))]
    [head] = heads(address("tier"), known, "t")
    assert head.direction == "ascending"
    assert head.under[0].href == "/?job=bert-large&sort=-tier#t"
    assert in_order(address("-tier"), known, [("a", 1), ("b", 2)]) == [("b", 2), ("a", 1)]


def test_what_is_not_known_comes_last_either_way() -> None:
    known = [Column("age", "Age", lambda one: one[0])]
    rows: list[Any] = [(2, "a"), (None, "b"), (1, "c"), (2, "d")]
    assert [r[1] for r in in_order(address("age"), known, rows)] == ["c", "a", "d", "b"]
    assert [r[1] for r in in_order(address("-age"), known, rows)] == ["a", "d", "c", "b"]
    assert in_order(address(), known, rows) == rows


@pytest.mark.parametrize(
    ("path", "table", "place"),
    [
        (f"{JOB}&market=any", RANKING, 3),
        ("/providers", '[aria-label="Providers"]', 0), ("/alerts", '[aria-label="Rules"]', 0),
        ("/estimate?job=bert-large", '[aria-label="Hours on each GPU"]', 0),
    ],
)  # fmt: skip
def test_every_table_is_sorted_by_links(site: Pages, path: str, table: str, place: int) -> None:
    found = page(site.url + path)
    head = found.css(f"{table} thead th")[place]
    up = urljoin(site.url, head.css_first("a").attributes["href"])
    once = page(up)
    shown = [row[place] for row in columns(once, table)]
    assert shown == sorted(shown)
    assert once.css(f"{table} thead th")[place].attributes["aria-sort"] == "ascending"
    down = once.css(f"{table} thead th")[place].css_first("a").attributes["href"]
    assert [row[place] for row in columns(page(urljoin(site.url, down)), table)] == shown[::-1]
    for head in found.css(f"{table} thead th a"):
        page(urljoin(site.url, head.attributes["href"]))


def test_sorted_rows_are_the_same_rows(site: Pages) -> None:
    usual = columns(page(site.url + JOB), RANKING)
    found = columns(page(f"{site.url}{JOB}&sort=-price"), RANKING)
    assert sorted(found) == sorted(usual)
    prices = [float(row[7].strip("$*")) for row in found]
    assert prices == sorted(prices, reverse=True)


def test_the_form_and_other_pages_keep_what_they_should(site: Pages) -> None:
    found = page(f"{site.url}{JOB}&sort=age")
    assert found.css_first('form input[type=hidden][name="sort"]').attributes["value"] == "age"
    assert "sort=" not in link(found, "Over time")
    assert "sort=" not in link(found, "JSON")


def test_a_column_that_there_is_not(site: Pages) -> None:
    for path in (JOB, "/history?job=bert-large", "/providers?", "/alerts?"):
        told = text(page(f"{site.url}{path}&sort=colour", 400), ".problem")
        assert "no column 'colour'" in told
        assert "known:" in told


def test_buckets_and_steps_are_sorted(site: Pages) -> None:
    base = f"{site.url}/history?job=bert-large&since=12d&bucket=1d"
    found = [row[2] for row in columns(page(f"{base}&sort=-H100"), "#buckets")]
    known = [float(re.sub(r"[$,]", "", cell.split()[0])) for cell in found if cell != texts.DASH]
    assert known == sorted(known, reverse=True)
    assert found[len(known) :] == [texts.DASH] * (len(found) - len(known))
    steps = columns(page(f"{site.url}/break-even?job=bert-large&since=12d&sort=ratio"), "#steps")
    ratios = [float(step[5]) for step in steps]
    assert ratios == sorted(ratios)


def test_the_break_even_over_time_is_a_file(site: Pages) -> None:
    found = page(f"{site.url}/break-even?job=bert-large&since=12d")
    rows = list(csv.DictReader(io.StringIO(
        get(urljoin(site.url, link(found, "CSV over time"))).text
    )))  # fmt: skip
    shown = columns(found, "#steps")
    assert {texts.usd(texts.Decimal(row["left_usd"])) for row in rows} == {s[3] for s in shown}
    assert {row["cheaper"] for row in rows} <= {"left", "right", "tie"}


# --- what is not sure -------------------------------------------------------------------------


def test_a_price_that_nobody_confirms_is_marked(site: Pages) -> None:
    found = page(f"{site.url}/history?job=bert-large&since=12d&bucket=1d")
    stale = [
        (float(row.attributes["data-start"]), float(row.attributes["data-end"]), row)
        for row in found.css("[data-stale]")
    ]
    assert stale
    for start, end, row in stale:
        assert timedelta(0) < timedelta(seconds=end - start) < timedelta(days=10)
        cells = [" ".join(cell.text().split()) for cell in row.css("td")]
        assert cells[2] in ("acme", "older")
        assert texts.usd(texts.Decimal(row.attributes["data-value"])) == cells[3]
    assert "Hatched" in text(found, "figcaption")


def test_what_is_held_back_is_shown_and_counts_in_nothing(site: Pages) -> None:
    base = f"{site.url}/history?job=bert-large&since=12d&bucket=1d"
    found = page(base)
    rows = columns(found, '[aria-label="Held back"]')
    assert [row[1] for row in rows] == ["A100-SXM-80GB"] * 2
    assert sorted(row[5] for row in rows) == ["$1.92", texts.DASH], "12 h, where terms are known"
    (drawn,) = found.css("[data-held]")
    assert drawn.attributes["data-value"] == "1.92"
    for row in columns(found, "#buckets"):
        assert "$1.92" not in " ".join(row)
    prices = page(f"{base}&show=price")
    assert [one.attributes["data-value"] for one in prices.css("[data-held]")] == ["0.16"] * 2
    assert "<script>" not in prices.html.replace("<script defer", "")
    held = columns(page(f"{site.url}/providers"), '[aria-label="Held back"]')
    assert {(row[0], row[5], row[6]) for row in held} == {("A100-SXM-80GB", "$0.16", "jump")}


def test_a_changed_estimate_marks_the_past(site: Pages) -> None:
    found = page(f"{site.url}/history?job={ESTIMATED}&since=12d")
    (marker,) = found.css('[data-marker="estimate"]')
    assert "the estimate of the hours changed" in " ".join(marker.text().split())
    assert "The estimate changed on" in found.html
    other = page(f"{site.url}/history?job=bert-large&since=12d")
    assert not other.css('[data-marker="estimate"]')
    assert RULE in other.html
