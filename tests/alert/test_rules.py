"""Rules as users write them: what is understood, and what a mistake says."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.alert.world import find_job, load, rule
from tests.support.catalogue import catalogue
from tracker.alert.rules import KEYS, load_rules, shipped_rules
from tracker.domain.rule.condition import EXAMPLES
from tracker.domain.rule.types import Policy
from tracker.report.filters import Filters

H100_A100 = "cost(H100) < cost(A100)"


def problems(**table: Any) -> dict[str, str]:
    """The problems of one rule by field; it is BERT-Large's H100 against A100 but for *table*."""
    whole = {"when": H100_A100, "job": "bert-large"} | table
    rules, found = load(r={key: value for key, value in whole.items() if value is not None})
    assert not (rules and found), "a rule with a problem is left out"
    assert all(problem.rule == "r" for problem in found)
    return {problem.field: problem.message for problem in found}


def test_the_shipped_rule_is_the_h100_job_against_the_a100_job() -> None:
    [shipped], wrong = load(shipped=True)
    assert wrong == ()
    assert (shipped.name, shipped.title) == (
        "h100-cheaper-than-a100", "H100 job cheaper than A100 job",
    )  # fmt: skip
    assert str(shipped.condition) == H100_A100
    assert shipped.job is not None
    assert shipped.job.name == "bert-large"
    assert shipped.policy == Policy()
    assert (shipped.filters, shipped.channels, shipped.rank) == (Filters(), ("log",), "auto")


def test_a_shipped_rule_can_be_changed_key_by_key_and_turned_off() -> None:
    [changed], _ = load(shipped=True, **{"h100-cheaper-than-a100": {"cooldown": "1d"}})
    assert changed.policy.cooldown == timedelta(days=1)
    assert str(changed.condition) == H100_A100
    assert load(shipped=True, **{"h100-cheaper-than-a100": {"enabled": False}}) == ((), ())
    assert list(shipped_rules()) == ["h100-cheaper-than-a100"]


def test_every_key_is_understood() -> None:
    found = rule(
        enter_percent=Decimal("3.5"), exit_percent=0, min_duration="10m", min_count=2,
        keep_firing="1h", cooldown="0s", remind_every="1d", max_gap="2h", health_after="6h",
        on_start="baseline", send_resolved=False, rank="median", confidence="conservative",
        typed_prices=True, channels=["ops", "log"], title="T", template="{{ sentence }}",
        every="90s", providers=["Acme"], regions="eu-*, us-east", countries=["de"],
        markets=["on-demand", "spot"], tiers=["Secure"], min_vram_gb=80, min_gpus=2,
        min_ram_gib=64.5, min_vcpus="8", min_disk_gb=100, min_network_mbps=900,
        interconnect="nvlink", kinds=["GPU", "machine"], dedicated=True, ecc=True,
        available=True, max_age="1h", enabled=True,
    )  # fmt: skip
    hour = timedelta(hours=1)
    assert found.policy == Policy(
        enter=Decimal("0.965"), exit=Decimal(1), min_duration=hour / 6, min_count=2,
        keep_firing=hour, cooldown=0 * hour, remind_every=24 * hour, max_gap=2 * hour,
        health_after=6 * hour, on_start="baseline", send_resolved=False,
    )  # fmt: skip
    assert found.filters == Filters(
        providers=("acme",), regions=("eu-*", "us-east"), countries=("DE",),
        markets=("on_demand", "spot"), tiers=("secure",), min_vram_gb=Decimal(80), min_gpus=2,
        min_ram_gib=Decimal("64.5"), min_vcpus=Decimal(8), min_disk_gb=Decimal(100),
        min_network_mbps=Decimal(900), interconnect="nvlink", kinds=("gpu", "machine"),
        dedicated=True, ecc=True, available=True, max_age=hour,
    )  # fmt: skip
    assert (found.rank, found.confidence, found.typed_prices) == ("median", "conservative", True)
    assert (found.every, found.channels) == (timedelta(seconds=90), ("ops", "log"))
    assert (found.title, found.template) == ("T", "{{ sentence }}")


def test_every_constraint_that_a_question_knows_is_a_key_or_left_out_on_purpose() -> None:
    """Slices are chosen by name, GPUs by the condition, and what is stale never decides."""
    left_out = {"gpus", "include_stale", "include_slices"}
    assert set(Filters._fields) - left_out <= set(KEYS)


@pytest.mark.parametrize("when", EXAMPLES)
def test_every_kind_of_condition_loads(when: str) -> None:
    assert str(rule(when).condition) == when


@pytest.mark.parametrize(
    ("table", "field", "says"),
    [
        ({"when": None}, "when", "is missing"),
        ({"when": "cost(H100 < 4"}, "when", "at character"),
        ({"when": "cost(H101) < cost(A100)"}, "when", "did you mean"),
        ({"when": "cost(B200) < cost(A100)"}, "when", "job bert-large has no hours for B200"),
        ({"when": "cost(H100) < cost(H100 SXM)"}, "when", "are in part the same GPUs"),
        ({"when": 3}, "when", "3 is not text"),
        ({"job": None}, "job", "is missing"),
        ({"job": "bert-lrge"}, "job", "did you mean bert-large?"),
        ({"cooldwon": "1h"}, "cooldwon", "unknown key; did you mean cooldown?"),
        ({"gpus": ["H100"]}, "gpus", "unknown key"),
        ({"include_stale": True}, "include_stale", "unknown key"),
        ({"cooldown": "soon"}, "cooldown", "'soon' is not a duration such as"),
        ({"cooldown": 30}, "cooldown", "30 is not a duration"),
        ({"cooldown": "900d"}, "cooldown", "longer than a year"),
        ({"every": "0s"}, "every", "must be longer than zero"),
        ({"max_gap": "5m"}, "max_gap", "is not longer than every"),
        ({"min_count": 0}, "min_count", "not a whole number from 1"),
        ({"min_count": "two"}, "min_count", "is not a number"),
        ({"enter_percent": 100}, "enter_percent", "it may be from 0 to 99"),
        ({"exit_percent": -1}, "exit_percent", "it may be from 0 to"),
        ({"exit_percent": "nan"}, "exit_percent", "is not a number"),
        ({"rank": "5th"}, "rank", "none of auto, min, 2nd"),
        ({"confidence": "high"}, "confidence", "none of point, conservative"),
        ({"on_start": "always"}, "on_start", "none of notify, baseline"),
        ({"send_resolved": "perhaps"}, "send_resolved", "is not true or false"),
        ({"enabled": "perhaps"}, "enabled", "is not true or false"),
        ({"channels": ["opps"]}, "channels", "no channel is called 'opps'; did you mean ops?"),
        ({"channels": ["https://hooks.example.org/s3cr3t"]}, "channels", "no channel is called so"),
        ({"channels": []}, "channels", "is empty"),
        ({"channels": 3}, "channels", "is not a list of words"),
        ({"markets": ["sport"]}, "markets", "did you mean spot?"),
        ({"markets": ["any", "spot"]}, "markets", "any means all of them"),
        ({"kinds": ["machines"]}, "kinds", "'machines' is not a kind; did you mean machine?"),
        ({"countries": ["Germany"]}, "countries", "two-letter country code"),
        ({"min_vram_gb": -80}, "min_vram_gb", "must be above 0"),
        ({"min_vram_gb": "1e99"}, "min_vram_gb", "is not plausible"),
        ({"max_age": "0m"}, "max_age", "must be longer than zero"),
        ({"title": ""}, "title", "is not text"),
        ({"title": "x" * 201}, "title", "longer than 200"),
        ({"title": "a\0b"}, "title", "a character that cannot be stored: U+0000"),
        ({"title": "a\ud800b"}, "title", "a character that cannot be stored: U+D800"),
        ({"template": "a\0b"}, "template", "a character that cannot be stored"),
        ({"regions": ["eu", "a\0b"]}, "regions", "a character that cannot be stored"),
        ({"when": "price(H100) < 2"}, "job", "has no effect on price(H100) < $2"),
        ({"when": "provider(acme) stale", "job": None, "ecc": True}, "ecc", "has no effect"),
        ({"when": "provider(acme) stale", "job": None, "rank": "min"}, "rank", "has no effect"),
        ({"when": "cost(H100) < 4", "confidence": "point"}, "confidence", "has no effect"),
        ({"when": "cheapest changes", "confidence": "point"}, "confidence", "has no effect"),
        ({"when": "cost(H100) drops 9% in 7d", "available": True}, "available", "of the past"),
        ({"when": "cost(H100) drops 9% in 7d", "enter_percent": 1}, "enter_percent", "the edge"),
    ],
)
def test_a_mistake_names_its_field(table: dict[str, Any], field: str, says: str) -> None:
    found = problems(**table)
    assert list(found) == [field]
    assert says in found[field]
    assert "\n" not in found[field]


def test_a_mistake_stops_no_other_rule_and_all_of_a_rule_are_told() -> None:
    good = {"when": H100_A100, "job": "bert-large"}
    rules, wrong = load(
        a=good, b=good | {"every": "x", "rank": "y"}, c=good, **{"B a d": good}, d={}
    )
    assert [r.name for r in rules] == ["a", "c"]
    assert [(p.rule, p.field) for p in wrong] == [
        ("B a d", "name"), ("b", "every"), ("b", "rank"), ("d", "when"),
    ]  # fmt: skip
    assert str(wrong[1]).startswith("alerts.rules.b.every: ")


def test_providers_are_checked_where_they_are_known() -> None:
    def wrong(known: list[str] | None, **table: Any) -> list[str]:
        found = load_rules(
            {"r": {"when": H100_A100, "job": "bert-large"} | table}, catalogue=catalogue(),
            job=find_job, channels=["log"], providers=known, shipped=False,
        )  # fmt: skip
        return [str(problem) for problem in found[1]]

    assert wrong(None, providers=["runpodd"]) == []
    assert wrong(["runpod"], providers=["runpod"]) == []
    [line] = wrong(["runpod", "vastai"], providers=["runpodd"])
    assert line == (
        "alerts.rules.r.providers: no provider is called 'runpodd'; did you mean runpod?"
    )
    [line] = load_rules(
        {"r": {"when": "provider(vast) stale"}}, catalogue=catalogue(), job=find_job,
        channels=["log"], providers=["vastai"], shipped=False,
    )[1]  # fmt: skip
    assert line.field == "when"


def test_a_rule_is_another_one_only_if_it_decides_otherwise() -> None:
    same = rule()
    for told in ({"title": "T"}, {"channels": ["ops"]}, {"cooldown": "1d"}, {"every": "1m"},
                 {"remind_every": "1d"}, {"send_resolved": False}, {"template": "x"},
                 {"min_duration": "31m"}, {"min_count": 4}, {"keep_firing": "1m"},
                 {"exit_percent": 3}, {"max_gap": "2h"}, {"every": "1h"},
                 {"enter_percent": "2.0"}):  # fmt: skip
        assert rule(**told).sha256 == same.sha256, told
    others = [rule(**decides).sha256 for decides in (
        {"enter_percent": 3}, {"rank": "min"}, {"confidence": "conservative"},
        {"typed_prices": True}, {"regions": ["eu"]}, {"job": "uploads"}, {"max_age": "1h"},
        {"when": "cost(A100) < cost(H100)"},
    )]  # fmt: skip
    assert len({same.sha256, *others}) == len(others) + 1


def test_a_slow_rule_gets_a_gap_that_it_can_keep() -> None:
    assert rule(every="6h").policy.max_gap == timedelta(hours=18)
    assert rule(every="1m").policy.max_gap == timedelta(hours=1)


def test_without_a_job_the_default_is_what_can_be_rented_by_the_hour() -> None:
    assert rule("price(H100) < 2").filters.markets == ("on_demand",)
    assert rule("new offer(H100) < 2", markets=["any"]).filters.markets == ("any",)
    assert rule().filters.markets == ()
