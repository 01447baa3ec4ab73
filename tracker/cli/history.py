"""``gpucost history``: what a job cost over time, and on which GPU it was the cheapest when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from tracker.app import App, NothingRecorded
from tracker.app.past import NOW_ONLY, history_on
from tracker.cli import completing
from tracker.cli.cheapest import job_options, wanted_job
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import (
    Positive,
    filters_from,
    output_option,
    past_filter_options,
    stack,
)
from tracker.cli.window import window_from, window_options
from tracker.domain.gpu import UnknownGpu

F = TypeVar("F", bound=Callable[..., Any])

_PLOTS = (".png", ".svg")

estimates_option: Callable[[F], F] = click.option(
    "--estimate-version", "estimates", type=click.Choice(("recorded", "latest")),
    default="recorded", show_default=True,
    help="Price the past with the hours that were known then, or with those of now.",
)  # fmt: skip

_shown_options: Callable[[F], F] = stack(
    [
        click.option("--per", type=click.Choice(("gpu", "provider")), default="gpu",
                     show_default=True, help="A series for each GPU, or for each provider."),
        click.option("--stat", type=click.Choice(("min", "median", "p10", "p90")),
                     default="min", show_default=True,
                     help="The figure of a bucket, over the time that a price is known for."),
        click.option("--below", type=Positive(), metavar="USD",
                     help="For how long the job was to be had for less."),
        estimates_option,
        click.option("--chart", is_flag=True, help="A chart instead of the table of buckets."),
        click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE",
                     help="Draw it into FILE.png or FILE.svg (needs matplotlib)."),
    ]
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False, shell_complete=completing.jobs)
@job_options
@window_options
@_shown_options
@past_filter_options
@output_option
@click.pass_obj
def history(obj: dict[str, Any], /, job: str | None, **options: Any) -> None:
    """What JOB cost over time on each GPU, at the cheapest offers on record.

    JOB is a built-in job's name or a job file; without it, give --hours. A price counts for as long
    as it was known; where none was, there is a gap, which is never filled.
    """
    app = App(obj["config"])
    now = datetime.now(UTC)
    window = window_from(options, now)
    plot = _plot_path(options["plot"])
    wanted = wanted_job(app, job, options)
    filters = filters_from({**options, **NOW_ONLY})
    try:
        for name in filters.gpus:  # refused before anything is opened
            app.catalogue.select(name)
        with app.reading() as connection:
            told = history_on(connection, app, wanted, filters, window, options, now)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    from tracker.cli import history_shown

    history_shown.show(told, options | {"window": window})
    if not told.report.overall:
        from tracker.report.shapes import history as shape

        raise Exit(EXIT_NO_MATCH, shape.nothing(told.report))
    if plot is not None:
        from tracker.cli.render_plot import draw

        draw(told, plot)
        click.echo(f"drawn into {plot}", err=True)


def _plot_path(name: str | None) -> Path | None:
    if name is None:
        return None
    import importlib.util

    path = Path(name)
    if path.suffix.lower() not in _PLOTS:
        raise click.BadParameter(f"{name}: name a .png or .svg file", param_hint="--plot")
    if not path.parent.is_dir():
        raise click.BadParameter(f"{path.parent} is no folder", param_hint="--plot")
    if importlib.util.find_spec("matplotlib") is None:
        raise Exit(
            EXIT_USAGE, "--plot needs matplotlib: pip install '.[plot]' in gpucost's checkout"
        )
    return path
