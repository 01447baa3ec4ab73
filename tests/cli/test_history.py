"""``gpucost history`` and ``compare --since`` over small worlds, by figures worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, HOUR, RTX4090, Result, filled, record, run
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.domain.offer import Offer
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
JOB = ("--hours", "H100=4,A100=12")


def after(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def told(hours: float, *offers: Offer, source: str = "hub", **fields: Any) -> Poll:
    """A complete poll so many hours after the start; its prices hold for three hours."""
    moment = after(hours)
    times: dict[str, Any] = {"started_at": moment, "polled_at": moment, "every_seconds": HOUR}
    return make_poll(0, offers, source=source, **(times | fields))


def h100(price: str, name: str = "h", **fields: Any) -> Offer:
    return make_offer(name, price, source=fields.pop("source", "hub"), gpu=H100, **fields)


def a100(price: str, name: str = "a", **fields: Any) -> Offer:
    return make_offer(name, price, source=fields.pop("source", "hub"), gpu=A100, **fields)


# The H100 job costs 4 times its price, the A100 job 12 times. Polls each hour, none from 6 to 11:
# what the one of 5:00 told holds until 8:00.
WORLD = [
    *(told(hours, h100("4"), a100("1")) for hours in range(3)),  # 16 against 12
    *(told(hours, h100("2"), a100("1")) for hours in range(3, 6)),  # 8 against 12
    *(told(hours, h100("3.5"), a100("1")) for hours in range(12, 15)),  # 14 against 12
    told(15, h100("3"), a100("1")),  # 12 against 12
    told(16, h100("5"), a100("1")),
]  # fmt: skip


@pytest.fixture(scope="module")
def world(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, *WORLD) as url:
        yield url


@pytest.fixture
def _in_world(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world)


def ask(*more: str, job: tuple[str, ...] = JOB) -> Result:
    window = ("--since", "2026-03-02", "--until", "2026-03-03", "--bucket", "1h")
    given = [word for word in more if word.startswith("--")]
    kept = [w for pair in zip(window[::2], window[1::2], strict=True) if pair[0] not in given
            for w in pair]  # fmt: skip
    return run("history", *job, *kept, *more)


def series(answer: Result, name: str) -> list[str | None]:
    return [row["usd"] for row in answer.json()["rows"] if row["series"] == name]


@pytest.mark.usefixtures("_in_world")
def test_a_price_holds_until_it_changes_and_a_gap_stays_a_gap() -> None:
    answer = ask("-o", "json")
    assert answer.code == 0
    h100_job = ["16"] * 3 + ["8"] * 5 + [None] * 4 + ["14"] * 3 + ["12"] + ["20"] * 3 + [None] * 5
    assert series(answer, "H100") == h100_job
    assert series(answer, "A100") == ["12"] * 8 + [None] * 4 + ["12"] * 7 + [None] * 5
    best = ["12"] * 3 + ["8"] * 5 + [None] * 4 + ["12"] * 7 + [None] * 5
    assert series(answer, "cheapest of all") == best
    gaps = [row for row in answer.json()["rows"] if row["usd"] is None]
    assert {row["known_seconds"] for row in gaps} == {0}
    assert all(row.get("gpu") is None for row in gaps)


@pytest.mark.usefixtures("_in_world")
def test_figures_are_weighed_by_the_time_that_a_price_is_known_for() -> None:
    found = {one["name"]: one for one in ask("--below", "13", "-o", "json").json()["series"]}
    one = found["H100"]  # 5 h at 8, 1 h at 12, 3 h at 14, 3 h at 16, 3 h at 20
    assert one["known_seconds"] == 15 * HOUR
    assert (one["min_usd"], one["median_usd"], one["max_usd"]) == ("8", "14", "20")
    assert (one["p10_usd"], one["p90_usd"]) == ("8", "20")
    assert one["below_seconds"] == 6 * HOUR
    # Of 15 hours at which both are known: 5 h the H100 alone, 1 h both, 9 h the A100 alone.
    assert one["cheapest_alone_seconds"] == 5 * HOUR
    assert one["cheapest_tied_seconds"] == HOUR
    assert found["A100"]["cheapest_alone_seconds"] == 9 * HOUR
    assert found["H100"]["now_usd"] is None  # nothing is known at the end of the day
    assert found["H100"]["now_is_live"] is False


@pytest.mark.usefixtures("_in_world")
@pytest.mark.parametrize(
    ("stat", "expected"), [("min", "8"), ("median", "14"), ("p10", "8"), ("p90", "20")]
)
def test_a_bucket_has_the_figure_asked_for(stat: str, expected: str) -> None:
    assert series(ask("--bucket", "1d", "--stat", stat, "-o", "json"), "H100") == [expected]


@pytest.mark.usefixtures("_in_world")
def test_every_format_has_the_same_figures() -> None:
    document = ask("-o", "json").json()
    lines = [json.loads(line) for line in ask("-o", "ndjson").lines]
    assert [{k: v for k, v in line.items() if k != "schema_version"} for line in lines] == (
        document["rows"]
    )
    table = ask("-o", "csv").lines
    assert len(table) == 1 + len(document["rows"])
    assert table[1].startswith("2026-03-02T00:00:00Z,2026-03-02T01:00:00Z,H100,16,16,16,16,3600,")


@pytest.mark.usefixtures("_in_world")
def test_the_table_shows_gaps_as_such() -> None:
    text = ask().out
    cells = [line.split() for line in text.splitlines()]
    assert ["2026-03-02", "07:00+0000", "$8.00", "$12.00", "H100-SXM-80GB", "hub"] in cells
    assert ["2026-03-02", "09:00+0000", "—", "—", "—", "—"] in cells
    assert text.startswith("Job, 2026-03-02 to 2026-03-03 (24 h): the cheapest was $8.00 on")


@pytest.mark.usefixtures("_in_world")
def test_the_chart_has_steps_and_gaps() -> None:
    drawn = ask("--chart").out
    begin = drawn.index("lowest bill")
    assert drawn[begin : drawn.index("\n\n", begin)].splitlines() == [
        "lowest bill of each bucket, in USD for the job",
        "$20.00 ┤                ●●●",
        "       │                │",
        "       │                │",
        "       │                │",
        "       │●●●             │",
        "       │   │        ●●● │",
        "$13.45 ┤   │           ││",
        "       │○○○○○○○○    ○○○✳○○○",
        "       │   │",
        "       │   │",
        "       │   │",
        " $8.00 ┤   ●●●●●",
        "       └────────────────────────",
        "        2026-03-02    2026-03-03",
        "        ● H100   ○ A100",
    ]


@pytest.mark.usefixtures("_in_world")
def test_a_provider_has_a_series_too() -> None:
    answer = ask("--per", "provider", "-o", "json").json()
    assert [one["name"] for one in answer["series"]] == ["hub", "cheapest of all"]


@pytest.mark.usefixtures("_in_world")
def test_crossings_are_dated_at_the_first_moment_of_the_new_side() -> None:
    answer = run("compare", "H100", "A100", *JOB, "--since", "2026-03-02", "--as-of",
                 "2026-03-02T17:30Z", "-o", "json")  # fmt: skip
    assert answer.code == 0, answer.err
    past = answer.json()["history"]
    assert (past["initial"], past["initial_since"]) == ("right", "2026-03-02T00:00:00Z")
    assert [(c["at"], c["cheaper"], c["left_usd"], c["right_usd"], c["gap"])
            for c in past["crossings"]] == [
        ("2026-03-02T03:00:00Z", "left", "8", "12", False),
        ("2026-03-02T12:00:00Z", "right", "14", "12", True),  # perhaps earlier: nobody looked
    ]  # fmt: skip
    last = past["steps"][-1]
    assert last["break_even_usd_per_gpu_hour"] == "3"  # 12 / 4 h
    assert (last["ratio"], last["left_price_usd_per_gpu_hour"]) == (pytest.approx(5 / 3), "5")
    assert past["compared_seconds"] == 13.5 * HOUR
    assert past["shares"]["left"] == pytest.approx(5 / 13.5, abs=1e-6)
    assert past["shares"]["tie"] == pytest.approx(1 / 13.5, abs=1e-6)


@pytest.mark.usefixtures("_in_world")
def test_crossings_are_told_with_their_dates_and_amounts() -> None:
    lines = run("compare", "H100", "A100", *JOB, "--since", "2026-03-02", "--as-of",
                "2026-03-02T17:30Z").lines  # fmt: skip
    assert "2026-03-02 03:00 UTC: H100 becomes the cheaper one, $8.00 against $12.00" in lines
    assert any(line.startswith("2026-03-02 12:00 UTC: A100 becomes the cheaper one, $12.00 against"
                               " $14.00 (not known at all times since 2026-03-02 08:00")
               for line in lines)  # fmt: skip
    assert any("a margin of -40.0 %" in line for line in lines)


def test_list_prices_of_rounded_parts_are_a_tie(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """98.32 against 32.77 for eight: 49.16 and 49.155 a GPU. Rounded, the answer would flip."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    eight: dict[str, Any] = {"gpu_count": Decimal(8)}
    for hours in range(3):
        record(database_url, told(hours, h100("98.32", **eight), a100("32.77", **eight)))
    past = run("compare", "H100", "A100", "--hours", "H100=4,A100=12", "--since", "2026-03-02",
               "--as-of", "2026-03-02T04:00Z", "-o", "json").json()["history"]  # fmt: skip
    assert past["shares"] == {"left": 0, "right": 0, "tie": 1}
    assert past["crossings"] == []
    assert (past["steps"][0]["left_usd"], past["steps"][0]["right_usd"]) == ("393.28", "393.24")


# --- the end of the window is the live answer ----------------------------------------------------


def test_the_last_point_is_the_answer_of_now(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    now = datetime.now(UTC)
    for minutes, price in ((90, "2.50"), (30, "2.4321")):
        moment = now - timedelta(minutes=minutes)
        offers = [h100(price), a100("1.10"), make_offer("r", "0.4", source="hub", gpu=RTX4090)]
        record(database_url, make_poll(0, offers, source="hub", every_seconds=HOUR,
                                       started_at=moment, polled_at=moment))  # fmt: skip
    live = run("cheapest", "bert-large", "--disk", "300", "-o", "json").json()
    past = run("history", "bert-large", "--disk", "300", "--since", "1d", "--bucket", "1h",
               "-o", "json").json()  # fmt: skip
    best = {row["gpu"].split("-")[0]: row["at_least_usd"] for row in live["rows"][::-1]}
    now_usd = {one["name"]: one["now_usd"] for one in past["series"]}
    last = {row["series"]: row["at_least"] or row["usd"] for row in past["rows"]
            if row["end"] > past["as_of"]}  # fmt: skip
    assert best.keys() == {"H100", "A100", "RTX4090"}
    assert {name: now_usd[name] for name in best} == best
    assert {name: last[name] for name in best} == best
    assert now_usd["cheapest of all"] == live["rows"][0]["at_least_usd"]
    assert not [remark for remark in past["remarks"] if "listed" in remark]


def test_what_is_out_of_stock_is_listed_but_not_to_be_had(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracker.domain.offer import Extras
    from tracker.domain.terms import Availability

    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    moment = datetime.now(UTC) - timedelta(minutes=5)
    gone = h100("1", name="gone", extras=Extras(availability=Availability.NO))
    record(database_url, make_poll(0, [gone, h100("2")], source="hub", every_seconds=HOUR,
                                   started_at=moment, polled_at=moment))  # fmt: skip
    answer = run("history", *JOB, "--since", "1d", "-o", "json").json()
    [one] = [s for s in answer["series"] if s["name"] == "H100"]
    assert (one["min_usd"], one["now_usd"], one["now_is_live"]) == ("4", "8", True)
    assert any("by what was listed $4.00" in remark for remark in answer["remarks"])


# --- estimates -----------------------------------------------------------------------------------


def test_a_past_point_keeps_the_estimate_it_was_made_with(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.catalogue import catalogue
    from tracker.domain.job import Job, RuntimeHours
    from tracker.report.history.versions import digest_of, estimates_now
    from tracker.store import job_estimates, reads
    from tracker.store.engine import connect

    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    record(database_url, *(told(hours, h100("2"), a100("1")) for hours in range(10)))
    with connect(database_url) as connection:
        offers = reads.live_offers(connection)
        written = []
        for hours, h100_takes in ((2, 4), (3, 4), (5, 7)):
            takes = {"H100": h100_takes, "A100": 10}
            job = Job("mine", {gpu: RuntimeHours(Decimal(h)) for gpu, h in takes.items()})
            found = estimates_now(job, offers, catalogue(), after(hours))
            with connection.cursor() as cursor:
                written.append(job_estimates.add(cursor, digest_of(job), found))
        assert written == [2, 0, 1]  # only what changed
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\n[hours.H100]\nhours = 9\n[hours.A100]\nhours = 10\n')

    answer = ask("-o", "json", "--until", "2026-03-02T10:00Z", job=(str(mine),))
    # Before the first record the oldest holds; since the second change nobody has recorded one.
    assert series(answer, "H100") == ["8"] * 5 + ["14"] * 5
    assert series(answer, "A100") == ["10"] * 10
    assert any("Before 2026-03-02 02:00 UTC no estimate is on record" in text
               for text in answer.json()["remarks"])  # fmt: skip
    assert "The estimate changed on 2026-03-02 05:00 UTC." in answer.json()["remarks"]
    latest = ask("-o", "json", "--until", "2026-03-02T10:00Z", "--estimate-version", "latest",
                 job=(str(mine),))  # fmt: skip
    assert series(latest, "H100") == ["18"] * 10


# --- time zones, windows, bad input --------------------------------------------------------------


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
@pytest.mark.usefixtures("_in_world")
def test_a_day_has_as_many_hours_as_its_zone_gives_it(day: str, hours: int) -> None:
    then = (datetime.fromisoformat(day) + timedelta(days=1)).date().isoformat()
    answer = run("history", *JOB, "--since", day, "--until", then, "--bucket", "1h", "--tz",
                 "Europe/Berlin", "-o", "ndjson")  # fmt: skip
    rows = [json.loads(line) for line in answer.lines]
    assert len([row for row in rows if row["series"] == "cheapest of all"]) == hours
    whole = run("history", *JOB, "--since", day, "--until", then, "--bucket", "1d", "--tz",
                "Europe/Berlin", "-o", "ndjson")  # fmt: skip
    *_, row = [json.loads(line) for line in whole.lines]
    length = datetime.fromisoformat(row["end"]) - datetime.fromisoformat(row["start"])
    assert length == timedelta(hours=hours)


@pytest.mark.usefixtures("_in_world")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--since", "2999-01-01"], "lies in the future"),
        (["--until", "2999-01-01"], "lies in the future"),
        (["--since", "1d", "--until", "2d"], "must lie before --until"),
        (["--since", "2025-12-01", "--bucket", "1m"], "take --bucket 15m"),
        (["--bucket", "7h"], "does not divide a day; take 15m, 1h"),
        (["--bucket", "0h"], "is not a length such as 15m"),
        (["--bucket", "fortnight"], "is not a length such as 15m"),
        (["--since", "yesterday"], "is neither a length such as 12h"),
        (["--since", "999999y"], "is too long ago"),
        (["--since", "0001-01-01", "--bucket", "1mo"], "take a shorter window"),
        (["--tz", "Mars/Olympus"], "is not a time zone"),
        (["--tz", "../../etc/passwd"], "is not a time zone"),
        (["--plot", "chart.gif"], "name a .png or .svg file"),
        (["--plot", "nowhere/chart.png"], "is no folder"),
        (["--below", "-1"], "must be above 0"),
        (["--gpu", "H1000"], "did you mean"),
        (["--provider", "nobody"], "no provider is called"),
        (["--max-age", "2h"], "No such option"),
    ],
)
def test_bad_input_is_one_line(words: list[str], problem: str) -> None:
    answer = ask(*words)
    assert answer.code == 2
    assert problem in answer.complaint


@pytest.mark.usefixtures("_in_world")
def test_a_window_without_prices_is_no_match() -> None:
    answer = run("history", *JOB, "--since", "2025-01-01", "--until", "2025-02-01")
    assert answer.code == 3
    assert answer.complaint == (
        "no price is known in this window; history begins at 2026-03-02 00:00 UTC"
    )


@pytest.mark.usefixtures("_in_world")
def test_where_history_begins_is_said() -> None:
    remarks = ask("--since", "2026-02-27", "-o", "json").json()["remarks"]
    assert remarks == ["History begins at 2026-03-02 00:00 UTC; before that is a gap."]


def test_a_poll_from_the_future_is_told_of(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    for minutes in (-60, 5):
        moment = datetime.now(UTC) + timedelta(minutes=minutes)
        record(database_url, make_poll(0, [h100("2")], source="hub", every_seconds=HOUR,
                                       started_at=moment, polled_at=moment))  # fmt: skip
    answer = run("history", *JOB, "--since", "1d", "-o", "json")
    assert any("check the clocks" in remark for remark in answer.json()["remarks"])


# --- pictures ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_in_world")
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture_has_a_line_for_each_time_without_a_gap(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"chart.{kind}"
    answer = ask("--plot", str(path), "-o", "csv")
    assert answer.code == 0, answer.err
    content = path.read_bytes()
    if kind == "png":
        assert content.startswith(b"\x89PNG")
    else:
        # Two series, each known twice.
        assert content.count(b"stroke: #0072b2") == 3  # and in the legend
        assert content.count(b"stroke: #d55e00") == 3


@pytest.mark.usefixtures("_in_world")
def test_without_matplotlib_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *rest: None if name == "matplotlib" else find(name, *rest),
    )
    answer = ask("--plot", str(tmp_path / "chart.png"))
    assert (answer.code, answer.complaint) == (
        2, "--plot needs matplotlib: pip install '.[plot]' in gpucost's checkout",
    )  # fmt: skip


@pytest.mark.parametrize("more", [["--gpu", "H100,H100-SXM-80GB"], ["--per", "provider"], []])
def test_now_is_the_best_of_each_group_whatever_the_groups(
    database_url: str, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    moment = datetime.now(UTC) - timedelta(minutes=5)
    for source, price in (("hub", "3"), ("shop", "2")):
        offers = [h100(price, source=source), h100("9", name="dear", source=source)]
        record(database_url, make_poll(0, offers, source=source, every_seconds=HOUR,
                                       started_at=moment, polled_at=moment))  # fmt: skip
    answer = run("history", *JOB, "--since", "1d", *more, "-o", "json").json()
    now_usd = {one["name"]: one["now_usd"] for one in answer["series"]}
    expected: dict[str, dict[str, str | None]] = {
        "--gpu": {"H100": "8", "H100-SXM-80GB": "8"}, "--per": {"hub": "12", "shop": "8"},
        "": {"H100": "8", "A100": None},
    }  # fmt: skip
    assert now_usd == {**expected[more[0] if more else ""], "cheapest of all": "8"}
    assert not [remark for remark in answer["remarks"] if "listed" in remark]


@pytest.mark.parametrize("job", ["llama-3.1-8b-lora", "llama-3.1-8b-service", "whisper-large"])
def test_an_estimated_job_has_a_history_and_ends_with_the_live_bill(
    database_url: str, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    for minutes in (100, 40):
        moment = datetime.now(UTC) - timedelta(minutes=minutes)
        offers = [h100("3"), a100("1.4"), h100("20", name="eight", gpu_count=Decimal(8))]
        record(database_url, make_poll(0, offers, source="hub", every_seconds=HOUR,
                                       started_at=moment, polled_at=moment))  # fmt: skip
    live = run("cheapest", job, "--goal", "cheapest", "-o", "json").json()["rows"]
    answer = run("history", job, "--since", "1d", "--bucket", "1h", "-o", "json").json()
    last = {row["series"]: row["usd"] for row in answer["rows"] if row["end"] > answer["as_of"]}
    best = {row["gpu"].split("-")[0]: row["total_usd"] for row in live[::-1]}
    assert best.keys() == {"H100", "A100"}
    assert last == {**best, "cheapest of all": live[0]["total_usd"]}
    assert answer["remarks"][1:] == []  # but for where history begins
