"""gpuhunt's catalogues: rows, damaged files, and all three layouts over HTTP."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.harness import run
from tests.importing.worlds import AT, catalogue_csv, judged, reasons, spans, zipped
from tests.support.fixtures import NO_SHARED, SHARED
from tests.support.replay import Answer, ReplayServer, Request
from tracker.collect.importing import gpuhunt, words
from tracker.collect.importing.observation import NO_GPU, Snapshot
from tracker.collect.importing.source_gpuhunt import window

EXAMPLES = SHARED / "history" / "gpuhunt"
P5 = "p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}"
SPOT = "a2-highgpu-1g,us-central1-a,1.92802,12,85.0,1,A100,40.0,True,,nvidia,,x86,{}"


def parsed(*rows: str, header: str | None = None, provider: str = "aws") -> Snapshot:
    text = catalogue_csv(*rows)
    if header is not None:
        text = "\n".join([header, *rows])
    snapshot = Snapshot()
    gpuhunt.parse_csv(text, provider, AT, gpuhunt.HOLD, snapshot)
    return snapshot


def test_a_row_is_a_machine_in_one_place_on_one_market() -> None:
    [o] = parsed(SPOT, provider="gcp").observations
    listed = o.offer
    assert (listed.seller, listed.source_id, str(listed.market)) == ("gcp", "a2-highgpu-1g", "spot")
    assert (listed.region, listed.vram_gb, listed.gpu_count, o.amount) == (
        "us-central1-a", 40, 1, words.price("1.92802"),
    )  # fmt: skip
    assert o.until - o.at == timedelta(days=3)


def test_older_files_lack_the_last_columns() -> None:
    header = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory"
    [o] = parsed("p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0", header=header).observations
    assert str(o.offer.market) == "on_demand"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("m5.large,us-east-1,0.096,2,8.0,0,,,False,,,,x86,{}", NO_GPU),
        ("v5p-8,us-central1,16.8,0,0,8,tpu-v5p,,False,,,,x86,{}", "a TPU, not a GPU"),
        ("x,us-east-1,0,1,1,1,H100,80,False,,,,x86,{}", words.ZERO_PRICE),
        ("x,us-east-1,,1,1,1,H100,80,False,,,,x86,{}", words.NO_PRICE),
        ("x,us-east-1", gpuhunt.SHORT_ROW),
    ],
)
def test_what_is_no_offer_says_why(row: str, reason: str) -> None:
    assert [r.reason for r in parsed(row).refused] == [reason]


def test_flags_are_kept_as_notes() -> None:
    [o] = parsed(P5.replace("nvidia,,", "nvidia,odd new,")).observations
    assert o.offer.notes == ("gpuhunt flag: odd", "gpuhunt flag: new")


@pytest.mark.parametrize("body", [b"", b"not a zip", zipped(aws=catalogue_csv(P5))[:-30], zipped()])
def test_a_damaged_zip_is_one_refused_row(body: bytes) -> None:
    at = gpuhunt.catalogue_at("v2/20260601/catalog.zip")
    assert at is not None
    found = gpuhunt.parse_zip(body, at)
    assert [r.reason for r in found.refused] == [gpuhunt.BAD_ZIP]
    assert not found.observations
    assert not found.moments


def test_a_file_that_is_no_catalogue_closes_nothing() -> None:
    at = gpuhunt.catalogue_at("v2/20260601/catalog.zip")
    assert at is not None
    found = gpuhunt.parse_zip(zipped(aws="<html>", gcp=catalogue_csv()), at)
    assert [r.reason for r in found.refused] == [gpuhunt.NOT_A_CATALOGUE]
    assert not found.moments


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("v2/20240508/catalog.zip", (date(2024, 5, 8), 0, 2)),
        ("v3/aws/20260818-42/catalog.zip", (date(2026, 8, 18), 42, 3)),
        ("catalog-20240508.zip", (date(2024, 5, 8), 0, 2)),
        ("v2/20241340/catalog.zip", None),
        ("v2/latest/catalog.zip", None),
        ("v2/20240508/catalog.csv", None),
    ],
)
def test_a_path_says_the_day(path: str, expected: tuple[date, int, int] | None) -> None:
    found = gpuhunt.catalogue_at(path)
    assert (found and (found.day, found.run, found.layout)) == expected


def test_the_days_asked_for() -> None:
    now = datetime(2026, 9, 10, 12, tzinfo=UTC)
    assert window(None, None, now) == (date(2026, 8, 12), date(2026, 9, 10))
    until = datetime(2026, 9, 1, tzinfo=UTC)
    assert window(datetime(2026, 8, 30, tzinfo=UTC), until, now) == (
        date(2026, 8, 30), date(2026, 8, 31),
    )  # fmt: skip


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason=NO_SHARED)
def test_the_examples_of_the_format_are_read() -> None:
    found = Snapshot()
    for path in sorted(EXAMPLES.glob("*.csv")):
        provider = words.seller(path.name.partition(".")[0])
        gpuhunt.parse_csv(path.read_text(), provider, AT, gpuhunt.HOLD, found)
    report = judged(found, listings=True)
    assert (report.rows, report.kept, reasons(report)) == (7, 7, {})
    assert set(report.sellers) == {"aws", "gcp", "lambda"}


# -- over HTTP -----------------------------------------------------------------------------------

LISTED = (
    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "{}</ListBucketResult>"
)


def listing(request: Request) -> Answer:
    """A bucket that lists: v3/aws with three runs on two pages."""
    prefix = request.query["prefix"]
    found = {
        "v3/": ["v3/aws/"],
        "v3/aws/": ["v3/aws/20260818-42/", "v3/aws/20260818-43/", "v3/aws/latest/"],
        "v3/aws/ more": ["v3/aws/20260819-44/"],
    }[prefix + (" more" if request.query.get("continuation-token") else "")]
    prefixes = "".join(f"<CommonPrefixes><Prefix>{p}</Prefix></CommonPrefixes>" for p in found)
    if prefix == "v3/aws/" and "continuation-token" not in request.query:
        prefixes += "<NextContinuationToken>next</NextContinuationToken>"
    return Answer(LISTED.format(prefixes).encode(), headers={"content-type": "application/xml"})


def serve(server: ReplayServer, *, lists: bool) -> None:
    def usd(price: str) -> bytes:
        return zipped(aws=catalogue_csv(P5.replace("55.04", price)))

    files = {
        "/v1/20260815/catalog.zip": usd("51"),
        "/v2/20260816/catalog.zip": usd("52"),
        "/v2/20260817/catalog.zip": usd("53"),
        "/v1/20260817/catalog.zip": usd("54"),
        "/v3/aws/20260818-42/catalog.zip": usd("55"),
        "/v3/aws/20260818-43/catalog.zip": usd("56"),
        "/v3/aws/20260819-44/catalog.zip": usd("57"),
        "/v3/aws/version": b"20260819-44\n",
    }
    for path, body in files.items():
        kind = {"content-type": "application/zip"}
        server.handle("GET", path, lambda _, body=body, kind=kind: Answer(body, headers=kind))
    if lists:
        server.handle("GET", "/", listing)


@pytest.mark.parametrize("lists", [True, False])
def test_all_three_layouts_over_http(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lists: bool
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with ReplayServer() as server:
        serve(server, lists=lists)
        asked = ("import", "gpuhunt", server.url, "--since", "2026-08-14", "--until", "2026-08-21")
        done = run(*asked)
        assert done.code == 0, done.err
        found = [(str(usd), start.day) for *_, usd, start, _ in spans(database_url)]
        # v2 goes before v1; of two runs on a day the last one counts.
        expected = [("51", 15), ("52", 16), ("53", 17), ("56", 18), ("57", 19)]
        if not lists:  # then only the current run is known by name
            expected.remove(("56", 18))
        assert found == expected
        assert "days without a catalogue" in done.out
        count = len(server.requests)
        again = run(*asked, "-o", "json").json()
        assert again["replaced"] == 0
        assert len(server.requests) > count, "its content may have changed: it is asked again"


def test_a_bucket_that_cannot_be_reached_is_one_line(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    monkeypatch.setenv("GPUCOST_HTTP__ATTEMPTS", "1")
    with ReplayServer() as server:
        url = server.url
    done = run("import", "gpuhunt", url, "--since", "2026-08-14", "--until", "2026-08-15")
    assert done.code == 6
    assert "run the same command again" in done.complaint


def test_an_empty_bucket_says_so(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    with ReplayServer() as server:
        window = ("--since", "2026-08-14", "--until", "2026-08-17")
        done = run("import", "gpuhunt", server.url, *window, "--dry-run")
    assert done.code == 2
    assert "nothing found" in done.complaint
