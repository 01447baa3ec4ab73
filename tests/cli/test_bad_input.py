"""Bad input: one clear line on stderr, the documented exit code, nothing half-written."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import filled, polled, record, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.app import App
from tracker.app.kept import MAX_JOB_BYTES
from tracker.domain.job import JobError
from tracker.store.engine import connect

FUTURE = "2999-01-01"


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, polled("acme", [make_offer("h100", "3")])) as url:
        yield url


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--colour"], "No such option"),
        (["cheapst", "bert-large"], "Did you mean cheapest?"),
        (["xyzzy"], "See gpucost --help"),
        (["db", "upgarde"], "upgarde"),
        (["offers", "--gpuu", "H100"], "--gpu"),
        (["offers", "-o", "yaml"], "'table', 'wide', 'json', 'csv', 'ndjson'"),
        (["offers", "extra"], "unexpected extra argument"),
        (["offers", "--top", "0"], "--top"),
        (["offers", "--top", "-3"], "--top"),
        (["offers", "--top", "many"], "--top"),
        (["offers", "--all", "--top", "3"], "--all and --top exclude each other"),
        (["offers", "--gpu", "H10"], "did you mean H100"),
        (["offers", "--gpu", ","], "is empty"),
        (["offers", "--gpu", ""], "is empty"),
        (["offers", "--provider", "acmee"], "did you mean acme"),
        (["offers", "--provider", "zzzzzz"], "known: acme"),
        (["offers", "--market", "spott"], "did you mean spot?"),
        (["offers", "--market", "any,spot"], "name no others beside it"),
        (["offers", "--tier", "any,secure"], "name no others beside it"),
        (["offers", "--country", "USA"], "two-letter"),
        (["offers", "--min-vram", "0"], "--min-vram"),
        (["offers", "--min-vram", "-1"], "--min-vram"),
        (["offers", "--min-vram", "NaN"], "--min-vram"),
        (["offers", "--min-ram", "1e400"], "--min-ram"),
        (["offers", "--min-disk", "lots"], "is not a number of GB, such as 12 or 12GB"),
        (["offers", "--min-vram", "80GiB"], "'80GiB' is not a number of GB"),
        (["cheapest", "bert-large", "--deadline", "90 minutes"], "of hours, such as 12 or 12h"),
        (["cheapest", "bert-large", "--deadline", "99999d"], "and at most 87,600"),
        (["offers", "--gpus", "0"], "--gpus"),
        (["offers", "--gpus", "1.5"], "--gpus"),
        (["offers", "--max-age", "soon"], "is not a duration such as 90s, 30m, 2h or 7d"),
        (["offers", "--max-age", "0s"], "longer than zero"),
        (["offers", "--max-age", "9" * 40 + "d"], "is too long"),
        (["offers", "--as-of", "yesterday"], "is not a time such as 2026-03-01"),
        (["offers", "--as-of", FUTURE], "lies in the future"),
        (["offers", "--as-of", "2026-02-30"], "is not a time"),
        (["offers", "--as-of", "2026-01-01", "--available"], "exclude each other"),
        (["offers", "--as-of", "2026-01-01", "--max-age", "1h"], "exclude each other"),
        (["offers", "--as-of", "2026-01-01", "--min-network", "1"], "exclude each other"),
        (["cheapest", "bert-large", "--as-of", "2026-01-01", "--verify"], "exclude each other"),
        (["offers", "--quarantined", "--min-ram", "4"], "--quarantined goes with"),
        (["offers", "--quarantined", "--as-of", "2026-01-01"], "--quarantined goes with"),
        (["cheapest"], "name a job"),
        (["cheapest", "bert-lage"], "did you mean bert-large"),
        (["cheapest", "nonsense"], "built in: bert-base-inference, bert-large,"),
        (["cheapest", "x" * 5000], "no job is called"),
        (["cheapest", "~nosuchuser/x.toml"], "there is no such home directory"),
        (["cheapest", "--hours", "A100"], "is not GPU=HOURS"),
        (["cheapest", "--hours", ""], "is not GPU=HOURS"),
        (["cheapest", "--hours", "A100=-1"], "a job takes more than 0 hours"),
        (["cheapest", "--hours", "A100=0"], "a job takes more than 0 hours"),
        (["cheapest", "--hours", "A100=1e30"], "out of range"),
        (["cheapest", "--hours", "A100=nan"], "A100"),
        (["cheapest", "--hours", "A100=99999999"], "more than ten years"),
        (["cheapest", "--hours", "Q100=3"], "Q100"),
        (["cheapest", "--hours", "A100=1,a100=2"], "keep one"),
        (["cheapest", "bert-large", "--disk", "-5"], "--disk"),
        (["cheapest", "bert-large", "--compare", "H100"], "name two GPUs"),
        (["cheapest", "bert-large", "--compare", "H100,H100-SXM"], "name two different GPUs"),
        (["cheapest", "bert-large", "--compare", "H100,XYZZY1"], "XYZZY1"),
        (["explain"], "Missing argument"),
        (["poll", "--provider", "runpodd"], "did you mean runpod"),
        (["poll", "--deadline", "-1s"], "--deadline"),
        (["provider", "check", "runpodd"], "did you mean runpod"),
        (["provider", "parse", "vast", "x.json"], "did you mean vastai"),
        (["provider", "parse", "runpod"], "Missing argument"),
        (["provider", "parse", "runpod", "missing.json"], "missing.json: No such file"),
        (["db", "start"], "there is no embedded server"),
        (["db", "stop"], "there is no embedded server"),
        (["--config", "missing.toml", "offers"], "there is no file"),
    ],
)  # fmt: skip
def test_usage_errors_are_one_line_and_exit_2(argv: list[str], says: str) -> None:
    answer = run(*argv)
    assert says in answer.complaint
    assert (answer.code, answer.out) == (2, "")


@pytest.mark.usefixtures("_at_market")
def test_an_id_that_nothing_has_is_exit_3() -> None:
    answer = run("explain", "ffffffffff")
    assert answer.code == 3
    assert answer.complaint == "no offer has the id 'ffffffffff'; gpucost offers lists them"


@pytest.mark.usefixtures("_at_market")
def test_an_id_that_is_too_short_says_so() -> None:
    answer = run("explain", "e1f")
    said = "no offer has the id 'e1f'; of an id 4 digits are needed; gpucost offers lists them"
    assert (answer.code, answer.complaint) == (3, said)


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize("reference", ["abcd\udcff", "acme/\udcff", "\udcff", "ab\0cd"])
def test_an_id_that_is_no_text_is_exit_3(reference: str) -> None:
    answer = run("explain", reference)
    assert "no offer has the id" in answer.complaint
    assert answer.code == 3


# --- job files --------------------------------------------------------------------------------


@pytest.mark.usefixtures("_at_market")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "x"\n[hurs]\nA100 = 1', "hurs: unknown key; did you mean 'hours'?"),
        ('name = "x"\ngpu_needed = 2\n[hours]\nA100 = 1', "did you mean 'gpus_needed'?"),
        ('name = "x"\n[hours.A100]\nhour = 1', "did you mean 'hours'?"),
        ('name = "x"\n[hours]\nA100 = -1', "hours.A100: -1 h"),
        ('name = "x"\n[hours]\nA100 = 0', "hours.A100: 0 h"),
        ('name = "x"\n[hours]\nA1000000 = 1', "A1000000"),
        ('name = "x"', "give at least one GPU"),
        ("[hours]\nA100 = 1", "name:"),
        ("", "name:"),
        ("name = ", "not TOML"),
        ('name = "x"\n[hours]\nA100 = nan', "hours.A100"),
        ("\x1b[31mred\x07", "not TOML"),
    ],
)
def test_a_typo_in_a_job_file_names_the_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    answer = run("cheapest", str(file))
    assert says in answer.complaint
    assert answer.complaint.startswith(f"{file}: ")
    assert not {"\x1b", "\x07"} & set(answer.err)
    assert (answer.code, answer.out) == (2, "")


@pytest.mark.usefixtures("_at_market")
def test_a_job_file_that_is_no_ordinary_small_text(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "binary.toml").write_bytes(b"\x00\xff\xfe\x80" * 100)
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(10 * 2**30)  # sparse: reading it whole would be felt
    os.mkfifo(tmp_path / "pipe.toml")  # reading it would wait for ever
    for name, says in {
        "folder.toml": "is a folder",
        "binary.toml": "not UTF-8 text",
        "huge.toml": "not a job file",
        "pipe.toml": "not an ordinary file",
        "missing.toml": "No such file or directory",
    }.items():
        answer = run("cheapest", str(tmp_path / name))
        assert says in answer.complaint
        assert (answer.code, answer.out) == (2, "")


def test_the_same_for_callers_other_than_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "huge.toml").write_bytes(b"#" * (MAX_JOB_BYTES + 1))
    os.mkfifo(tmp_path / "pipe.toml")
    for name, says in {
        str(tmp_path / "huge.toml"): "not a job file",
        str(tmp_path / "pipe.toml"): "not an ordinary file",
        "/dev/zero.toml": "No such file",
        "a\0b.toml": "not the name of a file",
        "~nosuchuser/x.toml": "there is no such home directory",
    }.items():
        with pytest.raises(JobError, match=says):
            App().job(name)


@pytest.mark.usefixtures("_at_market")
def test_files_that_are_no_recording(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"format": "gpucost-recording/1", "payloads": [{"body": 1')
    answer = run("provider", "parse", "runpod", str(broken))
    assert answer.code == 2
    assert "not a recording" in answer.complaint
    broken.write_text("<html>sorry</html>")
    answer = run("provider", "parse", "runpod", str(broken))
    assert answer.code == 6
    assert "unexpected answer: " in answer.complaint
    assert "gpucost provider record runpod" in answer.complaint
    assert run("provider", "parse", "runpod", str(tmp_path)).code == 2


# --- databases --------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "argv",
    [["offers"], ["cheapest", "bert-large"], ["providers"], ["explain", "abcd"], ["db", "status"],
     ["db", "upgrade"], ["poll", "--provider", "pricebook"]],
    ids=" ".join,
)  # fmt: skip
def test_a_database_that_is_down_is_exit_5(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://someone:s3cret@127.0.0.1:{_free_port()}/prices"
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
    answer = run(*argv)
    assert answer.code == 5
    assert "cannot reach the database" in answer.complaint
    assert "s3cret" not in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        ("mysql://localhost/x", 2, "must be a URL like postgresql://"),
        ("prices.db", 2, "must be a URL like postgresql://"),
        ("postgresql://localhost:notaport/x", 5, "database URL is not valid"),
        ("postgresql://localhost/x?nonsense=1", 5, "database URL is not valid"),
    ],
)
def test_a_wrong_url(url: str, code: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
    answer = run("offers")
    assert says in answer.complaint
    assert (answer.code, answer.out) == (code, "")


def test_a_database_without_tables_or_of_another_version(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", empty_database_url)
    for argv in (["offers"], ["cheapest", "bert-large"], ["poll", "--provider", "pricebook"]):
        answer = run(*argv)
        assert answer.code == 5
        assert answer.complaint == (
            "the database holds no gpucost tables yet: run gpucost db upgrade"
        )
    assert run("db", "upgrade").code == 0
    answer = run("offers")
    assert (answer.code, answer.complaint) == (3, "no offer matches")
    with connect(empty_database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for argv in (["offers"], ["db", "upgrade"], ["poll", "--provider", "pricebook"]):
        answer = run(*argv)
        assert answer.code == 5
        assert "install the newer gpucost that wrote it" in answer.complaint
        assert answer.out == ""


def test_the_database_refuses_to_be_written(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(database_url, polled("acme", [make_offer("h100", "3")]))
    monkeypatch.setenv(
        "GPUCOST_DATABASE_URL", f"{database_url}&options=-cdefault_transaction_read_only%3Don"
    )
    answer = run("poll", "--provider", "pricebook")
    assert answer.code == 5
    assert "read-only" in answer.complaint
    document = run("offers", "-o", "json").json()
    assert [row["native_id"] for row in document["rows"]] == ["h100"]


@pytest.mark.parametrize(
    "argv", [["poll", "--provider", "pricebook"], ["db", "start"]], ids=" ".join
)
def test_a_data_folder_that_cannot_be_written(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATA_DIR", "/proc/gpucost")
    answer = run(*argv)
    assert answer.code == 5
    assert "/proc/gpucost" in answer.complaint
    assert answer.out == ""


@pytest.mark.parametrize("argv", [["offers"], ["cheapest", "bert-large"], ["explain", "abcd"]],
                         ids=" ".join)  # fmt: skip
def test_nothing_recorded_yet_says_what_to_do(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path / "data"))
    answer = run(*argv)
    assert answer.code == 3
    assert "gpucost poll" in answer.complaint
    assert not (tmp_path / "data").exists(), "a question makes no database"


# --- configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('databse_url = "x"', 'did you mean "database_url"?'),
        ("database_url = 5", "database_url"),
        ("= broken", "not valid TOML"),
        ('[aliases]\n"My GPU" = "H1000-SXM"', "H100-SXM-80GB"),
    ],
)
def test_a_configuration_that_cannot_be_used(
    tmp_path: Path, text: str, says: str, market: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpucost.toml").write_text(text)
    if "database_url" not in text:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
    answer = run("cheapest", "bert-large")
    assert says in answer.complaint
    assert (answer.code, answer.out) == (2, "")


@pytest.mark.parametrize("seconds", [0, -5, 10**9, 10**15])
def test_an_interval_that_no_calendar_has(
    tmp_path: Path, seconds: int, market: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
    (tmp_path / "gpucost.toml").write_text(f"[providers.pricebook]\nevery_seconds = {seconds}")
    answer = run("poll", "--provider", "pricebook")
    assert "[providers.pricebook]: every_seconds: " in answer.complaint
    assert (answer.code, answer.out) == (2, "")
