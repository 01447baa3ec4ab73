"""The pages in a real Chromium: what is drawn, how one moves about, and nothing from elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages.test_pages import JOB, PAGES
from tests.web.pages.world import Pages

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium"
)  # fmt: skip

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
HISTORY, EVEN = PAGES[1], PAGES[2]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests here, with a profile of its own."""
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@dataclass
class Seen:
    """A page, and what happened while it was looked at."""

    page: Any
    url: str
    wrong: list[str] = field(default_factory=list)

    def go(self, address: str) -> Any:
        """Open an address of the site."""
        self.page.goto(self.url + address)
        return self.page

    def audit(self) -> list[str]:
        """What axe finds that is serious."""
        # Into a world of the test's own: the page allows no script but its own.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("async () => (await axe.run()).violations")
        return [
            f"{one['id']}: {one['nodes'][0]['html']}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@pytest.fixture
def seen(browser: Any, site: Pages, request: pytest.FixtureRequest) -> Iterator[Seen]:
    """A fresh window on the site; afterwards nothing may have gone wrong in it."""
    with browser.new_context(**getattr(request, "param", {"viewport": DESKTOP})) as context:
        context.set_default_timeout(15_000)
        page = context.new_page()
        one = Seen(page, site.url)
        page.on("console", lambda told: one.wrong.append(f"console: {told.text}"))
        page.on("pageerror", lambda error: one.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (one.wrong.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda sent: sent.url.startswith(site.url) or one.wrong.append(f"asked {sent.url}"),
        )
        yield one
        assert one.wrong == []


def test_every_page_is_accessible_and_fits_a_phone(seen: Seen) -> None:
    for address in (*PAGES, "/api/docs"):
        page = seen.go(address)
        assert seen.audit() == [], address
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.locator("h1").is_visible()
        page.set_viewport_size(DESKTOP)


# Where each cell of a table ends, beyond what of it can be seen without scrolling.
_CUT = """() => [...document.querySelectorAll("table.cards")].flatMap((table) => {
  const seen = table.closest(".scroll").getBoundingClientRect();
  return [...table.querySelectorAll("tbody th, tbody td, tbody a")]
    .map((cell) => [cell, cell.getBoundingClientRect()])
    .filter(([cell, box]) => !box.width || box.left < seen.left || box.right > seen.right + 1)
    .map(([cell, box]) => `${cell.dataset.label}: ${box.left} to ${box.right}`);
})"""


@pytest.mark.parametrize("width", [1920, 1280, 1100, 768, 390])
def test_no_column_of_a_ranking_is_cut(seen: Seen, width: int) -> None:
    seen.page.set_viewport_size({"width": width, "height": 900})
    for job in ("bert-large", "llama-3.1-8b-service", "llama-3.1-8b-lora"):
        for address in (f"/?job={job}&market=any", f"/estimate?job={job}"):
            page = seen.go(address)
            assert page.locator("table.cards tbody tr").count() > 1
            assert page.evaluate(_CUT) == [], address


@pytest.mark.parametrize(
    "seen", [{"viewport": PHONE, "color_scheme": "dark"}], indirect=True, ids=["dark phone"]
)
def test_it_is_dark_where_one_wants_it_dark(seen: Seen) -> None:
    for address in (JOB, HISTORY, EVEN):
        page = seen.go(address)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in colour[4:-1].split(",")) < 60
        assert seen.audit() == [], address


def test_the_chart_draws_exactly_the_table(seen: Seen) -> None:
    page = seen.go(HISTORY)
    page.wait_for_selector("figure.chart canvas")
    table, drawn, lit = page.evaluate(
        """() => {
          const figure = document.querySelector("figure.chart");
          const cell = (td) => {
            const data = td.querySelector("data");
            return data ? Number(data.value) : null;
          };
          const rows = [...document.querySelectorAll("#buckets tbody tr")];
          const table = rows.map((r) => [...r.querySelectorAll("td")].map(cell));
          const { data } = figure.chart;
          const columns = figure.columns.map((c) => data.indexOf(c.value));
          const at = rows.map((r) => data[0].indexOf(Number(r.dataset.start)));
          const drawn = at.map((i) => columns.map((c) => data[c][i]));
          const held = at.every((i) => columns.every((c) => data[c][i] === data[c][i + 1]));
          const canvas = figure.querySelector("canvas");
          const { width, height } = canvas;
          const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
          const colours = new Set();
          for (let i = 0; i < pixels.length; i += 4) {
            colours.add(pixels.slice(i, i + 4).join());
          }
          const both = colours.has("11,87,164,255") && colours.has("180,80,11,255");
          return [table, held ? drawn : null, both];
        }"""
    )  # fmt: skip
    assert table == drawn, "a bucket is a step from its start until its end"
    assert any(cell is None for row in table for cell in row)
    assert lit, "both lines are there in their colours"


def test_ratio_and_plane_are_drawn(seen: Seen) -> None:
    page = seen.go(EVEN)
    page.wait_for_selector("figure[data-table=steps] canvas")
    ratios = page.evaluate("document.querySelector('figure[data-table=steps]').columns[0].value")
    told = page.locator("#steps data").evaluate_all("all => all.map((d) => Number(d.value))")
    assert [ratio for ratio in ratios if ratio is not None][::2] == told
    assert None in ratios, "a day without prices is a gap"
    assert page.locator("svg polyline.ray").bounding_box()["width"] > 100


def test_asking_by_the_keyboard_keeps_everything_in_the_address(seen: Seen) -> None:
    page = seen.go(JOB)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#f-gpu")
    page.keyboard.press("Control+a")
    page.keyboard.type("H100")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == f"{seen.url}/?job=bert-large&gpu=H100"
    shown = page.locator('[aria-label="Ranking"]').inner_text()
    assert "A100" not in shown
    page.reload()
    assert page.input_value("#f-gpu") == "H100"
    page.click('nav a:has-text("Over time")')
    page.wait_for_url("**/history?job=bert-large&gpu=H100")
    page.go_back()
    page.wait_for_selector('[aria-label="Ranking"]')
    page.click('[aria-label="Ranking"] tbody tr:first-child a')
    page.wait_for_selector("details[open] table")


def test_the_slider_is_in_the_address(seen: Seen) -> None:
    page = seen.go(EVEN)
    page.focus("#f-speed-up")
    with page.expect_navigation():
        page.keyboard.press("ArrowLeft")
    assert "speed_up=2.99" in page.url
    assert page.input_value("#f-speed-up") == "2.99"
    assert page.locator(".answer").inner_text().startswith("If the H100")


@pytest.mark.parametrize("seen", [{"java_script_enabled": False}], indirect=True, ids=["none"])
def test_without_javascript_the_tables_say_it_all(seen: Seen) -> None:
    page = seen.go(HISTORY)
    assert page.locator("#buckets").is_visible()
    assert not page.locator("figure.chart").is_visible()
    page = seen.go(EVEN)
    assert page.locator("svg .ray").is_visible()
    page.fill("#f-left", "H100-SXM-80GB")
    page.click('section[aria-labelledby="ask"] button')
    page.wait_for_url("**left=H100-SXM-80GB**")
    assert page.locator(".answer").is_visible()
