"""Who may ask, how often and how much at once; and what a refusal looks like."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled
from tests.support.pg import TestServer
from tests.web.api.served import TOKEN, Client, client
from tracker.web.api.guard import Access, Limits
from tracker.web.api.page import DOCS_CSP
from tracker.web.app import SECURITY_HEADERS

OTHERS = "192.0.2.7"  # of a block that is for documentation


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, *polls()) as found:
        yield found


def problem(got: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem that an answer must be."""
    assert got.status_code == status, got.text
    assert got.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = got.json()
    assert told["type"] == f"urn:gpucost:problem:{kind}"
    assert told["status"] == status
    assert "\n" not in told["detail"]
    return told


@pytest.mark.parametrize(
    ("path", "status", "kind", "says"),
    [
        ("cheapest", 400, "bad-question", "name a job"),
        ("cheapest?job=brt-large", 400, "bad-question", "did you mean bert-large"),
        ("cheapest?job=/etc/passwd", 400, "bad-question", "no job is called"),
        ("cheapest?job=../../../etc/passwd", 400, "bad-question", "no job is called"),
        ("cheapest?job=bert-large&gpu=H10O", 400, "unknown-gpu", "H10O"),
        ("cheapest?job=bert-large&provider=amazn", 400, "unknown-provider", "no provider"),
        ("cheapest?job=bert-large&tier=zzz", 400, "unknown-tier", "no provider has a tier 'zzz'"),
        ("offers?tier=comunity", 400, "unknown-tier", "did you mean community"),
        ("cheapest?job=bert-large&job=x", 400, "bad-question", "twice"),
        ("cheapest?job=bert-large&tpo=3", 400, "bad-question", "did you mean top"),
        ("cheapest?job=bert-large&top=0", 400, "bad-question", "from 1"),
        ("cheapest?job=bert-large&top=5000", 400, "bad-question", "go on with offset"),
        ("cheapest?job=bert-large&top=2&offset=-1", 400, "bad-question", "whole number"),
        ("cheapest?job=bert-large&min_vram=nan", 400, "bad-question", "must be above 0"),
        ("cheapest?job=bert-large&min_vram=1e400", 400, "bad-question", "at most"),
        ("cheapest?job=bert-large&as_of=2999-01-01", 400, "bad-question", "future"),
        ("cheapest?job=bert-large&as_of=2026-01-01&available", 400, "bad-question", "exclude"),
        ("cheapest?job=bert-large&market=any,spot", 400, "bad-question", "any means all"),
        ("cheapest?job=bert-large&hours=A100=-3", 400, "bad-job", "A100"),
        ("cheapest?job=bert-large&assume_network=5", 400, "bad-question", "give download GB"),
        ("cheapest?job=bert-large&format=xml", 400, "bad-question", "json, csv"),
        ("cheapest.csv?job=bert-large&format=json", 400, "bad-question", "already"),
        ("history?job=bert-large&since=1y&bucket=5m", 400, "bad-question", "points"),
        ("history?job=bert-large&tz=Mars", 400, "bad-question", "time zone"),
        ("compare?job=bert-large&left=H100&right=H100", 400, "bad-question", "the same GPU"),
        ("offers?region=" + "x*" * 51, 400, "bad-question", "more than 100 characters"),
        ("providers?offset=1", 400, "bad-question", "one page"),
        ("jobs/nothing", 404, "no-such-job", "no job"),
        ("nothing", 404, "not-found", "/api/docs"),
        ("cheapest?job=" + "x" * 3000, 400, "bad-question", "longer than"),
        ("cheapest?job=" + "x" * 9000, 414, "too-long", "bytes"),
    ],
)
def test_a_mistake_gets_a_problem_that_says_what_to_do(
    url: str, tmp_path: Path, path: str, status: int, kind: str, says: str
) -> None:
    with client(url, tmp_path) as asking:
        assert says in problem(asking.ask(f"/api/v1/{path}"), status, kind)["detail"]


def test_a_format_that_there_is_not(url: str, tmp_path: Path) -> None:
    with client(url, tmp_path) as asking:
        got = asking.ask("/api/v1/jobs", headers={"accept": "image/png"})
        problem(got, 406, "format")
        kinds = {"": "application/json", "text/html, text/*;q=0.5": "text/csv",
                 "application/x-ndjson;q=0.3, */*;q=0.1": "application/x-ndjson"}  # fmt: skip
        for accept, kind in kinds.items():
            got = asking.ask("/api/v1/jobs", headers={"accept": accept})
            assert got.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs", "/api/v1/nothing", "/api/docs", "/api/openapi.json", "/readyz"]
)
def test_every_answer_has_the_security_headers(url: str, tmp_path: Path, path: str) -> None:
    with client(url, tmp_path) as asking:
        got = asking.ask(path)
        for name, value in SECURITY_HEADERS:
            if name != b"cache-control":
                styled = path == "/api/docs" and name == b"content-security-policy"
                assert got.headers[name.decode()] == (DOCS_CSP if styled else value.decode())
        assert "access-control-allow-origin" not in got.headers
        assert "://" not in got.text.replace("http://127.0.0.1", "") or path != "/api/docs"


def test_other_machines_need_the_token(url: str, tmp_path: Path) -> None:
    with client(url, tmp_path, Access(TOKEN), address=OTHERS) as asking:
        for path in ("/api/v1/jobs", "/?job=bert-large"):
            got = asking.ask(path)
            problem(got, 401, "token")
            assert got.headers["www-authenticate"].startswith("Bearer")
        problem(asking.ask("/api/v1/jobs", headers={"authorization": "Bearer x"}), 401, "token")
        problem(asking.ask("/api/v1/jobs", headers={"authorization": TOKEN}), 401, "token")
        right = {"authorization": f"Bearer {TOKEN}"}
        assert asking.ask("/api/v1/jobs", headers=right).status_code == 200
    with client(url, tmp_path, Access(None), address=OTHERS) as asking:
        problem(asking.ask("/api/v1/jobs"), 401, "token")
    with client(url, tmp_path, Access(None, open_to_all=True), address=OTHERS) as asking:
        assert asking.ask("/api/v1/jobs", headers={"host": "prices.example"}).status_code == 200


def test_a_page_of_another_site_cannot_ask_through_its_visitor(url: str, tmp_path: Path) -> None:
    with client(url, tmp_path, Access(hosts=("prices.example",))) as asking:
        for host in ("evil.example", "evil.example:9754", "127.0.0.1.evil.example", "", "[::1"):
            problem(asking.ask("/api/v1/jobs", headers={"host": host}), 421, "other-host")
        for host in ("localhost:9754", "127.0.0.1", "[::1]:9754", "prices.example"):
            assert asking.ask("/api/v1/jobs", headers={"host": host}).status_code == 200


def test_whoever_asks_too_often_waits(url: str, tmp_path: Path) -> None:
    with client(url, tmp_path, limits=Limits(per_second=0.5, burst=3)) as asking:
        assert [asking.ask("/api/v1/jobs").status_code for _ in range(3)] == [200] * 3
        got = asking.ask("/api/v1/jobs")
        problem(got, 429, "too-many")
        assert 1 <= int(got.headers["retry-after"]) <= 2
        assert asking.ask("/livez").status_code == 200  # whoever watches is never told to wait


def test_a_body_has_its_limit(url: str, tmp_path: Path) -> None:
    def drops() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    async def stream() -> Any:
        for drop in drops():
            yield drop

    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    path = "/api/v1/alerts/silences"
    with client(url, tmp_path, Access(TOKEN)) as asking:
        problem(asking.ask(path, "POST", content=b" " * 20_000, headers=headers), 413, "too-large")
        problem(asking.ask(path, "POST", content=stream(), headers=headers), 413, "too-large")
        odd = headers | {"content-length": "many"}
        problem(asking.ask(path, "POST", content=b"{}", headers=odd), 400, "bad-request")


def test_a_database_that_is_away(tmp_path: Path) -> None:
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        gone = f"postgresql://me:planted-word@127.0.0.1:{held.getsockname()[1]}/gpucost"
        with client(gone, tmp_path) as asking:
            got = asking.ask("/api/v1/providers")
            problem(got, 503, "database")
            assert got.headers["retry-after"]
            assert "planted-word" not in got.text
            assert asking.ask("/readyz").status_code == 503
            assert asking.ask("/livez").status_code == 200


def test_a_statement_that_takes_too_long(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracker.app import live
    from tracker.app.answers import Answers

    def slowly(self: Answers, _question: object) -> None:
        with self.app.reading() as connection:
            connection.execute("SELECT pg_sleep(30)")

    monkeypatch.setattr(live, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(Answers, "providers", slowly)
    with client(url, tmp_path) as asking:
        assert "too long" in problem(asking.ask("/api/v1/providers"), 503, "database")["detail"]


def test_an_error_of_ours_tells_nothing_of_itself(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tracker.app.answers import Answers

    def broken(*_: object) -> None:
        raise RuntimeError("planted-secret")

    monkeypatch.setattr(Answers, "jobs", broken)
    with client(url, tmp_path) as asking:
        got = asking.ask("/api/v1/jobs")
    problem(got, 500, "internal")
    assert "planted-secret" not in got.text
    assert "planted-secret" in caplog.text


class TestWriting:
    """What changes something."""

    SILENCE: ClassVar = {"rule": "*", "length": "2h", "comment": "moving house", "author": "me"}

    @pytest.fixture
    def asking(self, database_url: str, tmp_path: Path) -> Iterator[Client]:
        with client(database_url, tmp_path, Access(TOKEN)) as found:
            yield found

    def post(self, asking: Client, path: str, body: object, token: str = TOKEN) -> httpx.Response:
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        sent = json.dumps(body).encode()  # in ASCII, also what is no text
        return asking.ask(f"/api/v1/{path}", "POST", content=sent, headers=headers)

    def test_nothing_is_changed_without_the_token(self, url: str, tmp_path: Path) -> None:
        with client(url, tmp_path, Access(TOKEN)) as asking:
            problem(self.post(asking, "alerts/silences", self.SILENCE, ""), 401, "token")
            problem(self.post(asking, "alerts/silences", self.SILENCE, "wrong"), 401, "token")
        with client(url, tmp_path) as asking:
            problem(self.post(asking, "alerts/silences", self.SILENCE, ""), 403, "read-only")
            problem(asking.ask("/api/v1/alerts", "DELETE"), 403, "read-only")

    def test_a_silence(self, asking: Client) -> None:
        made = self.post(asking, "alerts/silences", self.SILENCE)
        assert made.status_code == 201, made.text
        assert made.json()["silence"] >= 1
        assert any("1 silence in force" in r for r in asking.get("/api/v1/alerts")["remarks"])

    def test_a_silence_is_listed_and_ended(self, asking: Client) -> None:
        number = self.post(asking, "alerts/silences", self.SILENCE).json()["silence"]
        path = "/api/v1/alerts/silences"
        (found,) = asking.get(path)["rows"]
        assert (found["id"], found["in_force"], found["rule"]) == (number, True, "*")
        problem(asking.ask(f"{path}/{number}", "DELETE"), 401, "token")
        headers = {"authorization": f"Bearer {TOKEN}"}
        ended = asking.ask(f"{path}/{number}", "DELETE", headers=headers)
        assert (ended.status_code, ended.json()["silence"]) == (200, number)
        assert asking.get(f"{path}?all")["rows"][0]["in_force"] is False
        for other in (number, 10**9, "0" * 900, "x", "-1", "9" * 30):
            got = asking.ask(f"{path}/{other}", "DELETE", headers=headers)
            problem(got, 404, "no-such-silence")

    @pytest.mark.parametrize(
        ("change", "status", "kind"),
        [
            ({"rule": "nothing-so-called"}, 404, "no-such-rule"),
            ({"rule": "["}, 400, "bad-question"), ({"rule": "h100*\u00e9"}, 400, "bad-question"),
            ({"rule": None}, 400, "bad-question"), ({"length": "x"}, 400, "bad-question"),
            ({"length": "400d"}, 400, "bad-question"), ({"comment": " "}, 400, "bad-question"),
            ({"comment": "a\nb"}, 400, "bad-question"),
            ({"comment": "\ud800"}, 400, "bad-question"),
            ({"gpu": "nothing"}, 400, "unknown-gpu"), ({"job": "nothing"}, 400, "bad-question"),
            ({"provider": "nothing"}, 400, "unknown-provider"), ({"more": 1}, 400, "bad-question"),
        ],
    )  # fmt: skip
    def test_a_silence_that_cannot_be(
        self, asking: Client, change: dict[str, Any], status: int, kind: str
    ) -> None:
        body = self.SILENCE | change
        problem(self.post(asking, "alerts/silences", body), status, kind)

    def test_a_body_that_is_none(self, asking: Client) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        path = "/api/v1/alerts/silences"
        problem(asking.ask(path, "POST", headers=headers), 415, "media-type")
        headers["content-type"] = "application/json"
        for body in (b"", b"{", b"[]", b"\xff", b"[" * 10_000):
            problem(asking.ask(path, "POST", content=body, headers=headers), 400, "bad-question")

    def test_all_that_a_body_lacks_is_said_at_once(self, asking: Client) -> None:
        got = self.post(asking, "alerts/silences", {"rule": "*", "more": 1})
        problem(got, 400, "bad-question")
        for name in ("length", "comment", "author", "more"):
            assert f"{name}: " in got.json()["detail"]
        one = self.post(asking, "alerts/h100-cheaper-than-a100/ack", {})
        assert (one.json()["parameter"], one.json()["detail"]) == ("author", "Field required")

    def test_a_silence_takes_the_name_of_the_command(self, asking: Client) -> None:
        body = {name: text for name, text in self.SILENCE.items() if name != "length"}
        assert self.post(asking, "alerts/silences", body | {"for": "2h"}).status_code == 201
        problem(self.post(asking, "alerts/silences", self.SILENCE | {"for": "3h"}), 400,
                "bad-question")  # fmt: skip

    def test_acknowledging_what_never_fired(self, asking: Client) -> None:
        found = self.post(asking, "alerts/h100-cheaper-than-a100/ack", {"author": "me"})
        problem(found, 404, "no-such-rule")

    @pytest.mark.parametrize("hours", ["3.5", 3.5], ids=["text", "number"])
    def test_a_measurement_changes_the_answer(self, asking: Client, hours: str | float) -> None:
        before = asking.get("/api/v1/estimate?job=bert-large&gpu=H100-SXM-80GB")["estimates"][0]
        body = {"gpu": "H100-SXM-80GB", "hours": hours, "note": "our run"}
        made = self.post(asking, "jobs/bert-large/measurements", body)
        assert made.status_code == 201, made.text
        after = asking.get("/api/v1/estimate?job=bert-large&gpu=h100-sxm-80gb")["estimates"][0]
        assert (before["hours"], after["hours"], after["basis"]) == (4, 3.5, "measured")

    @pytest.mark.parametrize(
        "change",
        [{"gpu": "H100"}, {"hours": None}, {"hours": "-1"}, {"tokens_per_second": "9"},
         {"hours": 0}, {"hours": 10**60}],
    )  # fmt: skip
    def test_a_measurement_that_cannot_be(self, asking: Client, change: dict[str, Any]) -> None:
        body = {"gpu": "H100-SXM-80GB", "hours": "3.5"} | change
        problem(self.post(asking, "jobs/bert-large/measurements", body), 400, "bad-question")
        problem(self.post(asking, "jobs/no-job/measurements", body), 404, "no-such-job")

    @pytest.mark.parametrize("hours", [True, [3.5], {}], ids=repr)
    def test_hours_that_are_no_number(self, asking: Client, hours: object) -> None:
        body = {"gpu": "H100-SXM-80GB", "hours": hours}
        problem(self.post(asking, "jobs/bert-large/measurements", body), 400, "bad-question")
