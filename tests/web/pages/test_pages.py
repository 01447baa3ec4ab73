"""The pages as they are answered, without a browser."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from importlib import resources
from urllib.parse import urljoin

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.web.pages.world import HOSTILE, RULE, Pages, tree
from tests.web.world import Got, ask
from tracker.app.answers import Answers, Question
from tracker.report.shapes import texts, words
from tracker.store.errors import StoreError
from tracker.web.app import SECURITY_HEADERS
from tracker.web.pages import site as pages_site
from tracker.web.pages.site import PAGE_HEADERS

JOB = "/?job=bert-large&gpu=A100,H100,RTX4090"
PAGES = (
    JOB, "/history?job=bert-large&since=12d", "/break-even?job=bert-large&since=12d",
    "/estimate?model=Llama+3.1+8B&method=lora&tokens=50M&gpu=H100", "/estimate?job=bert-large",
    "/providers", "/alerts",
)  # fmt: skip


def get(address: str) -> Got:
    """One request; where it leads is followed."""
    return asyncio.run(ask(address))


def page(address: str, status: int = 200) -> LexborHTMLParser:
    """A page that must be answered with *status*."""
    got = get(address)
    assert got.status == status, got.text
    return tree(got.text)


def text(found: LexborHTMLParser, selector: str) -> str:
    """What one reads there."""
    node = found.css_first(selector)
    assert node is not None, selector
    return " ".join(node.text().split())


def link(found: LexborHTMLParser, name: str) -> str:
    """Where the link of that text leads."""
    for node in found.css("a"):
        if " ".join(node.text().split()) == name:
            return str(node.attributes["href"])
    raise AssertionError(f"no link {name}")


def columns(found: LexborHTMLParser, selector: str) -> list[list[str]]:
    """The cells of a table's rows."""
    return [
        [" ".join(cell.text().split()) for cell in row.css("th, td")]
        for row in found.css(f"{selector} tbody tr")
    ]


# --- what stands there ------------------------------------------------------------------------


def test_the_answer_stands_first_and_is_that_of_the_report(site: Pages) -> None:
    found = page(site.url + JOB)
    report = Answers(site.app).cheapest(
        Question.of("cheapest", job="bert-large", gpu=["A100", "H100", "RTX4090"])
    )
    assert text(found, "h1 + .answer") == texts.visible(words.sentence(report))
    rows = columns(found, '[aria-label="Ranking"]')
    assert [row[1].split()[0] for row in rows] == [row.offer.gpu_key for row in report.rows]
    assert [row[2].split()[-1] for row in rows] == [
        texts.usd(row.bill.at_least_usd) for row in report.rows
    ]
    assert rows[-1][2].startswith("≥ ")  # the hours of the RTX 4090 are a lower bound
    assert rows[-1][2] == "≥ $16.32"
    assert rows[0][8:10] == ["4.00 published", "4.00"]
    assert rows[0][10].endswith(" list"), "nobody says what is in stock"
    assert "1 stale" in text(found, "#left-out + p")
    assert ["1", "stale"] in columns(found, "[aria-labelledby=left-out]")


def test_every_line_of_a_bill_is_shown(site: Pages) -> None:
    found = page(f"{site.url}{JOB}&disk=100&setup=0.5")
    bill = found.css_first("#bills ~ details table")
    assert bill is not None
    lines = [[" ".join(c.text().split()) for c in row.css("td")] for row in bill.css("tbody tr")]
    amounts = [float(line[2].strip("$")) for line in lines if line[2] != texts.DASH]
    assert len(amounts) >= 3  # set-up, runtime, the total
    assert sum(amounts[:-1]) == pytest.approx(amounts[-1], abs=1e-3)


def test_a_bill_says_of_a_list_price_what_nobody_says(site: Pages) -> None:
    notes = text(page(site.url + JOB), "#bills ~ details .remarks")
    assert "a list price: nobody says whether it is to be had" in notes


def test_an_estimate_says_what_is_rented_and_billed(site: Pages) -> None:
    found = page(f"{site.url}/estimate?job=llama-3.1-8b-lora&gpu=H100-SXM-80GB")
    [row] = columns(found, '[aria-label="Hours on each GPU"]')
    heads = [node.text().split()[0] for node in found.css("#on-each thead th")]
    cells = dict(zip(heads, row, strict=True))
    report = Answers(site.app).estimate(
        Question.of("estimate", job="llama-3.1-8b-lora", gpu=["H100-SXM-80GB"])
    )
    billed = report.found[0].row
    assert billed is not None
    assert row[5] == "1 on-demand"
    assert cells["Billed"] == f"{billed.bill.billed_hours:.2f}"
    assert float(cells["Billed"]) > float(cells["Hours"].split()[0])
    assert f"{cells['Billed']} h at {cells['$/GPU-h']} an hour" in text(found, ".answer")
    assert "Set-up is billed beside" in text(found, ".remarks")


def test_a_bill_of_less_than_a_cent_is_not_nothing(site: Pages) -> None:
    found = text(page(f"{site.url}/?hours=A100=0.0001&gpu=A100"), "h1 + .answer")
    assert re.search(r"\$0\.000\d+", found), found
    assert not re.search(r"\$0\.00(?!\d)", found), found


def test_files_hold_what_is_shown(site: Pages) -> None:
    found = page(f"{site.url}{JOB}&market=any&top=3")
    shown = columns(found, '[aria-label="Ranking"]')[:3]
    document = json.loads(get(urljoin(site.url, link(found, "JSON"))).text)
    table = list(csv.DictReader(io.StringIO(get(urljoin(site.url, link(found, "CSV"))).text)))
    for row, cells, line in zip(document["rows"], shown, table, strict=True):
        assert cells[2].split()[-1] == texts.usd(texts.Decimal(row["at_least_usd"]))
        assert (cells[1].split()[0], cells[0].strip("~^")) == (row["gpu"], str(row["rank"]))
        assert line["at_least_usd"] == row["at_least_usd"]


def test_the_past_is_that_of_the_interface(site: Pages) -> None:
    found = page(f"{site.url}/history?job=bert-large&since=12d&bucket=1d")
    names = [node.text() for node in found.css("#buckets thead th")][1:]
    assert names == ["A100", "H100", "RTX4090 (at least)", "cheapest of all"]
    document = json.loads(get(urljoin(site.url, link(found, "JSON"))).text)
    of = {(row["start"], row["series"]): row["usd"] for row in document["rows"]}
    known = gaps = 0
    for row in found.css("#buckets tbody tr"):
        moment = row.css_first("time").attributes["datetime"].replace("+00:00", "Z")
        for name, cell in zip(names, row.css("td"), strict=True):
            data = cell.css_first("data")
            expected = of[moment, name.removesuffix(" (at least)")]
            assert (data.attributes["value"] if data else None) == expected
            assert cell.text().strip()[:1] in ("$", texts.DASH)
            known, gaps = known + (data is not None), gaps + (data is None)
    assert known > 10
    assert gaps > 5, "what is not known is a gap"
    [caption] = [node.text() for node in found.css("caption") if "weighed" in node.text()]
    days = document["compared_seconds"] / 86_400
    compared = re.search(r"cheapest alone: of the ([0-9.]+) days for which two or more", caption)
    assert compared is not None, caption
    assert float(compared[1]) == pytest.approx(days, abs=0.06)


def test_alerts_mark_the_past(site: Pages) -> None:
    found = page(f"{site.url}/history?job=bert-large&since=12d")
    fired = found.css('[data-marker="fire"]')
    assert len(fired) == 1
    assert f"{RULE} fired" in " ".join(fired[0].text().split())
    other = page(f"{site.url}/history?job=resnet-50&since=12d&gpu=H100")
    assert not other.css("[data-marker]"), "the rule is about another job"


def test_break_even_now_over_time_and_what_if(site: Pages) -> None:
    found = page(f"{site.url}/break-even?job=bert-large&since=12d")
    assert "Take the H100" in text(found, ".answer")
    assert found.css_first("svg polyline.ray") is not None
    assert "slope 3.000" in found.html
    steps = columns(found, "#steps")
    assert len(steps) > 5
    for step in steps:
        left, right, ratio = (float(step[at].strip("$")) for at in (3, 4, 5))
        assert ratio == pytest.approx(left / right, abs=2e-3)
    slower = page(f"{site.url}/break-even?job=bert-large&since=12d&speed_up=1.5")
    assert text(slower, ".answer").startswith("If the H100-SXM-80GB were 1.5 times as fast:")
    assert "take the A100" in text(slower, ".answer")
    assert "slope 1.500" in slower.html
    assert slower.css_first("input[type=range]").attributes["value"] == "1.5"
    assert text(page(urljoin(site.url, link(slower, "as it is"))), ".answer") == text(
        found, ".answer"
    )


def test_names_may_be_spelt_as_on_the_command_line(site: Pages) -> None:
    one = page(f"{site.url}/break-even?job=bert-large&Left=H100&RIGHT=A100&speed-up=2&MIN-VRAM=40")
    other = page(
        f"{site.url}/break-even?job=bert-large&left=H100&right=A100&speed_up=2&min_vram=40"
    )
    assert text(one, ".answer") == text(other, ".answer")


def test_every_kind_of_job_has_every_page(site: Pages) -> None:
    for job in ("resnet-50", "gromacs-like", "llama-3.1-8b-service", "whisper-large"):
        for path in ("/", "/history", "/break-even", "/estimate"):
            page(f"{site.url}{path}?job={job}")


def test_a_service_is_estimated_with_the_range_of_its_gpus(site: Pages) -> None:
    found = page(f"{site.url}/estimate?job=llama-3.1-8b-service&gpu=L4")
    [row] = columns(found, '[aria-label="Hours on each GPU"]')
    assert re.search(r"730\.00 \d+ to \d+ GPUs", row[3])


def test_a_model_may_be_a_count_of_parameters_as_in_a_job_file(site: Pages) -> None:
    found = page(f"{site.url}/estimate?model=7B&method=lora&tokens=50M&gpu=H100-SXM-80GB")
    assert 'model = { params = "7B" }' in text(found, "#keep ~ pre")
    assert columns(found, '[aria-label="Hours on each GPU"]')[0][0] == "H100-SXM-80GB"
    for size in ("6.7b", "7000000000", "350+M"):
        found = page(f"{site.url}/estimate?model={size}&method=qlora&tokens=1M&gpu=H100-SXM-80GB")
        assert columns(found, '[aria-label="Hours on each GPU"]')


def test_a_described_job_is_estimated_and_can_be_kept(site: Pages) -> None:
    found = page(
        f"{site.url}/estimate?model=Llama+3.1+8B&method=qlora&tokens=50M&gpu=H100-SXM-80GB,4090"
    )
    rows = columns(found, '[aria-label="Hours on each GPU"]')
    assert rows[0][0] == "H100-SXM-80GB"
    assert re.fullmatch(r"\d+\.\d\d \d+\.\d\d to \d+\.\d\d", rows[0][3])
    assert 'method = "qlora"' in text(found, "#keep ~ pre")
    served = page(
        f"{site.url}/estimate?model=Llama+3.1+8B&method=inference&input_tokens=512"
        "&output_tokens=64&requests=1M&precision=fp8&gpu=H100-SXM-80GB"
    )
    assert columns(served, '[aria-label="Hours on each GPU"]')


def test_providers_and_alerts(site: Pages) -> None:
    found = page(f"{site.url}/providers")
    rows = {row[0]: row for row in columns(found, '[aria-label="Providers"]')}
    assert rows["acme"][1] == "complete"
    assert rows["acme"][6] == "3"
    assert "stale" in rows["older"][1]
    assert "gpucost poll" in text(found, ".problem")
    rules = columns(page(f"{site.url}/alerts"), '[aria-label="Rules"]')
    assert [(row[0], row[1]) for row in rules] == [(RULE, "firing")]


# --- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/?job=nope", "no job is called"), ("/?job=bert-large&gpu=h1000", "h1000"),
        ("/?job=bert-large&colour=red", "there is no parameter"),
        ("/?job=bert-large&top=0", "top"), ("/?job=bert-large&top=1001", "at most 1,000 rows"),
        ("/?job=bert-large&top=20000", "at most 1,000 rows"),
        ("/?job=bert-large&job=resnet-50", "given twice"),
        ("/history?job=bert-large&bucket=1s", "bucket"),
        ("/history?job=bert-large&since=90d&bucket=15m", "more than a page takes"),
        ("/history?job=bert-large&since=2099-01-01", "future"),
        ("/history?job=bert-large&tz=Mars/Base", "time zone"),
        ("/break-even?job=bert-large&speed_up=0", "speed_up"),
        ("/break-even?job=bert-large&speed_up=nan", "speed_up"),
        ("/break-even?job=bert-large&speed_up=1." + "0" * 999, "speed_up"),
        ("/break-even?job=bert-large&left=H100&right=H100", "may be the same GPU"),
        ("/estimate?model=/etc/passwd.json&tokens=1M", "name a model"),
        ("/estimate?model=No+Such+Model&tokens=50M", "unknown model"),
        ("/estimate?model=7&tokens=50M", "7 parameters cannot be meant"),
        ("/estimate?model=7.1.2B&tokens=50M", "is not a count such as 5000"),
        ("/estimate?model=Llama+3.1+8B&method=lora&requests=5", "no meaning for lora"),
        ("/estimate?model=Llama+3.1+8B&tokens=50M%22%0A", "tokens"),
        ("/estimate?model=Llama+3.1+8B&job=bert-large", "not both"),
        ("/providers?x=1", "there is no parameter"),
    ],
)  # fmt: skip
def test_nonsense_is_told_in_one_line_and_the_form_stays(
    site: Pages, address: str, said: str
) -> None:
    found = page(site.url + address, 400)
    assert said in text(found, ".problem[role=alert]")
    if not address.startswith("/providers"):
        assert found.css_first("form button") is not None


def test_nothing_recorded_says_which_command_to_run(site: Pages) -> None:
    for address in ("/", "/history?job=bert-large", "/break-even?job=bert-large", "/providers"):
        assert "gpucost poll" in text(page(site.empty + address), ".empty pre"), address
    assert "gpucost daemon" in page(f"{site.empty}/alerts").html
    assert "gpucost poll" in page(f"{site.empty}/estimate?job=bert-large").html


def test_only_stale_prices_say_so(site: Pages) -> None:
    found = page(f"{site.url}/?job=bert-large&provider=older")
    assert "stale" in text(found, ".empty p")
    assert "gpucost poll" in text(found, ".empty pre")
    shown = page(f"{site.url}/?job=bert-large&provider=older&include_stale=true")
    assert len(shown.css("tr.stale")) == 1


def test_a_database_that_is_away_is_told_without_its_address(
    site: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreError("cannot connect to PostgreSQL")

    monkeypatch.setattr(Answers, "cheapest", away)
    found = page(site.url + JOB, 503)
    assert "cannot connect to PostgreSQL" in text(found, ".problem")


def test_a_failure_tells_a_reader_nothing(
    site: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted-secret")

    monkeypatch.setattr(Answers, "cheapest", broken)
    assert "planted-secret" not in page(site.url + JOB, 500).html
    assert "planted-secret" in caplog.text


# --- addresses and safety ---------------------------------------------------------------------


def test_empty_fields_of_a_form_leave_the_address(site: Pages) -> None:
    got = get(f"{site.url}/?job=bert-large&gpu=H100&market=&top=&region=")
    same = get(f"{site.url}/?job=bert-large&gpu=H100")
    as_of = re.compile(r"<p>As of.*", re.DOTALL)
    assert as_of.sub("", got.text) == as_of.sub("", same.text)
    assert "market=&" not in got.text


def test_links_between_pages_keep_the_question(site: Pages) -> None:
    found = page(f"{site.url}/?job=bert-large&gpu=H100,A100&market=any&goal=fastest")
    past = page(urljoin(site.url, link(found, "Over time")))
    assert past.css_first("#f-gpu").attributes["value"] == "H100,A100"
    assert past.css_first("#f-market option[selected]").attributes["value"] == "any"
    back = link(past, "Cheapest")
    assert back == "/?job=bert-large&gpu=H100,A100&market=any"


@pytest.mark.parametrize("address", PAGES)
def test_pages_run_nothing_inline_and_load_from_nowhere_else(site: Pages, address: str) -> None:
    got = get(site.url + address)
    assert got.status == 200
    assert got.headers["content-security-policy"] == PAGE_HEADERS["content-security-policy"]
    assert "unsafe" not in got.headers["content-security-policy"]
    for name, _ in SECURITY_HEADERS:
        assert len(got.headers.get_all(name.decode())) == 1, name
    found = tree(got.text)
    for node in found.css("*"):
        for name, value in node.attributes.items():
            assert name != "style"
            assert not name.startswith("on")
            if name in ("src", "href", "action"):
                assert re.match(r"[/#]", value or ""), (name, value)
                assert not (value or "").startswith("//")
        if node.tag == "script":
            assert node.attributes.get("src")
    for node in found.css("link[href], script[src]"):
        where = node.attributes.get("href") or node.attributes.get("src")
        served = get(urljoin(site.url, where))
        assert served.status == 200
        assert "immutable" in served.headers["cache-control"]


def test_hostile_words_are_inert(site: Pages) -> None:
    for address in (JOB, "/history?job=bert-large&since=12d&per=provider", "/providers"):
        got = get(site.url + address)
        assert "<script>alert" not in got.text
        assert "<img" not in got.text
        for unseen in "\u202e\x9b\x1b\x00":
            assert unseen not in got.text
    shown = text(page(site.url + JOB), '[aria-label="Ranking"]')
    assert texts.visible(HOSTILE) in shown, "it is shown as what it is"
    found = page(f"{site.url}/?job=%3Cscript%3Ealert(1)%3C/script%3E", 400)
    assert "<script>alert" not in found.html.replace("&lt;", "")


def test_static_files_are_those_of_the_list(site: Pages) -> None:
    for name in ("nope.js", "../style.css", "%2e%2e/app.py", "uPlot.LICENSE.txt"):
        assert get(f"{site.url}/static/{name}").status == 404
    got = get(f"{site.url}/static/style.css")
    again = asyncio.run(
        ask(f"{site.url}/static/style.css", headers={"If-None-Match": got.headers["etag"]})
    )
    assert again.status == 304
    folder = resources.files("tracker.web") / "static"
    there = {one.name for one in folder.iterdir()}
    assert there == {*pages_site.STATIC, "uPlot.LICENSE"}, "no file is left out of the list"
