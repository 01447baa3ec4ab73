"""Rules about jobs with a workload or limits: estimated hours, their range, and the budget."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.alert.world import QUICK, World, at, rule
from tests.support.catalogue import catalogue
from tests.support.estimating import LORA, job_of
from tracker.alert.evaluate import ratio
from tracker.alert.rules import Rule, load_rules
from tracker.alert.sides import Side
from tracker.domain.job import Job
from tracker.domain.job_limits import Limits
from tracker.domain.rule.types import Health, Phase
from tracker.report.cheapest import Row


def about(job: Job, when: str, **keys: Any) -> Rule:
    """A rule about *job*."""
    table = {"when": when, "job": job.name} | keys
    [found], problems = load_rules(
        {"r": table}, catalogue=catalogue(), job=lambda _: job, channels=("log",), shipped=False
    )
    assert problems == ()
    return found


def row_of(side: Side | None) -> Row:
    assert side is not None
    assert side.best is not None
    assert side.best.row is not None
    return side.best.row


def test_the_cheapest_gpu_of_an_estimated_job_is_looked_for_among_all_it_runs_on(
    world: World,
) -> None:
    wanted = about(job_of(LORA), "cheapest changes")
    assert {"A100", "H100", "L40S", "RTX4090"} <= set(wanted.gpus)
    world.poll(0, {"h": "3", "a": "300"})
    found = world.look(wanted, 1)
    assert (found.sample.health, found.sample.label) == (Health.GOOD, "H100")
    world.poll(5, {"h": "300", "a": "3"})
    assert world.look(wanted, 6).sample.label == "A100"


def test_hours_that_were_given_for_some_gpus_do_not_hide_the_others() -> None:
    wanted = about(job_of(LORA, "[hours]\nH100 = 4"), "cheapest changes")
    assert {"A100", "H100", "L40S"} <= set(wanted.gpus)


def test_conservative_takes_estimates_at_the_ends_that_are_against_the_rule(world: World) -> None:
    job, when = job_of(LORA), "cost(H100) < cost(A100)"
    world.poll(0, {"h": "3", "a": "1.5"})
    point = world.look(about(job, when), 1)
    sure = world.look(about(job, when, confidence="conservative"), 1)
    assert point.sample.value is not None
    assert sure.sample.value is not None
    high, low = row_of(point.left).high_usd, row_of(point.right).low_usd
    bills = [row_of(side).bill.at_least_usd for side in (sure.left, sure.right)]
    assert bills == [high, low], "the bills of both ends, also in the notice"
    assert sure.sample.value > point.sample.value * Decimal("1.2")


def test_a_side_over_the_budget_is_judged_by_its_bill(world: World) -> None:
    """12 h on the A100 cost $18, 4 h on the H100 $12."""
    wanted = rule()
    assert wanted.job is not None
    limits = Limits(budget_usd=Decimal(13), deadline_hours=Decimal(5))
    wanted = replace(wanted, job=replace(wanted.job, limits=limits))
    world.poll(0, {"h": "3", "a": "1.5"})
    assert world.look(wanted, 1).sample.value == ratio(Decimal(12), Decimal(18))


def test_what_fires_ends_when_the_bill_passes_the_budget(world: World) -> None:
    wanted = rule("cost(H100) < 13", **QUICK)
    assert wanted.job is not None
    wanted = replace(wanted, job=replace(wanted.job, limits=Limits(budget_usd=Decimal(13))))
    phases = []
    for minutes, price in ((0, "3"), (5, "4")):
        world.poll(minutes, {"h": price})
        [found] = world.alerts(wanted).evaluate(at(minutes))
        phases.append((found.phase, found.health))
    assert phases == [(Phase.FIRING, Health.GOOD), (Phase.OK, Health.GOOD)]
