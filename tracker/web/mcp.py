"""The questions as tools of the Model Context Protocol, for assistants that call tools.

Each tool is a question of ``tracker.app.answers`` with the command line's parameters, answered in
the shapes of ``-o json``. It only reads, and files of this machine cannot be named. Every answer
tells the age of its prices, what its hours rest on and whom they come from (``provenance``), and is
at most MAX_CHARACTERS long: what is cut is counted (``cut``).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from tracker import __version__
from tracker.app.answers import QUESTIONS, Answers, Question
from tracker.app.asked import MAX_TEXT, BadQuestion, Parameter
from tracker.report.ages import age_seconds
from tracker.report.shapes import estimated, texts
from tracker.web.api.problems import refusal
from tracker.web.api.views import VIEWS, View
from tracker.web.mcp_open import Incoming, Open, Outgoing

MAX_ROWS = 50
_MOST_BITS = 2000  # of a whole number: no text may be made of much larger ones
MAX_POINTS = 200  # of history
MAX_CHARACTERS = 60_000
AT_ONCE = 4  # questions that are answered side by side
_BESIDE = 12  # rows of the lists beside the ranking

INSTRUCTIONS = (
    "What whole GPU jobs cost on clouds that rent GPUs. Amounts are USD as text; null is unknown, "
    "never 0. A price per GPU is not that of a machine. Beside any figure tell the age of prices, "
    "what the hours rest on (basis) and what was left out (excluded, remarks, cut)."
)
TOOLS: Mapping[str, str] = {
    "cheapest": "The cheapest ways to run a job: whole bills, ranked. Give a job, or hours by GPU.",
    "history": "What the cheapest way to run a job cost over time, for each GPU or provider.",
    "compare": "One GPU against another for a job: which is cheaper, and up to what price.",
    "when": "Start a job now or wait for a lower price, by its own cost history; needs a deadline.",
    "estimate": "How long a job takes on each GPU, how that is known, and its cheapest offer.",
    "offers": "What can be rented now, the cheapest per GPU-hour first; or with group_by "
    "how many there are, what is in stock and between which prices, by provider, region, ...",
    "providers": "How each provider's prices stand: when it last answered, and what is wrong.",
}  # fmt: skip
# What counts the rows of an answer that holds the first of them alone.
_COUNTED = ("offers_considered", "groups", "offers_matching")
# Of a row; the command line and the HTTP interface have the rest.
_LEFT_OUT = frozenset(
    ("bill", "basis_note", "vcpus", "ram_gib", "steps", "notes", "disk_gb", "network_down_mbps",
     "network_up_mbps", "estimate_version", "key", "key_variable", "key_adds", "owned")
)  # fmt: skip


def make_server(answers: Answers, limiter: anyio.CapacityLimiter | None = None) -> Server[Any]:
    """The server, without a transport. *limiter* counts the questions being answered."""
    limiter = limiter or anyio.CapacityLimiter(AT_ONCE)

    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name) for name in TOOLS])

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        def work() -> types.CallToolResult:
            return call(answers, params.name, params.arguments or {})

        return await anyio.to_thread.run_sync(work, limiter=limiter)

    return Server(
        "gpucost", version=__version__, instructions=INSTRUCTIONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip


async def serve_stdio(answers: Answers) -> None:
    """Answer on standard input and output until the input ends and what was asked is answered, or
    SIGTERM or SIGINT comes."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    server = make_server(answers, limiter)
    loop, ends = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def end(number: int) -> None:
        if ends:
            os._exit(128 + number)
        ends.add(loop.create_task(_end(number, limiter)))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    open_ = Open()
    async with stdio_server() as (read, write):
        await server.run(
            Incoming(read, open_), Outgoing(write, open_), server.create_initialization_options()
        )


async def _end(number: int, limiter: anyio.CapacityLimiter) -> None:
    """End the process once what is being answered is: a database of our own ends with it.

    A thread waits for the input and cannot be told to stop; it would keep the process.
    """
    for _ in range(AT_ONCE):
        await limiter.acquire_on_behalf_of(object())
    os._exit(128 + number)


def call(answers: Answers, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """Answer one call; whatever is wrong becomes an error of the tool with one line."""
    try:
        document = answer(answers, name, arguments)
    except Exception as error:  # what is not foreseen is logged and not told
        line = " ".join(refusal(error).detail.split())
        if isinstance(error, BadQuestion) and error.parameter:
            line = f"{error.parameter}: {line}"
        return types.CallToolResult(content=[types.TextContent(text=line)], is_error=True)
    text = texts.json_text(document)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=document
    )  # fmt: skip


def answer(answers: Answers, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as plain values. Raises what ``Answers`` raises."""
    if name not in TOOLS:
        raise BadQuestion(None, f"no tool is called {name[:40]!r}; known: {', '.join(TOOLS)}")
    question = Question.parsed(name, _given(arguments))
    if question.values.get("top", 0) > MAX_ROWS:
        raise BadQuestion("top", f"at most {MAX_ROWS} rows at once; filter instead")
    view = _estimate(answers, question) if name == "estimate" else VIEWS[name](answers, question, 0)
    rows = texts.plain([_slim(row) for row in view.rows])
    if name == "history":  # by time, not series by series: what is cut is the oldest of all
        rows.sort(key=lambda row: row["start"])
    document = {
        "schema_version": texts.SCHEMA_VERSION,
        "provenance": provenance(view, question.now),
        "shown": None if "remarks" in view.document and name == "history" else view.footer or None,
        **texts.plain({key: _slim_lists(value) for key, value in view.document.items()}),
    }
    found = next((document[key] for key in _COUNTED if key in document), None)
    return bounded(document, view.name, rows, newest=name == "history", found=found)


# -- what is asked -------------------------------------------------------------------------------


def _given(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Arguments as pairs of name and text; null is not given. Raises BadQuestion."""
    pairs = []
    for name, value in arguments.items():
        if value is None or value == []:
            continue
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) for item in items):
            raise BadQuestion(None, f"{name[:40]}: must be text, a number or a list of texts")
        pairs.append((name, ",".join(map(_text, items))))
    return pairs


def _text(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise BadQuestion(None, "a number is too large")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _tool(name: str) -> types.Tool:
    properties = {key: _schema(key, one) for key, one in QUESTIONS[name].items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    required: list[str] = [key for key in ("left", "right") if key in properties]
    required += {"estimate": ["job"], "when": ["deadline"]}.get(name, [])
    if required:
        schema["required"] = required
    return types.Tool(
        name=name, description=TOOLS[name], input_schema=schema,
        annotations=types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True,
            open_world_hint=False,
        ),
    )  # fmt: skip


def _schema(name: str, parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.kind == "string":
        schema["maxLength"] = MAX_TEXT
    if parameter.choices:
        schema = {"type": "string", "enum": list(parameter.choices)}
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    if parameter.most is not None:
        schema["maximum"] = MAX_ROWS if name == "top" else parameter.most
    if parameter.many:
        schema = {"type": "array", "items": schema, "maxItems": 100}
    elif parameter.default is not None:
        schema["default"] = min(parameter.default, MAX_ROWS) if name == "top" else parameter.default
    return schema | {"description": parameter.help}


# -- what is answered ----------------------------------------------------------------------------


def _estimate(answers: Answers, question: Question) -> View:
    """The estimates, each with the age and the source of its price."""
    report = answers.estimate(question)
    document = estimated.document(report.job, report.found, report.remark)
    priced = [
        {"age_seconds": None, "price_source": None}
        if on.row is None
        else {
            "age_seconds": age_seconds(on.row.offer, question.now),
            "price_source": on.row.offer.source,
        }
        for on in report.found
    ]
    entries = document.pop("estimates")
    rows = [{**entry, **price} for entry, price in zip(entries, priced, strict=True)]
    return View(document, rows, (), name="estimates")


def provenance(view: View, now: datetime) -> dict[str, Any]:
    """Of the rows: how old their prices are, what their hours rest on, who said the prices."""
    ages = [row["age_seconds"] for row in view.rows if row.get("age_seconds") is not None]
    if "advice" in view.document:
        return _provenance_of_waiting(view.document, now)
    if "series" in view.document:
        ages = list(_ages_of_history(view, now))
    return {
        "as_of": texts.iso(now),
        "age_seconds": {"least": min(ages), "most": max(ages)} if ages else None,
        "basis": _told(row.get("basis") for row in view.rows),
        "sources": _told(map(_source, view.rows) if view.sources is None else view.sources),
        "stale_rows": sum(bool(row.get("stale")) for row in view.rows),
    }


def _ages_of_history(view: View, now: datetime) -> Iterator[int]:
    """How old the price of each bucket is: of one that was read on a day, since then; else how
    long ago the bucket ended and began. The edge of a bucket confirms nothing: its price is as old
    as that of now at least, where that is live too."""
    last = {
        one["name"]: one["now_age_seconds"] or 0
        for one in view.document["series"] if one["now_valid_as_of"] is None
    }  # fmt: skip
    for row in view.rows:
        if row["usd"] is None:
            continue
        read_on = row.get("valid_as_of")
        if read_on is not None:
            yield _since(min(datetime.combine(read_on, time.min, UTC), row["end"]), now)
            continue
        for moment in (row["end"], row["start"]):
            yield max(last.get(row["series"], 0), _since(moment, now))


def _since(moment: datetime, now: datetime) -> int:
    return max(0, int((now - moment).total_seconds()))


def _provenance_of_waiting(document: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The same of an answer that rests on a history: how old its last price is (where that is not
    known, how long ago it ends), and how long ago it begins."""
    history, cheapest = document["history"], document["now"] or {}
    ages = [] if history is None else [_since(history[name], now) for name in ("end", "start")]
    if ages and cheapest.get("age_seconds") is not None:
        ages[0] = cheapest["age_seconds"] + _since(history["end"], now)
    return {
        "as_of": texts.iso(now),
        "age_seconds": {"least": min(ages), "most": max(ages)} if ages else None,
        "basis": _told([cheapest.get("basis")]), "sources": _told([cheapest.get("source")]),
        "stale_rows": 0,
    }  # fmt: skip


def _told(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})[:MAX_ROWS]


def _source(row: Mapping[str, Any]) -> Any:
    """Whose word the price of a row is; ``source`` of an estimate is that of its hours."""
    if "price_source" in row:
        return row["price_source"]
    return row.get("source") or row.get("provider")


def _slim(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in _LEFT_OUT}


def _slim_lists(value: Any) -> Any:
    """Rows in the document beside the ranking are cut as those in it are."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_slim(item) for item in value]
    return value


def bounded(
    document: dict[str, Any], name: str, rows: list[Any], *, newest: bool,
    most: int = MAX_CHARACTERS, found: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """*document* with *rows* under *name*, at most *most* characters as JSON.

    ``cut`` counts what is not there: of the lists beside, and of the rows (of all that were
    *found*, where only the first were asked for), of history the oldest.
    Raises BadQuestion where even that is not enough.
    """
    cut: dict[str, int] = {}
    for key, value in document.items():
        if isinstance(value, list) and len(value) > _BESIDE:
            cut[key] = len(value) - _BESIDE
            document[key] = value[:_BESIDE]
    kept = rows[-MAX_POINTS:] if newest else rows[:MAX_ROWS]
    while True:
        if len(kept) < (every := max(len(rows), found or 0)):
            cut[name] = every - len(kept)
        whole = {**document, "cut": cut, name: kept}
        if len(texts.json_text(whole)) <= most:
            return whole
        if not kept:
            raise BadQuestion(None, "the answer is too large; ask for fewer GPUs or a shorter time")
        half = len(kept) // 2
        kept = kept[len(kept) - half :] if newest else kept[:half]
