"""A notice from its context: one sentence first, then the figures it stands on.

The context is the JSON that the engine put into the outbox (docs/alerts.md lists it). Rendering
never fails: a template that does gives the built-in text with a remark.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracker import data
from tracker.alert import template as templates_
from tracker.alert import words
from tracker.alert.words import Context, part, plain, text, usd
from tracker.notify.channel import Notice, shortened
from tracker.telemetry import Redactor, one_line

if TYPE_CHECKING:
    import jinja2

_SUBJECT_CHARACTERS = 160
_COMMANDS = 6  # shown at most
_FOUND = 5
_RULE = "-" * 40
_WORDS = ("gpucost", "cheapest", "explain", "events", "alerts")
_NAMES = ("selection", "gpu", "provider", "market", "tier", "basis")
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")  # rules, jobs, GPUs and providers are called so


@dataclass(frozen=True, slots=True)
class Line:
    """A figure and what it is. ``code``: it is to be copied as it is."""

    label: str
    text: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One event as a person reads it. ``called``: by its title, or the rule's name. ``text`` is
    what the rule's template made of it."""

    called: str
    sentence: str
    lines: tuple[Line, ...]
    event_id: str
    text: str | None = None

    def plain(self) -> str:
        """All of it as text, the event last."""
        if self.text is not None:
            return f"{self.text.strip()}\n\nEvent: {self.event_id}"
        rows = [f"{line.label}: {line.text}" for line in self.lines]
        return "\n".join([self.sentence, "", *rows])

    def brief(self) -> str:
        """One line that says which rule it is about."""
        if self.called in self.sentence:
            return self.sentence
        return f"{self.called}: {self.sentence}"


def notice(
    contexts: Sequence[Context],
    message_id: str,
    *,
    redactor: Redactor,
    max_characters: int,
    templates: Mapping[str, str] | None = None,
) -> Notice:
    """One message about all of *contexts* (at least one), without secrets.

    *templates* are the rules' own, by rule. The text is at most *max_characters* long: with less
    room, each of several events keeps its sentence, and the ids of the events stay in any case.
    """
    redactor = redactor.sparing(
        word for context in contexts for word in _own_words(context) if _PLAIN.fullmatch(word)
    )
    clean = [_redacted(context, redactor) for context in contexts]
    blocks = [_block(context, templates or {}, max_characters) for context in clean]
    return Notice(
        event_id=message_id,
        subject=redactor(_subject(blocks)),
        text=redactor(_text(blocks, max_characters)),
        html=redactor(_html(blocks)),
        data={"events": clean},
    )


def _subject(blocks: Sequence[Block]) -> str:
    first = blocks[0].sentence
    subject = f"gpucost: {first}" if len(blocks) == 1 else f"gpucost: {len(blocks)} alerts: {first}"
    return one_line(subject, _SUBJECT_CHARACTERS)


def _text(blocks: Sequence[Block], limit: int) -> str:
    if len(blocks) == 1:
        return shortened(blocks[0].plain(), limit)
    events = "Events: " + ", ".join(block.event_id for block in blocks)
    whole = f"\n\n{_RULE}\n\n".join(block.plain() for block in blocks)
    if len(whole) + len(events) + 2 > limit:
        whole = "\n".join(f"- {block.brief()}" for block in blocks)
    return shortened(f"{whole}\n\n{events}", limit)


def _html(blocks: Sequence[Block]) -> str:
    return _page().render(blocks=blocks)


@functools.cache
def _page() -> jinja2.Template:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(data.text("messages/notice.html"))


def _own_words(context: Context) -> Iterator[str]:
    """The names that a notice is made of. A secret that is one of them stays readable: a channel
    called after a rule, or a database password such as ``gpucost``."""
    yield from _WORDS
    yield from context
    yield from (str(context[name]) for name in ("rule", "kind", "rank") if context.get(name))
    yield str(part(context, "job").get("name") or "")
    sides = [part(context, name) for name in ("left", "right")]
    sides += [part(part(part(context, "merged"), "fired"), name) for name in ("left", "right")]
    for one in (*sides, *words.found(context)):
        yield from one
        yield from (str(one[name]) for name in _NAMES if one.get(name))
    for name in ("command", "when"):
        yield from re.split(r"[\s,()<]+", str(context.get(name) or ""))


def _redacted(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, Mapping):
        return {redactor(str(key)): _redacted(item, redactor) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, redactor) for item in value]
    return value


def _block(context: Context, templates: Mapping[str, str], limit: int) -> Block:
    sentence, lines = words.sentence(context), tuple(_lines(context))
    event_id, called = text(context.get("event_id")), _title(context) or text(context.get("rule"))
    own = templates.get(str(context.get("rule")))
    if own is None:
        return Block(called, sentence, lines, event_id)
    values = {
        **context,
        "sentence": sentence,
        "lines": [{"label": line.label, "text": line.text} for line in lines],
    }
    try:
        made = templates_.render(own, values, max_characters=limit)
    except templates_.TemplateFailed as error:
        remark = Line("Remark", f"the rule's template failed, this is the built-in text: {error}")
        return Block(called, sentence, (*lines[:-1], remark, lines[-1]), event_id)
    shown = (Line("Event", event_id),)
    return Block(
        called, sentence, shown, event_id, "".join(c for c in made if c.isprintable() or c == "\n")
    )


def _title(context: Context) -> str:
    """The rule's title; empty when it says no more than the condition or the name."""
    title = text(context.get("title")) if context.get("title") else ""
    return "" if title in (text(context.get("when")), text(context.get("rule"))) else title


def _lines(context: Context) -> Iterator[Line]:
    yield from _sides(context)
    yield from _figures(context)
    yield from _firing(context)
    yield from _provenance(context)
    for command in _commands(context):
        yield Line("Reproduce", command, code=True)
    yield Line("Event", text(context.get("event_id")))


def _sides(context: Context) -> Iterator[Line]:
    for name in ("left", "right"):
        side = part(context, name)
        if side:
            yield Line(text(side.get("selection") or side.get("gpu")), _side(side))
    offers = words.found(context)
    for offer in offers[:_FOUND]:
        yield Line("New", _side(offer))
    if len(offers) > _FOUND:
        yield Line("New", f"and {len(offers) - _FOUND} more")
    begun = part(part(context, "merged"), "fired")
    if begun:
        for name in ("left", "right"):
            side = part(begun, name)
            if side:
                label = text(side.get("selection") or side.get("gpu"))
                yield Line(f"{label} when it fired", _side(side))


def _side(side: Context) -> str:
    """A bill and the offer behind it: ``$10.76 for 4 h at $2.69/h, 1 x H100-SXM-80GB at …``."""
    price = usd(side.get("price_usd_per_hour"), 4)
    pieces = []
    if side.get("job_cost_usd") is not None:
        hours = f" for {plain(side['billed_hours'], 2)} h" if side.get("billed_hours") else ""
        pieces.append(f"{words.cost(side)}{hours} at {price}/h")
    else:
        pieces.append(f"{price}/h")
    per_gpu = side.get("price_usd_per_gpu_hour")
    if per_gpu is not None and per_gpu != side.get("price_usd_per_hour"):
        pieces[0] += f" ({usd(per_gpu, 4)} per GPU-hour)"
    machines = side.get("machines")
    many = f"{machines} machines of " if isinstance(machines, int) and machines > 1 else ""
    gpus = f"{plain(side.get('gpu_count'), 3)} x " if side.get("gpu_count") is not None else ""
    where = [
        text(side[name]).replace("_", " ") for name in ("tier", "market", "region")
        if side.get(name) is not None
    ]  # fmt: skip
    place = text(side.get("provider")) + (f" ({', '.join(where)})" if where else "")
    pieces.append(f"{many}{gpus}{text(side.get('gpu'))} at {place}")
    if side.get("age_seconds") is not None:
        pieces.append(f"seen {words.duration(side['age_seconds'])} before")
    if side.get("offer") is not None:
        pieces.append(f"offer {text(side['offer'])}")
    return ", ".join(pieces)


def _figures(context: Context) -> Iterator[Line]:
    value = context.get("value")
    if value is not None and words.provider_of(context):
        held = f"prices hold {plain(value, 1)} times as long as they are old"
        yield Line("Freshness", f"{held}; at 1 or below they are stale")
    elif value is not None:
        margin = context.get("margin_percent")
        ahead = "" if margin is None else f" (margin {plain(margin, 1)} %)"
        limits = ""
        if context.get("enter") is not None and context.get("exit") is not None:
            enter, leave = plain(context["enter"], 4), plain(context["exit"], 4)
            limits = f"; fires at {enter} or below, clears at {leave} or above"
        yield Line("Ratio", f"{plain(value, 4)}{ahead}{limits}")
    even = context.get("break_even_usd_per_gpu_hour")
    if even is not None:
        gpu = text(part(context, "left").get("selection") or "the GPU")
        yield Line("Break-even", f"{gpu} at {usd(even, 4)} per GPU-hour")


def _firing(context: Context) -> Iterator[Line]:
    firing = part(context, "firing")
    if firing:
        best, worst = plain(firing.get("best"), 4), plain(firing.get("worst"), 4)
        length = words.duration(firing.get("duration_seconds"))
        since = words.moment(firing.get("since"))
        ratios = "" if words.provider_of(context) else f"; best ratio {best}, worst {worst}"
        yield Line("Firing", f"since {since}, {length}{ratios}")
    health = part(context, "health")
    if health:
        reason = f": {text(health['reason'])}" if health.get("reason") else ""
        yield Line("Data", f"{text(health.get('state')).replace('_', ' ')}{reason}")


def _provenance(context: Context) -> Iterator[Line]:
    estimates = dict.fromkeys(
        f"{text(side.get('selection') or side.get('gpu'))} {plain(side['runtime_hours'], 2)} h"
        f" ({text(side.get('basis'))}, {text(side.get('estimate_version'))})"
        for side in (part(context, "left"), part(context, "right"))
        if side.get("runtime_hours") is not None
    )
    if estimates:
        yield Line("Estimate", "; ".join(estimates))
    seq, version = context.get("firing_seq"), text(context.get("rule_version"))
    firing = "" if seq is None else f", event {text(seq)}"
    title = _title(context)
    yield Line(
        "Rule",
        (f'"{title}", ' if title else "")
        + f"{text(context.get('rule'))} (version {version}{firing}): {text(context.get('when'))}"
        + ("" if context.get("rank") is None else f", rank {text(context['rank'])}"),
    )
    yield Line("At", words.moment(context.get("at")))


def _commands(context: Context) -> Iterable[str]:
    explain = context.get("explain")
    every = [context.get("command"), *(explain if isinstance(explain, list) else [])]
    shown = [one_line(str(command), 1000) for command in every if command]
    return list(dict.fromkeys(shown))[:_COMMANDS]
