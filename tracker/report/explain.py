"""Where one price comes from: the provider's words, when, how they were read, every gate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker import registry
from tracker.domain.gpu import Catalogue
from tracker.domain.money import from_micro_usd
from tracker.domain.normalize import FxRate, normalise
from tracker.domain.offer import ListedOffer, Offer, PriceUnit
from tracker.domain.quality import Gatekeeper, GateResult, Known, Rules
from tracker.provider import ParseError, Payload
from tracker.store import archive, reads

if TYPE_CHECKING:
    import psycopg

    from tracker.store.reads import FoundOffer
    from tracker.store.status import StoredPoll

WORDS_BEFORE, WORDS_AFTER = 300, 700


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
    """One offer, its poll, and the archived answer read again."""

    found: FoundOffer
    poll: StoredPoll | None
    payload: Payload | None
    reading: Reading
    stale: bool
    now: datetime

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        o = self.found.offer
        return {
            "offer": o._asdict()
            | {"price_usd_per_machine_hour": from_micro_usd(o.price_micro_usd)},
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
            "gates": [
                {"gate": g.gate, "passed": g.passed, "detail": g.detail} for g in self.reading.gates
            ],
        }

    def sections(self) -> Iterable[tuple[str, list[str]]]:
        """The same for people: headings and lines."""
        yield "Offer", _offer_lines(self)
        yield "Said by the provider", _said_lines(self)
        yield "Read as", _read_lines(self)
        if self.reading.gates:
            yield (
                "Gates",
                [
                    f"{'passed' if g.passed else 'HELD  '}  {g.gate.replace('_', ' ')}: {g.detail}"
                    for g in self.reading.gates
                ],
            )


def explain_offer(
    connection: psycopg.Connection[Any], reference: str, catalogue: Catalogue, rules: Rules,
    now: datetime,
) -> Explanation | None:  # fmt: skip
    """Look *reference* up, read its archived answer again, and pass it through the gates again.

    None when no offer has that id. Raises Ambiguous when several have.
    """
    matches = reads.find_offer(connection, reference)
    live = [m for m in matches if m.live]
    chosen = live or matches
    if not chosen:
        return None
    if len(chosen) > 1:
        listed = ", ".join(
            f"{m.offer.key.hex()[:10]} ({m.offer.gpu_key} {m.offer.market} {m.offer.region or ''})"
            for m in chosen[:8]
        )
        raise Ambiguous(f"{reference!r} fits {len(chosen)} offers: {listed}; give more of the id")
    found = chosen[0]
    poll = reads.poll_that_saw(connection, found.offer.source, found.offer.seen_at)
    payloads = archive.payloads_of_poll(connection, poll.id) if poll else []
    reading = _read_again(found, payloads, catalogue, rules)
    payload = _holder(found, payloads)
    return Explanation(found, poll, payload, reading, stale=now >= found.offer.stale_at, now=now)


def _read_again(
    found: FoundOffer, payloads: Sequence[Payload], catalogue: Catalogue, rules: Rules
) -> Reading:
    if not payloads:
        return Reading(None, None, (), None, "the answer is no longer in the archive")
    words = _words(found, payloads)
    try:
        provider = registry.load(found.offer.source)
        parsed = provider.parse(payloads)
    except (registry.UnknownProvider, registry.BrokenProvider, ParseError) as error:
        return Reading(None, None, (), words, f"today's parser does not read it: {error}")
    fx: dict[str, FxRate] = {}
    if found.offer.fx_rate is not None and found.offer.fx_date is not None:
        fx[found.offer.currency] = FxRate(found.offer.fx_rate, found.offer.fx_date)
    offers = [
        result
        for listed in parsed.offers
        if isinstance(result := normalise(provider.name, listed, catalogue, fx), Offer)
    ]
    same = next((o for o in offers if o.key == found.offer.key), None)
    if same is None:
        return Reading(None, None, (), words, "today's parser makes another offer of it")
    keeper = Gatekeeper(offers, Known(), catalogue, rules, marketplace=provider.facts.marketplace)
    return Reading(same.listed, same, tuple(keeper.explain(same)), words, None)


def _holder(found: FoundOffer, payloads: Sequence[Payload]) -> Payload | None:
    """The answer that most likely holds the offer: the first that names its id or GPU."""
    for needle in _needles(found):
        for payload in payloads:
            if needle.encode() in payload.body:
                return payload
    return payloads[0] if payloads else None


def _needles(found: FoundOffer) -> list[str]:
    native = found.offer.native_id
    parts = [native, *(p for p in native.replace("/", " ").split() if len(p) > 3), found.gpu_raw]
    return [json.dumps(p, ensure_ascii=False)[1:-1] for p in parts if p]


def _words(found: FoundOffer, payloads: Sequence[Payload]) -> str | None:
    """The passage around the offer's id, on as many lines as the provider used."""
    for needle in _needles(found):
        for payload in payloads:
            at = payload.body.find(needle.encode())
            if at >= 0:
                start, end = max(0, at - WORDS_BEFORE), at + WORDS_AFTER
                text = payload.body[start:end].decode("utf-8", errors="replace")
                return ("…" if start else "") + text + ("…" if end < len(payload.body) else "")
    return None


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
    return [
        f"{o.key.hex()[:10]}  {o.provider} {o.native_id}",
        f"{_plain(o.gpu_count)} x {o.gpu_key}, {o.market}, tier {o.tier}, region {o.region or '-'}",
        f"${from_micro_usd(o.price_micro_usd)} per machine-hour since {_iso(o.valid_from)}",
        f"confirmed {_iso(o.seen_at)}, {state}{', STALE' if e.stale else ''}",
    ]


def _said_lines(e: Explanation) -> list[str]:
    lines = []
    if e.payload is not None:
        p = e.payload
        lines.append(f"{p.method} {p.url or 'a file'} at {_iso(p.fetched_at)} (HTTP {p.status})")
    if e.found.source_url:
        lines.append(f"see also {e.found.source_url}")
    lines += (e.reading.words or "(the passage was not found)").splitlines()
    return lines


def _read_lines(e: Explanation) -> list[str]:
    o = e.found.offer
    amount = f"{_plain(o.price_native)} {o.currency} per {o.price_unit.replace('_', '-')}"
    lines = [f"GPU {e.found.gpu_raw!r} -> {o.gpu_key}", f"price {amount} -> {_formula(o)}"]
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
    if o.price_unit in (PriceUnit.GPU_HOUR, PriceUnit.GPU_MONTH):
        steps.append(f"x {_plain(o.gpu_count)} GPUs")
    steps.append(f"= ${from_micro_usd(o.price_micro_usd)} per machine-hour")
    return " ".join(steps)


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
