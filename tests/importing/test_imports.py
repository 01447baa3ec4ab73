"""Imports into a real database: once or twice, in pieces, interrupted, refused."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.importing.worlds import (
    OBSERVATIONS,
    catalogue_csv,
    imported,
    judging,
    nothing,
    request,
    spans,
    zipped,
)
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect.importing import intake
from tracker.collect.importing import run as running
from tracker.collect.importing.opening import open_source
from tracker.collect.importing.source import BadSource, ImportFailed, Unit
from tracker.store import import_merge, imports
from tracker.store.engine import connect

HISTORY = SHARED / "history"
needs_history = pytest.mark.skipif(not HISTORY.is_dir(), reason=NO_SHARED)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def folder_of_zips(root: Path, days: dict[str, dict[str, str]]) -> Path:
    for day, files in days.items():
        path = root / "v2" / day / "catalog.zip"
        path.parent.mkdir(parents=True)
        path.write_bytes(zipped(**files))
    return root


P5 = "p5.48xlarge,us-east-1,{usd},192,2048.0,8,H100,80.0,False,,nvidia,,x86,{{}}"
P4 = "p4d.24xlarge,us-east-1,{usd},96,1152.0,8,A100,40.0,False,,nvidia,,x86,{{}}"
SXM = "gpu_8x_h100_sxm5,us-east-1,{usd},208,1800.0,8,H100,80.0,False,,nvidia,,x86,{{}}"
WORLD = {
    "20260601": {
        "aws": catalogue_csv(P5.format(usd="55.04"), P4.format(usd="21.9576")),
        "lambdalabs": catalogue_csv(SXM.format(usd="27.52")),
    },
    "20260602": {"aws": catalogue_csv(P5.format(usd="55.04"))},
    "20260603": {
        "aws": catalogue_csv(P5.format(usd="50.00"), P4.format(usd="21.9576")),
        "lambdalabs": catalogue_csv(SXM.format(usd="27.52")),
    },
}
EXPECTED = [
    ("aws", "p4d.24xlarge", Decimal("21.9576"), "2026-06-01", "2026-06-02"),
    ("aws", "p4d.24xlarge", Decimal("21.9576"), "2026-06-03", "2026-06-06"),
    ("aws", "p5.48xlarge", Decimal("55.04"), "2026-06-01", "2026-06-03"),
    ("aws", "p5.48xlarge", Decimal("50"), "2026-06-03", "2026-06-06"),
    # Nobody listed Lambda on the second: that says nothing, and three days hold.
    ("lambda", "gpu_8x_h100_sxm5", Decimal("27.52"), "2026-06-01", "2026-06-06"),
]


def told(url: str) -> list[tuple[Any, ...]]:
    return [
        (seller, name, usd, f"{start:%Y-%m-%d}", f"{end:%Y-%m-%d}")
        for seller, name, _, _, usd, start, end in spans(url, "import-gpuhunt")
    ]


def test_listings_become_spans_that_end_where_an_offer_is_missing(
    database_url: str, tmp_path: Path
) -> None:
    outcome = imported(database_url, "gpuhunt", folder_of_zips(tmp_path, WORLD))
    assert told(database_url) == EXPECTED
    assert (outcome.report.rows, outcome.report.kept, outcome.spans) == (7, 7, 5)
    assert len(outcome.report.days) == 3
    # Its source is an import, its sellers are providers like any other, and nothing is left over.
    kinds = dict(rows(database_url, "SELECT slug, kind FROM provider"))
    assert kinds == {"import-gpuhunt": "import", "aws": "seller", "lambda": "seller"}
    assert not rows(database_url, "SELECT relname FROM pg_class WHERE relname LIKE 'import_stage%'")
    [(state, form, source, counts)] = rows(
        database_url, "SELECT state, format, source, counts FROM import_run"
    )
    assert (state, form, source, counts["kept"]) == ("done", "gpuhunt", str(tmp_path), 7)
    assert rows(database_url, "SELECT count(*) FROM price_floor") != [(0,)]


def test_floors_are_built_with_statistics_of_what_was_just_written(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, known = import_merge.floor_rebuild.rebuild_all, []

    def rebuild_all(cursor: Any, source_ids: Any) -> Any:
        cursor.execute("SELECT reltuples FROM pg_class WHERE relname = 'price_span_2026_06'")
        known.append(cursor.fetchall())
        return build(cursor, source_ids)

    monkeypatch.setattr(import_merge.floor_rebuild, "rebuild_all", rebuild_all)
    monkeypatch.setattr(import_merge, "_MANY", 1)
    imported(database_url, "gpuhunt", folder_of_zips(tmp_path, WORLD))
    assert known == [[(len(EXPECTED),)]]


def test_again_and_in_pieces_changes_nothing(database_url: str, tmp_path: Path) -> None:
    root = folder_of_zips(tmp_path, WORLD)
    second = {"since": utc("2026-06-02"), "until": utc("2026-06-02T12:00")}
    for window in (
        {"since": utc("2026-06-03")},
        {"until": utc("2026-06-02T12:00")},
        second,
        {},
        {},
    ):
        imported(database_url, "gpuhunt", root, **window)
    assert told(database_url) == EXPECTED
    assert [s for (s,) in rows(database_url, "SELECT state FROM import_run")] == ["done"] * 5


class Killed(BaseException):
    """As if the process were gone."""


def killed_after(n: int) -> Callable[..., None]:
    left = [n]

    def progress(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return progress


@pytest.mark.parametrize("units", [0, 1, 2])
def test_an_interrupted_import_shows_nothing_and_goes_on(
    database_url: str, tmp_path: Path, units: int
) -> None:
    asked = request("gpuhunt", folder_of_zips(tmp_path, WORLD))
    with pytest.raises(Killed):
        running.run_import(
            database_url, open_source(asked, nothing), judging(), killed_after(units)
        )
    assert spans(database_url) == []
    assert rows(database_url, "SELECT count(*) FROM offer") == [(0,)]
    read: list[str] = []
    source = open_source(asked, nothing)
    outcome = running.run_import(
        database_url, source, judging(), lambda _done, _total, label: read.append(label)
    )
    assert outcome.resumed
    assert len(read) == 3 - units - 1, "what was staged is not read again"
    assert (outcome.report.rows, outcome.report.kept) == (7, 7)
    assert told(database_url) == EXPECTED


def test_a_merge_that_fails_leaves_nothing_and_is_done_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder_of_zips(tmp_path, WORLD)
    with monkeypatch.context() as patch:
        patch.setattr(import_merge, "_finish", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            imported(database_url, "gpuhunt", root)
    assert spans(database_url) == []
    assert imported(database_url, "gpuhunt", root).resumed
    assert told(database_url) == EXPECTED


def test_a_run_that_is_given_up_leaves_no_tables(database_url: str, tmp_path: Path) -> None:
    root = folder_of_zips(tmp_path, WORLD)
    asked = request("gpuhunt", root, until=utc("2026-06-02T12:00"))
    with pytest.raises(Killed):
        running.run_import(database_url, open_source(asked, nothing), judging(), killed_after(0))
    imported(database_url, "gpuhunt", root)
    states = rows(database_url, "SELECT state FROM import_run ORDER BY id")
    assert states == [("failed",), ("done",)]
    assert not rows(database_url, "SELECT relname FROM pg_class WHERE relname LIKE 'import_stage%'")
    assert told(database_url) == EXPECTED


def test_two_imports_into_one_source_do_not_mix(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder_of_zips(tmp_path, WORLD)
    monkeypatch.setattr(imports, "LOCK_WAIT_MS", 50)

    def second(*_: object) -> None:
        with pytest.raises(imports.ImportBusy, match="another import into import-gpuhunt"):
            imported(database_url, "gpuhunt", root)

    source = open_source(request("gpuhunt", root), nothing)
    running.run_import(database_url, source, judging(), second)
    assert told(database_url) == EXPECTED


def test_a_broken_listing_is_refused_whole_and_closes_nothing(
    database_url: str, tmp_path: Path
) -> None:
    full = [P5.format(usd=usd).replace("us-east-1", f"r{n}") for n, usd in enumerate(["55.04"] * 6)]
    days = {"20260601": {"aws": catalogue_csv(*full)}, "20260602": {"aws": catalogue_csv(full[0])},
            "20260603": {"aws": catalogue_csv(*full)}}  # fmt: skip
    outcome = imported(database_url, "gpuhunt", folder_of_zips(tmp_path, days))
    assert outcome.report.refused == {intake.BROKEN: 1}
    assert {(start.day, end.day) for *_, start, end in spans(database_url)} == {(1, 6)}


def test_a_provider_that_is_polled_cannot_be_imported_into(
    database_url: str, tmp_path: Path
) -> None:
    rows_ = "INSERT INTO provider (slug, kind) VALUES ('import-gpuhunt', 'stream')"
    with connect(database_url, autocommit=True) as connection:
        connection.execute(rows_)
    with pytest.raises(imports.StoreError, match="another name"):
        imported(database_url, "gpuhunt", folder_of_zips(tmp_path, WORLD))


def test_a_source_without_a_date_or_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "catalog.zip").write_bytes(zipped(aws=catalogue_csv(P5.format(usd="55.04"))))
    with pytest.raises(BadSource, match="no zip with a date"):
        open_source(request("gpuhunt", tmp_path), nothing)
    with pytest.raises(BadSource, match="no such file"):
        open_source(request("gpuhunt", tmp_path / "nowhere"), nothing)
    with pytest.raises(BadSource, match="say --at"):
        open_source(request("skypilot", tmp_path), nothing)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadSource, match="describe it with --mapping"):
        open_source(request("csv", tmp_path / "x.csv"), nothing)


def test_a_source_that_fails_halfway_can_be_taken_up(database_url: str, tmp_path: Path) -> None:
    source = open_source(request("gpuhunt", folder_of_zips(tmp_path, WORLD)), nothing)

    class Failing:
        plan = source.plan

        def units(self, after: str | None) -> Any:
            yield Unit(*next(iter(source.units(after))))
            raise ImportFailed("gone")

    with pytest.raises(ImportFailed):
        running.run_import(database_url, Failing(), judging(), lambda *_: None)
    assert running.run_import(database_url, source, judging(), lambda *_: None).resumed
    assert told(database_url) == EXPECTED


# -- the history of four years ------------------------------------------------------------------


@pytest.fixture(scope="module")
def four_years(database_server: Any) -> Any:
    with database_server.database(migrated=True) as url:
        outcome = imported(url, "csv", HISTORY / "observations.csv.gz", mapping=OBSERVATIONS)
        yield url, outcome


def _per_job(url: str, moment: str, gpu: str, gpus: int, hours: int) -> Decimal:
    """The least that *hours* on *gpus* GPUs cost then: GCP, spot, us-central1."""
    with connect(url, autocommit=True) as connection:
        [(micro_usd,)] = connection.execute(
            "SELECT min(s.price_micro_usd) FROM price_span s JOIN provider p ON p.id = s.seller_id"
            " WHERE s.valid_from <= %(at)s AND s.valid_to > %(at)s AND s.gpu_key = %(gpu)s"
            " AND s.gpu_count = %(gpus)s AND s.market = 'spot' AND s.region = 'us-central1'"
            " AND p.slug = 'gcp'",
            {"at": moment, "gpu": gpu, "gpus": gpus},
        ).fetchall()
    return round(Decimal(micro_usd) * hours / 10**6, 2)


@needs_history
def test_the_h100_becomes_the_cheaper_one_and_stops_being_it(four_years: Any) -> None:
    url, _ = four_years
    expected = {
        "2025-03-06T12:00Z": ("15.52", "17.70"), "2025-03-13T12:00Z": ("17.32", "10.21"),
        "2026-07-02T12:00Z": ("23.14", "21.90"), "2026-07-09T12:00Z": ("23.14", "24.09"),
    }  # fmt: skip
    for moment, (a100, h100) in expected.items():
        assert _per_job(url, moment, "A100-SXM-40GB", 1, 12) == Decimal(a100), moment
        assert _per_job(url, moment, "H100-SXM-80GB", 1, 4) == Decimal(h100), moment


@needs_history
def test_the_crossings_are_on_the_days_of_the_series(four_years: Any) -> None:
    """At every observation of the published series the answer is the published one."""
    url, _ = four_years
    with (HISTORY / "series_gcp_spot_us-central1.csv").open() as file:
        series = list(csv.DictReader(file))
    compared = 0
    for row in series:
        if row["observed_at"] < "2024-09-19":  # the H100 is first sold one at a time then
            continue
        a100 = _per_job(url, row["observed_at"], "A100-SXM-40GB", 1, 12)
        h100 = _per_job(url, row["observed_at"], "H100-SXM-80GB", 1, 4)
        assert (h100 < a100) == (row["h100_cheaper"] == "True"), row
        compared += 1
    assert compared > 100


@needs_history
def test_a_gap_in_a_sparse_series_stays_a_gap(four_years: Any) -> None:
    """AWS: the cut of p5 was seen on 2025-06-05, p4d next in 2026: forward-filled, the ratio of
    the two would be one that nobody ever saw."""
    url, _ = four_years
    known = rows(
        url,
        "SELECT min(s.valid_to - s.valid_from), max(s.valid_to), count(*) FROM price_span s"
        " JOIN provider p ON p.id = s.seller_id WHERE p.slug = 'aws' AND s.gpu_key LIKE 'A100%40GB'"
        " AND s.market = 'on_demand' AND s.valid_from < '2026-01-01'",
    )
    assert known[0][0] <= timedelta(days=8)
    assert known[0][1] < utc("2025-07-01")


@needs_history
def test_what_was_imported_can_be_traced(four_years: Any) -> None:
    url, outcome = four_years
    [(source, counts, digest)] = rows(url, "SELECT source, counts, digest FROM import_run")
    assert source.endswith("observations.csv.gz")
    assert len(digest) == 32
    assert counts["rows"] == outcome.report.rows == 46549
    assert counts["kept"] + sum(counts["refused"].values()) == counts["rows"]
    assert set(counts["samples"]) == set(counts["refused"])
    again = imported(url, "csv", HISTORY / "observations.csv.gz", mapping=OBSERVATIONS)
    assert again.repeated


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_any_table_with_a_mapping_in_three_formats(
    database_url: str, tmp_path: Path, kind: str
) -> None:
    table = [
        {"at": "2026-06-01T00:00:00Z", "who": "aws", "type": "p5.48xlarge", "usd": usd, "n": 8}
        for usd in ("55.04",)
    ]
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[source]\nname = "mine"\nprice_per = "machine"\ncurrency = "USD"\nholds = "8d"\n'
        '[columns]\nobserved_at = "at"\nseller = "who"\nid = "type"\nprice = "usd"\n'
        'gpu_count = "n"\n[constants]\ngpu = "H100 80GB"\nmarket = "on_demand"\n'
    )
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        with gzip.open(path, "wt") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    elif kind == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(table), path)
    imported(database_url, kind, path, mapping=mapping)
    [(seller, name, market, region, usd, start, end)] = spans(database_url, "import-mine")
    assert (seller, name, market, region, usd) == (
        "aws", "p5.48xlarge", "on_demand", None, Decimal("55.04"),
    )  # fmt: skip
    assert end - start == timedelta(days=8)
