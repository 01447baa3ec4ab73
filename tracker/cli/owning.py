"""How ``gpucost own`` is told: the answer in a sentence, both sides line by line, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tracker.cli import bills, render
from tracker.domain.exact import plain
from tracker.domain.job import Job
from tracker.domain.money import HOURS_PER_MONTH
from tracker.report.own import OwnReport, Rented, Verdict

_COLUMNS = (
    render.Column(""), render.Column("A MONTH", right=True), render.Column("THE TERM", right=True),
    render.Column("HOW", 1),
)  # fmt: skip
Line = tuple[str, str, str, str]


def show(report: OwnReport, output: str) -> None:
    """Print *report* for people or as JSON."""
    if output == "json":
        render.print_json(document(report))
        return
    render.say(sentence(report))
    render.say()
    render.print_table(_COLUMNS, [list(line) for line in lines(report)])
    render.say()
    for text in remarks(report):
        render.say(text)
    for side in _sides(report):
        render.say(side)


def sentence(report: OwnReport) -> str:
    """Which of the two, by how much, from when on."""
    w, job = report.wish, _job(report)
    machine = f"{w.gpus} x {w.gpu}"
    title = (job.title or job.name) if job is not None else "the job"
    own = render.usd(_own_usd(report))
    if not report.rented:
        return f"{title}: {machine} of one's own is {own} over {_months(w.term_months)}."
    best = report.rented[0]
    o = best.row.offer
    least = "at least " if best.month.partial or best.month.lower_bound else ""
    there = f"{_machines(best)}{render.count(o.gpu_count)} x {o.gpu_key} at {o.provider}"
    rented = f"{least}{render.usd(best.found.rent_usd)} for {there}"
    head = {
        Verdict.BUY: f"buy {machine}: {own} against {rented}",
        Verdict.RENT: f"rent: {rented} against {own} for {machine} of one's own",
        Verdict.TIE: f"too close to tell: {own} for {machine} of one's own against {rented}; the "
        "ranges overlap",
        Verdict.UNKNOWN: f"not known: {own} for {machine} of one's own against {rented}",
    }[best.verdict]
    return f"{title}: {head}, over {_months(w.term_months)}. {_when(best)}"


def _machines(rented: Rented) -> str:
    """``3 machines of``, where it takes several: the rent is that of all of them."""
    count = Decimal(rented.row.bill.machines)
    if rented.by_the_month:
        months = {"machine-month": Decimal(1), "machine-hour": Decimal(HOURS_PER_MONTH)}
        paid = (ln.quantity / months[ln.unit] for ln in rented.month.lines if ln.unit in months)
        count = max(paid, default=count)
    return "" if count == 1 else f"{plain(count)} machines of "


def _when(rented: Rented) -> str:
    month = _month(rented.found.break_even_month)
    early, late = rented.early.break_even_month, rented.late.break_even_month
    span = f" ({_month(early)} to {_month(late)})" if early != late else ""
    return f"Buying has paid for itself by {month}{span}." if rented.found.break_even_month else (
        f"Buying never pays within the term{span}."
    )  # fmt: skip


def _month(month: int | None) -> str:
    return "never" if month is None else f"month {month}"


def _months(count: int) -> str:
    return render.counted(count, "month")


def lines(report: OwnReport) -> Iterator[Line]:
    """Each line of both sides with the way to it."""
    w, p, own = report.wish, report.purchase, _monthly(report)
    term = w.term_months
    share = plain(100 * p.utilisation, 1)
    watts = f"{plain(p.watts)} W x {share} %"
    if p.idle_watts:
        watts += f" + {plain(p.idle_watts)} W idle x {plain(100 * (1 - p.utilisation), 1)} %"
    kwh = f"${plain(p.usd_per_kwh, 6)}/kWh"
    yield _line("hardware", own.write_off_usd, term,
                f"({render.usd(p.price_usd)} - {render.usd(p.resale_usd)} resale) / {term} months",
                p.price_usd - p.resale_usd)  # fmt: skip
    yield _line("power", own.power_usd, term, f"({watts}) x 730 h x {kwh} / 1,000")
    yield _line("cooling", own.cooling_usd, term, f"(PUE {plain(p.pue)} - 1) x power")
    yield _line("hosting", own.hosting_usd, term, "as given")
    each = own.usd_per_gpu_hour
    yield _line("own, in all", own.total_usd, term,
                f"{render.usd(each, 4)} for each GPU-hour used", _own_usd(report))  # fmt: skip
    for rented in report.rented:
        yield from _rent_lines(report, rented)


def _line(name: str, month: Decimal, term: int, how: str, all_of_it: Decimal | None = None) -> Line:
    total = month * term if all_of_it is None else all_of_it
    return name, render.usd(month), render.usd(total), how


def _rent_lines(report: OwnReport, rented: Rented) -> Iterator[Line]:
    o, b, term = rented.row.offer, rented.row.bill, report.wish.term_months
    least = ">= " if rented.month.partial or rented.month.lower_bound else ""
    yield (
        f"rent {_machines(rented)}{render.count(o.gpu_count)} x {o.gpu_key}",
        least + render.usd(rented.month.at_least_usd), least + render.usd(rented.found.rent_usd),
        f"{o.provider}, {o.market.replace('_', '-')}, offer {bills.ref(o.key)}",
    )  # fmt: skip
    for line in rented.month.lines:
        how = f"{plain(line.quantity)} {line.unit} x {render.usd(line.unit_price_usd, 4)}"
        if line.unit == "run":
            how += f": {render.hours(b.billed_hours)} x {render.usd(b.price.usd, 4)}/h"
            how += f" x {b.machines}" if b.machines > 1 else ""
        yield (
            f"  {line.label}",
            render.usd(line.amount_usd),
            render.usd(line.amount_usd * term),
            how,
        )
    if rented.low_usd != rented.high_usd:
        yield (
            "  range", f"{render.usd(rented.low_usd)} to {render.usd(rented.high_usd)}",
            f"{render.usd(rented.low_usd * term)} to {render.usd(rented.high_usd * term)}",
            "both estimates at their ends",
        )  # fmt: skip
    saved = rented.month.at_least_usd - rented.found.own.running_usd
    early, late = _month(rented.early.break_even_month), _month(rented.late.break_even_month)
    yield (
        "  break-even", _month(rented.found.break_even_month),
        f"{early} to {late}" if early != late else "",
        f"{render.usd(report.purchase.price_usd)} / {render.usd(saved)} saved a month"
        if saved > 0 else "running it costs no less than renting",
    )  # fmt: skip
    if rented.by_the_month:
        yield "  use", render.DASH, "", "paid for by the month, whatever the use"
        return
    use = rented.found.break_even_utilisation
    yield (
        "  use", "never" if use is None else f"{plain(100 * use, 1)} %", "",
        "of the time, from which on buying is no dearer over the term",
    )  # fmt: skip


def _ends(report: OwnReport) -> tuple[Decimal | None, Decimal | None]:
    """The hours of a run on the machine, set-up with them, at both ends of the estimate."""
    e, hours = report.work.estimate, report.work.hours
    if e.low_hours is None or e.high_hours is None:
        return None, None
    return hours - e.hours + e.low_hours, hours - e.hours + e.high_hours


def remarks(report: OwnReport) -> Iterator[str]:
    """What the figures rest on."""
    work, w = report.work, report.wish
    e = work.estimate
    span = ""
    low, high = _ends(report)
    if low is not None and high is not None:
        span = f" ({render.hours(low)} to {render.hours(high)})"
    times = "run" if work.runs == 1 else "runs"
    yield (
        f"The machine does {plain(work.runs, 2)} {times} a month, {render.hours(work.hours)} each"
        f"{span}, {e.basis}, at {plain(100 * work.utilisation, 1)} % use."
    )
    # Runs that were asked for do not get fewer where they take longer.
    job = _job(report)
    each_month = job.limits.runs_per_month if job is not None and job.limits is not None else None
    asked_for = w.runs is not None or (w.utilisation is None and each_month is not None)
    if asked_for and high is not None:
        most = work.utilisation * high / work.hours
        if most > 1:
            yield (
                f"At the long end of their range the runs take {plain(100 * most, 1)} % of the "
                "machine's time: one would be too little then."
            )
    if report.own_low_usd != report.own_high_usd:
        yield (
            f"Its range is {render.usd(report.own_low_usd)} to {render.usd(report.own_high_usd)} "
            "over the term, by what the host may draw."
        )
    co2 = report.co2_kg_per_month
    kg = (
        ""
        if co2 is None
        else f", {plain(co2, 1)} kg of CO2 at {plain(w.grid_g_per_kwh or Decimal(0))} g"
    )
    runs = report.kwh_per_month / work.runs
    yield f"Energy: {plain(report.kwh_per_month, 1)} kWh a month{kg}; {plain(runs, 3)} kWh a run."
    asked = [side for side in report.sides[: len(report.sides) // 2] if side.filters.gpus]
    if asked and report.rented and not any(side.rows for side in asked):
        yield f"Of {', '.join(asked[0].filters.gpus)} nothing is to be rented: it is left out."
    for rented in report.rented:
        name = f"{rented.row.offer.provider} {rented.row.offer.gpu_key}"
        for part in rented.month.partial:
            yield f"Not in the rent of {name}: {part.partition(': ')[2] or part}."
        if rented.month.lower_bound:
            yield f"The hours on {name} are a lower bound: the rent may be higher."
        if rented.row.stale:
            yield f"The price of {name} is stale."
        if (read := rented.row.offer.valid_as_of) is not None:
            yield f"The price of {name} was typed, read on {read}: not live."
        for note in rented.month.notes:
            yield f"{name}: {note}."
    if report.committed_longer:
        yield f"{report.committed_longer} offers are left out: sold for longer than the term."
    for text in report.assumptions:
        yield f"Assumed: {text}."


def _sides(report: OwnReport) -> Iterator[str]:
    """What each look at the offers left out."""
    for side in report.sides[: len(report.sides) // 2]:
        kind = "by the month" if "monthly" in side.filters.markets else "by the hour"
        yield f"{kind}: {render.footer(side.considered, side.total_offers, side.excluded)}"


def _job(report: OwnReport) -> Job | None:
    return report.sides[0].job if report.sides else None


def _monthly(report: OwnReport) -> Any:
    from tracker.domain.ownership import monthly

    return monthly(report.purchase)


def _own_usd(report: OwnReport) -> Decimal:
    from tracker.domain.ownership import against_rent

    return against_rent(report.purchase, Decimal(0)).own_usd


# --- for programs -----------------------------------------------------------------------------


def document(report: OwnReport) -> dict[str, Any]:
    """The answer as plain values: money as text in USD, None for what is not known."""
    w, p, work, own = report.wish, report.purchase, report.work, _monthly(report)
    job, e = _job(report), report.work.estimate
    low, high = _ends(report)
    return {
        "as_of": report.sides[0].now if report.sides else None,
        "answer": sentence(report),
        "job": bills.job_values(job) if job is not None else None,
        "own": {
            "gpu": w.gpu, "gpus": w.gpus, "price_usd": render.usd_text(p.price_usd),
            "resale_usd": render.usd_text(p.resale_usd), "term_months": w.term_months,
            "watts": render.quantity(p.watts), "idle_watts": render.quantity(p.idle_watts),
            "usd_per_kwh": render.usd_text(p.usd_per_kwh), "pue": render.quantity(w.pue),
            "utilisation": render.quantity(p.utilisation), "runs_per_month":
            render.quantity(work.runs), "runs_side_by_side": work.copies,
            "hours_per_run": render.quantity(work.hours), "basis": e.basis,
            "low_hours": render.quantity(low), "high_hours": render.quantity(high),
            "lower_bound": e.lower_bound,
            "month": {
                "hardware_usd": render.usd_text(own.write_off_usd),
                "power_usd": render.usd_text(own.power_usd),
                "cooling_usd": render.usd_text(own.cooling_usd),
                "hosting_usd": render.usd_text(own.hosting_usd),
                "total_usd": render.usd_text(own.total_usd),
            },
            "usd_per_gpu_hour": render.usd_text(own.usd_per_gpu_hour),
            "total_usd": render.usd_text(_own_usd(report)),
            "low_usd": render.usd_text(report.own_low_usd),
            "high_usd": render.usd_text(report.own_high_usd),
            "kwh_per_month": render.quantity(report.kwh_per_month),
            "co2_kg_per_month": render.quantity(report.co2_kg_per_month),
        },
        "rented": [_rented(report, one) for one in report.rented],
        "excluded": [dict(side.excluded) for side in report.sides],
        "committed_longer": report.committed_longer,
        "assumptions": list(report.assumptions),
        "remarks": list(remarks(report)),
    }  # fmt: skip


def _rented(report: OwnReport, rented: Rented) -> dict[str, Any]:
    found, term = rented.found, report.wish.term_months
    known = not rented.month.partial
    return {
        "offer": bills.row(rented.row, report.sides[0].now),
        "by_the_month": rented.by_the_month,
        "verdict": rented.verdict,
        "month_usd": render.usd_text(rented.month.at_least_usd) if known else None,
        "month_at_least_usd": render.usd_text(rented.month.at_least_usd),
        "low_usd": render.usd_text(rented.low_usd * term),
        "high_usd": render.usd_text(rented.high_usd * term),
        "total_usd": render.usd_text(found.rent_usd) if known else None,
        "at_least_usd": render.usd_text(found.rent_usd),
        "partial": list(rented.month.partial),
        "lower_bound": rented.month.lower_bound,
        "lines": [
            {"label": line.label, "quantity": render.quantity(line.quantity), "unit": line.unit,
             "unit_price_usd": render.usd_text(line.unit_price_usd),
             "amount_usd": render.usd_text(line.amount_usd)}
            for line in rented.month.lines
        ],
        "break_even_month": found.break_even_month,
        "break_even_month_early": rented.early.break_even_month,
        "break_even_month_late": rented.late.break_even_month,
        "break_even_utilisation": render.quantity(found.break_even_utilisation),
    }  # fmt: skip
