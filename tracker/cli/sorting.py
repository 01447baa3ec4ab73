"""``gpucost offers --sort``: the lists by one of their columns, which are called as in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracker.app import ordering
from tracker.app.asked import BadQuestion
from tracker.cli.options import usage

if TYPE_CHECKING:
    from tracker.report.grouped import Grouping
    from tracker.report.listing import OffersReport

F = TypeVar("F", bound=Callable[..., Any])


def _completed(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    known = names([name for some in ctx.params.get("group_by") or () for name in some])
    begun, down = incomplete.lstrip("-").lower(), "-" if incomplete.startswith("-") else ""
    return [CompletionItem(down + name) for name in known if name.startswith(begun)]


sort_option: Callable[[F], F] = click.option(
    "--sort", metavar="COLUMN", shell_complete=_completed,
    help="By a column (price, -age: downwards) in the place of the cheapest first.",
)  # fmt: skip


def names(fields: Sequence[str]) -> tuple[str, ...]:
    """What may be sorted by: the columns of offers, or of groups that have these *fields*."""
    if not fields:
        return ordering.OFFER_COLUMNS
    return tuple(dict.fromkeys((*fields, *ordering.GROUP_COLUMNS)))


def refuse(text: str | None, fields: Sequence[str], *, quarantined: bool) -> None:
    """Refuse a column that there is not, before anything is opened. Raises click.UsageError."""
    if text is None:
        return
    if quarantined:
        raise click.UsageError("--sort is for what can be rented, and --quarantined is not")
    try:
        ordering.in_order(text, dict.fromkeys(names(fields), str), [])
    except BadQuestion as error:
        raise usage(error) from None


def offers(found: OffersReport, text: str | None) -> OffersReport:
    """*found* in the order that *text* asks for."""
    if text is None:
        return found
    keys = ordering.offer_keys(found.now)
    return found._replace(offers=tuple(ordering.in_order(text, keys, found.offers)))


def groups(grouping: Grouping, found: OffersReport, text: str | None) -> Grouping:
    """The groups of *found* in that order."""
    if text is None:
        return grouping
    keys = ordering.group_keys(grouping, found.now)
    return grouping._replace(groups=tuple(ordering.in_order(text, keys, grouping.groups)))


def document(text: str | None, *, grouped: bool) -> dict[str, Any]:
    """What an answer says of its order."""
    if text is None:
        return {}
    return {"sort": text, "ranked_by": None} if grouped else {"sort": text}
