"""Jobs that are kept by name, what was measured of them, and jobs that run nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.app import job_names
from tracker.app.jobs import find_job
from tracker.app.root import App

MINE = 'name = "mine"\ntitle = "Mine"\n[hours]\nH100 = 5\n'


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, polled("acme", [make_offer("h100", "3", gpu=H100)])) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_home(market: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _file(tmp_path: Path, text: str = MINE, name: str = "job.toml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_a_job_that_is_kept_is_known_by_its_name_wherever_a_job_is_asked_for(
    tmp_path: Path,
) -> None:
    added = run("jobs", "add", _file(tmp_path))
    assert added.code == 0, added.err
    kept = tmp_path / "data" / "jobs" / "mine.toml"
    assert added.lines == [f"mine: kept in {kept}; gpucost cheapest mine asks for it"]
    assert kept.read_text() == MINE
    (tmp_path / "job.toml").unlink()
    rows = run("cheapest", "mine", "-o", "json").json()["rows"]
    assert [row["total_usd"] for row in rows] == ["15"]
    assert "Mine" in run("estimate", "mine").out
    listed = run("jobs", "list", "-o", "json").json()["jobs"]
    assert [job["job"] for job in listed] == [*job_names(), "mine"]
    assert (listed[-1]["from"], listed[0]["from"]) == ("kept", "built in")
    assert find_job("MINE", App()).title == "Mine"
    assert [path.name for path in kept.parent.iterdir()] == ["mine.toml"]  # nothing is left beside


def test_nothing_is_overwritten_unless_asked_for(tmp_path: Path) -> None:
    run("jobs", "add", _file(tmp_path))
    other = _file(tmp_path, MINE.replace("5", "7"), "other.toml")
    refused = run("jobs", "add", other)
    assert (refused.code, refused.complaint) == (
        2, "mine is kept already; --replace puts this one in its place",
    )  # fmt: skip
    assert find_job("mine", App()).hours["H100"].hours == 5
    assert run("jobs", "add", other, "--replace").code == 0
    assert find_job("mine", App()).hours["H100"].hours == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "x"\n[hours]\nH999 = 5\n', "unknown GPU 'H999'"),
        ('name = "bert-large"\n[hours]\nH100 = 5\n', "is a built-in job; keep yours under another"),
        ('name = "x.toml"\n[hours]\nH100 = 5\n', "would be taken for a file"),
        ('name = "../x"\n[hours]\nH100 = 5\n', "must be lower-case letters"),
        ("name = ", "not TOML"),
    ],
)
def test_what_cannot_be_used_is_not_kept(tmp_path: Path, text: str, says: str) -> None:
    refused = run("jobs", "add", _file(tmp_path), _file(tmp_path, text, "wrong.toml"))
    assert refused.code == 2
    assert says in refused.complaint
    assert not (tmp_path / "data" / "jobs").exists()  # nor the one that is right


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    refused = run("jobs", "add", _file(tmp_path), _file(tmp_path, MINE, "b.toml"), "--replace")
    assert (refused.code, "two of the files have this name" in refused.complaint) == (2, True)


def test_a_copy_of_a_built_in_job_under_another_name(tmp_path: Path) -> None:
    assert run("jobs", "add", "bert-large", "--name", "my-bert").code == 0
    kept = find_job("my-bert", App())
    assert (kept.name, kept.hours) == ("my-bert", find_job("bert-large", App()).hours)
    refused = run("jobs", "add", "bert-large", "--name", "My Bert")
    assert "--name: 'My Bert' must be lower-case" in refused.complaint
    both = run("jobs", "add", "bert-large", "resnet-50", "--name", "x")
    assert "is of one job" in both.complaint


def test_a_model_beside_the_file_is_found_after_the_file_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, '
        '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, '
        '"vocab_size": 128256}'
    )
    text = (
        'name = "own-model"\n[workload]\nkind = "finetune"\nmodel = "config.json"\n'
        'method = "lora"\ntokens = "30M"\nseq_len = 1024\n'
    )
    assert run("jobs", "add", _file(folder, text)).code == 0
    assert find_job("own-model", App()).task is not None


def test_jobs_are_removed_but_not_the_built_in_ones(tmp_path: Path) -> None:
    run("jobs", "add", _file(tmp_path))
    assert run("jobs", "remove", "bert-large").complaint == "bert-large is a built-in job and stays"
    assert "did you mean mine?" in run("jobs", "remove", "mime").complaint
    removed = run("jobs", "remove", "mine")
    assert (removed.code, removed.out.startswith("mine: removed (")) == (0, True)
    assert (tmp_path / "job.toml").exists()
    gone = run("jobs", "remove", "mine")
    assert (gone.code, gone.complaint) == (2, "no job is kept under the name 'mine'; kept: none")
    assert run("cheapest", "mine").code == 2


def test_a_kept_file_that_was_spoilt_is_listed_with_the_reason(tmp_path: Path) -> None:
    run("jobs", "add", _file(tmp_path))
    (tmp_path / "data" / "jobs" / "mine.toml").write_text("name = 5")
    [row] = [j for j in run("jobs", "list", "-o", "json").json()["jobs"] if j["job"] == "mine"]
    assert (row["title"], "is not text" in row["problem"]) == (None, True)
    assert "cannot be used: mine: name: 5 is not text" in run("jobs", "list").out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    refused = run("jobs", "add", _file(tmp_path))
    assert (refused.code, "cannot be written: Permission denied" in refused.complaint) == (2, True)


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    refused = run("jobs", "add", _file(tmp_path))
    assert (refused.code, "cannot be written: " in refused.complaint) == (2, True)


def test_show_tells_what_was_measured_and_which_is_in_force(tmp_path: Path) -> None:
    run("jobs", "add", _file(tmp_path))
    for hours, note in (("4", "cold"), ("3.5", "warm")):
        run("jobs", "measure", "mine", "--gpu", "H100-SXM-80GB", "--hours", hours, "--note", note)
    document = run("jobs", "show", "mine", "-o", "json").json()
    told = [(m["hours"], m["version"], m["in_force"]) for m in document["measurements"]]
    assert told == [(4, 1, False), (3.5, 2, True)]
    lines = [line.strip() for line in run("jobs", "show", "mine").lines]
    assert "Measured" in lines
    assert any(
        line.startswith("H100-SXM-80GB        3.5 h on 1, version 2 of ")
        and line.endswith("; warm")
        for line in lines
    )
    assert any("no longer in force; cold" in line for line in lines)


def test_show_works_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    answer = run("jobs", "show", "bert-large")
    assert answer.code == 0
    assert answer.lines[-1].startswith("What was measured is not known: ")


HUGE = """
name = "huge"
[workload]
kind = "training"
model = { params = "20T" }
tokens = "3T"
seq_len = 4096
sharding = "ddp"
"""


def test_check_says_when_a_job_runs_on_no_gpu(tmp_path: Path) -> None:
    answer = run("jobs", "check", _file(tmp_path, HUGE))
    assert (answer.code, answer.complaint) == (3, "1 of 1 file runs on no known GPU")
    assert "it runs on no GPU of " in answer.out
    assert "GiB per GPU" in answer.out
    memory = MINE.replace('title = "Mine"', "min_vram_gb = 2000")
    told = run("jobs", "check", _file(tmp_path, memory))
    assert (told.code, "no known GPU has 2000 GB" in told.out) == (3, True)
    assert run("jobs", "check", _file(tmp_path)).code == 0
    # Divided over machines of eight it fits.
    several = HUGE.replace('"20T"', '"405B"').replace('sharding = "ddp"\n', "")
    assert run("jobs", "check", _file(tmp_path, several)).code == 0


def test_a_count_that_is_given_must_do_by_itself(tmp_path: Path) -> None:
    """More GPUs would hold it, but the job says three."""
    text = (
        'name = "three"\ngpus_needed = 3\n[workload]\nkind = "training"\n'
        'model = "Llama 3.1 8B"\ntokens = "1B"\nseq_len = 2048\nsharding = "tp"\n'
        "checkpointing = true\n"
    )
    answer = run("jobs", "check", _file(tmp_path, text))
    assert answer.code == 3
    assert "known kinds, on 3 of them: " in answer.out
