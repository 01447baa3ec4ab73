"""What is said where a question about the past reaches back further than the record does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.harness import A100, H100, Result, filled, record, run
from tests.support.offers import make_offer, make_poll
from tests.support.pg import TestServer
from tracker.domain.offer import Offer
from tracker.store import retention
from tracker.store.engine import connect
from tracker.store.polls import Poll

START = datetime(2026, 3, 2, tzinfo=UTC)
JOB = ("--hours", "H100=4,A100=12")


def told(days: float, source: str, *offers: Offer) -> Poll:
    """A complete poll so many days after the start; its prices hold for three days."""
    moment = START + timedelta(days=days)
    return make_poll(0, offers, source=source, started_at=moment, polled_at=moment,
                     every_seconds=86_400)  # fmt: skip


def cards(source: str, h100: str, a100: str, **fields: Any) -> list[Offer]:
    return [make_offer(f"{source}-h", h100, source=source, gpu=H100, **fields),
            make_offer(f"{source}-a", a100, source=source, gpu=A100, **fields)]  # fmt: skip


@pytest.fixture(scope="module")
def world(database_server: TestServer) -> Iterator[str]:
    """The hub is polled from 2 March on, the shop from 5 March on, both until 12 March."""
    polls = [told(day, "hub", *cards("hub", "5", "2")) for day in range(11)]
    polls += [told(day, "shop", *cards("shop", "4", "1")) for day in range(3, 11)]
    with filled(database_server, *polls) as url:
        yield url


@pytest.fixture
def _in_world(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world)


DIFFER = "istory begins at 2026-03-02 00:00 UTC (hub); shop from 2026-03-05 00:00 UTC"


def outcome(answer: Result) -> tuple[int, str]:
    return answer.code, answer.complaint


@pytest.mark.usefixtures("_in_world")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("cheapest", *JOB, "--as-of", "2026-01-01"),
         "no price is on record from then; h" + DIFFER),
        (("offers", "--as-of", "2026-01-01"), "no price is on record from then; h" + DIFFER),
        (("compare", "H100", "A100", *JOB, "--as-of", "2026-01-01"),
         "no offer of H100 and A100 matches: nothing to compare; no price is on record from then; h"
         + DIFFER),
        (("compare", "H100", "A100", *JOB, "--since", "2025-12-01", "--as-of", "2026-01-01"),
         "no offer of H100 and A100 matches: nothing to compare; no price is on record from then; h"
         + DIFFER),
        (("history", *JOB, "--since", "2025-12-01", "--until", "2026-01-01"),
         "no price is known in this window; h" + DIFFER),
        (("when", *JOB, "--deadline", "5d", "--since", "2025-12-01", "--until", "2026-01-01"),
         "no complete bill of the job is on record in that time; h" + DIFFER),
        (("alerts", "backtest", "h100-cheaper-than-a100", "--channel-free", "--since", "2025-12-01",
          "--until", "2026-01-01"), "no poll is recorded in that time; h" + DIFFER),
    ],
)  # fmt: skip
def test_before_the_record_every_reader_says_when_it_begins(
    command: tuple[str, ...], why: str
) -> None:
    assert outcome(run(*command)) == (3, why)


@pytest.mark.usefixtures("_in_world")
@pytest.mark.parametrize(
    "command",
    [
        ("history", *JOB, "--since", "2026-02-01", "--until", "2026-03-10"),
        ("compare", "H100", "A100", *JOB, "--since", "2026-02-01", "--as-of", "2026-03-10"),
        ("when", *JOB, "--deadline", "2d", "--since", "2026-02-01", "--until", "2026-03-10"),
    ],
)
def test_a_window_that_begins_before_says_so_source_by_source(command: tuple[str, ...]) -> None:
    answer = run(*command)
    assert answer.code == 0
    assert f"H{DIFFER}; before that is a gap." in answer.lines


@pytest.mark.usefixtures("_in_world")
def test_what_is_on_record_from_the_beginning_is_not_talked_about() -> None:
    later = "Not on record from the beginning: shop from 2026-03-05 00:00 UTC."
    for since, said in (("2026-03-03", [later]), ("2026-03-06", [])):
        lines = run("history", *JOB, "--since", since, "--until", "2026-03-10").lines
        assert [line for line in lines if "record" in line] == said
    of_hub = run("history", *JOB, "--since", "2026-03-03", "--until", "2026-03-10", "--provider",
                 "hub")  # fmt: skip
    assert "on record" not in of_hub.out


@pytest.mark.usefixtures("_in_world")
def test_an_answer_from_then_names_who_was_not_on_record_yet() -> None:
    line = "Not on record yet: shop from 2026-03-05 00:00 UTC."
    for command in (("cheapest", *JOB), ("offers",)):
        assert line in run(*command, "--as-of", "2026-03-03").lines
        assert "Not on record" not in run(*command, "--as-of", "2026-03-06").out
    assert line in run("cheapest", *JOB, "--as-of", "2026-03-03", "-o", "json").json()["remarks"]
    live = run("cheapest", *JOB, "--include-stale").out
    assert "on record" not in live


@pytest.mark.usefixtures("_in_world")
def test_who_is_asked_for_decides_when_the_record_begins() -> None:
    answer = run("cheapest", *JOB, "--as-of", "2026-03-03", "--provider", "shop")
    assert outcome(answer) == (
        3, "no price is on record from then; history begins at 2026-03-05 00:00 UTC"
    )  # fmt: skip


@pytest.mark.usefixtures("_in_world")
def test_two_gpus_of_the_past_are_an_answer_where_neither_is_to_be_had_now() -> None:
    command = ("compare", "H100", "A100", *JOB, "--since", "2026-03-01")
    answer = run(*command)
    assert answer.code == 0
    assert answer.err == "only stale prices of H100 and A100 match now\n"
    assert "for which both are known: H100 23.1 %, A100 76.9 %" in answer.out
    then = run(*command, "--as-of", "2026-03-20")
    assert (then.code, then.err) == (0, "no offer of H100 and A100 matches then\n")
    assert run(*command[:-2]).code == 4


@pytest.mark.usefixtures("_in_world")
def test_a_gap_within_the_record_is_no_beginning() -> None:
    answer = run("cheapest", *JOB, "--as-of", "2026-03-20")
    assert outcome(answer) == (3, "no offer matches")
    assert answer.lines[0].startswith("No offer was on record at 2026-03-20T00:00:00Z: history beg")


@pytest.mark.usefixtures("_in_world")
def test_what_was_never_on_record_is_not_called_an_empty_record() -> None:
    answer = run("history", "--hours", "B200=4", "--since", "2026-03-01")
    assert answer.code == 3
    assert answer.complaint.startswith("nothing of what is asked for was ever on record")


# --- after retention ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forgotten(database_server: TestServer) -> Iterator[str]:
    """Half a year, of which the single prices of the first months are gone.

    The hub's H100 is at 5 until May, then at 3; what its others cost does not change. The late one
    began when the others' first months were gone already.
    """
    polls = [
        told(day, "hub", *cards("hub", "5" if day < 60 else "3", "9"),
             make_offer("hub-east", "6", source="hub", gpu=H100, region="east"))
        for day in range(0, 180, 2)
    ]  # fmt: skip
    with filled(database_server, *polls) as url:
        with connect(url) as connection:
            assert retention.forget(connection, datetime(2026, 7, 14, tzinfo=UTC), 1)
        record(url, *(told(day, "late", *cards("late", "8", "8")) for day in range(150, 180, 2)))
        yield url


@pytest.fixture
def _after_retention(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", forgotten)


KEPT = "prices of single offers are kept from 2026-06-01 00:00 UTC (hub) on"


@pytest.mark.usefixtures("_after_retention")
@pytest.mark.parametrize("command", [("cheapest", *JOB), ("offers",)])
def test_what_is_left_of_forgotten_prices_is_no_answer(command: tuple[str, ...]) -> None:
    # The spans of two are still there; that of the one at 5 is not.
    answer = run(*command, "--as-of", "2026-04-01")
    assert outcome(answer) == (
        3, f"no price is kept from then: {KEPT}; of before, gpucost history has the lowest"
    )  # fmt: skip
    assert "left out: 2 of sources whose single prices are not kept from then" in answer.out
    assert run(*command, "--as-of", "2026-06-02").code == 0


@pytest.mark.usefixtures("_after_retention")
def test_history_goes_on_by_the_floor_and_says_where_a_filter_ends_it() -> None:
    window = ("--since", "2026-04-01", "--until", "2026-07-01", "--bucket", "1mo", "-o", "json")

    def h100(*more: str) -> tuple[list[str | None], list[str]]:
        answer = run("history", *JOB, "--gpu", "H100", *window, *more)
        rows = [row["usd"] for row in answer.json()["rows"] if row["series"] == "H100"]
        return rows, [line for line in answer.json()["remarks"] if "kept" in line]

    assert h100() == (["20", "12", "12"], [])
    said = f"These filters ask for single offers, and {KEPT}: before that is a gap."
    assert h100("--region", "east") == ([None, None, "24"], [said])
    assert h100("--region", "east", "--provider", "late") == ([None, None, None], [])


@pytest.mark.usefixtures("_after_retention")
def test_a_rule_is_replayed_from_where_prices_are_kept_whole() -> None:
    asked = ("alerts", "backtest", "h100-cheaper-than-a100", "--channel-free", "--since",
             "2026-04-01", "--until")  # fmt: skip
    answer = run(*asked, "2026-07-10")
    assert answer.code == 0
    assert f"{KEPT}: replayed from then" in answer.lines
    assert "looks from 2026-06-0" in answer.out
    assert "data problem" not in answer.out
    assert outcome(run(*asked, "2026-05-10")) == (
        3, f"{KEPT}: nothing of that time can be replayed"
    )  # fmt: skip


@pytest.mark.usefixtures("_after_retention")
def test_compare_and_when_go_by_the_floor() -> None:
    window = ("--since", "2026-04-01", "--as-of", "2026-07-01")
    found = run("compare", "H100", "A100", *JOB, *window, "-o", "json").json()["history"]
    assert found["steps"][0]["start"] == "2026-04-01T00:00:00Z"
    until = ("--since", "2026-04-01", "--until", "2026-07-01")
    answer = run("when", *JOB, "--deadline", "2d", *until, "-o", "json")
    assert answer.json()["history"]["start"] == "2026-04-01T00:00:00Z"
