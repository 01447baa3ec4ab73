"""Where one price comes from: the provider's words, when, how they were read, every gate."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracker import registry
from tracker.domain.bounds import in_full
from tracker.domain.gpu import Catalogue
from tracker.domain.money import from_micro_usd
from tracker.domain.normalize import FxRate, normalise
from tracker.domain.offer import ListedOffer, Offer, PriceUnit
from tracker.domain.quality import Gatekeeper, GateResult, Known, Rules
from tracker.provider import ParseError, Payload
from tracker.report.filters import IMPORTED
from tracker.store import archive, reads

if TYPE_CHECKING:
    import psycopg

    from tracker.store.reads import FoundOffer
    from tracker.store.status import StoredPoll, StoredQuarantine

# Bytes of an answer: shown around an offer, and looked at to find the place.
WORDS_BEFORE, WORDS_AFTER = 200, 700
NEAR_BEFORE, NEAR_AFTER = 150, 500
MIN_LINE, MAX_PLACES = 20, 200
MIN_ID = 4  # digits of an id


class Ambiguous(Exception):
    """The id fits several offers; the message lists them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the archived answer says when it is parsed again today."""

    listed: ListedOffer | None
    offer: Offer | None
    gates: tuple[GateResult, ...]
    words: str | None  # the passage of the answer that holds the offer
    problem: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One offer, its poll, and the archived answer read again.

    ``held``: what the gates hold back of it, or have let go after enough confirmations.
    """

    found: FoundOffer
    poll: StoredPoll | None
    payload: Payload | None
    reading: Reading
    held: tuple[StoredQuarantine, ...]
    stale: bool
    now: datetime

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "offer": self.found.offer._asdict(),
            "live": self.found.live,
            "stale": self.stale,
            "gpu_raw": self.found.gpu_raw,
            "source_url": self.found.source_url,
            "notes": self.found.notes,
            "first_seen_at": self.found.first_seen_at,
            "poll": self.poll._asdict() if self.poll else None,
            "answer": _payload_dict(self.payload),
            "words": self.reading.words,
            "problem": self.reading.problem,
            "gates": _gates(self.reading),
            "quarantine": [q._asdict() for q in self.held],
        }

    def sections(self) -> Iterable[tuple[str, list[str]]]:
        """The same for people: headings and lines."""
        yield "Offer", _offer_lines(self)
        found = self.found
        lines = _answer_lines(self.payload, found.source_url, self.reading, found.offer.source)
        yield "Said by the provider", lines
        yield "Read as", _read_lines(self)
        yield from _gate_sections(self.reading, self.held)


@dataclass(frozen=True, slots=True)
class HeldExplanation:
    """An offer of which no price was ever accepted: what holds it, and the answer read again."""

    held: tuple[StoredQuarantine, ...]
    payload: Payload | None
    reading: Reading

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "offer": None,
            "live": False,
            "answer": _payload_dict(self.payload),
            "words": self.reading.words,
            "problem": self.reading.problem,
            "gates": _gates(self.reading),
            "quarantine": [q._asdict() for q in self.held],
        }

    def sections(self) -> Iterable[tuple[str, list[str]]]:
        """The same for people: headings and lines."""
        q = self.held[0]
        yield (
            "Offer",
            [
                f"{q.offer_key.hex()[:10]}  {q.seller} {q.native_id}",
                f"{in_full(q.gpu_count)} x {q.gpu_key}, {q.market.replace('_', '-')}, "
                f"tier {q.tier}, region {q.region or '-'}",
                f"${from_micro_usd(q.price_micro_usd)} per machine-hour, last seen "
                f"{_iso(q.last_seen_at)}",
                "QUARANTINED: never ranked, and no price of it is in history",
            ],
        )
        yield "Said by the provider", _answer_lines(self.payload, q.source_url, self.reading)
        if self.reading.problem:
            yield "Read as", [f"but {self.reading.problem}"]
        yield from _gate_sections(self.reading, self.held)


def explain_offer(
    connection: psycopg.Connection[Any], reference: str, catalogue: Catalogue, rules: Rules,
    now: datetime,
) -> Explanation | HeldExplanation | None:  # fmt: skip
    """Look *reference* up, read its archived answer again, and pass it through the gates again.

    None when no offer has that id. Raises Ambiguous when several have.
    """
    if _undecodable(reference):
        return None  # no text that the database could hold
    matches = reads.find_offer(connection, reference)
    live = [m for m in matches if m.live]
    chosen = live or matches
    if not chosen:
        return _explain_held(connection, reference, catalogue, rules)
    if len(chosen) > 1:
        listed = ", ".join(
            f"{m.offer.key.hex()[:10]} ({m.offer.gpu_key} {m.offer.market} {m.offer.region or ''})"
            for m in chosen[:8]
        )
        raise Ambiguous(f"{reference!r} fits {len(chosen)} offers: {listed}; give more of the id")
    found = chosen[0]
    o = found.offer
    poll = reads.poll_that_saw(connection, o.source, o.confirmed_at)
    payloads = archive.payloads_of_poll(connection, poll.id) if poll else []
    fx: dict[str, FxRate] = {}
    if o.fx_rate is not None and o.fx_date is not None:
        fx[o.currency] = FxRate(o.fx_rate, o.fx_date)
    amount, earlier = in_full(o.price_native), reads.offer_spans(connection, o.offer_id)[:-1]
    wanted = _Wanted(
        o.source, o.key, o.native_id, found.gpu_raw, amount, fx,
        earlier[-1].price_micro_usd if earlier else None,
    )  # fmt: skip
    held = [q for q in reads.quarantined(connection, include_released=True)
            if q.offer_key == o.key]  # fmt: skip
    payload, reading = _read_again(wanted, payloads, catalogue, rules)
    return Explanation(found, poll, payload, reading, tuple(held), now >= o.stale_at, now)


def _undecodable(text: str) -> bool:
    """Whether *text* holds NUL or bytes that are no text (Python's surrogate escapes)."""
    return any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)


def _explain_held(
    connection: psycopg.Connection[Any], reference: str, catalogue: Catalogue, rules: Rules
) -> HeldExplanation | None:
    rows = [
        q
        for q in reads.quarantined(connection)
        if q.native_id == reference
        or (len(reference) >= MIN_ID and q.offer_key.hex().startswith(reference.lower()))
    ]
    keys = {q.offer_key for q in rows}
    if not rows:
        return None
    if len(keys) > 1:
        listed = ", ".join(f"{key.hex()[:10]}" for key in sorted(keys)[:8])
        raise Ambiguous(
            f"{reference!r} fits {len(keys)} quarantined offers: {listed}; give more of the id"
        )
    q = rows[0]
    poll = reads.poll_that_saw(connection, q.source, q.last_seen_at)
    payloads = archive.payloads_of_poll(connection, poll.id) if poll else []
    wanted = _Wanted(q.source, q.offer_key, q.native_id, q.gpu_raw, None)
    return HeldExplanation(tuple(rows), *_read_again(wanted, payloads, catalogue, rules))


@dataclass(frozen=True)
class _Wanted:
    """What is looked for in an answer."""

    source: str
    key: bytes
    native_id: str
    gpu_raw: str
    amount: str | None
    fx: dict[str, FxRate] = field(default_factory=dict)
    before_micro_usd: int | None = None  # the price before the one that is explained

    @cached_property
    def marks(self) -> list[tuple[bytes, int]]:
        """What may stand near the offer in an answer, with how much it tells."""
        parts = {p for p in re.split(r"[/:,|\s]+", self.native_id) if len(p) > 3}
        words = [(self.native_id, 10), *((p, 2) for p in sorted(parts)), (self.gpu_raw, 2)]
        if self.amount:
            words.append((self.amount, 3))
        return [(json.dumps(w, ensure_ascii=False)[1:-1].encode(), n) for w, n in words if w]


def _read_again(
    wanted: _Wanted, payloads: Sequence[Payload], catalogue: Catalogue, rules: Rules
) -> tuple[Payload | None, Reading]:
    if not payloads:
        return None, Reading(None, None, (), None, "the answer is no longer in the archive")
    payload, words = _words(wanted, payloads)
    try:
        provider = registry.load(wanted.source)
        parsed = registry.parse(provider, payloads)
    except (registry.UnknownProvider, registry.BrokenProvider, ParseError) as error:
        problem = f"today's parser does not read it: {error}"
        return payload, Reading(None, None, (), words, problem)
    offers = [
        result
        for listed in parsed.offers
        if isinstance(result := normalise(provider.name, listed, catalogue, wanted.fx), Offer)
    ]
    same = next((o for o in offers if o.key == wanted.key), None)
    if same is None:
        problem = "today's parser makes another offer of it"
        return payload, Reading(None, None, (), words, problem)
    before = wanted.before_micro_usd
    known = Known({} if before is None else {wanted.key: before})
    keeper = Gatekeeper(offers, known, catalogue, rules, marketplace=provider.facts.marketplace)
    return payload, Reading(same.listed, same, tuple(keeper.explain(same)), words, None)


def _words(wanted: _Wanted, payloads: Sequence[Payload]) -> tuple[Payload | None, str | None]:
    """The answer that holds the offer, and the passage of it on as many lines as it has.

    The passage is the one with most of the offer's marks: its id, the id's parts, the GPU's name
    and the amount. The first answer, and no passage, when none of them stands anywhere.
    """
    best = (0, 0, 0)  # score, and minus payload and place: of equals the first
    for index, payload in enumerate(payloads):
        for at in _places(wanted, payload.body):
            start, end = _passage(payload.body, at, NEAR_BEFORE, NEAR_AFTER)
            near = payload.body[start:end]
            score = sum(weight for mark, weight in wanted.marks if mark in near)
            best = max(best, (score, -index, -at))
    score, index, at = best[0], -best[1], -best[2]
    if not score:
        return (payloads[0] if payloads else None), None
    body = payloads[index].body
    start, end = _passage(body, at, WORDS_BEFORE, WORDS_AFTER)
    text = body[start:end].decode("utf-8", errors="replace").strip("\n")
    return (
        payloads[index],
        ("…" if start else "") + text + ("…" if end < len(body) else ""),
    )


def _places(wanted: _Wanted, body: bytes) -> Iterable[int]:
    for mark, _ in wanted.marks:
        at = body.find(mark)
        for _ in range(MAX_PLACES):
            if at < 0:
                break
            yield at
            at = body.find(mark, at + 1)


def _passage(body: bytes, at: int, before: int, after: int) -> tuple[int, int]:
    """Its line where lines are short (a file for people), else so much before and after."""
    start, end = body.rfind(b"\n", 0, at) + 1, body.find(b"\n", at)
    end = len(body) if end < 0 else end
    if NEAR_AFTER > end - start > MIN_LINE:
        return start, end
    return max(0, at - before), min(len(body), at + after)


def _payload_dict(payload: Payload | None) -> dict[str, Any] | None:
    if payload is None:
        return None
    return {
        "url": payload.url, "method": payload.method, "status": payload.status,
        "fetched_at": payload.fetched_at, "bytes": len(payload.body),
        "request_body": payload.request_body.decode("utf-8", errors="replace") or None,
    }  # fmt: skip


def _offer_lines(e: Explanation) -> list[str]:
    o = e.found.offer
    state = "live" if e.found.live else "no longer offered"
    confirmed = f"confirmed {_iso(o.confirmed_at)}, {state}"
    if o.source.startswith(IMPORTED):  # nobody polls it: it held as long as its table says
        confirmed = f"imported ({o.source}), known until {_iso(o.stale_at)}"
    if o.valid_as_of is not None:  # polling the file again confirms nothing
        until = f", believed until {_iso(o.expires_at)}" if o.expires_at else ""
        confirmed = f"typed by a person, read on {o.valid_as_of}{until}; not live"
    return [
        f"{o.key.hex()[:10]}  {o.provider} {o.native_id}",
        f"{in_full(o.gpu_count)} x {o.gpu_key}, {o.market.replace('_', '-')}, tier {o.tier}, "
        f"region {o.region or '-'}{f', run by {o.upstream}' if o.upstream else ''}",
        f"${from_micro_usd(o.price_micro_usd)} per machine-hour since {_iso(o.valid_from)}",
        f"{confirmed}{', STALE' if e.stale else ''}",
    ]


def _answer_lines(
    payload: Payload | None, see_also: str | None, reading: Reading, source: str = ""
) -> list[str]:  # fmt: skip
    lines = []
    if payload is not None:
        at = _iso(payload.fetched_at)
        status = "" if payload.method == "FILE" else f" (HTTP {payload.status})"
        lines.append(f"{payload.method} {payload.url or 'a file'} at {at}{status}")
    if see_also:
        lines.append(f"see also {see_also}")
    if payload is None and source.startswith(IMPORTED):
        return [*lines, f"(imported as {source}: the table says it, no provider's answer is kept)"]
    if payload is None:
        return [*lines, "(the answer is no longer in the archive)"]
    return lines + (reading.words or "(the passage was not found)").splitlines()


def _gates(reading: Reading) -> list[dict[str, Any]]:
    return [{"gate": g.gate, "passed": g.passed, "detail": g.detail} for g in reading.gates]


def _gate_sections(
    reading: Reading, held: Sequence[StoredQuarantine]
) -> Iterable[tuple[str, list[str]]]:
    """Every gate on the archived answer by itself, then what the gates said at the time."""
    if reading.gates:
        yield (
            "Gates, on this answer alone",
            [
                f"{'passed' if g.passed else 'HELD  '}  {g.gate.replace('_', ' ')}: {g.detail}"
                for g in reading.gates
            ],
        )
    if held:
        yield "Quarantine", [_held_line(q) for q in held]


def _held_line(q: StoredQuarantine) -> str:
    price = f"${from_micro_usd(q.price_micro_usd)}"
    seen = f"seen {q.confirmations} times in a row since {_iso(q.first_seen_at)}"
    if q.released_at is not None:
        state = f"released {_iso(q.released_at)}"
    else:
        state = "freed once confirmed" if q.releasable else "not freed by repetition"
    return f"{q.gate.replace('_', ' ')}: {price}, {q.reason}; {seen}; {state}"


def _read_lines(e: Explanation) -> list[str]:
    o = e.found.offer
    unit = o.price_unit.replace("_", "-").replace("gpu", "GPU")
    amount = f"{in_full(o.price_native)} {o.currency} per {unit}"
    lines = [f"GPU {e.found.gpu_raw!r} -> {o.gpu_key}", f"price {amount} {_formula(o)}"]
    lines += [f"note: {note}" for note in (*e.found.notes, *o.flags)]
    if e.reading.problem:
        lines.append(f"but {e.reading.problem}")
    return lines


def _formula(o: Any) -> str:
    steps = []
    if o.fx_rate is not None:
        steps.append(f"x {o.fx_rate} USD ({o.fx_date})")
    if o.price_unit in (PriceUnit.MACHINE_MONTH, PriceUnit.GPU_MONTH):
        steps.append("/ 730 h")
    if o.price_unit in (PriceUnit.GPU_HOUR, PriceUnit.GPU_MONTH) and o.gpu_count != 1:
        steps.append(f"x {in_full(o.gpu_count)} GPUs")
    steps.append(f"= ${from_micro_usd(o.price_micro_usd)} per machine-hour")
    return " ".join(steps)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
