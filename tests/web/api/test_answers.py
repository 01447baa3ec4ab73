"""What the programming interface answers: the same as the command line, in its shapes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cheapest_market import polls
from tests.cli.harness import filled, polled, record, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.api.served import Client, client
from tracker.app import kept
from tracker.app.live import LiveApp
from tracker.web.api import models, models_alerts, models_offers, models_past


@pytest.fixture(scope="module")
def market(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Client]]:
    with (
        filled(database_server, *polls()) as url,
        client(url, tmp_path_factory.mktemp("data")) as asking,
    ):
        yield url, asking


_SAME = [
    ("cheapest?job=bert-large", ["cheapest", "bert-large"]),
    (
        "cheapest?job=bert-large&gpu=H100,A100&market=any&disk=200&top=3",
        ["cheapest", "bert-large", "--gpu", "H100,A100", "--market", "any", "--disk", "200",
         "--top", "3"],
    ),
    (
        "cheapest?hours=A100=12,H100=4&tier=any&goal=fastest",
        ["cheapest", "--hours", "A100=12,H100=4", "--tier", "any", "--goal", "fastest"],
    ),
    ("cheapest?job=llama-3.1-8b-lora&top=2", ["cheapest", "llama-3.1-8b-lora", "--top", "2"]),
    ("offers?gpu=H100&market=any", ["offers", "--gpu", "H100", "--market", "any"]),
    (
        "offers?gpu=H100,A100&market=any&group_by=region,provider&group_by=term",
        ["offers", "--gpu", "H100,A100", "--market", "any", "--group-by", "region,provider",
         "--group-by", "term"],
    ),
    (
        "compare?left=H100&right=A100&job=bert-large&egress=10",
        ["compare", "H100", "A100", "bert-large", "--egress", "10"],
    ),
    ("estimate?job=bert-large&gpu=H100,A100", ["estimate", "bert-large", "--gpu", "H100,A100"]),
    (
        "history?job=bert-large&gpu=H100,A100&since=2d&bucket=6h&stat=median&below=12",
        ["history", "bert-large", "--gpu", "H100,A100", "--since", "2d", "--bucket", "6h",
         "--stat", "median", "--below", "12"],
    ),
    (
        "when?job=bert-large&gpu=H100&deadline=3d&since=2d",
        ["when", "bert-large", "--gpu", "H100", "--deadline", "3d", "--since", "2d"],
    ),
    ("offers/quarantined?gpu=H100", ["offers", "--quarantined", "--gpu", "H100"]),
    ("alerts/silences", ["alerts", "silence", "--list"]),
    ("providers", ["providers"]),
    ("jobs", ["jobs", "list"]),
    ("jobs/resnet-50", ["jobs", "show", "resnet-50"]),
    # The H100 is not among the first: its place is not known here.
    (
        "cheapest?hours=A100=4,H100=12,4090=30&top=1",
        ["cheapest", "--hours", "A100=4,H100=12,4090=30", "--top", "1"],
    ),
]  # fmt: skip
_OF_THE_MOMENT = {
    "as_of", "age_seconds", "next", "since", "until", "start", "end",
    "known_seconds", "below_seconds", "compared_seconds", "cheapest_alone_seconds",
    "cheapest_tied_seconds", "now_age_seconds",
}  # fmt: skip


def _lasting(value: Any) -> Any:
    """*value* without what changes from one moment to the next."""
    if isinstance(value, dict):
        return {k: _lasting(v) for k, v in value.items() if k not in _OF_THE_MOMENT}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("path", "command"), _SAME)
def test_it_answers_as_the_command_line_does(
    market: tuple[str, Client], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str,
    command: list[str],
) -> None:  # fmt: skip
    url, asking = market
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path))
    got = _lasting(asking.get(f"/api/v1/{path}"))
    told = run(*command, "-o", "json")
    assert told.code == 0, told.err
    wanted = _lasting(told.json())
    assert got == wanted


def test_two_gpus_over_time_as_the_command_line_tells_them(
    market: tuple[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asking = market
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
    got = asking.get("/api/v1/versus?left=H100&right=A100&job=bert-large&since=2d")
    command = ("compare", "H100", "A100", "bert-large", "--since", "2d")
    told = run(*command, "-o", "json").json()["history"]
    assert got["steps"]
    assert _lasting({key: got[key] for key in told}) == _lasting(told)
    table = list(csv.reader(io.StringIO(
        asking.ask("/api/v1/versus.csv?left=H100&right=A100&job=bert-large&since=2d").text
    )))  # fmt: skip
    wanted = list(csv.reader(io.StringIO(run(*command, "-o", "csv").out)))
    assert [row[2:] for row in table] == [row[2:] for row in wanted]


def test_a_deadline_that_leaves_no_time_to_wait(market: tuple[str, Client]) -> None:
    _, asking = market
    for query, says in (("", "say within which time"), ("&deadline=1h", "no time to wait")):
        got = asking.ask(f"/api/v1/when?job=bert-large{query}")
        assert (got.status_code, got.json()["parameter"]) == (400, "deadline")
        assert says in got.json()["detail"]


@pytest.mark.parametrize("path", ["cheapest?job=bert-large&market=any", "offers"])
def test_the_formats_say_the_same(market: tuple[str, Client], path: str) -> None:
    _, asking = market
    rows = asking.get(f"/api/v1/{path}")["rows"]
    name, _, query = path.partition("?")
    lines = asking.ask(f"/api/v1/{name}.ndjson?{query}").text.splitlines()
    told = [{k: v for k, v in json.loads(line).items() if k != "schema_version"} for line in lines]
    assert _lasting(told) == _lasting(rows)
    table = asking.ask(f"/api/v1/{path}", headers={"accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    cells = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["offer"] for row in cells] == [row["offer"] for row in rows]
    for cell, row in zip(cells, rows, strict=True):
        assert cell["price_usd_per_gpu_hour"] == row["price_usd_per_gpu_hour"]
    assert "left out" in table.headers["x-gpucost-left-out"]


def test_money_is_text_and_unknown_is_null(market: tuple[str, Client]) -> None:
    _, asking = market
    found = asking.get("/api/v1/cheapest?job=bert-large&egress=100&tier=any")
    unknown = [row for row in found["rows"] if row["partial"]]
    assert unknown
    for row in found["rows"]:
        assert isinstance(row["at_least_usd"], str)
        assert (row["total_usd"] is None) == bool(row["partial"])
    assert "4.29" in [row["price_usd_per_gpu_hour"] for row in asking.get("/api/v1/offers")["rows"]]


def test_pages_follow_one_another(market: tuple[str, Client]) -> None:
    _, asking = market
    whole = asking.get("/api/v1/offers?market=any&tier=any&top=100")
    assert whole["next"] is None
    pages, following = [], "/api/v1/offers?market=any&tier=any&top=3"
    while following:
        page = asking.get(following)
        assert len(page["rows"]) <= 3
        assert page["offers_matching"] == len(whole["rows"])
        pages += page["rows"]
        following = page["next"]
    assert _lasting(pages) == _lasting(whole["rows"])
    ranked = asking.get("/api/v1/cheapest?job=bert-large&top=2")
    second = asking.get(ranked["next"])
    assert [row["rank"] for row in ranked["rows"] + second["rows"]] == [1, 2, 3, 4]


CSV = "text/csv"
NDJSON = "application/x-ndjson"


@pytest.mark.parametrize("form", ["json", "csv", "ndjson"])
def test_the_next_page_of_a_file_is_one_too(market: tuple[str, Client], form: str) -> None:
    _, asking = market
    first = asking.ask(f"/api/v1/offers.{form}?market=any&tier=any&top=2")
    following = first.links["next"]["url"]
    assert following.startswith(f"/api/v1/offers.{form}?")
    second = asking.ask(following)
    assert second.status_code == 200, second.text
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.text != first.text


@pytest.mark.parametrize(
    ("path", "accept", "same"),
    [
        ("/api/v1/offers.csv?top=3", "*/*", "offers.csv?top=3&offset=3"),
        ("/api/v1/offers?top=3&format=csv", "*/*", "offers?top=3&format=csv&offset=3"),
        ("/api/v1/offers?top=3", CSV, "offers?top=3&offset=3"),
        ("/api/v1/offers?format=ndjson&top=3", "*/*", "offers?top=3&format=ndjson&offset=3"),
        ("/api/v1/offers?top=3", NDJSON, "offers?top=3&offset=3"),
        ("/api/v1/offers?top=3&format=ndjson", CSV, "offers?top=3&format=ndjson&offset=3"),
    ],
)
def test_a_page_leads_on_at_its_own_address_whoever_asked_before(
    market: tuple[str, Client], path: str, accept: str, same: str
) -> None:
    _, asking = market
    others = [("offers.csv?top=3", "*/*"), ("offers?top=3&format=csv", "*/*"),
              ("offers?top=3", CSV), ("offers?top=3", NDJSON), ("offers.ndjson?top=3", "*/*"),
              ("offers?top=3&format=ndjson", "*/*")]  # fmt: skip
    for other, kind in others:
        asking.ask(f"/api/v1/{other}", headers={"accept": kind})
    found = asking.ask(path, headers={"accept": accept})
    assert found.links["next"]["url"] == f"/api/v1/{same}"


def test_an_answer_that_is_known_is_not_sent_again(market: tuple[str, Client]) -> None:
    _, asking = market
    first = asking.ask("/api/v1/jobs")
    again = asking.ask("/api/v1/jobs", headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = asking.ask("/api/v1/jobs", headers={"if-none-match": '"x"'})
    assert other.status_code == 200


def test_a_new_poll_is_seen_at_once(database_server: TestServer, tmp_path: Path) -> None:
    from tracker.web.api import app

    with filled(database_server, *polls()) as url, client(url, tmp_path) as asking:
        path = "/api/v1/cheapest?job=bert-large"
        before = asking.get(path)["rows"][0]
        record(url, polled("new", [make_offer("cheap", "0.01", source="new")]))
        held, app.MARK_HOLDS_S = app.MARK_HOLDS_S, 0.0
        try:
            after = asking.get(path)["rows"][0]
        finally:
            app.MARK_HOLDS_S = held
    assert before["provider"] != "new"
    assert (after["provider"], Decimal(after["total_usd"])) == ("new", Decimal("0.04"))


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
          "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
          "intermediate_size": 4096, "vocab_size": 32000,
          "max_position_embeddings": 4096}  # fmt: skip


def test_a_job_that_is_replaced_is_answered_anew(
    database_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracker.web.api import app

    def keep(hours: int) -> None:
        kept.write(f'name = "mine"\n[hours]\nH100 = {hours}\n', job, replace=True)

    monkeypatch.setattr(app, "MARK_HOLDS_S", 0.0)
    job = tmp_path / "jobs" / "mine.toml"
    with filled(database_server, *polls()) as url, client(url, tmp_path) as asking:
        path = "/api/v1/cheapest?job=mine"
        keep(4)
        first = asking.ask(path)
        keep(40)
        again = asking.ask(path, headers={"if-none-match": first.headers["etag"]})
        assert again.status_code == 200
        before, after = (Decimal(got.json()["rows"][0]["total_usd"]) for got in (first, again))
        assert after > 9 * before
        tag = again.headers["etag"]
        assert asking.ask(path, headers={"if-none-match": tag}).status_code == 304
        config = tmp_path / "model.json"
        config.write_text(json.dumps(CONFIG))
        kept.write(
            'name = "tuned"\n[workload]\nkind = "finetune"\nmethod = "lora"\ntokens = "50M"\n'
            f'seq_len = 2048\nmodel = "{config}"\n', tmp_path / "jobs" / "tuned.toml", replace=True,
        )  # fmt: skip
        small = asking.ask("/api/v1/estimate?job=tuned")
        assert small.status_code == 200, small.text
        config.write_text(json.dumps(CONFIG | {"num_hidden_layers": 16}))
        assert asking.ask("/api/v1/estimate?job=tuned").text != small.text
        job.unlink()
        assert asking.ask(path).status_code == 400


def test_many_who_ask_the_same_make_one_answer(
    market: tuple[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracker.web.api import views

    _, asking = market
    made = []
    real = views.VIEWS["offers"]

    def counted(*given: Any) -> Any:
        made.append(given)
        return real(*given)

    marks = []
    read = LiveApp.mark

    def marked(app: LiveApp) -> Any:
        marks.append(app)
        return read(app)

    monkeypatch.setitem(views.VIEWS, "offers", counted)  # type: ignore[arg-type]
    monkeypatch.setattr(LiveApp, "mark", marked)
    answers = asking.at_once(["/api/v1/offers?min_vram=1"] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == len(made) == 1
    assert len(marks) <= 1


def test_nothing_that_matches_is_an_answer(market: tuple[str, Client]) -> None:
    _, asking = market
    found = asking.get("/api/v1/cheapest?job=bert-large&region=nowhere")
    assert (found["rows"], found["answer"]) == ([], None)
    assert found["excluded"]


def test_an_empty_database_says_what_to_do(database_url: str, tmp_path: Path) -> None:
    with client(database_url, tmp_path) as asking:
        found = asking.get("/api/v1/cheapest?job=bert-large")
        assert (found["rows"], found["offers_total"]) == ([], 0)
        assert "No offer was on record" in found["remarks"][0]


_MODELS = {
    "cheapest?job=llama-3.1-8b-lora&market=any&compare=H100,A100": models.CheapestAnswer,
    "cheapest?job=llama-3.1-8b-service&market=any&tier=any": models.CheapestAnswer,
    "compare?job=bert-large&left=H100&right=A100": models.CompareAnswer,
    "compare?job=bert-large&left=H100&right=MI300X": models.CompareAnswer,
    "estimate?job=llama-3.1-70b-qlora": models.EstimateAnswer,
    "offers?market=any&tier=any": models_offers.OffersAnswer,
    "offers?market=any&sort=-age": models_offers.OffersAnswer,
    "offers?market=any&group_by=provider,region,country,tier": models_offers.OffersAnswer,
    "offers?gpu=H100&group_by=kind,gpus,term&sort=median": models_offers.OffersAnswer,
    "history?job=bert-large&since=1d": models_past.HistoryAnswer,
    "history?job=llama-3.1-8b-lora&since=1d&per=provider": models_past.HistoryAnswer,
    "providers": models.ProvidersAnswer, "jobs": models.JobsAnswer,
    "jobs/sdxl-images": models.JobAnswer, "alerts": models_alerts.AlertsAnswer,
    "versus?job=bert-large&left=H100&right=A100&since=2d": models_past.VersusAnswer,
    "versus?job=bert-large&left=H100&right=MI300X&since=2d": models_past.VersusAnswer,
    "when?job=bert-large&deadline=3d": models_past.WhenAnswer,
    "when?job=bert-large&deadline=3d&gpu=MI300X": models_past.WhenAnswer,
    "offers/quarantined": models.QuarantinedAnswer,
    "alerts/silences?all": models_alerts.SilencesAnswer,
}  # fmt: skip


@pytest.mark.parametrize("path", _MODELS)
def test_answers_have_the_shape_that_is_written_down(market: tuple[str, Client], path: str) -> None:
    _, asking = market
    _MODELS[path].model_validate_json(asking.ask(f"/api/v1/{path}").content, strict=True)
