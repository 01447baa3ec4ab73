"""``gpucost offers --group-by``: what is to be had of each GPU, where, and between which prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import click

from tracker.app.asked import one_of
from tracker.cli import render
from tracker.cli.options import CommaList

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = {
    "gpu": render.Column("GPU"), "market": render.Column("MARKET"),
    "provider": render.Column("PROVIDER"), "region": render.Column("REGION"),
    "country": render.Column("COUNTRY"), "tier": render.Column("TIER"),
    "kind": render.Column("KIND"), "gpus": render.Column("GPUS", right=True),
    "term": render.Column("TERM h", right=True),
}  # fmt: skip
_FIGURES = (
    render.Column("OFFERS", 4, right=True), render.Column("MIN $/GPU-H", right=True),
    render.Column("P10", 6, right=True), render.Column("MEDIAN", 3, right=True),
    render.Column("MAX", 2, right=True), render.Column("IN STOCK", right=True),
    render.Column("NOT SAID", 1, right=True), render.Column("SOLD OUT", right=True),
    render.Column("AGE", 2, right=True), render.Column("CHEAPEST", 5),
)  # fmt: skip

group_option: Callable[[F], F] = click.option(
    "--group-by", type=CommaList(), multiple=True,
    help="Count and range of prices by provider, region, country, tier, kind, gpus, term; always "
    "by gpu and market.",
)  # fmt: skip


def fields(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The fields that groups of the options' values have; none without the option.

    Raises click.BadParameter on one that there is not, and on groups that mean nothing.
    """
    from tracker.report.grouped import FIELDS, fields_of

    flat = [name for some in names for name in some]
    try:
        known = [one_of(name, FIELDS, "field to group by") for name in flat]
        return fields_of(known) if known else ()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--group-by") from None


def show(fields: Sequence[str], rows: Iterable[dict[str, Any]], *, wide: bool) -> None:
    """The table of groups, and what its figures are."""
    columns = (*(_COLUMNS[name] for name in fields), *_FIGURES)
    render.print_table(columns, [_cells(fields, row) for row in rows], wide=wide)
    render.say()
    render.say("Prices are of a GPU-hour, over the offers of a group as they are listed.")


def _cells(names: Iterable[str], r: dict[str, Any]) -> list[str]:
    return [
        *(_field(name, r[name]) for name in names), render.count(r["offers"]),
        *(_price(r[f"{name}_usd_per_gpu_hour"]) for name in ("min", "p10", "median", "max")),
        *(render.count(r[name]) for name in ("in_stock", "stock_not_stated", "sold_out")),
        _age(r), r["cheapest_offer"] or render.DASH,
    ]  # fmt: skip


def _field(name: str, value: Any) -> str:
    if value is None:
        return render.DASH
    return str(value).replace("_", "-") if name == "market" else str(value)


def _price(value: str | None) -> str:
    return render.DASH if value is None else render.usd(Decimal(value), 4)


def _age(r: dict[str, Any]) -> str:
    text = render.DASH if r["age_seconds"] is None else render.duration(r["age_seconds"])
    return f"{text}, {r['stale']} stale" if r["stale"] else text
