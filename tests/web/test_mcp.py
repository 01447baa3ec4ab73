"""The tools as the protocol's own client calls them, and the size and the age of every answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled, run
from tests.support.pg import TestServer
from tracker.app import App
from tracker.app.answers import QUESTIONS, Answers
from tracker.app.asked import BadQuestion
from tracker.report.shapes.texts import json_text

mcp = pytest.importorskip("mcp", reason="needs gpucost[mcp]")
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

from tracker.web.mcp import MAX_CHARACTERS, MAX_POINTS, MAX_ROWS, TOOLS, bounded, make_server  # noqa: E402

COMMAND = Path(sys.executable).with_name("gpucost")
CALLS: dict[str, dict[str, Any]] = {
    "cheapest": {"job": "bert-large", "gpu": ["H100", "A100"], "market": ["any"], "top": 3},
    "history": {"job": "bert-large", "since": "1d", "gpu": ["H100"]},
    "compare": {"left": "H100", "right": "A100", "job": "bert-large", "egress": 10},
    "when": {"job": "bert-large", "deadline": "3d", "gpu": ["H100"]},
    "estimate": {"job": "bert-large", "gpu": ["H100", "A100"], "prices": True},
    "offers": {"gpu": ["H100"], "gpus": 1, "top": 2},
    "providers": {},
}


@pytest.fixture(scope="module")
def market(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    with filled(database_server, *polls()) as url:
        yield url, tmp_path_factory.mktemp("data")


@pytest.fixture
def answers(market: tuple[str, Path]) -> Answers:
    return Answers(App(env={"GPUCOST_DATABASE_URL": market[0], "GPUCOST_DATA_DIR": str(market[1])}))


def ask(answers: Answers, name: str, arguments: dict[str, Any], mode: str = "auto") -> Any:
    async def talk() -> Any:
        async with mcp.Client(make_server(answers), mode=mode) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(talk())


def complaint(answers: Answers, name: str, arguments: dict[str, Any]) -> str:
    """The one line of an error of a tool."""
    result = ask(answers, name, arguments)
    assert result.is_error
    (content,) = result.content
    assert "\n" not in content.text
    return str(content.text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_are_listed_with_their_parameters(answers: Answers, mode: str) -> None:
    async def talk() -> Any:
        async with mcp.Client(make_server(answers), mode=mode) as client:
            return await client.list_tools()

    tools = {tool.name: tool for tool in asyncio.run(talk()).tools}
    assert tools.keys() == set(CALLS)
    for name, tool in tools.items():
        assert tool.annotations.read_only_hint
        assert tool.input_schema["properties"].keys() == QUESTIONS[name].keys()
        assert not tool.input_schema["additionalProperties"]
    assert tools["cheapest"].input_schema["properties"]["top"]["maximum"] == MAX_ROWS
    assert tools["compare"].input_schema["required"] == ["left", "right"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", CALLS)
def test_each_tool_answers_with_age_basis_and_source(
    answers: Answers, name: str, mode: str
) -> None:
    result = ask(answers, name, CALLS[name], mode)
    assert not result.is_error, result.content
    found = result.structured_content
    assert json.loads(result.content[0].text) == found
    told = found["provenance"]
    assert told["as_of"].endswith("Z")
    assert told["age_seconds"]["most"] >= told["age_seconds"]["least"] >= 0
    assert set(told["sources"]) & {"acme", "hub", "pricebook"}
    assert name == "providers" or set(told["sources"]) <= {"acme", "hub", "pricebook"}
    if name in {"cheapest", "history", "compare", "when", "estimate"}:
        assert set(told["basis"]) - {"scaled"} == {"published"}
    assert found["cut"].keys() <= {"rows"} or name in {"history", "providers"}


def test_the_figures_are_those_of_the_command_line(
    answers: Answers, market: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market[0])
    told = run("cheapest", "bert-large", "--gpu", "H100,A100", "--market", "any", "--top", "3",
               "-o", "json").json()  # fmt: skip
    found = ask(answers, "cheapest", CALLS["cheapest"]).structured_content
    assert found["answer"] == told["answer"]
    assert [(r["offer"], r["total_usd"]) for r in found["rows"]] == [
        (r["offer"], r["total_usd"]) for r in told["rows"]
    ]
    assert found["excluded"] == told["excluded"]


def test_groups_of_offers_are_those_of_the_command_line(
    answers: Answers, market: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market[0])
    told = run("offers", "--market", "any", "--group-by", "provider,region", "-o", "json").json()
    asked = {"market": ["any"], "group_by": ["provider", "region"]}
    found = ask(answers, "offers", asked).structured_content
    assert found["group_by"] == told["group_by"]
    assert len(found["rows"]) == found["groups"] > 2
    for row in (*found["rows"], *told["rows"]):
        row.pop("age_seconds")
    assert found["rows"] == told["rows"]
    # A group by GPU names no provider; whose word its prices are is told all the same.
    by_gpu = ask(answers, "offers", {"group_by": ["gpu"], "sort": "-max"}).structured_content
    assert set(by_gpu["provenance"]["sources"]) == {"acme", "hub", "pricebook"}
    highest = [float(row["max_usd_per_gpu_hour"]) for row in by_gpu["rows"]]
    assert highest == sorted(highest, reverse=True)
    assert "region goes with provider" in complaint(answers, "offers", {"group_by": ["region"]})


def test_a_long_history_keeps_its_newest_points(answers: Answers) -> None:
    asked = {"job": "bert-large", "since": "10d", "bucket": "1h"}
    found = ask(answers, "history", asked).structured_content
    starts = [row["start"] for row in found["rows"]]
    assert starts == sorted(starts)
    assert 0 < len(starts) <= MAX_POINTS
    assert found["cut"]["rows"] + len(starts) >= 240 * len(found["series"])
    assert max(row["usd"] is not None for row in found["rows"][-len(found["series"]) :])


@pytest.mark.parametrize(
    ("name", "arguments", "of"),
    [
        ("cheapest", {"job": "bert-large", "market": ["any"], "top": 2}, "offers_considered"),
        ("offers", {"market": ["any"], "top": 2}, "offers_matching"),
        ("offers", {"market": ["any"], "group_by": ["gpu"], "top": 2}, "groups"),
    ],
)
def test_the_rows_that_were_not_asked_for_are_counted_too(
    answers: Answers, name: str, arguments: dict[str, Any], of: str
) -> None:
    found = ask(answers, name, arguments).structured_content
    every = ask(answers, name, arguments | {"top": MAX_ROWS}).structured_content
    assert found["cut"]["rows"] == len(every["rows"]) - 2 > 0
    assert found[of] == len(every["rows"])
    assert "rows" not in every["cut"]


def test_nothing_that_matches_is_an_answer_that_says_why(answers: Answers) -> None:
    result = ask(answers, "cheapest", {"job": "bert-large", "min_vram": 900})
    assert not result.is_error
    assert result.structured_content["rows"] == []
    assert result.structured_content["excluded"]


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("cheapest", {"job": "bert-larg"}, "job: no job is called"),
        ("cheapest", {"job": "/etc/passwd"}, "no job is called"),
        ("cheapest", {"jobs": "bert-large"}, "did you mean job?"),
        ("cheapest", {"name": "x", "job": "bert-large"}, "there is no parameter 'name'"),
        ("cheapest", {"job": "bert-large", "top": 51}, "top: at most 50 rows"),
        ("cheapest", {"job": "bert-large", "top": "many"}, "top: 'many' is not a whole number"),
        ("cheapest", {"job": {"a": 1}}, "must be text, a number or a list"),
        ("cheapest", {"job": "bert-large", "gpu": ["H1O0"]}, "unknown GPU 'H1O0'"),
        ("offers", {"provider": ["acmee"]}, "did you mean acme or azure?"),
        ("offers", {"gpu": ["x" * 5000]}, "longer than 2,000"),
        ("compare", {"left": "H100", "job": "bert-large"}, "right: name a GPU"),
        ("history", {"job": "bert-large", "since": "yesterday"}, "since: "),
        ("rent", {}, "no tool is called 'rent'"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    answers: Answers, name: str, arguments: dict[str, Any], part: str
) -> None:
    assert part in complaint(answers, name, arguments)


def test_a_database_that_is_away_is_an_error_of_the_call_only(tmp_path: Path) -> None:
    away = Answers(App(env={
        "GPUCOST_DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/x",
        "GPUCOST_DATA_DIR": str(tmp_path),
    }))  # fmt: skip
    line = complaint(away, "offers", {})
    assert "127.0.0.1" in line
    assert "secret" not in line
    assert "bert-large" in str(ask(away, "estimate", {"job": "bert-large", "prices": False}))


def test_nothing_recorded_says_how_to_begin(tmp_path: Path) -> None:
    empty = Answers(App(env={"GPUCOST_DATA_DIR": str(tmp_path)}))
    assert "gpucost poll" in complaint(empty, "cheapest", {"job": "bert-large"})


@given(
    rows=st.lists(st.text(max_size=60), max_size=400),
    beside=st.lists(st.integers(), max_size=40),
    newest=st.booleans(),
)
@settings(max_examples=30)
def test_no_answer_is_too_long_and_what_is_cut_is_counted(
    rows: list[str], beside: list[int], newest: bool
) -> None:
    document = {"remarks": list(beside)}
    found = bounded(document, "rows", rows, newest=newest, most=2000)
    assert len(json_text(found)) <= 2000
    kept, cut = found["rows"], found["cut"]
    assert len(kept) + cut.get("rows", 0) == len(rows)
    assert kept == (rows[len(rows) - len(kept) :] if newest else rows[: len(kept)])
    assert len(found["remarks"]) + cut.get("remarks", 0) == len(beside)


def test_an_answer_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(BadQuestion, match="too large"):
        bounded({"answer": "x" * MAX_CHARACTERS}, "rows", [], newest=False)


def test_over_standard_input_and_output(market: tuple[str, Path]) -> None:
    url, folder = market
    parameters = StdioServerParameters(
        command=str(COMMAND), args=["mcp"],
        env={"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(folder),
             "PATH": os.environ["PATH"]},
    )  # fmt: skip

    async def talk() -> list[Any]:
        async with mcp.Client(stdio_client(parameters)) as client:
            return [await client.call_tool(name, CALLS[name]) for name in TOOLS]

    results = asyncio.run(talk())
    assert [result.is_error for result in results] == [False] * len(TOOLS)


def test_it_ends_when_its_input_ends() -> None:
    done = subprocess.run(
        [COMMAND, "mcp"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_its_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tracker.web.mcp")
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    done = run("mcp")
    assert done.code == 2
    assert "pip install '.[mcp]' in gpucost's checkout" in done.complaint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_its_input_is_open(number: int) -> None:
    with subprocess.Popen(
        [COMMAND, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }  # fmt: skip
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert b"gpucost" in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert b"Traceback" not in (process.stderr.read() if process.stderr else b"")
