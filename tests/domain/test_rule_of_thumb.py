"""The rule of thumb by model size: worked out by hand, and what it is not asked for."""

from __future__ import annotations

import pytest

from tests.cli.harness import run
from tracker.domain.rule_of_thumb import rule_of_thumb, size_of

CARDS = [("LARGE", 80.0), ("SMALL", 24.0), ("MIDDLE", 48.0)]


def test_seven_billion_parameters_by_hand() -> None:
    found = {one.use: one for one in rule_of_thumb(7e9, CARDS)}
    inference = found["inference, 16-bit weights"]
    assert inference.gb == pytest.approx(1.2 * 14 + 2)  # 18.8 GB
    assert (inference.gpu, inference.gpus) == ("SMALL", 1)
    full = found["full training with Adam"]
    assert full.gb == pytest.approx(1.2 * 7 * 16 + 2)  # 136.4 GB
    assert (full.gpu, full.gpus) == ("LARGE", 2)
    order = [found[use].gb for use in ("inference, 4-bit weights", "QLoRA fine-tuning",
                                       "LoRA fine-tuning", "full training with Adam")]  # fmt: skip
    assert order == sorted(order)


def test_what_no_count_holds_says_so() -> None:
    assert [one.gpu for one in rule_of_thumb(1e13, [("SMALL", 24.0)])][-1] is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("7B", 7e9), ("350m", 3.5e8), ("1.5 T", 1.5e12), ("7", None), ("B7", None), ("7Bn", None),
     ("0b", None), ("999999T", None), ("", None)],
)  # fmt: skip
def test_sizes(text: str, size: float | None) -> None:
    assert size_of(text) == size


def test_the_command_names_it_a_rule_of_thumb() -> None:
    answer = run("estimate", "7B")
    assert answer.code == 0
    assert answer.lines[0] == "7B parameters: a rule of thumb by the size of the model alone."
    assert "It is where to start, not an estimate" in answer.out
    document = run("estimate", "70b", "-o", "json").json()
    assert document["basis"] == "rule of thumb"
    assert document["uses"][-1]["gpus"] > 1
    assert run("estimate", "7B", "--gpus", "2").code == 2
    assert run("estimate", "7Bx").code == 2  # neither a job nor a size
