"""``gpucost offers``: what can be rented now, at what price, and what is held back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import bills, grouping, render, sorting
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import (
    filter_options,
    filters_from,
    output_option,
    refuse_all_with_top,
    top_option,
)
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import is_slice
from tracker.domain.money import HOURS_PER_MONTH
from tracker.report.shapes import words
from tracker.report.shapes.rows import OFFER_COLUMNS as COLUMNS

if TYPE_CHECKING:
    from tracker.report.asked import Asked
    from tracker.report.filters import Filters
    from tracker.report.grouped import Grouping
    from tracker.report.listing import OffersReport

DEFAULT_TOP = 25
_HELD_FILTERS = {"gpus", "providers", "regions", "markets", "tiers"}

_TABLE = (
    render.Column("GPU"), render.Column("GPUS", right=True), render.Column("PROVIDER"),
    render.Column("REGION", 2), render.Column("TIER", 1), render.Column("MARKET"),
    render.Column("$/GPU-H", right=True), render.Column("$/MACHINE-H", 3, right=True),
    render.Column("VCPU", 6, right=True), render.Column("RAM GiB", 5, right=True),
    render.Column("AGE", right=True), render.Column("STOCK", 4), render.Column("OFFER"),
)  # fmt: skip
_WIDE = (
    render.Column("KIND"), render.Column("COUNTRY"), render.Column("INTERCONNECT"),
    render.Column("DISK GB", right=True),
    render.Column("DOWN Mbit/s", right=True), render.Column("RELIABILITY", right=True),
    render.Column("INCREMENT s", right=True), render.Column("COMMITMENT h", right=True),
    render.Column("ID"),
)  # fmt: skip
_HELD_TABLE = (
    render.Column("GPU"), render.Column("GPUS", right=True), render.Column("PROVIDER"),
    render.Column("REGION", 4), render.Column("TIER", 3), render.Column("MARKET", 2),
    render.Column("$/MACHINE-H", right=True), render.Column("SEEN", 5, right=True),
    render.Column("FREED", 1), render.Column("OFFER"), render.Column("WHY"),
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@top_option(DEFAULT_TOP)
@click.option("--quarantined", is_flag=True, help="What the quality gates hold back, and why.")
@grouping.group_option
@sorting.sort_option
@filter_options
@output_option
@click.pass_obj
def offers(obj: dict[str, Any], /, **options: Any) -> None:
    """What can be rented now, cheapest per GPU-hour first.

    Every price is for a whole machine; the price per GPU stands beside it. Slices of a GPU are
    listed only when --gpu asks for them (A100-SLICE).
    """
    app = App(obj["config"])
    refuse_all_with_top(options["show_all"])
    filters = filters_from(options)._replace(min_gpus=options["gpus"])
    options["fields"] = grouping.fields(options.pop("group_by"))
    sorting.refuse(options["sort"], options["fields"], quarantined=options["quarantined"])
    try:
        if options["quarantined"]:
            _quarantined(app, filters, options)
        else:
            _offers(app, filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _offers(app: App, filters: Filters, options: dict[str, Any]) -> None:
    from tracker.app.questions import record_of
    from tracker.report.asked import ask
    from tracker.report.filters import nothing_left
    from tracker.report.health import check_providers, check_tiers
    from tracker.report.listing import offers_report
    from tracker.report.record import nothing_then, then
    from tracker.store import reads

    as_of = options["as_of"]
    now = as_of or datetime.now(UTC)
    wanted = _keys(app, filters)
    if wanted and all(is_slice(key) for key in wanted):
        filters = filters._replace(include_slices=True)
    with app.reading() as connection:
        check_providers(connection, filters.providers)
        check_tiers(connection, filters.tiers)
        asked = ask(connection, filters, wanted, now, as_of)
        asked = app.with_owned(asked, wanted, now, past=as_of is not None)
        record = () if as_of is None else record_of(connection, app, filters)
        begins = None if asked.total else reads.first_poll_at(connection)
    found = offers_report(asked, filters, app.catalogue, now, begins)
    found = sorting.offers(found, None if options["fields"] else options["sort"])
    groups = _groups(app, asked, found, options)
    _print(found, groups, list(then(record, now)), options)
    if not found.offers:
        if found.only_stale:
            raise Exit(EXIT_ONLY_STALE, "only stale prices match; poll again, or --include-stale")
        why = nothing_then(record, now)
        raise Exit(EXIT_NO_MATCH, why or nothing_left(found.excluded))


def _print(
    found: OffersReport, groups: Grouping | None, remarks: list[str], options: dict[str, Any]
) -> None:
    """The offers, or their groups where there are any, and what was left out."""
    top = None if options["show_all"] else options["top"]
    rows = found.rows(top) if groups is None else groups.rows(found.now, top)
    footer = render.footer(len(found.offers), found.total_offers, found.excluded)
    wide = options["output"] == "wide"
    if options["output"] not in ("table", "wide"):
        columns = COLUMNS if groups is None else groups.columns
        around = found.document() | ({} if groups is None else groups.document())
        around |= sorting.document(options["sort"], grouped=groups is not None)
        render.print_rows(options["output"], rows, columns, around, footer)
        return
    if rows and groups is not None:
        grouping.show(groups.fields, rows, wide=wide)
    elif rows:
        _table(rows, wide=wide)
        render.say()
        for line in _marks(rows):
            render.say(line)
    more = len(found.offers if groups is None else groups.groups) - len(rows)
    if more > 0:
        render.say(f"{more:,} more; --all shows them")
    for line in (*remarks, footer):
        render.say(line)


def _groups(
    app: App, asked: Asked, found: OffersReport, options: dict[str, Any]
) -> Grouping | None:
    """What was found in groups, where that is asked for."""
    if not options["fields"]:
        return None
    from tracker.report.grouped import of_found

    made = of_found(
        asked, found.offers, found.filters, app.catalogue, found.now, options["fields"],
        past=options["as_of"] is not None,
    )  # fmt: skip
    return sorting.groups(made, found, options["sort"])


def _keys(app: App, filters: Filters) -> frozenset[str] | None:
    """The GPUs that the filters name; None when they name none. Raises UnknownGpu."""
    if not filters.gpus:
        return None
    return frozenset().union(*(app.catalogue.select(name) for name in filters.gpus))


def _table(rows: list[dict[str, Any]], *, wide: bool) -> None:
    render.print_table(
        _TABLE + (_WIDE if wide else ()),
        [_cells(r) + (_wide_cells(r) if wide else []) for r in rows],
        dim=frozenset(i for i, r in enumerate(rows) if r["stale"]),
        wide=wide,
    )


def _cells(r: dict[str, Any]) -> list[str]:
    return [
        r["gpu"], _number(r["gpus"]), r["provider"], r["region"] or render.DASH, r["tier"],
        r["market"].replace("_", "-"), render.usd(Decimal(r["price_usd_per_gpu_hour"]), 4),
        render.usd(Decimal(r["price_usd_per_machine_hour"]), 4), _number(r["vcpus"]),
        _rounded(r["ram_gib"]),
        bills.age_text(r["valid_as_of"], r["age_seconds"], stale=r["stale"]) + _mark(r),
        words.stock(r["availability"], r["stock_label"]), r["offer"],
    ]  # fmt: skip


def _mark(r: dict[str, Any]) -> str:
    """A mark for what a reader must know of a price: its term, or that it is a promotion's."""
    return ("+" if _long(r) else "") + ("!" if _promoted(r) else "")


def _long(r: dict[str, Any]) -> bool:
    return r["commitment_hours"] is not None and r["commitment_hours"] > HOURS_PER_MONTH


def _promoted(r: dict[str, Any]) -> bool:
    return "promotion" in r["native_id"].lower()


def _marks(rows: list[dict[str, Any]]) -> Iterable[str]:
    terms = dict.fromkeys(words.term(r["commitment_hours"]) for r in rows if _long(r))
    if terms:
        yield f"+ only for a term, billed whole: {', '.join(terms)} (-o wide tells which)."
    if any(map(_promoted, rows)):
        yield "! a promotion of the day it was read, perhaps over (-o wide names the usual price)."


def _wide_cells(r: dict[str, Any]) -> list[str]:
    disk = r["disk_gb"] if r["disk_gb"] is not None else r["disk_included_gb"]
    return [
        r["kind"], r["country"] or render.DASH, r["interconnect"] or render.DASH, _rounded(disk),
        _rounded(r["network_down_mbps"]), _number(r["reliability"]),
        render.count(r["billing_increment_seconds"]), render.count(r["commitment_hours"]),
        r["native_id"],
    ]  # fmt: skip


def _number(value: int | float | None) -> str:
    return render.DASH if value is None else f"{value:,}"


def _rounded(value: int | float | None) -> str:
    return render.DASH if value is None else f"{round(value):,}"


def _quarantined(app: App, filters: Filters, options: dict[str, Any]) -> None:
    from tracker.report.health import check_providers
    from tracker.report.held import COLUMNS as HELD_COLUMNS
    from tracker.report.held import held_report
    from tracker.store import reads

    unfit = options["as_of"] is not None or options["fields"]
    if unfit or filters.echo().keys() - _HELD_FILTERS:
        raise click.UsageError(
            "--quarantined goes with --gpu, --provider, --region, --market and --tier only"
        )
    wanted = _keys(app, filters)
    with app.reading() as connection:
        check_providers(connection, filters.providers)
        report = held_report(reads.quarantined(connection), filters, wanted, datetime.now(UTC))
    shown = report.rows(None if options["show_all"] else options["top"])
    if options["output"] not in ("table", "wide"):
        render.print_rows(options["output"], shown, HELD_COLUMNS, report.document(), report.footer)
        return
    if not report.total:
        render.say("nothing is quarantined")
        return
    if shown:
        render.print_table(
            _HELD_TABLE, [_held_cells(r) for r in shown], wide=options["output"] == "wide"
        )
        render.say()
    if len(report.held) > len(shown):
        render.say(f"{len(report.held) - len(shown):,} more; --all shows them")
    render.say(report.footer)


def _held_cells(r: dict[str, Any]) -> list[str]:
    return [
        r["gpu"], _number(r["gpus"]), r["provider"], r["region"] or render.DASH, r["tier"],
        r["market"].replace("_", "-"), render.usd(Decimal(r["price_usd_per_machine_hour"]), 4),
        f"{r['confirmations']} x", "once confirmed" if r["releasable"] else "never", r["offer"],
        f"{r['gate'].replace('_', ' ')}: {r['reason']}",
    ]  # fmt: skip
