"""Addresses that are shared, mistyped or of no page, and what a page knows beside its question."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from tests.web.pages.test_pages import get, link, page, text
from tests.web.pages.world import Pages
from tracker.web.pages.kinds import KINDS


@pytest.mark.parametrize("path", ["/cheapest", "/nothere", "/static", "/api.html"])
def test_where_no_page_is_the_way_to_the_pages_stands(site: Pages, path: str) -> None:
    found = page(site.url + path, 404)
    assert "no such page" in text(found, "h1")
    for kind in KINDS:
        assert link(found, kind.title) == kind.path
    assert "content-security-policy" in get(site.url + path).headers


def test_what_other_sites_append_leaves_the_address(site: Pages) -> None:
    found = page(f"{site.url}/?job=bert-large&utm_source=x&gpu=H100&fbclid=1")
    assert "utm_" not in found.html
    assert "fbclid" not in found.html
    assert found.css_first("#f-gpu").attributes["value"] == "H100"
    for kind in KINDS:
        page(f"{site.url}{kind.path}?job=bert-large&utm_medium=mail" if kind.about_a_job else
             f"{site.url}{kind.path}?utm_medium=mail")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_what_is_known_of_a_page_is_all_that_it_knows(site: Pages, kind: object) -> None:
    (one,) = [known for known in KINDS if known is kind]
    job = "job=bert-large&" if one.about_a_job else ""
    told = text(page(f"{site.url}{one.path}?{job}qqqq=1", 400), ".problem")
    assert "there is no parameter 'qqqq'; known: " in told
    assert set(told.split("known: ")[1].rstrip(".").split(", ")) == {*one.known, *one.own}


def test_break_even_names_its_two_sides_to_whoever_names_a_gpu(site: Pages) -> None:
    told = text(page(f"{site.url}/break-even?job=bert-large&gpu=H100,A100", 400), ".problem")
    assert "left and right" in told
    told = get(f"{site.url}/api/v1/compare?job=bert-large&gpu=H100,A100")
    assert told.status == 400
    assert "left and right" in told.text


def test_an_invalid_description_is_not_to_be_kept(site: Pages) -> None:
    wrong = f"{site.url}/estimate?model=Llama+3.1+8B&tokens=many"
    found = page(wrong, 400)
    assert found.css_first("#keep") is None
    assert "jobs add" not in found.html


# --- only stale prices --------------------------------------------------------------------------


def test_stale_prices_are_one_link_away(site: Pages) -> None:
    found = page(f"{site.url}/?job=bert-large&provider=older")
    shown = page(urljoin(site.url, link(found, "show them, marked as stale")))
    assert len(shown.css("tr.stale")) == 1
    beside = page(f"{site.url}/?job=bert-large")
    assert page(urljoin(site.url, link(beside, "show them too, marked"))).css("tr.stale")


def test_break_even_takes_stale_prices_as_the_interface_does(site: Pages) -> None:
    """The only A100 of `older` is fresh, its H100 is not."""
    base = f"{site.url}/break-even?job=bert-large&provider=older,acme&max_age=2m"
    found = page(base)
    assert found.css_first("#f-include_stale") is not None
    stale = f"{site.url}/break-even?job=bert-large&provider=older,acme&include_stale=true"
    found = page(stale)
    assert "older" in found.html
    assert "include_stale=true" in link(found, "Cheapest")
    assert "include_stale=true" in link(found, "JSON")
    assert "include_stale" not in link(found, "JSON over time")
    assert "Over time nothing is left out or added for: include stale" in found.html
    assert get(urljoin(site.url, link(found, "JSON"))).status == 200


def test_an_end_alone_has_the_usual_length_before_it(site: Pages) -> None:
    found = page(f"{site.url}/history?job=bert-large&until=2026-01-01")
    assert found.css_first(".problem") is None
    assert "history begins at" in text(found, ".empty p")
    told = text(page(f"{site.url}/history?job=bert-large&since=2026-02-01&until=2026-01-01", 400),
                ".problem")  # fmt: skip
    assert "must lie before" in told


def test_before_the_record_no_poll_is_advised(site: Pages) -> None:
    found = page(f"{site.url}/?job=bert-large&as_of=2020-01-01")
    assert "history begins at" in text(found, ".empty p")
    assert found.css_first(".empty pre") is None


# --- the words of pages -------------------------------------------------------------------------


def test_a_page_speaks_of_its_fields_not_of_options(site: Pages) -> None:
    wanting = page(f"{site.url}/?job=bert-large&gpu=H100,L4")
    assert 'give them under "Hours per GPU": L4=...' in text(wanting, "#to-know ~ .remarks")
    stale = page(f"{site.url}/?job=bert-large&include_stale=true")
    for found in (wanting, stale):
        assert "--" not in text(found, "#to-know ~ .remarks")
    wrong = page(f"{site.url}/estimate?model=Llama+3.1+8B&tokens=many", 400)
    assert text(wrong, ".problem").startswith("tokens: ")
