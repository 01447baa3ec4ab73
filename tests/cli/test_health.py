"""``providers``, ``doctor``, ``db`` and ``poll`` as a person meets them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import ago, polled, record, run
from tests.cli.shop import A100_NAME, H100_NAME, Shop, open_shop
from tests.support.offers import make_offer
from tests.support.pg import bindir_of_tests, reachable_folder
from tests.support.providers import disabled
from tests.support.replay import Answer
from tracker.store import migrate


@pytest.fixture
def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with open_shop(monkeypatch, database_url) as shop:
        yield shop


def test_an_unknown_gpu_is_counted_listed_and_named_by_an_alias(shop: Shop, tmp_path: Path) -> None:
    shop.sell((H100_NAME, "2.00"), ("ACME Superchip 9", "3.00"))
    [outcome] = shop.poll().json()["rows"]
    assert (outcome["status"], outcome["offers"], outcome["unmapped"]) == ("complete", 1, 1)
    assert outcome["rejected"] == {"GPU name not in the catalogue": 1}
    [unknown] = run("providers", "--unmapped", "-o", "json").json()["rows"]
    assert (unknown["provider"], unknown["name"]) == ("runpod", "ACME Superchip 9")
    text = run("providers", "--unmapped").out
    assert "ACME Superchip 9" in text
    assert "[aliases]" in text
    assert "providers --unmapped" in run("providers").out

    (tmp_path / "gpucost.toml").write_text('[aliases]\n"ACME Superchip 9" = "A100-SXM-80GB"\n')
    [outcome] = shop.poll().json()["rows"]
    assert (outcome["offers"], outcome["unmapped"]) == (2, 0)
    rows = run("offers", "--gpu", "A100", "-o", "json").json()["rows"]
    assert [row["price_usd_per_machine_hour"] for row in rows] == ["3"]
    assert run("providers", "--unmapped").out == "every GPU name seen is known\n"


def test_quarantine_is_visible_filtered_and_never_ranked(shop: Shop) -> None:
    shop.sell((H100_NAME, "0.02"), (A100_NAME, "1.00"))
    [outcome] = shop.poll().json()["rows"]
    assert (outcome["offers"], outcome["quarantined"]) == (1, 1)
    document = run("offers", "--quarantined", "-o", "json").json()
    [row] = document["rows"]
    assert (row["gpu"], row["gate"], row["confirmations"]) == ("H100-SXM-80GB", "band", 1)
    text = run("offers", "--quarantined").lines
    assert "band: $0.0200 per GPU-hour is outside" in text[1]
    assert text[-1] == "1 of 1 quarantined offers: shown here, never ranked"
    for option, matching in (("H100", 1), ("A100", 0)):
        document = run("offers", "--quarantined", "--gpu", option, "-o", "json").json()
        assert document["quarantined_matching"] == len(document["rows"]) == matching
    assert {row["gpu"] for row in run("offers", "-o", "json").json()["rows"]} == {"A100-SXM-80GB"}
    assert "gpucost offers --quarantined" in run("providers").out


def test_a_failing_provider_is_told_and_every_one_failing_is_exit_6(shop: Shop) -> None:
    shop.sell((H100_NAME, "2.00"))
    assert shop.poll().code == 0
    shop.broken = Answer(b'{"data": {"gpuTypes": 7}}')
    answer = run("poll", "--provider", "runpod")
    assert answer.code == 6
    assert answer.complaint == "no provider gave usable prices; see the reasons above"
    assert "runpod: unexpected answer: " in answer.out
    lines = run("providers").lines
    row = next(line for line in lines if line.startswith("runpod"))
    assert "failed" in row
    assert row.split()[-1] == "1"  # failures in a row
    assert any(line.startswith("runpod: unexpected answer") for line in lines)
    assert run("offers").code == 0, "the last known prices are still there"
    document = run("providers", "-o", "json").json()
    rows = {r["provider"]: r for r in document["rows"]}
    assert rows["runpod"]["consecutive_failures"] == 1
    assert rows["vastai"]["last_status"] == "never polled"
    assert rows["vastai"]["offers"] is None, "unknown is null, not 0"


def test_one_failing_provider_hides_no_other(shop: Shop) -> None:
    shop.broken = Answer(b"no", 500)
    answer = run("poll", "--provider", "runpod,pricebook")
    assert answer.code == 6  # a price book alone is no live price
    assert "only the price book was read" in answer.complaint
    assert run("offers").code == 0


def test_a_dry_run_writes_nothing(shop: Shop) -> None:
    shop.sell((H100_NAME, "2.00"))
    answer = run("poll", "--provider", "runpod", "--dry-run")
    assert answer.code == 0
    assert "dry run: nothing was written" in answer.out
    assert run("offers").code == 3


def test_provider_check_record_and_parse(shop: Shop, tmp_path: Path) -> None:
    shop.sell((H100_NAME, "2.00"), ("ACME Superchip 9", "3.00"), (A100_NAME, "0.01"))
    answer = run("provider", "check", "runpod")
    assert answer.code == 0
    assert "unknown GPU name 'ACME Superchip 9'" in answer.out
    assert "quarantined" in answer.out
    assert answer.lines[-1] == "1 offer, 1 quarantined, 1 row rejected"
    assert run("offers").code == 3, "check writes nothing"
    target = tmp_path / "runpod.json"
    assert run("provider", "record", "runpod", "--to", str(target)).code == 0
    assert "127.0.0.1" not in target.read_text()
    document = run("provider", "parse", "runpod", str(target), "-o", "json").json()
    assert [(r["gpu"], r["price_usd_per_machine_hour"]) for r in document["rows"]] == [
        ("H100-SXM-80GB", "2"), ("A100-SXM-80GB", "0.01"),
    ]  # fmt: skip
    assert document["unmapped"] == [{"name": "ACME Superchip 9", "vram": "80 GB", "rows": 1}]
    answer = run("provider", "record", "runpod", "--to", str(tmp_path / "no" / "such.json"))
    assert answer.code == 2
    assert "No such file" in answer.complaint


def test_a_provider_known_from_a_price_book_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = make_offer("h100", "2", source="pricebook", seller="acme")
    old = make_offer("old", "2", source="dead")
    record(database_url, polled("pricebook", [book]), polled("dead", [old], 600))
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    lines = {line.split()[0]: line for line in run("providers").lines if line}
    assert "price book only" in lines["acme"]
    assert "complete, stale" in lines["dead"]
    assert "10 h" in lines["dead"]
    assert "never polled" in lines["azure"]


# --- doctor and db ----------------------------------------------------------------------------


def test_doctor_on_a_sound_set_up(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    monkeypatch.setenv("GPUCOST_DATABSE", "x")
    answer = run("doctor")
    assert answer.code == 0
    assert f"schema {migrate.head()}" in answer.out
    assert "GPUCOST_DATABSE is not a setting" in answer.out
    assert "works without a key; VULTR_API_KEY would add: what is in stock" in answer.out
    assert "not configured: set PRIME_API_KEY to its API key" in answer.out
    assert "shadeform: off: [providers.shadeform] enabled = true switches it on" in answer.out
    states = {f["state"] for f in run("doctor", "-o", "json").json()["findings"]}
    assert states == {"ok", "note"}


WRONG_ALERTS = """
[alerts.channels.chat]
type = "slack"
[alerts.channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/hook"
[alerts.channels.signed]
type = "webhook"
url = "https://hooks.example.com/x"
secret = "value"
[alerts.rules.mine]
when = "cost(H100) < cost(A100"
"""


def test_doctor_tells_what_is_wrong_with_alerts_as_their_check_does(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    assert "ok    alerts          1 rule; channels: log" in run("doctor").out
    (tmp_path / "gpucost.toml").write_text(WRONG_ALERTS)
    answer = run("doctor")
    assert answer.code == 2
    told = [line.removeprefix("BAD   alerts").strip() for line in answer.lines if "BAD" in line]
    assert told == run("alerts", "check").lines
    for part in (
        '[alerts.channels.chat] type: there is no "slack", use one of log, webhook, smtp, apprise',
        "[alerts.channels.hook] url: it is in a private network: set alerts.allow_private_targets",
        "[alerts.channels.signed] its secret must have 8 characters or more",
        "alerts.rules.mine.when: ",
    ):
        assert [line for line in told if line.startswith(part)], (part, told)
    allowed = "[alerts]\nallow_private_targets = true\n" + WRONG_ALERTS
    (tmp_path / "gpucost.toml").write_text(allowed)
    assert "private network" not in run("doctor").out


@pytest.mark.parametrize("command", [("doctor",), ("alerts", "check")])
def test_a_heartbeat_that_can_never_be_sent_is_told(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    (tmp_path / "gpucost.toml").write_text('[daemon]\nheartbeat_url = "hc.example/ping/0123"')
    answer = run(*command)
    assert answer.code == 2
    assert "daemon.heartbeat_url: must be a URL like https://host/path" in answer.out + answer.err
    assert "ping/0123" not in answer.out + answer.err


def test_doctor_tells_how_each_provider_s_last_poll_went(shop: Shop) -> None:
    assert "never polled" in run("doctor").out
    shop.sell((H100_NAME, "2.00"))
    assert shop.poll().code == 0
    [line] = [line for line in run("doctor").lines if "runpod:" in line]
    assert line.startswith("ok ")
    assert "last good poll: " in line
    shop.broken = Answer(b"no", 500)
    assert shop.poll().code == 6
    answer = run("doctor")
    [line] = [line for line in answer.lines if "runpod:" in line]
    assert line.startswith("note ")
    assert "1 failed poll in a row, last good one: " in line
    assert "HTTP 500" in line
    assert answer.code == 0, "others may still answer"


def test_where_nobody_can_be_reached_one_line_says_so(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    off = disabled("pricebook", "runpod", "vastai") + "[http]\nattempts = 1\n"
    nowhere = "".join(
        f'[providers.{name}]\nbase_url = "http://127.0.0.1:1"\n' for name in ("runpod", "vastai")
    )
    (tmp_path / "gpucost.toml").write_text(off + nowhere)
    answer = run("poll")
    assert answer.code == 6
    assert answer.err.splitlines()[0].startswith("nobody could be reached: this machine seems")
    told = run("doctor")
    assert told.code == 6
    assert "BAD   providers       nobody could be reached: this machine seems" in told.out
    assert "offline" not in run("poll", "--provider", "runpod").err, "one says nothing of all"


def test_doctor_names_each_trouble_and_goes_on(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://x@127.0.0.1:1/x")
    answer = run("doctor")
    assert answer.code == 5
    assert "BAD   database" in answer.out
    assert "providers" in answer.out
    monkeypatch.setenv("GPUCOST_DATABASE_URL", empty_database_url)
    assert "no schema yet: gpucost db upgrade" in run("doctor").out
    (tmp_path / "gpucost.toml").write_text("log_level = 'loud'")
    answer = run("doctor")
    assert answer.code == 2
    assert "BAD   configuration" in answer.out
    assert answer.out.count("log_level") == 1, "what stops every check is told once"


def test_doctor_calls_a_wrong_provider_table_wrong(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a note among twenty, and the code was 0."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    (tmp_path / "gpucost.toml").write_text('[providers.runpod]\nintervl = "5m"\n')
    answer = run("doctor")
    assert answer.code == 2
    bad = 'BAD   providers       runpod: [providers.runpod]: unknown key "intervl", known: '
    assert bad in answer.out
    assert "every_seconds" in answer.out
    assert "azure: needs no key" in answer.out, "the others are told of"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[alerts.rules]]\nwhen = 'price(H100) < 2'", "alerts.rules: must be a table, such as"),
        ("pricebook_paths = 'rates.toml'", 'pricebook_paths: must be a list, such as ["one", '),
    ],
)
def test_a_wrong_kind_of_value_is_told_in_words_of_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str, text: str, said: str
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    (tmp_path / "gpucost.toml").write_text(text)
    answer = run("doctor")
    assert answer.code == 2
    assert said in answer.out


@pytest.mark.parametrize(
    "password", ["QXZQ@ZXQX", "QXZQ%ZXQX", "QX/ZQ@ZX", "QXZQ%40ZXQX", "QXZQ ZXQX"]
)
@pytest.mark.parametrize("settings", ["", "log_level = 'loud'", "[providers.runpd]"])
def test_doctor_shows_no_part_of_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, settings: str
) -> None:
    (tmp_path / "gpucost.toml").write_text(settings)
    monkeypatch.setenv("GPUCOST_DATABASE_URL", f"postgresql://me:{password}@127.0.0.1:1/x")
    for output in ("table", "json"):
        answer = run("doctor", "-o", output)
        assert answer.code in (2, 5)
        assert "database" in answer.out
        assert not set("QXZ") & set(answer.out + answer.err)


def test_doctor_redacts_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a check says: here the name of a variable that nobody knows."""
    monkeypatch.setenv("RUNPOD_API_KEY", "QXZQZXQX")
    monkeypatch.setenv("GPUCOST_QXZQZXQX", "1")
    for settings in ("", "log_level = 'loud'"):
        (tmp_path / "gpucost.toml").write_text(settings)
        assert "QXZQ" not in run("doctor").out


def test_db_status_and_upgrade(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", empty_database_url)
    document = run("db", "status", "-o", "json").json()
    assert (document["kind"], document["schema"]) == ("server", None)
    assert run("db", "upgrade").out == f"schema {migrate.head()}, was None\n"
    assert run("db", "upgrade").out == f"schema {migrate.head()} (already)\n"
    record(empty_database_url, polled("acme", [make_offer("h100", "3")], 5))
    document = run("db", "status", "-o", "json").json()
    assert document["live_offers"] == 1
    assert document["first_poll"][:15] == ago(5).isoformat()[:15]
    assert "live offers      1" in run("db", "status").out


def test_the_embedded_server_from_nothing_to_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    if bindir := bindir_of_tests():
        monkeypatch.setenv("GPUCOST_POSTGRES_BINDIR", os.fspath(bindir))
    with reachable_folder() as folder:
        monkeypatch.setenv("GPUCOST_DATA_DIR", str(folder / "data"))
        assert "none yet; the first poll makes it" in run("db", "status").out
        assert run("doctor").code == 0
        try:
            started = run("db", "start").out
            assert started.startswith("running: postgresql://")
            document = run("db", "status", "-o", "json").json()
            assert document["running"] is True
            assert document["url"] == started.removeprefix("running: ").strip()
            assert (Path(document["programs"]) / "postgres").is_file()
            assert run("offers").code == 3
            assert run("poll", "--provider", "pricebook").code == 0
            assert run("cheapest", "bert-large").code == 0
            assert run("db", "stop").out == "stopped\n"
            assert run("db", "stop").out == "was not running\n"
            assert run("cheapest", "bert-large").code == 0, "started for the answer alone"
            document = run("db", "status", "-o", "json").json()
            assert (document["running"], document["url"]) == (False, None)
        finally:
            run("db", "stop", "--force")
