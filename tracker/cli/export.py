"""``gpucost export``: offers, price history, the price floor and polls, as files for programs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import Moment, filter_options, filters_from
from tracker.domain.gpu import UnknownGpu

if TYPE_CHECKING:
    from tracker.report.filters import Filters
    from tracker.store.exporting import Wanted

KINDS = ("offers", "history", "floor", "polls")
FORMATS = ("csv", "ndjson", "parquet")
# What is known of an offer only now, and so is in no history; and what is made of its columns.
_ONLY_NOW = {"available": "--available", "max_age": "--max-age",
             "min_network_mbps": "--min-network", "min_disk_gb": "--min-disk",
             "include_stale": "--include-stale", "kinds": "--kind"}  # fmt: skip
_OPTION = {"gpu_keys": "--gpu", "regions": "--region", "countries": "--country",
           "markets": "--market", "tiers": "--tier", "min_vram_gb": "--min-vram",
           "min_gpus": "--gpus", "min_ram_gib": "--min-ram", "min_vcpus": "--min-vcpus",
           "interconnect": "--interconnect", "dedicated": "--dedicated"}  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", type=click.Choice(KINDS), metavar="|".join(KINDS))
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option("--since", type=Moment(), help="Only what held then or later.")
@click.option("--until", type=Moment(), help="Only what held before then.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@filter_options
@click.pass_obj
def export(obj: dict[str, Any], /, **options: Any) -> None:
    """Write what is recorded to FILE (- for standard output; a folder for Parquet history).

    Unlike the tables of other commands, an export leaves nothing out unasked: all markets, tiers
    and slices are in it. `gpucost import` reads exports of offers and history again.
    """
    from tracker.report import exported
    from tracker.store import exporting

    app = App(obj["config"])
    if options["as_of"] is not None:
        raise click.UsageError("--as-of: an export is of a time; use --since and --until")
    if options["since"] and options["until"] and options["since"] >= options["until"]:
        raise click.UsageError("--since must lie before --until")
    kind, target, gpus = options["what"], options["file"], options["gpus"]
    try:
        wanted = _wanted(app, kind, filters_from(options)._replace(min_gpus=gpus), options)
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    try:
        with app.reading() as connection:
            connection.execute("SET statement_timeout = 0")
            parts = exporting.parts(connection, kind, wanted, datetime.now(UTC))
            columns = exporting.COLUMNS[kind]
            rows = exported.write(
                options["output"], columns, parts, target, force=options["force"],
                stdout=sys.stdout,
            )  # fmt: skip
    except exported.CannotExport as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    click.echo(f"{render.counted(rows, 'row')} written", err=target == "-")
    if not rows:
        raise Exit(EXIT_NO_MATCH, "nothing matches")


def _wanted(app: App, kind: str, f: Filters, options: dict[str, Any]) -> Wanted:
    """The constraints of the command line, as an export can have them. Raises UnknownGpu."""
    from tracker.store.exporting import NOT_KNOWN, Wanted

    for name, option in _ONLY_NOW.items():
        if getattr(f, name):
            raise click.UsageError(f"{option}: an export holds all that was recorded")
    keys = frozenset[str]().union(*(app.catalogue.select(name) for name in f.gpus))
    if f.ecc:
        with_ecc = {spec.gpu.key for spec in app.catalogue.specs() if spec.ecc}
        keys = keys & with_ecc if f.gpus else frozenset(with_ecc)
    wanted = Wanted(
        gpu_keys=keys if f.gpus or f.ecc else None,
        providers=f.providers, regions=f.regions, countries=f.countries,
        markets=() if "any" in f.markets else f.markets,
        tiers=() if "any" in f.tiers else f.tiers,
        min_vram_gb=f.min_vram_gb, min_gpus=f.min_gpus, min_ram_gib=f.min_ram_gib,
        min_vcpus=f.min_vcpus, interconnect=f.interconnect, dedicated=f.dedicated,
        since=options["since"], until=options["until"],
    )  # fmt: skip
    unset = Wanted()
    for name in sorted(NOT_KNOWN[kind]):
        if getattr(wanted, name) != getattr(unset, name):
            raise click.UsageError(f"{_OPTION[name]}: {kind} have no such column")
    return wanted
