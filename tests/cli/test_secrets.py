"""A key that a server sends back stands in no output and in no table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.harness import run
from tests.cli.shop import H100_NAME, Shop, open_shop
from tests.support.replay import Answer, json_answer
from tracker.store.engine import connect

LONG, SHORT = "rpa_0123456789ABCDEFghij", "rpa_s3cr3t"


@pytest.fixture
def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with open_shop(monkeypatch, database_url) as shop:
        shop.sell((H100_NAME, "2.99"))
        yield shop


def _everything(url: str, *, but: frozenset[str] = frozenset()) -> str:
    """All rows of all tables as text, bytes in hexadecimal."""
    with connect(url) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        rows = [
            connection.execute(f'SELECT t::text FROM "{name}" t').fetchall()  # noqa: S608
            for (name,) in names
            if name not in but
        ]
    return repr(rows)


def _echo(key: str) -> list[Answer]:
    return [
        Answer(f"your key {key} is not valid".encode(), 401),
        Answer(f"no such query for {key}".encode(), 500),
        Answer(f"<html>{key}</html>".encode(), 200, {"content-type": "text/html"}),
        json_answer({"errors": [{"message": f"bad key {key}"}]}),
        json_answer({"data": {"gpuTypes": [{"id": key}]}}),
    ]


@pytest.mark.parametrize("key", [LONG, SHORT], ids=["long", "short"])
def test_a_key_that_the_server_sends_back(
    shop: Shop, key: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", key)
    said = ""
    assert shop.poll().code == 0
    for shop.broken in _echo(key):
        for command in (("poll", "--provider", "runpod"), ("poll", "--provider", "runpod", "-o",
                        "json"), ("providers",), ("providers", "-o", "json")):  # fmt: skip
            answer = run(*command)
            said += answer.out + answer.err
    assert said
    assert key not in said
    # A short value may stand in an answer by chance: the archive keeps answers as they came.
    but = frozenset() if key is LONG else frozenset({"payload_body"})
    kept = _everything(database_url, but=but)
    assert "failed" in kept
    assert key not in kept
    assert key.encode().hex() not in kept


@pytest.mark.parametrize("key", [LONG, SHORT], ids=["long", "short"])
def test_a_check_does_not_print_a_key_that_the_server_sends_back(
    shop: Shop, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", key)
    odd = {"id": f"GPU {key}", "displayName": "odd", "memoryInGb": 80}  # becomes a reject's sample
    for answer in [*_echo(key), json_answer({"data": {"gpuTypes": [*shop.types, odd]}})]:
        shop.broken = answer
        for output in ("table", "json"):
            result = run("provider", "check", "runpod", "-o", output)
            assert key not in result.out + result.err
    assert result.code == 0
    assert result.json()["rejected_total"] == 1
