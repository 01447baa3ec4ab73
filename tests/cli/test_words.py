"""What is said around a ranking: bounds as bounds, the unknown as unknown, what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import by_id, cheapest_document, run


@pytest.mark.usefixtures("_at_market")
def test_a_break_even_against_a_lower_bound_is_only_a_bound() -> None:
    def ask(pair: str) -> tuple[dict[str, Any], str]:
        document = cheapest_document("bert-large", "--compare", pair)
        [said] = [line for line in document["remarks"] if line.startswith("Break-even")]
        return document["comparison"], said

    # The RTX 4090 costs at least 48 h x 0.55 = 26.40, and 24 h of the A100 are billed.
    found, said = ask("A100,RTX4090")
    assert found["break_even_usd_per_machine_hour"] == "1.1"
    assert found["break_even_bound"] == "at_least"
    assert said == (
        "Break-even: A100-SXM-80GB $24.00 against RTX4090-24GB at least $26.40. Only a bound, "
        "since the RTX4090-24GB takes at least so long: the A100-SXM-80GB job is the cheaper one "
        "below $1.1000 per GPU-hour, and perhaps above it too; its price is $1.0000, below that. "
        "It is at least 4.00 times as fast and costs 1.82 times as much an hour."
    )
    found, said = ask("RTX4090,A100")
    assert found["break_even_usd_per_machine_hour"] == "0.5"  # 24 / 48 h, or more hours
    assert found["break_even_bound"] == "at_most"
    assert "is the dearer one above $0.5000 per GPU-hour, and perhaps below it too" in said
    assert "It is at most 0.25 times as fast" in said


@pytest.mark.usefixtures("_at_market")
def test_a_break_even_of_a_bill_with_an_unknown_part_is_not_known() -> None:
    document = cheapest_document(
        "bert-large", "--egress", "50", "--provider", "hub,acme", "--gpu", "H100,A100"
    )
    found = document["comparison"]
    assert found["break_even_usd_per_machine_hour"] is None
    assert (found["break_even_bound"], found["break_even_unknown"]) == (None, True)
    [said] = [line for line in document["remarks"] if line.startswith("Break-even")]
    assert said == (
        "Break-even: H100-SXM-80GB $16.50 against A100-SXM-80GB at least $24.00; not known, since "
        "the bill of acme for A100-SXM-80GB lacks a part (egress price unknown)."
    )


@pytest.mark.usefixtures("_at_market")
def test_a_percentage_of_a_lower_bound_says_at_least(tmp_path: Path) -> None:
    # 4 h x 2.80 = 11.20 against 48 h x 0.55 = 26.40: 2.357 times as much, or more.
    answer = cheapest_document("bert-large", "--gpu", "H100,RTX4090")["answer"]
    assert answer.endswith("; next GPU RTX4090-24GB at least +136 %.")
    # Where the leader is itself a lower bound, no share of it means anything.
    job = tmp_path / "least.toml"
    job.write_text(
        'name = "least"\n[hours]\nA100 = 12\n[hours.H100]\nhours = 8\nlower_bound = true\n'
    )
    answer = cheapest_document(str(job), "--market", "on_demand")["answer"]
    # 8 h x 2.80, or more, against the 24 h that are the A100's minimum
    assert answer.startswith("least: at least $22.40 on 1 x H100-SXM-80GB at hub")
    assert answer.endswith(
        "; next GPU A100-SXM-80GB $24.00. The cheapest whose bill is certain: $24.00 on "
        "A100-SXM-80GB at acme."
    )


@pytest.mark.usefixtures("_at_market")
def test_an_at_least_below_the_leader_is_no_share_of_it() -> None:
    # What some sellers of the A100 bill for what is sent out has no known price.
    document = cheapest_document("--hours", "H100=40,A100=2", "--egress", "50")
    best, other = document["rows"][0], document["best_by_gpu"][1]
    assert best["total_usd"] is not None
    assert float(other["at_least_usd"]) < float(best["total_usd"])
    assert document["answer"].endswith(
        f"; next GPU A100-SXM-80GB at least ${float(other['at_least_usd']):.2f}, the whole of its"
        " bill is not known."
    )


@pytest.mark.usefixtures("_at_market")
def test_what_a_month_comes_to_is_said_of_a_job_of_plain_hours_too(tmp_path: Path) -> None:
    job = tmp_path / "often.toml"
    job.write_text('name = "often"\n[hours]\nH100 = 4\n[limits]\nruns_per_month = 30\n')
    document = cheapest_document(str(job))
    assert document["answer"].startswith("often: $11.20 on 1 x H100-SXM-80GB at hub")
    month = "30 runs a month on #1 come to $336.00."
    assert month in document["remarks"]
    for more in ((), ("--explain",)):
        assert month in run("cheapest", str(job), *more).lines


@pytest.mark.usefixtures("_at_market")
def test_a_gpu_without_an_offer_or_without_hours_is_named() -> None:
    document = cheapest_document("--hours", "H100=4,H200=3")
    assert "No offer of H200 is on record that the filters leave." in document["remarks"]
    document = cheapest_document("bert-large", "--gpu", "H100,L4,4090")
    assert "The job has no hours for L4: give them with --hours L4=..." in document["remarks"]
    assert not any("4090" in line and "No offer" in line for line in document["remarks"])
    lines = run("cheapest", "bert-large", "--gpu", "L4").lines
    assert lines[0] == "The job has no hours for L4: give them with --hours L4=..."


@pytest.mark.usefixtures("_at_market")
def test_a_lower_bound_keeps_its_total_and_its_place() -> None:
    rows = by_id(cheapest_document("bert-large")["rows"])
    assert rows["4090"]["total_usd"] == rows["4090"]["at_least_usd"] == "26.4"
    assert (rows["4090"]["lower_bound"], rows["4090"]["partial"]) == (True, [])
    assert rows["h100x8"]["rank"] > rows["4090"]["rank"]
