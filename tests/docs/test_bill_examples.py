"""The worked examples of a bill in docs/costs.md, computed anew."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from tests.docs.pages import ROOT, blocks
from tracker.domain.cost import Bill, CostInputs, bill
from tracker.domain.energy import Load, co2_kg, electricity_usd, energy
from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.domain.ownership import Purchase, buy_or_rent, electricity_price
from tracker.domain.pareto import Goal, Option, Range, choose, pareto
from tracker.domain.recurring import Recurring, month_bill
from tracker.domain.serving_cost import Copy, Request, fleet, token_prices, usd_per_completed
from tracker.domain.set_up_time import Download, set_up_time
from tracker.domain.spot import (
    Checkpoints,
    Expected,
    Plan,
    Refused,
    advisor_rate,
    break_even_rate,
    expect,
    stated_rate,
)
from tracker.domain.terms import Market, Terms

D = Decimal
PAGE = ROOT / "docs" / "costs.md"
MARK = "example: "


def usd(price: str) -> PerMachineHour:
    return PerMachineHour(D(price))


def set_up() -> str:
    got = set_up_time(Download(D(8), D(14), D(23)), D(800), start_hours=D("0.025"))
    assert got.hours is not None
    return f"0.025 h + 45 GB x 8,000 / (800 Mbit/s x 3,600 s) = {got.hours.normalize()} h"


def spot() -> str:
    saving = Plan(
        D(48), setup_hours=D("0.1"), wait_hours=D("0.5"),
        checkpoints=Checkpoints(D("0.25"), D("0.01")),
    )  # fmt: skip
    got, bare = expect(saving, stated_rate(0.125)), expect(Plan(D(48)), stated_rate(0.125))
    assert isinstance(got, Expected)
    assert isinstance(bare, Refused)
    at = break_even_rate(saving, usd("0.8"), usd("2"))
    alone = break_even_rate(Plan(D(48)), usd("0.8"), usd("2"))
    assert at is not None
    assert alone is not None
    return (
        f"plain hours          {got.plain_hours} h\n"
        f"billed hours         {got.billed_hours:.2f} h, {got.rerun_hours:.2f} h more\n"
        f"wall-clock hours     {got.wall_hours:.2f} h, {got.interruptions:.2f} interruptions\n"
        f"without checkpoints  refused, {bare.chance:.1%} chance\n"
        f"break-even           {at.per_hour:.2f} per hour, without checkpoints "
        f"{alone.per_hour:.4f} ({alone.interruptions:.1f} interruptions)\n"
        f"AWS, up to 5 %       {advisor_rate(5).per_hour:.7f} per hour"
    )


def power() -> str:
    got = energy(D(700), 8, D(10), Load.TRAINING, pue=D("1.2"))
    assert got is not None
    carbon, bill_usd = co2_kg(got.kwh, D(400)), electricity_usd(got.kwh, D("0.25"))
    return (
        f"700 W x 0.9 x 8 GPUs x 10 h x 1.225 x 1.2 = {got.kwh:.2f} kWh "
        f"({got.low_kwh:.2f} to {got.high_kwh:.2f})\n"
        f"x 400 g/kWh = {carbon:.2f} kg of CO2, x $0.25 = ${bill_usd:.2f}"
    )


def serving() -> str:
    copy = Copy(output_per_second=D(1000), input_per_second=D(10_000))
    chat = Request(2000, 300)
    got = token_prices(usd("3.6"), copy, chat, D("0.8"))
    many = fleet(usd("3.6"), copy, chat, D(7), D("0.8"))
    few, most = (
        fleet(usd("3.6"), Copy(1000 * factor, 10_000 * factor), chat, D(7), D("0.8"))
        for factor in (D("1.3"), 1 / D("1.3"))
    )
    return (
        f"a request            {got.seconds} s, ${got.per_request}\n"
        f"a million tokens     ${got.per_million_input} in, ${got.per_million_output} out\n"
        f"7 requests/s         {many.machines} machines, {many.utilisation:.0%} used, "
        f"${many.usd_per_month:,.2f} a month, ${many.usd_per_request:.6f} a request\n"
        f"within a factor 1.3  {few.machines} to {most.machines} machines, "
        f"${few.usd_per_month:,.2f} to ${most.usd_per_month:,.2f} a month\n"
        f"24 of 25 jobs done   $30 / 24 = ${usd_per_completed(D(30), 24)} each"
    )


def ownership() -> str:
    bought = Purchase(
        price_usd=D(36_000), gpus=1, watts=D(1000), usd_per_kwh=D("0.2"), term_months=36,
        resale_usd=D(7200), idle_watts=D(200), pue=D("1.5"), hosting_usd_per_month=D(50),
        utilisation=D("0.5"),
    )  # fmt: skip
    got = buy_or_rent(bought, usd("5"))
    own = got.own
    return (
        f"own a month    ${own.write_off_usd:.2f} write-off + ${own.power_usd:.2f} power + "
        f"${own.cooling_usd:.2f} cooling + ${own.hosting_usd:.2f} hosting = ${own.total_usd:.2f}\n"
        f"a GPU-hour     ${own.usd_per_gpu_hour:.2f} for the 365 hours used\n"
        f"rent a month   ${got.rent_usd_per_month:.2f}\n"
        f"break-even     month {got.break_even_month}, or from "
        f"{got.break_even_utilisation:.1%} use over the term\n"
        f"own already    ${electricity_price(D(1000), D('0.2'), D('1.5')).usd} an hour"
    )


def months() -> str:
    terms = Terms(commitment_hours=730, egress_usd_per_gb=D("0.1"))
    inputs = CostInputs(usd("2"), D(1), Market.MONTHLY, terms)

    def run(hours: str, egress: str) -> Bill:
        job = Job("j", {}, egress_gb=D(egress))
        got = bill(inputs, job, RuntimeEstimate(D(hours), Basis.STATED))
        assert isinstance(got, Bill)
        return got

    got = month_bill(
        [
            Recurring("train", D(10), run("20", "5"), b"m", 730),
            Recurring("score", D(100), run("0.5", "0"), b"m", 730),
        ]
    )
    lines = [f"{line.label:36}${line.amount_usd:.2f}" for line in got.lines]
    return "\n".join([*lines, f"{'total':36}${got.total_usd:.2f}"])


def choice() -> str:
    table = {"A100": ("16", "12"), "H100": ("20", "4"), "8 x H100": ("90", "1"),
             "L40S": ("21", "25")}  # fmt: skip
    options = [
        Option(name, name.encode(), Range.exact(D(cost)), Range.exact(D(hours)))
        for name, (cost, hours) in table.items()
    ]
    lines = [f"in the set  {', '.join(one.item for one in pareto(options))}"]
    for goal in Goal:
        best = choose(options, goal)
        assert best is not None
        lines.append(f"{goal:12}{best.best.item}")
    return "\n".join(lines)


EXAMPLES: dict[str, Callable[[], str]] = {
    "set-up": set_up,
    "spot": spot,
    "energy": power,
    "serving": serving,
    "ownership": ownership,
    "months": months,
    "choice": choice,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_is_what_the_code_says(name: str) -> None:
    shown = {b.comment.removeprefix(MARK): b.text for b in blocks(PAGE) if MARK in b.comment}
    assert shown[name] == EXAMPLES[name]() + "\n"
