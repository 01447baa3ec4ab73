"""``gpucost provider``: look at one provider's answers without recording prices."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded, enabled
from tracker.cli import completing, render
from tracker.cli.exits import EXIT_ALL_FAILED, EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import output_option
from tracker.cli.poll import OWN_FILES
from tracker.report.shapes import words

if TYPE_CHECKING:
    from tracker.collect import Digest
    from tracker.domain.normalize import FxRate
    from tracker.domain.offer import Offer
    from tracker.provider import Payload, Provider, ProviderConfig

RECORDING_FORMAT = "gpucost-recording/1"
MAX_FILE_BYTES = 512 * 2**20
CHECK_DEADLINE_S = 180.0

COLUMNS = (
    "source_id", "provider", "gpu", "gpu_raw", "gpus", "vram_gb", "slice", "market", "tier",
    "price_usd_per_machine_hour", "price_usd_per_gpu_hour", "price_native", "currency",
    "price_unit", "region", "country", "availability", "commitment_hours", "ranked", "quarantined",
)  # fmt: skip

_TABLE = (
    render.Column("GPU"), render.Column("GPUS", right=True), render.Column("MARKET"),
    render.Column("TIER", 2), render.Column("REGION", 3), render.Column("$/GPU-H", right=True),
    render.Column("$/MACHINE-H", 1, right=True), render.Column("STOCK", 4),
    render.Column("ID", 5), render.Column("NOTE", 6),
)  # fmt: skip
MAX_NOTES = 20


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def provider() -> None:
    """Check, record or parse one provider's answers, or begin a new one. Writes no price."""


@provider.command()
@click.argument("name", shell_complete=completing.providers)
@output_option
@click.pass_obj
def check(obj: dict[str, Any], name: str, output: str) -> None:
    """Ask NAME's live service now and print what comes of its answer."""
    app = App(obj["config"])
    it, config = _one(app, name)
    payloads = _fetch(app, it, config)
    _print(app, it, payloads, output, _live_rates(app, it, config, payloads))


@provider.command()
@click.argument("name", shell_complete=completing.providers)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="File to write; NAME and the time unless given.",
)
@click.pass_obj
def record(obj: dict[str, Any], name: str, target: Path | None) -> None:
    """Save NAME's live answers as a fixture, with secrets and addresses taken out."""
    from tracker.report.recording import recording_of

    app = App(obj["config"])
    it, config = _one(app, name)
    payloads = _fetch(app, it, config)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = target or Path(f"{name}-{stamp}.json")
    secrets = app.settings.secret_values()
    text = json.dumps(recording_of(it.name, payloads, secrets), indent=1, ensure_ascii=False)
    try:
        target.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise Exit(EXIT_USAGE, f"{target}: {error.strerror}") from None
    render.say(f"{target}: {len(payloads)} answers, {len(text):,} characters; look through it "
               "before you send it to anyone")  # fmt: skip


@provider.command()
@click.argument("name", shell_complete=completing.providers)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
@click.pass_obj
def parse(obj: dict[str, Any], name: str, files: tuple[Path, ...], output: str) -> None:
    """Parse FILES of NAME.

    A file is a recording, a bare answer saved to a file, or, for pricebook, a price book.
    """
    from tracker import registry

    app = App(obj["config"])
    it = registry.load(name.lower())
    payloads = [
        # A price book's messages start with the name of its file.
        replace(payload, url=file.name) if it.name == OWN_FILES and not payload.url else payload
        for file in files
        for payload in read_file(file)
    ]
    _print(app, it, payloads, output, _kept_rates(app, it, payloads), files)


@provider.command()
@click.argument("name")
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path),
    default=".",
    show_default="here",
    help="Checkout of gpucost to add it to.",
)
def new(name: str, folder: Path) -> None:
    """Begin a provider NAME in a checkout: module, fixtures, and the line that makes it known.

    It reads a made-up service and passes its tests; what it really asks is yours to write.
    """
    from tracker.cli.scaffold import make

    for path in make(name, folder):
        render.say(str(path))
    render.say(
        f"Install the checkout again (pip install -e .), then: pytest tests/providers -k {name}. "
        "docs/adding-a-provider.md says what a module can say; `make docs` adds it to the table "
        "of providers."
    )


def read_file(file: Path) -> list[Payload]:
    """A recording's payloads, or one payload for a bare answer. Raises Exit (usage)."""
    from tracker.provider import Payload, payload_from_dict

    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise Exit(EXIT_USAGE, f"{file}: larger than {MAX_FILE_BYTES >> 20} MiB")
        body = file.read_bytes()
    except OSError as error:
        raise Exit(EXIT_USAGE, f"{file}: {error.strerror}") from None
    bare = [Payload(url="", body=body, fetched_at=datetime.now(UTC))]
    if RECORDING_FORMAT.encode() not in body[:4096]:
        return bare
    try:
        data = json.loads(body)
        return [payload_from_dict(item) for item in data["payloads"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Exit(EXIT_USAGE, f"{file}: not a recording ({error})") from None


def _one(app: App, name: str) -> tuple[Provider[Any], ProviderConfig]:
    chosen, left_out = enabled(app, [name.lower()])
    if not chosen:
        raise Exit(EXIT_USAGE, f"{left_out[0][0]}: {left_out[0][1]}")
    return chosen[0]


def _fetch(app: App, it: Provider[Any], config: ProviderConfig) -> list[Payload]:
    from tracker.collect import fetch_once
    from tracker.provider import FetchError

    with app.collector(dry_run=True) as collector, render.progress("asking", [it.name]):
        try:
            return list(asyncio.run(fetch_once(collector, it, config, CHECK_DEADLINE_S)))
        except FetchError as error:
            raise Exit(EXIT_ALL_FAILED, f"{it.name}: {app.redactor(str(error))}") from None


def _live_rates(
    app: App, it: Provider[Any], config: ProviderConfig, payloads: Sequence[Payload]
) -> Mapping[str, FxRate]:
    """Today's exchange rates, where *payloads* hold prices in other currencies."""
    from tracker.collect import rates_once

    with app.collector(dry_run=True) as collector:
        return asyncio.run(rates_once(collector, it, config, payloads, CHECK_DEADLINE_S))


def _kept_rates(app: App, it: Provider[Any], payloads: Sequence[Payload]) -> Mapping[str, FxRate]:
    """The newest rates of the database, where *payloads* hold prices in other currencies.

    None where there is no database: nothing is asked for, and the offers say what they lack.
    """
    from tracker import registry
    from tracker.collect.exchange import foreign
    from tracker.provider import ParseError

    try:
        if not foreign(registry.parse(it, payloads).offers):
            return {}
    except ParseError:
        return {}  # it is told when they are read
    from tracker.store.errors import StoreError
    from tracker.store.exchange_rates import latest

    try:
        with app.reading() as connection:
            return latest(connection, date.min, date.max)
    except (NothingRecorded, StoreError):
        return {}


def _print(
    app: App, it: Provider[Any], payloads: Sequence[Payload], output: str,
    rates: Mapping[str, FxRate], files: Sequence[Path] = (),
) -> None:  # fmt: skip
    from tracker.collect import digest
    from tracker.domain.quality import Known
    from tracker.provider import ParseError

    try:
        found = digest(it, payloads, app.catalogue, fx=rates, known=Known(), rules=app.rules())
    except ParseError as error:
        raise _unusable(it, app.redactor(str(error)), files) from None
    rows = [_row(o, None) for o in found.accepted]
    rows += [_row(h.offer, f"{h.gate}: {h.reason}") for h in found.held]
    document = _document(it, found, app.redactor)
    if output in ("table", "wide"):
        _table(rows, document, wide=output == "wide")
    else:
        render.print_rows(output, rows, COLUMNS, document)
    if not rows and not found.discounts:
        raise Exit(EXIT_NO_MATCH, f"{it.name}: no offers in the answer; see the reasons above")


def _unusable(it: Provider[Any], error: str, files: Sequence[Path]) -> Exit:
    """The exit for answers, or files, of which nothing can be used."""
    named = f"{' or '.join(map(str, files))}: " if files else ""
    if it.name == OWN_FILES:  # a file that the user wrote, not an answer; the error names it
        return Exit(EXIT_USAGE, f"not a price book: {error}")
    return Exit(
        EXIT_ALL_FAILED,
        f"{named}{it.name}: unexpected answer: {error}; if it came from the live service, please "
        f"report it with a recording (gpucost provider record {it.name})",
    )


def _document(it: Provider[Any], found: Digest, redact: Callable[[str], str]) -> dict[str, Any]:
    samples = {r.reason: r.sample for r in reversed(found.rejected)}
    # Of an answer one sample of each reason is enough; of one's own files every mistake counts.
    own = it.name == OWN_FILES
    counted = Counter((r.reason, r.sample if own else samples[r.reason]) for r in found.rejected)
    return {
        "provider": it.name,
        "complete": found.parsed.complete,
        "incomplete_reason": found.parsed.incomplete_reason,
        "offers": len(found.accepted),
        "quarantined": len(found.held),
        "duplicates": found.assessment.duplicates,
        "rejected_total": len(found.rejected),
        "rejected": [
            {"reason": reason, "count": n, "sample": redact(sample)}
            for (reason, sample), n in counted.most_common()
        ],
        "discounts": [
            {
                "provider": d.provider,
                "percent": render.quantity(d.percent),
                "gpu": d.gpu,
                "market": d.market,
                "valid_as_of": d.valid_as_of.isoformat(),
                "expires_at": d.expires_at,
                "note": d.note and redact(d.note),
            }
            for d in found.discounts
        ],
        "unmapped": [{"name": u.name, "vram": u.vram, "rows": u.rows} for u in found.unmapped],
        "verdict": found.assessment.verdict,
    }


def _row(o: Offer, quarantined: str | None) -> dict[str, Any]:
    x = o.listed
    return {
        "source_id": x.source_id, "provider": o.provider, "gpu": o.gpu.key,
        "gpu_raw": x.gpu_name, "gpus": render.quantity(x.gpu_count), "vram_gb": o.gpu.vram_gb,
        "slice": o.gpu.is_slice, "market": x.market, "tier": x.tier, "price_kind": x.price_kind,
        "price_usd_per_machine_hour": render.usd_text(o.price.usd),
        "price_usd_per_gpu_hour": render.usd_text(o.price_per_gpu.usd),
        "price_native": x.price.amount, "currency": x.price.currency, "price_unit": x.price.unit,
        "upstream": x.upstream, "region": x.region, "country": x.country,
        "interconnect": x.interconnect,
        "vcpus": render.quantity(x.vcpus), "ram_gib": render.quantity(x.ram_gib),
        "dedicated": x.dedicated,
        "availability": x.extras.availability, "stock_label": x.extras.stock_label,
        "reliability": render.quantity(x.extras.reliability),
        "billing_increment_seconds": x.terms.billing_increment_seconds,
        "minimum_seconds": x.terms.minimum_seconds,
        "commitment_hours": x.terms.commitment_hours,
        "disk_included_gb": render.quantity(x.terms.disk_included_gb),
        "disk_usd_per_gb_hour": x.terms.disk_usd_per_gb_hour,
        "egress_usd_per_gb": x.terms.egress_usd_per_gb,
        "interruption_percent_max": x.extras.interruption_percent_max,
        "valid_as_of": x.extras.valid_as_of.isoformat() if x.extras.valid_as_of else None,
        "ranked": quarantined is None and not o.gpu.is_slice and not x.terms.commitment_unknown,
        "quarantined": quarantined, "notes": list(x.notes),
    }  # fmt: skip


def _cells(r: Mapping[str, Any]) -> list[str]:
    notes = ["quarantined"] if r["quarantined"] else []
    if not notes and not r["ranked"]:
        notes = ["not ranked: " + ("a slice" if r["slice"] else "its term is not stated")]
    note = "; ".join([*notes, *r["notes"]])
    return [
        r["gpu"], str(r["gpus"]), r["market"].replace("_", "-"), r["tier"],
        r["region"] or render.DASH, render.usd(Decimal(r["price_usd_per_gpu_hour"]), 4),
        render.usd(Decimal(r["price_usd_per_machine_hour"]), 4),
        words.stock(r["availability"], r["stock_label"]),
        r["source_id"], note,
    ]  # fmt: skip


def _discount_line(d: Mapping[str, Any]) -> str:
    of = " ".join(word.replace("_", "-") for word in (d["gpu"], d["market"]) if word)
    note = f" ({d['note']})" if d["note"] else ""
    return (
        f"discount: {d['percent']} % off {d['provider']} {of or 'as a whole'}, from "
        f"{d['valid_as_of']} until {d['expires_at']:%Y-%m-%d %H:%M} UTC{note}"
    )


def _table(rows: Sequence[Mapping[str, Any]], document: Mapping[str, Any], *, wide: bool) -> None:
    if rows or not document["discounts"]:
        render.print_table(_TABLE, [_cells(r) for r in rows], wide=wide)
        render.say()
    for d in document["discounts"]:
        render.say(_discount_line(d))
    held = [r for r in rows if r["quarantined"]]
    for r in held[:MAX_NOTES]:
        render.say(f"quarantined {r['source_id']}: {r['quarantined']}")
    if len(held) > MAX_NOTES:
        render.say(f"and {len(held) - MAX_NOTES:,} more quarantined; -o json has them all")
    for item in document["rejected"]:
        sample = item["sample"] if document["provider"] == OWN_FILES else item["sample"][:100]
        render.say(f"rejected {item['count']:,}: {item['reason']} (such as {sample})")
    for item in document["unmapped"]:
        rows_text = render.counted(item["rows"], "row")
        render.say(f"unknown GPU name {item['name']!r} ({item['vram']}), {rows_text}")
    if not document["complete"]:
        render.say(f"incomplete: {document['incomplete_reason']}")
    discounts = len(document["discounts"])
    also = f"{render.counted(discounts, 'discount')}, " if discounts else ""
    render.say(
        f"{render.counted(document['offers'], 'offer')}, {also}"
        f"{document['quarantined']:,} quarantined, "
        f"{render.counted(document['rejected_total'], 'row')} rejected"
    )
