"""``gpucost offers``: what can be rented now, at what price, and what is held back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import bills, render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import filter_options, filters_from, output_option
from tracker.domain.gpu import UnknownGpu

DEFAULT_TOP = 25
COLUMNS = (
    "offer", "gpu", "gpus", "provider", "region", "country", "tier", "market",
    "price_usd_per_gpu_hour", "price_usd_per_machine_hour", "vram_gb", "vcpus", "ram_gib",
    "interconnect", "dedicated", "reliability", "availability", "stock_label", "age_seconds",
    "stale", "valid_as_of", "commitment_hours", "billing_increment_seconds", "disk_included_gb",
    "disk_usd_per_gb_hour", "egress_usd_per_gb", "price_native", "currency", "price_unit",
    "native_id", "source_url",
)  # fmt: skip
QUARANTINE_COLUMNS = (
    "offer", "gpu", "gpus", "provider", "region", "tier", "market", "price_usd_per_machine_hour",
    "gate", "reason", "confirmations", "releasable", "first_seen_at", "last_seen_at",
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--top", type=click.IntRange(1, 100_000), default=DEFAULT_TOP, show_default=True)
@click.option("--all", "show_all", is_flag=True, help="Every offer, not only the cheapest.")
@click.option("--quarantined", is_flag=True, help="What the quality gates hold back, and why.")
@filter_options
@output_option
@click.pass_obj
def offers(obj: dict[str, Any], /, **options: Any) -> None:
    """What can be rented now, cheapest per GPU-hour first.

    Every price is for a whole machine; the price per GPU stands beside it. Slices of a GPU are
    never ranked beside whole cards.
    """
    app = App(obj["config"])
    try:
        if options["quarantined"]:
            _quarantined(app, options)
        else:
            _offers(app, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _offers(app: App, options: dict[str, Any]) -> None:
    from tracker.report.filters import is_stale, select
    from tracker.store import reads

    as_of, gpus = options["as_of"], options["gpus"]
    now = as_of or datetime.now(UTC)
    filters = replace(filters_from(options), min_gpus=gpus)
    wanted = (
        frozenset().union(*(app.catalogue.select(name) for name in filters.gpus))
        if filters.gpus
        else None
    )
    with app.reading() as connection:
        live = reads.live_offers(connection, gpu_keys=wanted, as_of=as_of)
        total = reads.count_live_offers(connection, as_of=as_of)
    selection = select(live, filters, app.catalogue, now)
    if total > selection.total:
        selection.excluded["other GPU"] += total - selection.total
    kept = sorted(selection.kept, key=_order)
    shown = kept if options["show_all"] else kept[: options["top"]]
    rows = [bills.offer_row(o, now, is_stale(o, now)) for o in shown]
    if options["output"] in ("table", "wide"):
        _table(rows, wide=options["output"] == "wide")
        if len(kept) > len(shown):
            render.say(f"{len(kept) - len(shown):,} more; --all shows them")
        render.say(render.footer(len(kept), total, selection.excluded))
    else:
        document = {"as_of": now, "filters": filters.echo(), "offers_total": total,
                    "offers_matching": len(kept), "excluded": dict(selection.excluded)}  # fmt: skip
        render.print_rows(options["output"], rows, COLUMNS, document)
    if not kept:
        if selection.excluded["stale"]:
            raise Exit(EXIT_ONLY_STALE, "only stale prices match; poll again, or --include-stale")
        raise Exit(EXIT_NO_MATCH, "no offer matches")


def _order(o: Any) -> tuple[Any, ...]:
    return (Decimal(o.price_micro_usd) / o.gpu_count, o.price_micro_usd, o.provider,
            o.region or "", o.native_id, o.key)  # fmt: skip


def _table(rows: list[dict[str, Any]], *, wide: bool) -> None:
    columns = ["GPU", "GPUS", "PROVIDER", "REGION", "TIER", "MARKET", "$/GPU-H", "$/MACHINE-H",
               "VCPU", "RAM GiB", "AGE", "STOCK", "OFFER"]  # fmt: skip
    if wide:
        columns += ["COUNTRY", "INTERCONNECT", "DISK GB", "DOWN Mbit/s", "RELIABILITY",
                    "INCREMENT s", "COMMITMENT h", "ID"]  # fmt: skip
    lines = []
    for r in rows:
        line = [
            r["gpu"], render.count(r["gpus"]), r["provider"], r["region"] or render.DASH,
            r["tier"], r["market"].replace("_", "-"),
            render.usd(Decimal(r["price_usd_per_gpu_hour"]), 4),
            render.usd(Decimal(r["price_usd_per_machine_hour"]), 4),
            render.count(r["vcpus"]), _rounded(r["ram_gib"]), _age(r),
            {"yes": r["stock_label"] or "yes", "no": "none"}.get(r["availability"], render.DASH),
            r["offer"],
        ]  # fmt: skip
        if wide:
            disk = r["disk_gb"] if r["disk_gb"] is not None else r["disk_included_gb"]
            line += [
                r["country"] or render.DASH, r["interconnect"] or render.DASH, _rounded(disk),
                _rounded(r["network_down_mbps"]), render.count(r["reliability"]),
                render.count(r["billing_increment_seconds"]), render.count(r["commitment_hours"]),
                r["native_id"],
            ]  # fmt: skip
        lines.append(line)
    dim = frozenset(i for i, r in enumerate(rows) if r["stale"])
    render.print_table(
        columns, lines, dim=dim,
        right=frozenset({"GPUS", "$/GPU-H", "$/MACHINE-H", "VCPU", "RAM GiB", "AGE"}),
    )  # fmt: skip


def _rounded(value: Decimal | None) -> str:
    return render.DASH if value is None else render.count(round(Decimal(value)))


def _age(r: dict[str, Any]) -> str:
    if r["valid_as_of"] is not None:
        return f"list {r['valid_as_of'].isoformat()}"
    now = datetime.fromtimestamp(0, UTC)
    text = render.age(now, datetime.fromtimestamp(r["age_seconds"], UTC))
    return text + (" stale" if r["stale"] else "")


def _quarantined(app: App, options: dict[str, Any]) -> None:
    from tracker.store import reads

    with app.reading() as connection:
        held = reads.quarantined(connection)
    rows: list[dict[str, Any]] = [
        {
            "offer": bills.ref(q.offer_key), "gpu": q.gpu_key, "gpus": q.gpu_count,
            "provider": q.seller, "region": q.region, "tier": q.tier, "market": q.market,
            "price_usd_per_machine_hour": render.usd_text(Decimal(q.price_micro_usd) / 10**6),
            "gate": q.gate, "reason": q.reason, "confirmations": q.confirmations,
            "releasable": q.releasable, "first_seen_at": q.first_seen_at,
            "last_seen_at": q.last_seen_at,
        }
        for q in held
    ]  # fmt: skip
    if options["output"] not in ("table", "wide"):
        render.print_rows(options["output"], rows, QUARANTINE_COLUMNS, {})
        return
    if not rows:
        render.say("nothing is quarantined")
        return
    render.print_table(
        ("GPU", "GPUS", "PROVIDER", "REGION", "TIER", "MARKET", "$/MACHINE-H", "SEEN", "WHY",
         "OFFER"),
        [[r["gpu"], render.count(r["gpus"]), r["provider"], r["region"] or render.DASH, r["tier"],
          r["market"], render.usd(Decimal(r["price_usd_per_machine_hour"]), 4),
          f"{r['confirmations']} x" + ("" if r["releasable"] else " never released"),
          f"{r['gate'].replace('_', ' ')}: {r['reason']}", r["offer"]] for r in rows],
        right=frozenset({"GPUS", "$/MACHINE-H"}),
    )  # fmt: skip
    render.say(f"{len(rows):,} quarantined: shown here, never ranked")
