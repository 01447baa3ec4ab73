"""``gpucost alerts check``: every mistake in one line, without a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.alerting import QUICK, SHIPPED, alerts
from tests.cli.harness import run

TOKEN = "T0kenOfTheHookXq81"


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_is_right_is_listed(tmp_path: Path) -> None:
    old = '[alerts.rules.old]\nwhen = "x"\nenabled = false\n'
    hook = '[alerts.channels.hook]\ntype = "webhook"\nurl = "https://hooks.example/x"\n'
    _write(tmp_path / "gpucost.toml", QUICK + old + hook)
    answer = alerts("check")
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[1].startswith(SHIPPED)
    assert any(line.split() == ["hook", "webhook"] for line in answer.lines)
    assert answer.lines[-1] == "turned off: old"
    document = alerts("check", "-o", "json").json()
    assert document["problems"] == []
    assert document["rules"][0]["when"] == "cost(H100) < cost(A100)"


def test_without_a_configuration_there_is_the_shipped_rule() -> None:
    answer = alerts("check")
    assert answer.code == 0
    assert SHIPPED in answer.out


WRONG = f"""
[alerts]
default_channels = ["log"]
[alerts.rules.a]
when = "cost(H100) < "
job = "bert-large"
[alerts.rules.b]
when = "price(H10) < 2"
[alerts.rules.c]
when = "cost(H100) < 40"
job = "bert-lage"
channels = ["hok"]
[alerts.rules.d]
when = "provider(runpodd) stale"
every = "soon"
[alerts.rules.e]
when = "price(H100) < 2"
providers = ["vastaii"]
template = "{{{{ title "
[alerts.rules.good]
when = "price(H100) < 2"
template = "{{{{ title "
[alerts.rules.typed]
when = "price(H100) < 2"
providers = ["acme"]
typed_prices = true
[alerts.channels.hook]
type = "webhook"
url = "ftp://hooks.example/{TOKEN}"
[alerts.channels.mail]
type = "smtp"
host = "mail.example.org"
[alerts.channels.chat]
type = "apprise"
url_env = "NO_SUCH_VARIABLE"
[providers.pricebook]
paths = ["book.toml"]
shipped = false
"""
BOOK = """
[[price]]
seller = "acme"
gpu = "H100-SXM-80GB"
price = "3"
unit = "machine_hour"
valid_as_of = 2026-11-20
max_age_days = 90
"""


def test_every_mistake_is_one_line_and_the_code_is_2(tmp_path: Path) -> None:
    file = _write(tmp_path / "draft.toml", WRONG)
    _write(tmp_path / "book.toml", BOOK)
    answer = alerts("check", str(file))
    assert answer.code == 2
    wanted = [
        ("alerts.rules.a.when: at character ", "for example"),
        ("alerts.rules.b.when: ", "H10"),
        ("alerts.rules.c.job: ", "did you mean bert-large"),
        ("alerts.rules.c.channels: no channel is called 'hok'", "did you mean hook?"),
        ("alerts.rules.d.when: no provider is called 'runpodd'", "did you mean runpod?"),
        ("alerts.rules.d.every: 'soon' is not a duration", "30m"),
        ("alerts.rules.e.providers: no provider is called 'vastaii'", "did you mean vastai?"),
        ("alerts.rules.good.template: line 1: ", ""),
        ("[alerts.channels.hook] url: ", ""),
        ("[alerts.channels.mail] ", ""),
        ("[alerts.channels.chat] url_env: there is no variable NO_SUCH_VARIABLE", ""),
    ]
    lines = answer.out.splitlines()
    for start, part in wanted:
        assert [line for line in lines if line.startswith(start) and part in line], (start, lines)
    assert not any("alerts.rules.typed" in line for line in lines), "sellers of price books count"
    assert answer.err == f"gpucost: {len(lines)} problems in alerts\n"
    assert TOKEN not in answer.out + answer.err
    document = alerts("check", str(file), "-o", "json").json()
    assert document["problems"] == lines
    assert {r["rule"] for r in document["rules"]} == {SHIPPED, "good", "typed"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[alerts\n", "not valid TOML"),
        ("[alerts]\nrulez = 1\n", "rulez"),
        ("[alert]\nrules = 1\n", 'did you mean "alerts"?'),
        ("[alerts]\ngive_up_hours = -1\n", "give_up_hours"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_one_line(
    tmp_path: Path, text: str, says: str
) -> None:
    answer = alerts("check", str(_write(tmp_path / "draft.toml", text)))
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.complaint


def test_a_file_that_is_not_there() -> None:
    answer = alerts("check", "missing.toml")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no file" in answer.complaint


def test_it_reads_the_configuration_that_is_named(tmp_path: Path) -> None:
    file = _write(tmp_path / "other.toml", '[alerts.rules.mine]\nwhen = "price(H100) < 2"\n')
    assert "mine" in run("--config", str(file), "alerts", "check").out


def test_files_are_looked_for_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    _write(home / "mine.toml", 'name = "mine"\n[hours]\nH100 = 4\nA100 = 12\n')
    _write(home / "url.txt", "https://hooks.example/x\n")
    text = (
        '[alerts.rules.r]\nwhen = "cost(H100) < cost(A100)"\njob = "mine.toml"\nchannels = ["w"]\n'
        '[alerts.channels.w]\ntype = "webhook"\nurl_file = "url.txt"\n'
    )
    config = _write(home / "own.toml", text)
    for folder in (home, elsewhere):
        monkeypatch.chdir(folder)
        answer = run("--config", str(config), "alerts", "check")
        assert (answer.code, answer.err) == (0, "")
        assert any(line.split()[0] == "r" and "mine" in line for line in answer.lines if line)


def test_a_rule_or_channel_that_is_no_table_stops_no_other(tmp_path: Path) -> None:
    config = _write(
        tmp_path / "own.toml",
        '[alerts.rules]\nfoo = "x"\n[alerts.rules.bar]\nwhen = "price(H10) < 2"\n'
        '[alerts.channels]\nbaz = "https://x/Secret1234"\n',
    )
    answer = run("--config", str(config), "alerts", "check")
    assert answer.code == 2
    assert "alerts.rules.foo: 'x' is not a table of keys" in answer.lines
    assert any(line.startswith("alerts.rules.bar.when:") for line in answer.lines)
    assert any("[alerts.channels.baz] must be a table" in line for line in answer.lines)
    assert len(answer.lines) == 3
    assert "Secret1234" not in answer.out + answer.err
