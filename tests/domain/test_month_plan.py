"""Where recurring jobs run best together, against every assignment tried."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.test_cost import billed, hours, inputs, job
from tracker.domain.month_plan import cost, plan
from tracker.domain.recurring import Recurring, month_bill
from tracker.domain.terms import Market

D = Decimal


def by_run(name: str, runs: str, price: str, took: str = "2") -> Recurring:
    return Recurring(name, D(runs), billed(inputs(price), job(), hours(took)), name.encode())


def by_month(name: str, runs: str, price: str, offer: bytes, took: str = "2") -> Recurring:
    terms = inputs(price, market=Market.MONTHLY, commitment_hours=730)
    return Recurring(name, D(runs), billed(terms, job(), hours(took)), offer, 730)


def test_a_server_that_no_job_alone_would_pay_for_pays_for_both() -> None:
    # By the run 100 x 2 h x $3 = $600 each; the server costs $730 a month.
    options = [
        [by_run(name, "100", "3"), by_month(name, "100", "1", b"server")] for name in ("a", "b")
    ]
    for of_job in options:
        assert plan([of_job]) == (of_job[0],)
    assert plan(options) == (options[0][1], options[1][1])


def test_a_job_that_would_need_another_machine_stays_outside() -> None:
    # 300 x 2 h fill the server; the other job's 200 h would take a second one.
    a = [by_run("a", "300", "3"), by_month("a", "300", "1", b"server")]
    b = [by_run("b", "100", "3"), by_month("b", "100", "1", b"server")]
    assert plan([a, b]) == (a[1], b[0])


def test_a_bill_with_an_unknown_part_is_not_taken_for_a_cheap_one() -> None:
    part = billed(inputs("0.01"), job(egress_gb=D(1)), hours("2"))
    assert part.partial
    unknown = Recurring("a", D(1), part, b"x")
    known = by_run("a", "1", "3")
    assert plan([[unknown, known]]) == (known,)


runs = st.sampled_from(["0.5", "1", "40", "100", "300"])
prices = st.sampled_from(["0.5", "1", "2", "3", "8"])


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(runs, prices, st.lists(st.booleans(), min_size=1, max_size=1)),
             min_size=1, max_size=4),
    prices,
)  # fmt: skip
def test_with_one_server_the_plan_is_the_best_of_all(
    jobs: list[tuple[str, str, list[bool]]], server: str
) -> None:
    options = []
    for index, (count, price, [fits]) in enumerate(jobs):
        name = f"job{index}"
        of_job = [by_run(name, count, price)]
        options.append([*of_job, by_month(name, count, server, b"server")] if fits else of_job)
    best = min(cost(month_bill(every)) for every in product(*options))
    assert cost(month_bill(plan(options))) == best


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(runs, prices), min_size=2, max_size=7), prices, prices)
def test_with_several_it_is_no_worse_than_each_alone_or_all_on_one(
    jobs: list[tuple[str, str]], one: str, other: str
) -> None:
    options = [
        [by_run(f"j{i}", count, price), by_month(f"j{i}", count, one, b"one"),
         by_month(f"j{i}", count, other, b"two")]
        for i, (count, price) in enumerate(jobs)
    ]  # fmt: skip
    found = cost(month_bill(plan(options)))
    for column in range(3):
        assert found <= cost(month_bill([of_job[column] for of_job in options]))
    assert plan(options) == plan(options)
