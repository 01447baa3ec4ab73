"""``gpucost compare``: one GPU against another for a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.cheapest import answer_on, job_options, wanted_job
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import filter_options_but_gpu, filters_from, output_option
from tracker.domain.gpu import UnknownGpu

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.cheapest import CheapestReport, Row
    from tracker.report.compare import Compared, CompareReport
    from tracker.report.filters import Filters


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("left")
@click.argument("right")
@click.argument("job", required=False)
@job_options
@click.option("--explain", "explain", is_flag=True, help="The lines of both bills.")
@filter_options_but_gpu
@output_option
@click.pass_obj
def compare(
    obj: dict[str, Any], /, left: str, right: str, job: str | None, **options: Any
) -> None:  # fmt: skip
    """Which of the GPUs LEFT and RIGHT is the cheaper one for JOB, why, and until what price.

    Each side is the cheapest offer of it that the filters leave. JOB is a built-in job's name or a
    job file; without it, give --hours.
    """
    app = App(obj["config"])
    options["gpu"] = ()
    wanted, filters = wanted_job(app, job, options), filters_from(options)
    try:
        if app.catalogue.select(left) & app.catalogue.select(right):
            raise Exit(EXIT_USAGE, f"{left} and {right} may be the same GPU; name two")
        report = _answer(app, wanted, (left, right), filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    _print(report, options)
    if report.compared is None:
        missing = [
            name
            for name, side in ((left, report.left), (right, report.right))
            if not side.rows
        ]  # fmt: skip
        of = f"of {' and '.join(missing)}"
        if report.only_stale:
            raise Exit(
                EXIT_ONLY_STALE, f"only stale prices {of} match; poll again, or --include-stale"
            )
        raise Exit(EXIT_NO_MATCH, f"no offer {of} matches: nothing to compare")


def _answer(
    app: App, job: Job, names: tuple[str, str], filters: Filters, options: dict[str, Any]
) -> CompareReport:
    from tracker.report.compare import compare_report

    asked = options | {"compare": None, "show_all": False, "top": 1}
    with app.reading() as connection:
        left, right = (
            answer_on(connection, app, job, filters._replace(gpus=(name,)), asked) for name in names
        )
    return compare_report(left, right)


# --- for people and programs ------------------------------------------------------------------


def _print(report: CompareReport, options: dict[str, Any]) -> None:
    from tracker.cli import bills

    output, c, now = options["output"], report.compared, report.left.now
    rows = _rows(report)
    if output in ("table", "wide"):
        if c is not None:
            render.say(f"{report.left.job.title or report.left.job.name}: {verdict(c)}")
            render.say()
            bills.ranking(rows, now, wide=output == "wide")
            render.say()
            if options["explain"]:
                bills.explain_lines(rows)
            for name, text in figures(c):
                render.say(f"{name:<18}{text}")
            render.say()
            for text in _remarks(report):
                render.say(text)
        for name, side in (("left", report.left), ("right", report.right)):
            render.say(f"{name}: {_footer(side)}")
        return
    document = {
        "as_of": now,
        "answer": verdict(c) if c is not None else None,
        "job": bills.job_values(report.left.job),
        "filters": report.left.filters._replace(gpus=()).echo(),
        "comparison": _values(c, report) if c is not None else None,
        "remarks": list(_remarks(report)),
        "sides": {
            name: {"gpu": side.filters.gpus[0], "offers_total": side.total_offers,
                   "offers_considered": side.considered, "excluded": dict(side.excluded)}
            for name, side in (("left", report.left), ("right", report.right))
        },
    }  # fmt: skip
    footer = f"left: {_footer(report.left)}; right: {_footer(report.right)}"
    values = [bills.row(r, now) for r in rows]
    render.print_rows(output, values, bills.csv_columns(values), document, footer)


def _footer(side: CheapestReport) -> str:
    return render.footer(side.considered, side.total_offers, side.excluded)


def _rows(report: CompareReport) -> list[Row]:
    """The left and the right row, each with its rank among the two."""
    from tracker.report.compare import Winner

    c = report.compared
    if c is None:
        return [*report.left.rows, *report.right.rows]
    tie = c.winner is Winner.TIE
    dearer = _standing(c.left) > _standing(c.right)
    return [
        c.left._replace(rank=1 + dearer, tie=tie and dearer),
        c.right._replace(rank=2 - dearer, tie=tie and not dearer),
    ]


def _standing(row: Row) -> tuple[Any, ...]:
    b = row.bill
    return bool(b.partial), b.at_least_usd, b.lower_bound


def _values(c: Compared, report: CompareReport) -> dict[str, Any]:
    from tracker.cli import bills

    even, now = c.break_even, report.left.now
    left, right = _rows(report)
    return {
        "winner": c.winner,
        "sooner": c.sooner,
        "left": bills.row(left, now),
        "right": bills.row(right, now),
        "speed_up_had": render.quantity(c.speed.had),
        "speed_up_needed": render.quantity(c.speed.needed),
        "break_even_usd_per_machine_hour": render.usd_text(even.price.usd) if even else None,
        "break_even_usd_per_gpu_hour": render.usd_text(even.per_gpu.usd) if even else None,
        "break_even_bound": even.bound if even else None,
        "break_even_unknown": c.break_even_unknown,
        "margin_percent": render.quantity(c.margin_percent),
        "unknown": list(c.unknown),
        "decided_by": list(c.beside),
    }


def _remarks(report: CompareReport) -> Iterator[str]:
    """What a reader of either side must know, but for the break-even."""
    from tracker.cli import words

    left, right = (list(words.remarks(side)) for side in (report.left, report.right))
    for mine, others, side in ((left, right, report.left), (right, left, report.right)):
        for line in mine:
            if line not in others:
                yield f"{side.filters.gpus[0]}: {line}"
    yield from (line for line in left if line in right)


# --- in words ---------------------------------------------------------------------------------


def figures(c: Compared) -> Iterator[tuple[str, str]]:
    """The figures behind the verdict."""
    from tracker.domain.break_even import Bound

    left = c.left.offer.gpu_key
    yield "speed-up had", f"{_bounded(c)}{c.speed.had:.2f}"
    yield "speed-up needed", f"{c.speed.needed:.2f}, by the price of the hours alone"
    if c.break_even is None:
        why = "not known" if c.break_even_unknown else f"at no price of the {left}"
        yield "break-even", why
        return
    bound = {Bound.AT_LEAST: "at least ", Bound.AT_MOST: "at most ", Bound.OPEN: "about "}
    yield (
        "break-even",
        f"{bound.get(c.break_even.bound, '')}{render.usd(c.break_even.per_gpu.usd, 4)} per GPU-hour"
        f" of the {left}, now {render.usd(_price(c.left), 4)}",
    )
    if c.margin_percent is not None:
        way = "it may rise by so much" if c.margin_percent >= 0 else "it has to fall by so much"
        yield "margin", f"{c.margin_percent:+.1f} %: {way}"


def _bounded(c: Compared) -> str:
    """What the speed-up is where hours are lower bounds."""
    left, right = c.left.bill.lower_bound, c.right.bill.lower_bound
    if left and right:
        return "perhaps "
    return "at most " if left else "at least " if right else ""


def verdict(c: Compared) -> str:
    """Which of them and why, and when the other."""
    from tracker.report.compare import Winner

    if c.winner is Winner.UNKNOWN:
        why = "; ".join(c.unknown)
        return f"which is the cheaper one is not known ({why}): {_both(c)}. {_when(c)}"
    if c.winner is Winner.TIE:
        return f"a tie, as far as anybody can tell: {_both(c, ranges=True)}{_equal(c)}. {_when(c)}"
    best, other = (c.left, c.right) if c.winner is Winner.LEFT else (c.right, c.left)
    return (
        f"take the {best.offer.gpu_key}: {_cost(best)} against {_cost(other)} on the "
        f"{other.offer.gpu_key}, since {_since(c)}. {_when(c)}"
    )


def _both(c: Compared, *, ranges: bool = False) -> str:
    one, other = (f"{_cost(r, ranges=ranges)} on the {r.offer.gpu_key}" for r in (c.left, c.right))
    return f"{one} against {other}"


def _equal(c: Compared) -> str:
    if c.left.low_usd is None and c.right.low_usd is None:
        return ", the same"
    return "; the ranges overlap"


def _cost(row: Row, *, ranges: bool = False) -> str:
    from tracker.cli import bills, words

    text = words.total(row.bill)
    return f"{text} ({bills.range_text(row)})" if ranges and row.low_usd is not None else text


def _price(row: Row) -> Any:
    return row.bill.price.per_gpu(row.bill.gpu_count).usd


def _since(c: Compared) -> str:
    """The reason, told of the left GPU."""
    from tracker.report.compare import Winner

    left = c.left.offer.gpu_key
    speed = f"the {left} is {_bounded(c)}{c.speed.had:.2f} times as fast"
    needed = f"{c.speed.needed:.2f} times"
    if c.beside:
        return f"{', '.join(c.beside)} outweigh that {speed} and costs {needed} as much an hour"
    if c.winner is Winner.LEFT:
        return f"{speed} and needs no more than {needed}"
    return f"{speed} and would need {needed}"


def _when(c: Compared) -> str:
    """When the one and when the other."""
    from tracker.domain.break_even import Bound
    from tracker.report.compare import Winner

    left, right = c.left.offer.gpu_key, c.right.offer.gpu_key
    parts = []
    even = c.break_even
    if even is not None and c.winner is not Winner.UNKNOWN and even.bound is Bound.EXACT:
        price = f"{render.usd(even.per_gpu.usd, 4)} per GPU-hour"
        middle = c.winner is Winner.TIE and c.left.low_usd is not None
        the = "By the middle of the ranges the" if middle else "The"
        parts.append(
            f"{the} {left} is the cheaper one while it costs less than {price} (now "
            f"{render.usd(_price(c.left), 4)}), the {right} above that"
        )
    elif even is None and not c.break_even_unknown:
        parts.append(f"At no price would the {left} be the cheaper one")
    parts.append(_sooner(c))
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _sooner(c: Compared) -> str:
    from tracker.report.compare import Winner

    if c.sooner not in (Winner.LEFT, Winner.RIGHT):
        return "nobody knows which is done sooner" if c.sooner is Winner.UNKNOWN else (
            "both take as long, as far as anybody can tell"
        )  # fmt: skip
    first, last = (c.left, c.right) if c.sooner is Winner.LEFT else (c.right, c.left)
    saved = render.hours(last.estimate.hours - first.estimate.hours)
    if last.estimate.lower_bound:
        saved = f"at least {saved}"
    text = f"the {first.offer.gpu_key} is done {saved} sooner"
    more = first.bill.at_least_usd - last.bill.at_least_usd
    if c.winner in (Winner.LEFT, Winner.RIGHT) and c.winner is not c.sooner:
        text += f", worth it where that is worth {render.usd(more)} to you"
    return text
