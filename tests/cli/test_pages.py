"""The pages about the command line, jobs and gates say what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import click
import pytest

from tests.cli.harness import A100, H100, filled, polled, run
from tests.docs.pages import ROOT, blocks
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.cli import exits
from tracker.cli.main import COMMANDS, cli
from tracker.cli.offers import DEFAULT_TOP as OFFERS_TOP
from tracker.cli.options import MARKETS
from tracker.domain import job_text
from tracker.domain.break_even import Bound
from tracker.domain.gpu import Gpu
from tracker.domain.job import GIVEN_BASES
from tracker.domain.job_limits import Limits
from tracker.domain.job_workload import _KINDS
from tracker.domain.offer import Terms
from tracker.domain.quality import RELEASABLE, Gate, Rules
from tracker.report.health import UNCHANGED_ALARM
from tracker.store.poll_types import TTL_INTERVALS

DOCS = ROOT / "docs"
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")
QUALITY = (DOCS / "quality.md").read_text(encoding="utf-8")
JOBS = (DOCS / "jobs.md").read_text(encoding="utf-8")
L40S = Gpu("L40S-48GB", "L40S", None, 48)


def _section(heading: str) -> str:
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", CLI, re.M | re.S)
    assert match, f"docs/cli.md has no section {heading}"
    return match[1]


def _linked(section: str) -> str:
    """The pages and sections that a section refers to for the rest."""
    names = set(re.findall(r"\]\(([\w-]+\.md)(?:#[\w-]+)?\)", section))
    here = re.findall(r"\]\(#gpucost-(\w+)\)", section)
    there = [(DOCS / name).read_text(encoding="utf-8") for name in sorted(names)]
    return "".join([*there, *(_section(f"gpucost {name}") for name in here)])


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command


def _options(command: click.Command) -> list[str]:
    return [
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_the_page(name: str) -> None:
    command = dict(_commands())[name]
    own = _section(f"gpucost {name}")
    texts = own + _section("Output") + _section("Filters") + _linked(own)
    subcommands = command.commands if isinstance(command, click.Group) else {"": command}
    for sub, it in subcommands.items():
        assert f"gpucost {name} {sub}".strip() in CLI + texts
        for option in _options(it):
            assert f"`{option}`" in texts, f"{name} {sub} {option}"


def test_every_option_on_the_page_exists() -> None:
    known = {"--help", "--version", "--config"}
    for _, command in _commands():
        for it in command.commands.values() if isinstance(command, click.Group) else [command]:
            known.update(_options(it))
    assert set(re.findall(r"`(--[a-z-]+)`", CLI)) <= known


def test_every_exit_code_is_on_the_page_and_in_the_help() -> None:
    codes = {v for k, v in vars(exits).items() if k.startswith("EXIT_") and isinstance(v, int)}
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", _section("Exit codes"), re.M)}
    assert codes | {130} == documented
    for code in codes:
        assert re.search(rf"\b{code} ", exits.EXIT_HELP)


def test_figures_on_the_page_are_those_of_the_code() -> None:
    from tracker.cli.cheapest import DEFAULT_TOP
    from tracker.cli.poll import MAX_MISTAKES

    assert (MAX_MISTAKES, "the first ten of them" in CLI) == (10, True)
    assert all(f"`{bound}`" in CLI for bound in Bound)
    assert f"(`cheapest`: {DEFAULT_TOP}, `offers`: {OFFERS_TOP})" in CLI
    assert all(f"`{market}`" in CLI for market in MARKETS)


# --- jobs.md ----------------------------------------------------------------------------------


def test_the_example_names_every_key_and_gives_the_bill_worked_out_by_hand(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, estimated = (b for b in blocks(DOCS / "jobs.md") if b.file)
    for key in {*job_text._JOB_KEYS, *job_text._HOURS_KEYS} - job_text._RATES.keys():
        assert re.search(rf"^(\[)?{key}\b", example.text + estimated.text, re.M), key
    for key in (
        *job_text._RATES,
        *Limits._fields,
        *(key for keys, _ in _KINDS.values() for key in keys),
    ):
        assert f"`{key}`" in JOBS, key
    file = tmp_path / str(example.file)
    file.write_text(example.text)
    terms = Terms(
        billing_increment_seconds=3600, disk_included_gb=Decimal(100),
        disk_usd_per_gb_hour=Decimal("0.001"), egress_usd_per_gb=Decimal("0.05"),
    )  # fmt: skip
    offers = [
        make_offer("h100", "3", gpu=H100, terms=terms),
        make_offer("a100x2", "2", gpu=A100, gpu_count=Decimal(2), terms=terms),
        make_offer("l40s", "0.5", gpu=L40S, terms=terms),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        rows = run("cheapest", str(file), "-o", "json").json()["rows"]
    bills = {r["offer_id"]: (r["machines"], r["billed_hours"], r["total_usd"]) for r in rows}
    assert bills == {
        # 2 machines x 4 h x 3 + 2 x 100 GB x 4 h x 0.001 + 20 GB x 0.05
        "h100": (2, 4, "25.8"),
        # 1 machine x 10 h x 2 + 100 GB x 10 h x 0.001 + 1
        "a100x2": (1, 10, "22"),
        # 2 machines x 21 h x 0.5 + 2 x 100 GB x 21 h x 0.001 + 1
        "l40s": (2, 21, "26.2"),
    }
    assert {r["gpu"]: r["basis"] for r in rows}["A100-SXM-80GB"] == "measured"
    assert [r["offer_id"] for r in rows if r["lower_bound"]] == ["l40s"]
    for basis in GIVEN_BASES:
        assert basis in JOBS


# --- quality.md -------------------------------------------------------------------------------


def _row(first: str) -> str:
    rows = [line for line in QUALITY.splitlines() if line.startswith(f"| {first} |")]
    assert len(rows) == 1, first
    return rows[0]


def test_every_gate_is_explained_and_says_whether_it_opens_again() -> None:
    for gate in Gate:
        freed = _row(f"`{gate}`").split("|")[3].strip()
        assert freed == ("yes" if gate in RELEASABLE else "no")
    listed = re.findall(r"^\| `([a-z_]+)` \| (?:whose|that|on|of|below)", QUALITY, re.M)
    assert listed == [str(gate) for gate in Gate], "in the order in which they are asked"


def test_the_gates_figures_are_those_of_the_code() -> None:
    r = Rules()
    names = ("spot_floor", "same_price_tolerance", "confirm_tolerance", "shrink_tolerance")
    percent = {name: f"{getattr(r, name) * 100:.0f} %" for name in names}
    assert f"below {percent['spot_floor']} of it" in _row("`spot_against_on_demand`")
    assert f"({percent['same_price_tolerance']} tolerance)" in _row("`count_scaling`")
    assert (
        f"below {r.region_low} times or above {r.region_high} times the median of the same machine "
        f"in at least {r.region_others} other regions"
    ) in _row("`region_outlier`")
    assert (
        f"below {r.market_low} times or above {r.market_high} times the median of at least "
        f"{r.market_others} other hosts"
    ) in _row("`market_outlier`")
    assert f"more than a factor of {r.jump_factor} since" in _row("`jump`")
    assert f"{r.confirmations} polls in a row that saw the same price" in QUALITY
    assert f"(within {percent['confirm_tolerance']})" in QUALITY
    assert f"less than {r.shrink_fraction} of the offers" in _row("shrunk")
    assert f"{r.confirmations} polls in a row agree" in _row("shrunk")
    assert f"(within {percent['shrink_tolerance']})" in _row("shrunk")
    assert f"for {TTL_INTERVALS} polling intervals" in QUALITY
    assert timedelta(days=14) == UNCHANGED_ALARM
    assert "by a byte for 14 days" in QUALITY
    assert f"| {r.confirmations} |" in _row("`confirmations`")[:40]
    assert f"| {r.shrink_fraction} |" in _row("`shrink_fraction`")[:40]


@pytest.mark.parametrize("family", ["A100", "H100", "RTX4090", "T4"])
def test_the_bands_are_those_of_the_catalogue(family: str) -> None:
    row = _row("any without its own" if family == "T4" else family)
    cells = [cell.strip() for cell in row.split("|")[2:4]]
    expected = [catalogue().band(family, market) for market in ("on_demand", "spot")]
    assert cells == [f"{low} to {high}" for low, high in expected]
