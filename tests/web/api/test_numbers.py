"""Numbers and lengths of time that nobody means: one line of refusal, whoever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpucost
from tests.cli.cheapest_market import polls
from tests.cli.harness import filled, run
from tests.support.pg import TestServer
from tests.web.api.served import TOKEN, Client, client
from tracker.app import App
from tracker.app.answers import QUESTIONS, Answers
from tracker.web.api.guard import Access

mcp = pytest.importorskip("tracker.web.mcp", reason="needs gpucost[mcp]")

# What each address needs beside the parameter that is tried.
NEEDED: dict[str, dict[str, str]] = {
    "/api/v1/cheapest": {"job": "bert-large", "top": "1"},
    "/api/v1/compare": {"job": "bert-large", "left": "H100", "right": "A100"},
    "/api/v1/history": {"job": "bert-large", "since": "2d", "bucket": "1d"},
    "/api/v1/versus": {"job": "bert-large", "left": "H100", "right": "A100", "since": "2d"},
    "/api/v1/when": {"job": "bert-large", "deadline": "3d", "since": "7d"},
    "/api/v1/offers": {"top": "1"},
    "/api/v1/offers/quarantined": {"top": "1"},
    "/api/v1/estimate": {"job": "bert-large", "gpu": "H100"},
    "/": {"job": "bert-large", "top": "1"},
    "/history": {"job": "bert-large", "since": "2d"},
    "/break-even": {"job": "bert-large", "left": "H100", "right": "A100", "since": "2d"},
    "/estimate": {"job": "bert-large"},
    "/providers": {},
}
OF_PAGES = {"/": "cheapest", "/history": "history", "/break-even": "versus"}
OTHERS = {  # beside those that are numbers by their kind
    "deadline", "max_age", "since", "until", "bucket", "as_of", "hours", "estimate_version",
}  # fmt: skip
# Each lies on the far side of some limit: of text, of a float, of a date, of a decimal, of memory.
HOSTILE = (
    "1E-999999999", "1E+999999999", "0E-999999999", "0E+999999999", "1E-200000000", "1E-9999999",
    "-1E-999999999", "1E-21", "9" * 1900, "0." + "0" * 1900 + "1", "1" + "0" * 400 + "d",
    "9999999d", "999999y", "36526d", "99999999999999w", "1E-999999999GB", "1E999999999TB",
    "1e-999999999h", "9" * 400 + "GB", "nan", "-Infinity", "sNaN123", "٣", "1_0", "0001-01-01",
    "9999-12-31", "0001-01-01T00:00+14:00", "H100=1E-9999999", "H100=0E-999999999",
    "H100=1E-999999999h", "H100=" + "9" * 1000,
)  # fmt: skip
_READ = ("٣", "1_0")  # as Python reads numbers
texts = st.sampled_from(HOSTILE) | st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "H100=", "-", "+", " "]),
    st.from_regex(r"[0-9]{1,40}(\.[0-9]{0,40})?", fullmatch=True, alphabet="0159."),
    st.just("") | st.integers(-(10**9), 10**9).map("E{}".format)
    | st.integers(-40, 40).map("e{}".format),
    st.sampled_from(["", "s", "m", "h", "d", "w", "y", "mo", "GB", "TB", "GiB", "Gbit", "%"]),
)  # fmt: skip


def tried(path: str) -> list[str]:
    name = OF_PAGES.get(path, path.rpartition("/")[2])
    known = QUESTIONS.get(name, {})
    own = {
        "/api/v1/cheapest": ["offset"],
        "/api/v1/offers": ["offset"],
        "/break-even": ["speed_up"],
    }
    numbers = [
        key for key, one in known.items() if one.kind in ("number", "integer") or key in OTHERS
    ]
    return numbers + own.get(path, [])


PAIRS = [(path, name) for path in NEEDED for name in tried(path)]


@pytest.fixture(scope="module")
def market(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    with filled(database_server, *polls()) as url:
        yield url, tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def asking(market: tuple[str, Path]) -> Iterator[Client]:
    with client(*market, access=Access(token=TOKEN)) as found:
        yield found


@pytest.fixture(scope="module")
def answers(market: tuple[str, Path]) -> Answers:
    return Answers(App(env=environment(market)))


def environment(market: tuple[str, Path]) -> dict[str, str]:
    return {"GPUCOST_DATABASE_URL": market[0], "GPUCOST_DATA_DIR": str(market[1])}


def small(text: str) -> None:
    assert len(text) < 400_000
    assert "0" * 60 not in text
    assert "9" * 60 not in text


def refused_or_answered(asking: Client, path: str, name: str, text: str) -> None:
    asked = "&".join(
        f"{key}={quote(value)}" for key, value in (NEEDED[path] | {name: text}).items()
    )
    got = asking.ask(f"{path}?{asked}")
    assert got.status_code in (200, 400), (path, name, text[:60], got.text[:300])
    if path.startswith("/api"):
        small(got.text)
        assert got.status_code == 200 or len(got.json()["detail"]) < 400


@pytest.mark.parametrize(("path", "name"), PAIRS)
def test_no_number_is_too_much_for_an_address(asking: Client, path: str, name: str) -> None:
    for text in HOSTILE:
        refused_or_answered(asking, path, name, text)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(PAIRS), texts)
def test_whatever_number_is_sent_it_is_answered_or_refused(
    asking: Client, pair: tuple[str, str], text: str
) -> None:
    refused_or_answered(asking, *pair, text)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([(path, name) for path, name in PAIRS if path.startswith("/api")]),
    texts | st.integers() | st.floats() | st.sampled_from([10**5000, -(10**400), 1e308]),
)
def test_an_assistant_gets_one_short_line(
    answers: Answers, pair: tuple[str, str], value: Any
) -> None:
    path, name = pair
    tool = path.rpartition("/")[2]
    if tool not in mcp.TOOLS or name == "offset":
        return
    done = mcp.call(answers, tool, NEEDED[path] | {name: value})
    text = done.content[0].text
    small(text)
    assert not done.is_error or ("internal" not in text and len(text) < 500 and "\n" not in text)


@pytest.mark.parametrize("name", ["hours", "tokens_per_second"])
@pytest.mark.parametrize(
    "text", [text for text in HOSTILE if "=" not in text and text not in _READ]
)
@pytest.mark.parametrize("quoted", [True, False])
def test_a_measurement_is_of_a_number_that_somebody_means(
    asking: Client, name: str, text: str, quoted: bool
) -> None:
    body = json.dumps({"gpu": "H100-SXM-80GB", name: "@"})
    got = asking.ask(
        "/api/v1/jobs/bert-large/measurements", "POST",
        content=body.replace('"@"', json.dumps(text) if quoted else text).encode(),
        headers={"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
    )  # fmt: skip
    assert got.status_code == 400, got.text
    assert len(got.text) < 1000


@pytest.mark.parametrize(
    "asked",
    [
        {"disk": 10**5000}, {"gpus": -(10**5000)}, {"deadline": "1E-999999999"},
        {"max_age": "9999999d"}, {"min_ram": "1E-999999999"}, {"top": 10**5000},
        {"hours": {"H100": 10**5000}}, {"hours": {"H100": "1E-999999999"}},
        {"hours": {"A100=1,H100": 2}}, {"hours": {"A100": "1,H100=2"}},
    ],
)  # fmt: skip
def test_python_is_refused_what_no_text_is(market: tuple[str, Path], asked: dict[str, Any]) -> None:
    prices = gpucost.open(env=environment(market))
    with pytest.raises(gpucost.BadQuestion) as told:
        prices.cheapest("bert-large", **asked)
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    "argv",
    [
        ("cheapest", "bert-large", "--deadline", "1E-999999999"),
        ("cheapest", "bert-large", "--max-age", "9999999d"),
        ("cheapest", "bert-large", "--min-vcpus", "1E-999999999"),
        ("cheapest", "--hours", "H100=0E-999999999"),
        ("history", "bert-large", "--min-ram", "1E-999999999"),
        ("history", "bert-large", "--since", "101y"),
        ("when", "bert-large", "--deadline", "9999999d"),
        ("month", "bert-large=1E-999999999"),
    ],
)
@pytest.mark.parametrize("form", [(), ("-o", "json")])
def test_a_command_refuses_it_as_a_mistake(
    market: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    form: tuple[str, ...],
) -> None:
    for name, value in environment(market).items():
        monkeypatch.setenv(name, value)
    done = run(*argv, *form)
    assert done.code == 2, done.complaint
    small(done.out + done.complaint)
