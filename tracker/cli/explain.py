"""``gpucost explain``: where one offer's price comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import bills, render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit

if TYPE_CHECKING:
    import psycopg

    from tracker.domain.terms import Discount
    from tracker.report.explain import Explanation, HeldExplanation


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("offer")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table")
@click.pass_obj
def explain(obj: dict[str, Any], offer: str, output: str) -> None:
    """The provider's own words for OFFER, when they were said, how they were read, every gate.

    OFFER is the id that the other commands print (or its beginning). The archived answer is parsed
    again; if today's parser no longer finds the offer in it, that is said.
    """
    from tracker.report.explain import Ambiguous, explain_offer

    app, now = App(obj["config"]), datetime.now(UTC)
    if app.boot.own and _owned(app, offer, output):
        return
    try:
        with app.reading() as connection:
            found = explain_offer(connection, offer, app.catalogue, app.rules(), now)
            discount = None if found is None else _discount(app, connection, found, now)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except Ambiguous as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    if found is None:
        from tracker.report.explain import MIN_ID

        short = len(offer) < MIN_ID and all(c in "0123456789abcdef" for c in offer.lower())
        least = f"of an id {MIN_ID} digits are needed; " if short else ""
        raise Exit(
            EXIT_NO_MATCH, f"no offer has the id {offer!r}; {least}gpucost offers lists them"
        )
    if output == "json":
        render.print_json(_document(found, discount))
    else:
        _print(found, discount)


def _owned(app: App, reference: str, output: str) -> bool:
    """Explain a machine of one's own; False where *reference* is none."""
    from tracker.report.owned import find_owned

    now = datetime.now(UTC)
    app.owned(now)  # says in one line what is wrong with one
    found = find_owned(reference, app.boot.own, app.catalogue, now)
    if found is None:
        return False
    offer, why = found
    row = bills.offer_row(offer, now, stale=False)
    if output == "json":
        document = {"offer": row, "live": True, "stale": False, "words": why, "quarantine": []}
        render.print_json(document)
        return True
    render.say("Offer")
    render.say(f"{row['offer']}  own {offer.native_id}: {row['gpus']} x {offer.gpu_key}", indent=2)
    price = render.usd(Decimal(row["price_usd_per_machine_hour"]), 6)
    render.say(f"{price} per machine-hour, as configured now; no history", indent=2)
    render.say("Said by gpucost.toml")
    render.say(why, indent=2)
    return True


def _discount(
    app: App, connection: psycopg.Connection[Any], e: Explanation | HeldExplanation, now: datetime
) -> Discount | None:
    """What answers take off the price of a live offer."""
    from tracker.report.discounts import DiscountBook
    from tracker.report.explain import Explanation

    if not isinstance(e, Explanation) or not e.found.live:
        return None
    book = DiscountBook.at(app.discounts(connection, now), now)
    return book.discount_for(e.found.offer)


def _document(e: Explanation | HeldExplanation, discount: Discount | None) -> dict[str, Any]:
    """The explanation, its offer under the names that the other commands use."""
    from tracker.report.explain import Explanation

    rows: dict[str, Any] = {"quarantine": [bills.held_row(q) for q in e.held], "discount": None}
    if isinstance(e, Explanation):
        rows["offer"] = bills.offer_row(e.found.offer, e.now, e.stale)
        if discount is not None:
            rows["discount"] = _discount_row(e, discount)
    return e.as_dict() | rows


def _discount_row(e: Explanation, d: Discount) -> dict[str, Any]:
    from tracker.report import priced

    return {
        "percent": render.quantity(d.percent),
        "price_usd_per_machine_hour": render.usd_text(priced.hour_usd(e.found.offer, d.percent)),
        "gpu": d.gpu, "market": d.market, "valid_as_of": d.valid_as_of.isoformat(),
        "expires_at": d.expires_at, "note": d.note,
    }  # fmt: skip


def _discount_lines(e: Explanation, d: Discount) -> list[str]:
    from tracker.report import priced

    of = " ".join(str(word).replace("_", "-") for word in (d.gpu, d.market) if word)
    lines = [
        f"{render.quantity(d.percent)} % off {d.provider} {of or 'as a whole'}, typed by a person "
        f"in a price book on {d.valid_as_of}, in force until {d.expires_at:%Y-%m-%d %H:%M} UTC",
        f"answers and rules take {render.usd(priced.hour_usd(e.found.offer, d.percent), 6)} per "
        "machine-hour; history keeps the list price",
    ]
    return lines + ([f"note: {d.note}"] if d.note else [])


def _print(e: Explanation | HeldExplanation, discount: Discount | None) -> None:
    from tracker.report.explain import Explanation

    for number, (heading, lines) in enumerate(e.sections()):
        render.say(heading)
        for line in lines:
            render.say(line, indent=2)
        if number == 0 and discount is not None and isinstance(e, Explanation):
            render.say("Discount")
            for line in _discount_lines(e, discount):
                render.say(line, indent=2)
