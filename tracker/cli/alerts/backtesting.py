"""``gpucost alerts backtest``: what a rule would have said over recorded history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.app.asked import BadQuestion
from tracker.app.windows import since_moment
from tracker.cli import completing, render
from tracker.cli.alerts.common import CONTEXT, Configured, moment, ratio, reading
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import Duration, output_option

if TYPE_CHECKING:
    from tracker.alert.backtest import Backtest, Replayed, Suggestion
    from tracker.alert.evaluate import Evaluation
    from tracker.alert.rules import Rule
    from tracker.alert.sides import Side
    from tracker.domain.rule.types import Event

_EVENTS = (
    render.Column("AT"), render.Column("EVENT"), render.Column("VALUE", right=True),
    render.Column("LEFT", 2, right=True), render.Column("RIGHT", 2, right=True),
    render.Column("LEFT AT", 4), render.Column("RIGHT AT", 4), render.Column("NOTICE", 1),
    render.Column("REASON", 3),
)  # fmt: skip
_SUMS = (
    render.Column("THE RULE"), render.Column("NOTICES", right=True),
    render.Column("A MONTH", right=True), render.Column("BUSIEST 30 D", 1, right=True),
    render.Column("FIRED", right=True), render.Column("FLAPS", right=True),
    render.Column("CAME TO NOTHING", 3, right=True), render.Column("ABOUT DATA", 2, right=True),
)  # fmt: skip
COLUMNS = (
    "at", "kind", "value", "label", "previous_label", "found", "left_usd", "right_usd",
    "left_offer", "right_offer", "notice", "suppressed_by", "reason", "seq", "firing_seq",
)  # fmt: skip
LONGEST_MONTHLY = 1000


@click.command(context_settings=CONTEXT)
@click.argument("rule", shell_complete=completing.rules)
@click.option("--since", metavar="TIME", default="90d", show_default=True,
              help="So long ago (12h, 90d, 1y) or a date: 2026-03-01.")  # fmt: skip
@click.option("--until", metavar="TIME", help="A date, or so long ago. Default: now.")
@click.option(
    "--every", type=Duration(), metavar="DURATION",
    help="Look so often, as a daemon does. Unless given: once after each poll.",
)  # fmt: skip
@click.option(
    "--suggest", "most", type=click.IntRange(1, LONGEST_MONTHLY), metavar="N",
    help="Find the smallest margins and durations with at most N notices a month.",
)  # fmt: skip
@click.option("--channel-free", is_flag=True,
              help="Leave the rule's channels aside, as where they are not set up.")  # fmt: skip
@click.option("--events", "all_events", is_flag=True,
              help="What it would have recorded, too, without a notice.")  # fmt: skip
@output_option
@click.pass_obj
def backtest(obj: dict[str, Any], /, rule: str, **options: Any) -> None:
    """What RULE would have said over recorded history, through the same steps as the daemon's: each
    notice with its date, how often it would have flapped, and the same without its margins and
    durations. Sends and writes nothing."""
    from tracker.alert.backtest import NothingToSee, has_margins, suggest
    from tracker.alert.backtest import backtest as replayed
    from tracker.report.record import begins, not_whole
    from tracker.store.beginnings import beginnings

    app = App(obj["config"])
    now = datetime.now(UTC)
    start, end = _window(options, now)
    wanted = _rule(app, rule, channel_free=options["channel_free"])
    if options["most"] is not None and not has_margins(wanted):
        raise Exit(EXIT_USAGE, f"--suggest: margins mean nothing to {wanted.condition}")
    found: Suggestion | None = None
    trouble: str | None = None
    with reading(app) as connection:
        record = beginnings(connection)
        before = _looks_back(wanted)
        kept = not_whole(record, start - before)
        if kept is not None:  # what is left of the time before need not be the cheapest
            start = max(one.whole_from for one in record if one.whole_from) + before
            if start >= end:
                raise Exit(EXIT_NO_MATCH, f"{kept}: nothing of that time can be replayed")
        try:
            tested = replayed(
                connection, wanted, app.catalogue, start=start, end=end, now=now,
                every=options["every"],
            )  # fmt: skip
        except NothingToSee as error:
            since = begins(record)
            raise Exit(EXIT_NO_MATCH, f"{error}; {since or 'see: gpucost providers'}") from None
    if options["most"] is not None:
        try:
            found = suggest(tested, options["most"])
            if found is None:
                trouble = f"no margins tried keep it to {options['most']} notices a month"
        except NothingToSee as error:
            trouble = str(error)
    _show(tested, found, options, kept)
    if trouble is not None:
        raise Exit(EXIT_NO_MATCH, trouble)


def _window(options: Mapping[str, Any], now: datetime) -> tuple[datetime, datetime]:
    hint = "--until"
    try:
        end = now if options["until"] is None else since_moment(
            options["until"], now + timedelta(microseconds=1), now
        )  # fmt: skip
        hint = "--since"
        return since_moment(options["since"], end, now), end
    except BadQuestion as error:
        raise click.BadParameter(error.said(str), param_hint=hint) from None


def _looks_back(rule: Rule) -> timedelta:
    from tracker.domain.rule.condition import CostDrops

    return timedelta(days=rule.condition.days if isinstance(rule.condition, CostDrops) else 0)


def _rule(app: App, name: str, *, channel_free: bool) -> Rule:
    if not channel_free:
        return Configured.of(app).rule(name)
    from tracker.alert.rules import load_rules, shipped_rules
    from tracker.app.beside import rule_tables

    tables = {
        of: {key: value for key, value in table.items() if key != "channels"}
        if isinstance(table, Mapping) else table
        for of, table in rule_tables(app.settings.alerts.rules, app.settings.config_path).items()
    }  # fmt: skip
    rules, problems = load_rules(
        tables, catalogue=app.catalogue, job=app.job, channels=("log",), default_channels=("log",)
    )
    named = shipped_rules().keys() | tables.keys()
    off = named - {rule.name for rule in rules} - {problem.rule for problem in problems}
    return Configured({r.name: r for r in rules}, problems, tuple(sorted(off))).rule(name)


# --- for people and programs ------------------------------------------------------------------


def _show(
    tested: Backtest, found: Suggestion | None, options: Mapping[str, Any], kept: str | None
) -> None:
    output = options["output"]
    rows = [
        _row(event, tested)
        for event in tested.as_is.events
        if event.sent or options["all_events"] or output not in ("table", "wide")
    ]
    if output not in ("table", "wide"):
        render.print_rows(output, rows, COLUMNS, _document(tested, found))
        return
    rule = tested.rule
    render.say(f"{rule.name}: {rule.condition}")
    if rows:
        render.print_table(_EVENTS, [_line(row) for row in rows], wide=output == "wide")
    else:
        render.say("it would have said nothing")
    render.say()
    sums = [_sum("as it is", tested.as_is), _sum("without margins and durations", tested.bare)]
    if found is not None:
        sums += [_sum("as suggested, earlier part", found.earlier),
                 _sum("as suggested, later part", found.later)]  # fmt: skip
    render.print_table(_SUMS, sums, wide=output == "wide")
    for line in (*_remarks(tested), *_suggested(found, options["most"])):
        render.say(line)
    if kept is not None:
        render.say(f"{kept}: replayed from then")


def _row(event: Event, tested: Backtest) -> dict[str, Any]:
    from tracker.alert.context import number_text

    seen = tested.at(event.at)
    left, right = _sides(event, seen)
    return {
        "at": event.at, "kind": event.kind, "value": number_text(event.value),
        "label": event.label, "previous_label": event.previous_label,
        "found": len(event.found) or None,
        "left_usd": _usd(left), "right_usd": _usd(right),
        "left_offer": _offer(left), "right_offer": _offer(right),
        "notice": event.sent, "suppressed_by": event.suppressed_by, "reason": event.reason,
        "seq": event.seq, "firing_seq": event.firing_seq,
    }  # fmt: skip


def _sides(event: Event, seen: Evaluation) -> tuple[Side | None, Side | None]:
    if seen.labels:
        return seen.labels.get(event.label or ""), seen.labels.get(event.previous_label or "")
    return seen.left, seen.right


def _usd(side: Side | None) -> str | None:
    return None if side is None or side.best is None else render.usd_text(side.best.usd)


def _offer(side: Side | None) -> str | None:
    if side is None or side.best is None:
        return None
    o = side.best.offer
    where = f" {o.region}" if o.region else ""
    return f"{render.number(o.gpu_count)} x {o.gpu_key} {o.provider}{where}"


def _line(row: Mapping[str, Any]) -> list[str]:
    from tracker.alert import words

    def usd(name: str) -> str:
        return render.DASH if row[name] is None else words.usd(row[name], 4)

    value = ratio(row["value"])
    if row["label"]:
        value = f"{row['previous_label'] or '?'} -> {row['label']}"
    elif row["found"]:
        value = render.counted(row["found"], "offer")
    kept = row["suppressed_by"]
    return [
        moment(row["at"]), str(row["kind"]).replace("_", " "), value, usd("left_usd"),
        usd("right_usd"), row["left_offer"] or render.DASH, row["right_offer"] or render.DASH,
        "yes" if row["notice"] else f"kept back: {kept}" if kept else render.DASH,
        row["reason"] or "",
    ]  # fmt: skip


def _sum(name: str, one: Replayed) -> list[str]:
    return [
        name, str(len(one.notices)), f"{one.per_month:.1f}", str(one.busiest_month),
        str(_fired(one)), str(one.flaps), str(_pending_ended(one)), str(one.data_notices),
    ]  # fmt: skip


def _fired(one: Replayed) -> int:
    from tracker.domain.rule.types import Kind

    return sum(one.count(kind) for kind in (Kind.FIRED, Kind.CHANGED, Kind.FOUND))


def _pending_ended(one: Replayed) -> int:
    from tracker.domain.rule.types import Kind

    return one.count(Kind.PENDING_ENDED) + one.count(Kind.RELAPSED)


def _remarks(tested: Backtest) -> Iterator[str]:
    pace = _pace(tested)
    often = f", one about every {render.duration(pace)}" if pace else ""
    yield (
        f"{render.counted(len(tested.looks), 'look')} from {moment(tested.start)} to"
        f" {moment(tested.end)} UTC{often}; {tested.good:,} with data that could be judged,"
        f" {tested.as_is.judged / timedelta(days=1):.0f} days of it"
    )
    if tested.seen.replaced:
        gave = render.counted(tested.seen.replaced, "offer")
        yield f"{gave} of imports and price books gave way to what their sellers told themselves"
    if tested.not_kept:
        yield f"history keeps nothing that could answer: {', '.join(tested.not_kept)}"
    if tested.rule.job is not None:
        yield "hours are those known today"


def _pace(tested: Backtest) -> float | None:
    """The middle one of the times between looks, in seconds."""
    at = tested.seen.at
    passed = sorted((b - a).total_seconds() for a, b in pairwise(at))
    return passed[len(passed) // 2] if passed else None


def _suggested(found: Suggestion | None, most: int | None) -> Iterator[str]:
    if found is None:
        return
    yield ""
    if found.earlier.notices:
        yield f"at most {most} a month, the smallest of {found.tried:,} settings tried:"
    else:
        yield (
            f"no settings tried speak at most {most} times a month and speak at all;"
            " the smallest that stay silent:"
        )
    yield from (f"  {key} = {value}" for key, value in _settings(found).items())
    kept = found.later.per_month <= (most or 0)
    yield (
        f"found over {moment(found.earlier.start)} to {moment(found.earlier.end)}; after that they"
        f" {'kept it to that' if kept else 'did not keep it to that'}:"
        f" {render.counted(len(found.later.notices), 'notice')} in"
        f" {found.later.judged / timedelta(days=1):.0f} days with data"
    )


def _settings(found: Suggestion) -> dict[str, str]:
    """The keys of the rule, as they are written in its table."""
    policy = found.policy
    return {
        "enter_percent": f"{found.margins.enter_percent}",
        "exit_percent": f"{found.margins.exit_percent}",
        "min_duration": f'"{_length(policy.min_duration)}"',
        "keep_firing": f'"{_length(policy.keep_firing)}"',
    }


def _length(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _document(tested: Backtest, found: Suggestion | None) -> dict[str, Any]:
    return {
        "rule": tested.rule.name, "when": str(tested.rule.condition),
        "start": tested.start, "end": tested.end, "looks": len(tested.looks),
        "judged_looks": tested.good, "median_interval_seconds": _pace(tested),
        "offers": tested.seen.offers, "replaced": tested.seen.replaced,
        "not_kept": list(tested.not_kept),
        "as_is": _values(tested.as_is), "bare": _values(tested.bare),
        "suggestion": None if found is None else {
            "enter_percent": str(found.margins.enter_percent),
            "exit_percent": str(found.margins.exit_percent),
            "min_duration_seconds": int(found.policy.min_duration.total_seconds()),
            "keep_firing_seconds": int(found.policy.keep_firing.total_seconds()),
            "tried": found.tried, "earlier": _values(found.earlier),
            "later": _values(found.later),
        },
    }  # fmt: skip


def _values(one: Replayed) -> dict[str, Any]:
    from tracker.alert.keys import policy_dict

    policy = policy_dict(one.policy)
    return {
        "start": one.start, "end": one.end, "judged_seconds": int(one.judged.total_seconds()),
        "notices": len(one.notices), "notices_per_month": float(one.per_month),
        "busiest_30_days": one.busiest_month, "fired": _fired(one), "flaps": one.flaps,
        "came_to_nothing": _pending_ended(one), "data_notices": one.data_notices,
        "enter": policy["enter"], "exit": policy["exit"],
        "min_count": one.policy.min_count,
        **{
            f"{name}_seconds": int(getattr(one.policy, name).total_seconds())
            for name in ("min_duration", "keep_firing", "cooldown")
        },
    }  # fmt: skip
