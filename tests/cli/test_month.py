"""``gpucost month``: recurring jobs together, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cheapest_market import _monthly
from tests.cli.harness import A100, H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Terms


def _job(name: str, hours: str, more: str = "") -> str:
    return f'name = "{name}"\n{more}\n[hours]\nA100 = {hours}\n'


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [
        make_offer("hour", "3", gpu=A100, terms=Terms(egress_usd_per_gb=Decimal("0.1"))),
        _monthly("server", "730", A100),
        make_offer("h100", "4", gpu=H100),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
    (tmp_path / "train.toml").write_text(_job("train", "20"))
    (tmp_path / "score.toml").write_text(_job("score", "2"))


def _ask(*argv: str, code: int = 0) -> dict[str, Any]:
    answer = run("month", *argv, "-o", "json")
    assert answer.code == code, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_few_runs_are_paid_for_by_the_run() -> None:
    document = _ask("train.toml=2", "score.toml*10")
    # 2 x 20 h x $3 and 10 x 2 h x $3
    assert (document["total_usd"], document["alone_usd"]) == ("180", "180")
    assert [row["by_the_month"] for row in document["rows"]] == [False, False]
    assert [line["amount_usd"] for line in document["bill"]] == ["120", "60"]


def test_many_share_a_server_that_neither_alone_would_pay_for() -> None:
    document = _ask("train.toml=11", "score.toml=100")
    # Alone: 11 x $60 = $660 and 100 x $6 = $600; the server is $730, and they use 420 h of it.
    assert (document["total_usd"], document["alone_usd"]) == ("730", "1260")
    assert {row["offer"] for row in document["rows"]} == {document["rows"][0]["offer"]}
    assert all(row["by_the_month"] for row in document["rows"])
    lines = run("month", "train.toml=11", "score.toml=100").lines
    assert lines[0] == ("A month of 2 jobs: $730.00; each by itself they would come to $1,260.00.")
    assert any("420 of 730 machine-hours are used (57.5 %)" in line for line in lines)
    assert any(line.strip() == "$730.00  total" for line in lines)


def test_runs_come_from_the_job_where_they_are_not_typed(tmp_path: Path) -> None:
    (tmp_path / "nightly.toml").write_text(_job("nightly", "1") + "[limits]\nruns_per_month = 30\n")
    [row] = _ask("nightly.toml")["rows"]
    assert (row["runs_per_month"], row["run_usd"], row["alone_usd"]) == ("30", "3", "90")
    refused = run("month", "train.toml")
    assert (refused.code, refused.complaint) == (
        2, "train.toml: say how many runs a month, as in train.toml=30",
    )  # fmt: skip


def test_what_has_no_offer_is_named_and_the_bill_is_an_at_least(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text(_job("large", "1", "min_vram_gb = 500"))
    document = _ask("large.toml=1", "score.toml=1", code=3)
    assert (document["total_usd"], document["at_least_usd"]) == (None, "6")
    assert document["missing"] == ["large"]
    answer = run("month", "large.toml=1", "score.toml=1")
    assert answer.complaint == "no offer for large: the bill is without it"
    assert answer.lines[0].startswith("A month of 2 jobs: at least $6.00")


def test_an_unknown_part_leaves_no_total(tmp_path: Path) -> None:
    (tmp_path / "out.toml").write_text(_job("out", "2", "egress_gb = 5").replace("A100", "H100"))
    document = _ask("out.toml=1")
    assert (document["total_usd"], document["partial"]) == (None, ["out: egress price unknown"])
    assert "Not in the bill: out: egress price unknown." in document["remarks"]


def test_a_service_of_a_month_runs_once() -> None:
    [row] = _ask("llama-3.1-8b-service")["rows"]
    assert row["runs_per_month"] == "1"


def test_more_than_a_month_of_hours_runs_side_by_side() -> None:
    remarks = _ask("train.toml=50", "--market", "on_demand")["remarks"]
    assert "train: 1000 h of runs do not fit into a month one after the other; some run side by " \
        "side." in remarks  # fmt: skip
    # On the server two machines are paid for: 1,000 of their 1,460 hours are used.
    assert _ask("train.toml=50")["total_usd"] == "1460"


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("train.toml=many", "'many' is no number of runs a month"),
        ("train.toml=0", "runs a month are 0.001 to 1,000,000"),
        ("train.toml=nan", "runs a month are 0.001"),
        ("train.toml=1e-500000", "runs a month are 0.001"),
        ("train.toml=1e99", "runs a month are 0.001"),
        ("nothing=3", "no job is called 'nothing'"),
    ],
)
def test_what_cannot_be_meant_is_refused(argument: str, says: str) -> None:
    answer = run("month", argument)
    assert answer.code == 2
    assert says in answer.complaint


def test_a_job_named_twice_is_refused() -> None:
    answer = run("month", "train.toml=1", "train.toml=2")
    assert (answer.code, answer.complaint) == (2, "train is named twice; add its runs up")


def test_stale_prices_are_told_apart_from_none(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = timedelta(days=3).total_seconds() / 60
    with filled(database_server, polled("acme", [make_offer("a", "1", gpu=A100)], old)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        assert run("month", "train.toml=1").code == 4
        assert run("month", "train.toml=1", "--include-stale").code == 0


def test_stale_prices_that_would_not_do_decide_nothing(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "on_h100.toml").write_text(_job("on_h100", "2").replace("A100", "H100"))
    late = _job("late", "20") + "[limits]\ndeadline_hours = 10\n"
    (tmp_path / "late.toml").write_text(late)
    old = timedelta(days=3).total_seconds() / 60
    with filled(database_server, polled("acme", [make_offer("a", "1", gpu=A100)], old)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        # The only offer is stale, and neither job could run on it if it were not.
        for job in ("on_h100", "late"):
            answer = run("month", f"{job}.toml=1")
            assert (answer.code, answer.complaint) == (
                3,
                f"no offer for {job}: the bill is without it",
            )
            assert run("month", f"{job}.toml=1", "--include-stale").code == 3
        # Polling again would not help both.
        assert run("month", "train.toml=1", "late.toml=1").code == 3
        assert run("month", "train.toml=1", "score.toml=1").code == 4


def test_csv_has_a_row_for_each_job() -> None:
    lines = run("month", "train.toml=11", "score.toml=100", "-o", "csv").lines
    assert [line.split(",")[:2] for line in lines[1:]] == [["train", "11"], ["score", "100"]]
