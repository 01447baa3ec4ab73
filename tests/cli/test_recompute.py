"""``gpucost jobs recompute``: a new version where something has changed, and else nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, H100, ago, filled, polled, run
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker import __version__
from tracker.app import App
from tracker.report.history.provenance import UNKNOWN, causes
from tracker.report.history.versions import Versions, digest_of, estimates_now
from tracker.store import job_estimates, reads
from tracker.store.engine import connect

JOB = "llama-3.1-8b-lora"
THEN = ago(24 * 60)


@pytest.fixture
def url(database_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    offers = [make_offer("h100", "3", gpu=H100), make_offer("a100", "1.2", gpu=A100)]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        yield url


def _put_on_record(url: str, name: str = JOB, moment: datetime = THEN) -> None:
    """As the daemon does it for the jobs of its rules."""
    job = App(None).job(name)
    with connect(url) as connection, connection.cursor() as cursor:
        found = estimates_now(job, reads.live_offers(connection), catalogue(), moment)
        assert job_estimates.add(cursor, digest_of(job), found) == 2


def _rows(url: str) -> list[tuple[Any, ...]]:
    with connect(url) as connection:
        return connection.execute("SELECT * FROM job_estimate ORDER BY id").fetchall()


def _alter(url: str, what: str, *values: Any) -> None:
    with connect(url) as connection:
        connection.execute(f"UPDATE job_estimate SET {what}", values)  # noqa: S608


def _asked(*argv: str) -> dict[str, Any]:
    answer = run("jobs", "recompute", *argv, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_where_nothing_has_changed_nothing_is_written(url: str) -> None:
    _put_on_record(url)
    before = _rows(url)
    for argv in ((), (JOB,), (JOB, "--dry-run")):
        answer = run("jobs", "recompute", *argv)
        assert answer.lines == [
            "Nothing has changed: 2 estimates of 1 job on record are as they would be now. Nothing "
            "is written."
        ]
    assert _rows(url) == before


def test_a_measurement_is_a_new_version_and_the_old_one_stays(url: str) -> None:
    _put_on_record(url)
    before = _rows(url)
    measured = run("jobs", "measure", JOB, "--gpu", "H100-SXM-80GB", "--hours", "4")
    assert measured.code == 0
    dry = _asked("--dry-run")
    assert (dry["dry_run"], dry["looked_at"], dry["changed"], dry["written"]) == (True, 2, 2, 0)
    assert _rows(url) == before
    change = {(one["gpu"], one["gpus"]): one for one in dry["changes"]}[H100.key, 1]
    stored, new = change["stored"], change["new"]
    assert (stored["version"], stored["basis"], new["version"], new["basis"]) == (
        "1", "modelled", "2", "measured",
    )  # fmt: skip
    assert new["hours"] == 4
    assert change["change_percent"] == pytest.approx(100 * (4 / stored["hours"] - 1), abs=0.01)
    [cause] = change["causes"]
    assert cause.startswith("measurement on H100-SXM-80GB: none -> 4 h on 1, version 1 of ")

    written = _asked(JOB)
    assert (written["written"], written["changes"]) == (2, _changes_but_time(written, dry))
    after = _rows(url)
    assert after[: len(before)] == before  # to the last bit
    assert len(after) == len(before) + 2
    with connect(url) as connection:
        recorded = job_estimates.of_job(connection, digest_of(App(None).job(JOB)))
    made = [one for one in recorded if one.version == "2"]
    assert {one.gpu_key for one in made} == {H100.key, A100.key}
    for one in made:
        assert one.provenance is not None
        assert one.provenance["gpucost"] == __version__
        assert one.provenance["why"] == "recomputed"
        assert one.provenance["calibration"] == App(None).estimator.calibration.version
        assert one.provenance["causes"] == [cause]
    # The past keeps what it was made with.
    versions, now = Versions.read(recorded), datetime.now(UTC)
    past, present = (versions.at(H100.key, 1, at) for at in (now - timedelta(hours=1), now))
    assert isinstance(past, tuple)
    assert isinstance(present, tuple)
    assert [way.basis for way in (past[0], present[0])] == ["modelled", "measured"]
    assert run("jobs", "recompute").lines[0].startswith("Nothing has changed: 2 estimates")
    assert _rows(url) == after


def _changes_but_time(written: dict[str, Any], dry: dict[str, Any]) -> list[dict[str, Any]]:
    """The changes of the dry run, at the moment at which they were written."""
    moments = iter([one["new"]["recorded_at"] for one in written["changes"]])
    return [{**one, "new": {**one["new"], "recorded_at": next(moments)}} for one in dry["changes"]]


def test_another_calibration_or_catalogue_is_named_as_the_cause(url: str) -> None:
    _put_on_record(url)
    slower = """way = (SELECT jsonb_agg(w || jsonb_build_object('hours',
        ((w->>'hours')::numeric * 1.25)::text, 'version', 'older'))
        FROM jsonb_array_elements(way) w),
        provenance = provenance || %s::jsonb"""
    _alter(url, slower, json.dumps({"calibration": "older"}))
    version = App(None).estimator.calibration.version
    answer = run("jobs", "recompute", "--dry-run")
    [row] = [line for line in answer.lines if "H100-SXM-80GB" in line]
    assert "-20.0 %" in row
    assert f"Cause 1: calibration older -> {version}." in answer.lines
    assert "1 -> 2" in row
    assert answer.lines[-1] == (
        "2 of 2 estimates of 1 job would get a new version. Nothing is written: it is a dry run."
    )
    _alter(url, "provenance = provenance || %s::jsonb",
           json.dumps({"catalogue": {A100.key: "other"}, "gpucost": "0.0.1"}))  # fmt: skip
    assert _asked("--dry-run")["changes"][0]["causes"] == [
        f"calibration older -> {version}", "catalogue: other figures of A100-SXM-80GB",
        f"gpucost 0.0.1 -> {__version__}",
    ]  # fmt: skip
    # Written before provenance was: what the hours themselves say.
    _alter(url, "provenance = NULL")
    assert _asked("--dry-run")["changes"][0]["causes"] == [f"calibration older -> {version}"]
    assert run("jobs", "recompute").lines[-1] == (
        "2 of 2 estimates of 1 job got a new version; those before stay as they are."
    )


def test_a_gpu_that_lost_its_hours_has_none_from_then_on(url: str, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('name = "mine"\n[hours]\nH100 = 4\nA100 = 12\n')
    _put_on_record(url, str(own))
    own.write_text('name = "mine"\n[hours]\nA100 = 13\n')
    changes = {one["gpu"]: one for one in _asked(str(own))["changes"]}
    assert (changes[H100.key]["new"]["hours"], changes[H100.key]["change_percent"]) == (None, None)
    assert changes[H100.key]["causes"] == [
        "hours given for A100: 12 h on 1, stated -> 13 h on 1, stated",
        "hours given for H100: 4 h on 1, stated -> none",
    ]
    assert changes[A100.key]["change_percent"] == 8.33
    with connect(url) as connection:
        digest = digest_of(App(None).job(str(own)))
        [newest] = [o for o in job_estimates.newest(connection, digest) if o.gpu_key == H100.key]
    assert (newest.ways, newest.version) == ([], "2")


def test_what_is_not_on_record_is_said(url: str, tmp_path: Path) -> None:
    answer = run("jobs", "recompute")
    assert (answer.code, answer.complaint) == (
        3, "no estimate is on record: the daemon records those of the jobs of alert rules",
    )  # fmt: skip
    _put_on_record(url)
    named = run("jobs", "recompute", "bert-large")
    assert named.code == 3
    assert "no estimate is on record of bert-large" in named.complaint
    both = run("jobs", "recompute", "bert-large", JOB)
    assert both.lines[-1] == "bert-large: no estimate is on record."
    own = tmp_path / "mine.toml"
    own.write_text('name = "mine"\n[hours]\nH100 = 4\nA100 = 12\n')
    _put_on_record(url, str(own))
    # Of a job in a file somewhere only the digest of its name is known.
    assert "those of 1 job on record are left out" in run("jobs", "recompute").lines[-1]
    assert run("jobs", "recompute", "nosuch").code == 2


def test_causes_without_a_trace_are_not_made_up() -> None:
    way = {"hours": "4", "basis": "stated", "version": None, "note": None}
    assert causes(None, {}, ([way], [{**way, "hours": "5"}])) == (UNKNOWN,)
    measured = {**way, "basis": "measured", "note": "measured on 2026-12-01, version 2; night"}
    assert causes(None, {}, ([way], [measured])) == ("measurement",)


def test_an_embedded_database_that_is_empty_is_nothing_on_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GPUCOST_DATABASE_URL", raising=False)
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path / "data"))
    answer = run("jobs", "recompute", "--dry-run")
    assert (answer.code, answer.complaint) == (
        3, "no estimate is on record: nothing was recorded yet",
    )  # fmt: skip
