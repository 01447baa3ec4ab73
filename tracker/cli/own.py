"""``gpucost own``: buying a machine for a job against renting the cheapest that does its work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import completing
from tracker.cli.cheapest import job_options, wanted_job
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import (
    CommaList,
    Positive,
    filter_options_but_gpu,
    filters_from,
    stack,
)
from tracker.domain.bounds import bounded
from tracker.domain.exact import BadFigure
from tracker.domain.gpu import UnknownGpu

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.filters import Filters
    from tracker.report.own import OwnReport, Wish


class Share(click.ParamType[Decimal]):
    """A share above 0 and at most 1, as ``0.6`` or ``60%``."""

    name = "SHARE"

    def convert(self, value: Any, param: Any, ctx: Any) -> Decimal:
        text = str(value).strip()
        try:
            share = bounded(Decimal(text.removesuffix("%"))) / (100 if text.endswith("%") else 1)
        except (ValueError, ArithmeticError):
            self.fail(f"{value!r} is not a share such as 0.6 or 60%", param, ctx)
        if not (share.is_finite() and 0 < share <= 1):
            self.fail(f"{value!r} must be above 0 and at most 1 (or 100%)", param, ctx)
        return share


class Amount(click.ParamType[str]):
    """Dollars, or with ``%`` a share of the price: kept as typed until the price is known."""

    name = "USD|%"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        text = str(value).strip()
        Positive(zero=True).convert(text.removesuffix("%"), param, ctx)
        return text


_machine_options = stack(
    [
        click.option("--gpu", required=True, metavar="GPU", help="The GPU: H100-SXM-80GB."),
        click.option(
            "--count", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N",
            help="GPUs in the machine.",
        ),
        click.option(
            "--price", type=Positive(), required=True, help="USD for the whole machine."
        ),
        click.option(
            "--kwh", type=Positive(), required=True, help="USD for a kWh of electricity."
        ),
        click.option(
            "--term", type=click.IntRange(1, 240), default=36, show_default=True,
            metavar="MONTHS", help="How long it is used.",
        ),
        click.option(
            "--resale", type=Amount(), default="0",
            help="What it is sold for at the end: USD, or 20% of the price.",
        ),
        click.option("--utilisation", type=Share(), help="Share of the time in use: 0.6 or 60%."),
        click.option("--runs", type=Positive(), help="Or the runs of the job in a month."),
        click.option("--pue", type=Positive(), help="Power with cooling / without: 1.3."),
        click.option("--watts", type=Positive(), help="Of the whole machine at full load."),
        click.option(
            "--idle-watts", type=Positive(zero=True), help="Of the whole machine when idle."
        ),
        click.option(
            "--hosting", type=Positive(zero=True), default="0", help="USD a month for space, hands."
        ),
        click.option("--grid", type=Positive(zero=True), help="g of CO2 per kWh of the grid."),
        click.option(
            "--rent-gpu", type=CommaList(), multiple=True, help="Rent only these GPUs."
        ),
    ]
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False, shell_complete=completing.jobs)
@_machine_options
@job_options
@filter_options_but_gpu
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
@click.pass_obj
def own(obj: dict[str, Any], /, job: str | None, **options: Any) -> None:
    """Buy a machine for JOB, or rent the cheapest that does the same work?

    JOB is a built-in job's name or a job file; without it, give --hours. The filters choose what
    may be rented. Where no GPU is named, all of them are looked at, and the machine's own beside.
    """
    app = App(obj["config"])
    own_gpu = options.pop("gpu")
    options["gpu"] = options.pop("rent_gpu")
    wanted = wanted_job(app, job, options)
    filters = filters_from(options)
    try:
        report = _answer(app, wanted, _wish(app, own_gpu, options), filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except (BadFigure, UnknownGpu) as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    from tracker.cli import owning

    owning.show(report, options["output"])
    if not report.rented:
        if report.only_stale:
            raise Exit(EXIT_ONLY_STALE, "only stale prices match; poll again, or --include-stale")
        raise Exit(EXIT_NO_MATCH, "nothing to rent matches: there is nothing to compare with")


def _wish(app: App, name: str, options: Mapping[str, Any]) -> Wish:
    """The machine that the options describe. Raises BadFigure, UnknownGpu."""
    from tracker.domain.owned import check_grid, check_kwh_price, check_pue
    from tracker.report.own import Wish

    check_kwh_price("--kwh", options["kwh"])
    site = app.boot.site
    pue, grid = options["pue"], options["grid"]
    if pue is None and site is not None:
        pue = site.pue
    if grid is None and site is not None:
        grid = site.grid_g_per_kwh
    if pue is not None:
        check_pue("--pue", pue)
    if grid is not None:
        check_grid("--grid", grid)
    if options["utilisation"] is not None and options["runs"] is not None:
        raise click.UsageError("--utilisation and --runs say the same thing; keep one")
    price, resale = options["price"], options["resale"]
    share = resale.endswith("%")
    amount = Decimal(resale.removesuffix("%"))
    resale_usd = price * amount / 100 if share else amount
    if resale_usd > price:
        raise BadFigure(f"--resale: {resale} is above the price of the machine")
    return Wish(
        gpu=_part(app, name), gpus=options["count"], price_usd=price, usd_per_kwh=options["kwh"],
        term_months=options["term"], resale_usd=resale_usd, pue=pue, watts=options["watts"],
        idle_watts=options["idle_watts"], hosting_usd_per_month=options["hosting"],
        utilisation=options["utilisation"], runs=options["runs"], grid_g_per_kwh=grid,
    )  # fmt: skip


def _part(app: App, name: str) -> str:
    """The one part that *name* means. Raises BadFigure, UnknownGpu."""
    found = app.catalogue.select(name)
    keys = sorted(key for key in found if app.catalogue.spec(key) is not None)
    if app.catalogue.spec(name) is not None:
        return name
    if not keys:
        raise BadFigure(f"--gpu: {name} is no whole GPU; name one, such as H100-SXM-80GB")
    if len(keys) != 1:
        raise BadFigure(f"--gpu: {name} may be several; name one of {', '.join(keys)}")
    return keys[0]


def _answer(
    app: App, job: Job, wish: Wish, filters: Filters, options: Mapping[str, Any]
) -> OwnReport:
    from tracker.report.measured import measured
    from tracker.report.own import own_report
    from tracker.report.own_rents import rents

    as_of = options["as_of"]
    now = as_of or datetime.now(UTC)
    with app.reading() as connection:
        if not options["hours_texts"]:
            job = measured(connection, job)
        look = rents(
            connection, job, filters, app.catalogue, now, own_gpu=wish.gpu, as_of=as_of
        )  # fmt: skip
        return own_report(wish, job, app.catalogue, look)
