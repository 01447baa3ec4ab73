"""What the tests of importing share: requests, imports in this process, and history as stored."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.catalogue import catalogue
from tracker.collect.importing.generic import Reader
from tracker.collect.importing.intake import Intake
from tracker.collect.importing.mapping import read_mapping
from tracker.collect.importing.observation import Observation, Report, Snapshot
from tracker.collect.importing.opening import Request, open_source
from tracker.collect.importing.run import Judging, Outcome, dry_run, run_import
from tracker.domain.quality import Rules
from tracker.store.engine import connect

NOW = datetime(2026, 12, 1, tzinfo=UTC)
AT = datetime(2026, 6, 1, tzinfo=UTC)
OBSERVATIONS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "observations.toml"

GPUHUNT = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,"
    "gpu_vendor,flags,cpu_arch,provider_data"
)


def nothing(_url: str) -> bytes | None:
    """An HTTP server that has no file."""
    return None


def judging(since: datetime | None = None, until: datetime | None = None) -> Judging:
    return Judging(catalogue(), Rules(), since, until)


def request(kind: str, source: Path | str, **fields: Any) -> Request:
    return Request(kind, str(source), NOW, **fields)


def dry(kind: str, source: Path | str, **fields: Any) -> Outcome:
    """A dry run."""
    asked = request(kind, source, **fields)
    window = judging(asked.since, asked.until)
    return dry_run(open_source(asked, nothing), window, lambda *_: None)


def imported(url: str, kind: str, source: Path | str, **fields: Any) -> Outcome:
    """An import into the database at *url*."""
    asked = request(kind, source, **fields)
    window = judging(asked.since, asked.until)
    return run_import(url, open_source(asked, nothing), window, lambda *_: None)


def judged(snapshot: Snapshot, *, listings: bool = False) -> Report:
    """What becomes of the rows of *snapshot*."""
    report = Report()
    Intake(catalogue(), Rules(), "import-test", report, listings=listings).take(snapshot)
    return report


def table(mapping: str, *rows: Mapping[str, str]) -> Snapshot:
    """The *rows* of a table, read by *mapping* (TOML)."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    reader, snapshot = Reader(read_mapping(mapping), header, NOW), Snapshot()
    assert not reader.missing, reader.missing
    for number, row in enumerate(rows, 1):
        reader.read([row.get(name, "") for name in header], f"row {number}", snapshot)
    return snapshot


def reasons(report: Report) -> dict[str, int]:
    return dict(report.refused)


def zipped(**files: str) -> bytes:
    """A catalogue: provider → CSV."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for provider, text in files.items():
            archive.writestr(f"{provider}.csv", text)
    return buffer.getvalue()


def catalogue_csv(*rows: str) -> str:
    return "\n".join([GPUHUNT, *rows]) + "\n"


def spans(url: str, source: str | None = None) -> list[tuple[Any, ...]]:
    """All closed spans: seller, native id, market, region, price, from, to; in order."""
    with connect(url, autocommit=True) as connection:
        return connection.execute(
            "SELECT b.slug, o.native_id, o.market, o.region, s.price_native, s.valid_from,"
            " s.valid_to FROM price_span s JOIN offer o ON o.id = s.offer_id"
            " JOIN provider a ON a.id = s.source_id JOIN provider b ON b.id = s.seller_id"
            " WHERE %(source)s::text IS NULL OR a.slug = %(source)s ORDER BY 1, 2, 3, 4, 6",
            {"source": source},
        ).fetchall()


def steps(observations: list[Observation]) -> list[tuple[str, Decimal, datetime, timedelta]]:
    return [(o.offer.source_id, o.amount, o.at, o.until - o.at) for o in observations]
