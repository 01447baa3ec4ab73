"""``gpucost cheapest --market spot`` for a job that says how it gets over interruptions."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.money import PerMachineHour
from tracker.domain.offer import Extras, Market
from tracker.domain.spot import (
    Checkpoints,
    Expected,
    Plan,
    advisor_rate,
    break_even_rate,
    expect,
)

PLAIN = 'name = "night"\n[hours]\nH100 = 48\nA100 = 100\n'
SPOT = PLAIN + "[spot]\ncheckpoint_minutes = 15\nrestart_minutes = 6\n"


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    def spot(name: str, usd: str, **extras: Any) -> Any:
        return make_offer(name, usd, gpu=H100, market=Market.SPOT, extras=Extras(**extras))

    offers = [
        spot("rare", "1", interruption_percent_max=5),
        spot("often", "0.99", interruption_percent_max=100),
        spot("unknown", "0.9"),
        spot("score", "1.1", reliability=Decimal("0.98")),
        make_offer("firm", "2", gpu=H100),
        make_offer("a100", "0.5", gpu=A100, market=Market.SPOT),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _ask(tmp_path: Path, text: str, *argv: str) -> dict[str, Any]:
    file = tmp_path / "night.toml"
    file.write_text(text)
    answer = run("cheapest", str(file), "--market", "any", "-o", "json", *argv)
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_expected_interruptions_are_a_line_of_the_bill_where_the_rate_is_known(
    tmp_path: Path,
) -> None:
    document = _ask(tmp_path, SPOT, "--gpu", "H100")
    rows = by_id(document["rows"])
    plan = Plan(Decimal(48), restart_hours=Decimal("0.1"),
                checkpoints=Checkpoints(Decimal("0.25")))  # fmt: skip
    found = expect(plan, advisor_rate(5))
    assert isinstance(found, Expected)
    rare = rows["rare"]
    assert rare["rerun_hours"] == pytest.approx(float(found.rerun_hours), abs=1e-6)
    assert [line["kind"] for line in rare["bill"]] == ["runtime", "rerun"]
    assert sum(Decimal(line["amount_usd"]) for line in rare["bill"]) == Decimal(rare["total_usd"])
    assert Decimal(rare["total_usd"]) > 48
    assert "AWS advisor: up to 5 %" in rare["interruption_basis"]
    assert "reliability 0.98" in rows["score"]["interruption_basis"]
    # Nobody knows the rate: the bill is the plain one, and it is said.
    assert rows["unknown"]["total_usd"] == "43.2"
    assert "rerun_hours" not in rows["unknown"]
    assert any("nobody knows the rate" in line for line in document["remarks"])
    assert rows["firm"]["total_usd"] == "96"
    assert [r["offer_id"] for r in document["rows"]] == [
        r["offer_id"] for r in _ask(tmp_path, SPOT, "--gpu", "H100", "--all")["rows"]
    ]


def test_a_job_without_the_table_has_the_bills_that_it_had(tmp_path: Path) -> None:
    document = _ask(tmp_path, PLAIN)
    rows = by_id(document["rows"])
    assert rows["rare"]["total_usd"] == "48"
    assert rows["a100"]["total_usd"] == "50"
    assert not any("rerun_hours" in row for row in document["rows"])
    assert "Spot: interruptions and repeated work are not in the bill." in document["remarks"]


def test_what_would_hardly_finish_is_refused_and_counted(tmp_path: Path) -> None:
    text = PLAIN + "[spot]\ninterruptions_per_hour = 0.25\n"  # no checkpoints: 48 h in one go
    document = _ask(tmp_path, text)
    assert [row["offer_id"] for row in document["rows"]] == ["firm"]
    assert document["excluded"]["on spot, where the job would hardly finish"] == 5
    few = _ask(tmp_path, text, "--top", "1")
    assert few["excluded"] == document["excluded"]


def test_hours_of_waiting_count_for_the_deadline(tmp_path: Path) -> None:
    waiting = (
        "[spot]\ninterruptions_per_hour = 0.1\ncheckpoint_minutes = 15\nwait_minutes = 120\n"
        "[limits]\ndeadline_hours = 50\n"
    )
    document = _ask(tmp_path, PLAIN + waiting, "--gpu", "H100")
    assert [row["offer_id"] for row in document["rows"]] == ["firm"]
    assert document["excluded"]["over the job's deadline"] == 4


def test_a_wrong_table_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    file.write_text(PLAIN + "[spot]\ncheckpoints = 3\n")
    answer = run("cheapest", str(file))
    assert answer.code == 2
    assert "spot.checkpoints: unknown key" in answer.complaint


def test_up_to_how_many_interruptions_spot_is_worth_it(tmp_path: Path) -> None:
    """Against the model's own break-even: $1 an hour against $2 for the same machine on demand."""
    document = _ask(tmp_path, SPOT, "--gpu", "H100")
    rows = by_id(document["rows"])
    plan = Plan(Decimal(48), restart_hours=Decimal("0.1"),
                checkpoints=Checkpoints(Decimal("0.25")))  # fmt: skip
    even = break_even_rate(plan, PerMachineHour(Decimal(1)), PerMachineHour(Decimal(2)))
    assert even is not None
    rare = rows["rare"]
    assert rare["break_even_interruptions"] == pytest.approx(even.interruptions, abs=1e-4)
    assert rare["break_even_interruptions_per_hour"] == pytest.approx(even.per_hour, rel=1e-5)
    assert rare["break_even_interruptions"] > rare["interruptions"]
    assert "break_even_interruptions" not in rows["firm"]
    line = next(text for text in document["remarks"] if "up to" in text)
    assert line.startswith("#1: spot costs no more than the same machine on demand up to ")
    assert "e+" not in line  # 320, not 3.2e+02
    # Without checkpoints a few are enough to erase the discount.
    bare = by_id(_ask(tmp_path, PLAIN, "--gpu", "H100")["rows"])["rare"]
    assert 0 < bare["break_even_interruptions"] < rare["break_even_interruptions"]


def test_nobody_can_tell_where_there_is_no_such_machine_on_demand(tmp_path: Path) -> None:
    assert "break_even_interruptions" not in by_id(_ask(tmp_path, SPOT)["rows"])["a100"]
