"""Every mistake of a job file is named at once, and none that the file does not have."""

from __future__ import annotations

import pytest

from tests.support.catalogue import catalogue
from tests.support.estimating import FAMILY, HPC, LORA, SERVE, Shipped
from tracker.domain.job_mistakes import mistakes
from tracker.domain.job_text import job_from_text

HEAD = 'name = "mine"\n[workload]\n'


def named(text: str) -> list[str]:
    return [line.partition(": ")[0] for line in mistakes(text, catalogue(), Shipped())]


@pytest.mark.parametrize(
    "text", [HEAD + LORA, HEAD + SERVE, HEAD + HPC, "name = 'a'\n[hours]\nH100 = 3\n"]
)
def test_a_job_without_mistakes_has_none(text: str) -> None:
    assert mistakes(text, catalogue(), Shipped()) == []


def test_a_byte_order_mark_is_no_mistake() -> None:
    text = "\ufeffname = 'a'\n[hours]\nH100 = 3\n"
    assert mistakes(text, catalogue(), Shipped()) == []
    assert job_from_text(text, catalogue()).name == "a"


def test_every_mistake_of_a_job_with_hours() -> None:
    text = """
name = "Bad Name"
disk_gb = -1
setup_hours = "long"
gpus_needd = 2
[hours]
H100 = -3
A101 = 4
[hours.A100]
hours = 9
basis = "guessed"
[limits]
markets = ["spott"]
budget_usd = 0
"""
    assert sorted(named(text)) == sorted([
        "name", "disk_gb", "setup_hours", "gpus_needd", "hours.H100", "hours", "hours.A100.basis",
        "limits.markets", "limits.budget_usd",
    ])  # fmt: skip


def test_every_mistake_of_a_job_with_a_workload() -> None:
    text = """
name = "mine"
disk_gb = "much"
[workload]
kind = "inference"
model = "Llama 3.1 8B"
requests = 1000
input_tokens = 100
output_tokens = 100
ttft_seconds = 500
tpot_seconds = 50
wieghts = 1
[limits]
deadline_hours = -1
"""
    assert sorted(named(text)) == sorted([
        "disk_gb", "workload.ttft_seconds", "workload.tpot_seconds", "workload.wieghts",
        "limits.deadline_hours",
    ])  # fmt: skip


def test_what_follows_from_a_mistake_is_not_one_more() -> None:
    text = HEAD + LORA.replace('"Llama 3.1 8B"', '"Llama 3.1 9B"') + "[limits]\nregions = [1]\n"
    assert named(text) == ["workload.model", "limits.regions"]


@pytest.mark.parametrize("text", [LORA, SERVE, FAMILY, HPC])
def test_files_cut_anywhere_end_in_lines(text: str) -> None:
    lines = (HEAD + text).splitlines()
    for end in range(len(lines)):
        for line in mistakes("\n".join(lines[:end]), catalogue(), Shipped()):
            assert line
            assert "\n" not in line
