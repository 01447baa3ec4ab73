"""``gpucost compare``: the verdict over the small hand-made market, and where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.harness import A100, H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer


def _ask(*argv: str) -> dict[str, Any]:
    answer = run("compare", *argv, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.usefixtures("_at_market")
def test_the_figures_are_those_worked_out_by_hand() -> None:
    document = _ask("H100", "A100", "bert-large")
    found = document["comparison"]
    assert (found["left"]["offer_id"], found["right"]["offer_id"]) == ("host", "a100-day")
    assert (found["left"]["total_usd"], found["right"]["total_usd"]) == ("11.2", "24")
    assert found["speed_up_had"] == 3  # 12 h / 4 h
    assert found["speed_up_needed"] == 2.8  # 2.80 / 1.00
    assert found["break_even_usd_per_gpu_hour"] == "6"  # 24 / 4 h
    assert found["margin_percent"] == pytest.approx(100 * (6 / 2.8 - 1), abs=1e-5)
    assert (found["winner"], found["sooner"]) == ("left", "left")
    assert [row["offer_id"] for row in document["rows"]] == ["host", "a100-day"]
    assert [row["rank"] for row in document["rows"]] == [1, 2]


@pytest.mark.usefixtures("_at_market")
def test_the_verdict_is_one_sentence_with_its_reasons() -> None:
    lines = run("compare", "H100", "A100", "bert-large").lines
    assert lines[0] == (
        "BERT-Large training: take the H100-SXM-80GB: $11.20 against $24.00 on the "
        "A100-SXM-80GB, since the H100-SXM-80GB is 3.00 times as fast and needs no more than "
        "2.80 times. The H100-SXM-80GB is the cheaper one while it costs less than $6.0000 per "
        "GPU-hour (now $2.8000), the A100-SXM-80GB above that; the H100-SXM-80GB is done 8 h "
        "sooner."
    )
    assert any(line.startswith("margin") and "+114.3 %" in line for line in lines)


@pytest.mark.usefixtures("_at_market")
def test_the_other_way_round_says_the_same_of_the_other() -> None:
    found = _ask("A100", "H100", "bert-large")["comparison"]
    assert (found["winner"], found["sooner"]) == ("right", "right")
    # The A100 bills 24 h: equal at 11.20 / 24 h, from 1.00 a fall of 53.3 %.
    assert found["break_even_usd_per_gpu_hour"] == "0.466667"
    assert found["margin_percent"] == pytest.approx(-53.3333, abs=1e-3)


@pytest.mark.usefixtures("_at_market")
def test_what_is_billed_beside_the_hours_is_named_where_it_decides() -> None:
    # 3.4 h against 4.6 h at 2.80 and 1.00 an hour: by the hours the A100, but it bills a day.
    found = _ask("H100", "A100", "--hours", "H100=4,A100=10")["comparison"]
    assert found["speed_up_had"] < found["speed_up_needed"]
    assert found["winner"] == "left"
    assert found["decided_by"] == ["hours billed beyond use"]


@pytest.mark.usefixtures("_at_market")
def test_a_lower_bound_that_might_be_more_is_unknown_and_one_that_is_dearer_is_not() -> None:
    dearer = _ask("H100", "4090", "bert-large")["comparison"]  # at least 26.40 against 11.20
    assert dearer["winner"] == "left"
    document = _ask("A100", "4090", "bert-large", "--provider", "acme", "--market", "on-demand")
    assert document["comparison"]["winner"] == "left"  # 24 against at least 26.40
    text = _ask("A100", "4090", "bert-large", "--disk", "50")
    found = text["comparison"]
    assert found["winner"] == "unknown"
    assert "not known" in text["answer"]
    assert any("disk price unknown" in part for part in found["unknown"])


def test_overlapping_ranges_are_a_tie(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [make_offer("h", "2.4", gpu=H100), make_offer("a", "1.1", gpu=A100)]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        document = _ask("H100", "A100", "llama-3.1-8b-lora")
        found = document["comparison"]
        left, right = found["left"], found["right"]
        overlap = float(left["low_usd"]) <= float(right["high_usd"]) and float(
            right["low_usd"]
        ) <= float(left["high_usd"])
        assert overlap
        assert found["winner"] == "tie"
        assert document["answer"].startswith("a tie, as far as anybody can tell: ")
        assert "the ranges overlap" in document["answer"]


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize("output", ["table", "wide", "json", "csv", "ndjson"])
def test_a_side_without_an_offer_ends_with_3_and_says_which(output: str) -> None:
    answer = run("compare", "H100", "A100", "bert-large", "--provider", "hub", "-o", output)
    assert answer.code == 3
    assert answer.err.splitlines()[-1] == ("gpucost: no offer of A100 matches: nothing to compare")


def test_a_side_with_stale_prices_only_ends_with_4(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = polled("acme", [make_offer("a", "1", gpu=A100)], minutes_ago=60 * 24)
    new = polled("hub", [make_offer("h", "3", gpu=H100, source="hub")])
    with filled(database_server, old, new) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        answer = run("compare", "H100", "A100", "bert-large")
        assert answer.code == 4
        assert "only stale prices of A100 match" in answer.complaint
        assert _ask("H100", "A100", "bert-large", "--include-stale")["comparison"]


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("H100", "H10O", "bert-large"), "H10O"),
        (("H100", "H100-SXM", "bert-large"), "may be the same GPU"),
        (("H100", "A100"), "name a job"),
        (("H100", "A100", "no-such-job"), "no-such-job"),
        (("H100", "A100", "bert-large", "--market", "sport"), "did you mean spot"),
    ],
    ids=str,
)
def test_a_bad_question_is_one_line(argv: tuple[str, ...], said: str) -> None:
    answer = run("compare", *argv)
    assert answer.code == 2
    assert said in answer.complaint
    assert answer.out == ""
