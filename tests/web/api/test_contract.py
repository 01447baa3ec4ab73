"""Whatever is sent, the answer is one that the OpenAPI document tells of; and never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    not_a_server_error,
)
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled
from tests.support.pg import TestServer
from tests.web.api.served import MANY, TOKEN, server
from tracker.app import App
from tracker.app.answers import QUESTIONS
from tracker.web.alone import Alone
from tracker.web.api.app import Service, document, make_api
from tracker.web.api.described import path_of
from tracker.web.api.guard import Access

_CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_headers_conformance, response_schema_conformance,
]  # fmt: skip
DOCUMENT = document(make_api(Service(lambda: pytest.fail("asks nothing"))))
OPERATIONS = [
    (path, method) for path, methods in DOCUMENT["paths"].items() for method in methods
]  # fmt: skip
_SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much,
         HealthCheck.data_too_large]  # fmt: skip


@pytest.fixture(scope="module")
def served(database_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("data"))
    with filled(database_server, *polls()) as url:
        env = {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": folder}
        web = Alone(url, App(env=env), env=env).web(Access(TOKEN), MANY)
        with server(web) as address:
            yield address


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_nothing_is_answered_that_is_not_written_down(
    served: str, path: str, method: str, mode: GenerationMode
) -> None:
    operation = schemathesis.openapi.from_dict(DOCUMENT)[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=5, suppress_health_check=_SLOW, phases=[Phase.explicit, Phase.generate],
        derandomize=True, database=None,
    )  # fmt: skip
    def ask(case: Any) -> None:
        # A head of more than 64 KiB is no request any more: the connection is closed.
        assume(len(urlencode(case.query or {}, doseq=True, errors="replace")) < 50_000)
        headers = {"Authorization": f"Bearer {TOKEN}"} if method != "get" else {}
        answer = case.call(base_url=f"{served}/api", headers=headers, timeout=30)
        case.validate_response(answer, checks=_CHECKS)

    ask()


_HOSTILE = st.one_of(
    st.text(max_size=60),
    st.sampled_from([
        "' OR 1=1 --", "%00", "\u202e", "../../etc/passwd", "{0.__class__}", "{{7*7}}", "$(id)",
        "9" * 400, "-0", "NaN", "Infinity", "1e-400", "0x10", "\ufeff", "a" * 1999, ",,,", "*" * 50,
        "[" * 100, "9999-12-31", "0001-01-01T00:00+14:00", "1000000d", "5m", "😀", "\x7f",
    ]),
)  # fmt: skip


@given(
    name=st.sampled_from(sorted(QUESTIONS)),
    pairs=st.lists(st.tuples(st.integers(0, 40), _HOSTILE), max_size=4),
    real=st.booleans(),
)
@settings(max_examples=15, suppress_health_check=_SLOW)
def test_hostile_parameters(
    served: str, name: str, pairs: list[tuple[int, str]], real: bool
) -> None:
    known = [*QUESTIONS[name], "format", "offset", "nothing"]
    given_ = [(known[place % len(known)], text) for place, text in pairs]
    if real and "job" in QUESTIONS[name] and not any(key == "job" for key, _ in given_):
        given_.append(("job", "bert-large"))
    query = "&".join(f"{key}={quote(text, errors='surrogatepass')}" for key, text in given_)
    got = httpx.get(f"{served}/api/v1/{path_of(name)}?{query}", timeout=30)
    assert got.status_code in (200, 400), got.text
    if got.status_code == 400:
        assert got.json()["detail"]


@pytest.mark.parametrize(
    "query", ["since=1000y&bucket=1mo", "since=9999y", "since=1y&bucket=1d", "since=0001-01-01"]
)
def test_huge_windows(served: str, query: str) -> None:
    got = httpx.get(f"{served}/api/v1/history?job=bert-large&{query}", timeout=30)
    assert got.status_code in (200, 400), got.text


def test_raw_bytes_that_are_no_address(served: str) -> None:
    for path in (
        "/api/v1/%ff%fe", "/api/v1/jobs/a%0Ab", "/api/v1/jobs/%00",
        "/api/v1/jobs/..%2f..%2fetc%2fpasswd",
        "/api//v1/jobs", "/api/v1/cheapest?%ff=%fe", "/api/v1/jobs/" + "x" * 900,
    ):  # fmt: skip
        assert httpx.get(f"{served}{path}", timeout=30).status_code in (400, 404), path


def test_no_address_is_left_out_of_the_document(tmp_path: Path) -> None:
    assert {f"/v1/{path_of(name)}" for name in QUESTIONS} <= set(DOCUMENT["paths"])
    for path, method in OPERATIONS:
        found = DOCUMENT["paths"][path][method]
        assert {"400", "401", "429", "503"} <= set(found["responses"]), path
        assert "422" not in found["responses"]
