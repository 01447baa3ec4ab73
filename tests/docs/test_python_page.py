"""docs/python.md: its example runs, and the surface is what it says, with the commands' figures."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import gpucost
from tests.cli.cheapest_market import polls
from tests.cli.harness import filled, run
from tests.docs.pages import ROOT, blocks, quoted
from tests.support.pg import TestServer
from tracker.app.answers import QUESTIONS
from tracker.app.asked import FILTERS, JOB
from tracker.app.library_types import Asked, Filters

PAGE = ROOT / "docs" / "python.md"


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    with filled(database_server, *polls()) as url:
        yield url


@pytest.fixture
def env(url: str, tmp_path: Path) -> dict[str, str]:
    return {"GPUCOST_DATABASE_URL": url, "GPUCOST_DATA_DIR": str(tmp_path)}


@pytest.fixture
def prices(env: dict[str, str]) -> gpucost.Prices:
    return gpucost.open(env=env)


def test_the_example_runs(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (example,) = [block for block in blocks(PAGE) if block.language == "python"]
    exec(compile(example.text, str(example), "exec"), {})  # noqa: S102 - our own page
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 ")
    assert lines[-1].split()[0] in {"left", "right", "tie"}


def test_the_figures_are_those_of_the_commands(
    prices: gpucost.Prices, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    told = run("cheapest", "bert-large", "--market", "any", "--egress", "10", "--disk", "7.5",
               "-o", "json").json()  # fmt: skip
    found = prices.cheapest("bert-large", market="any", egress=10, disk=Decimal("7.5"))
    assert len(found.ways) == len(told["rows"]) > 3
    for way, row in zip(found.ways, told["rows"], strict=True):
        assert (way.rank, way.offer, way.basis) == (row["rank"], row["offer"], row["basis"])
        assert way.partial == tuple(row["partial"])
        for name in ("total_usd", "at_least_usd", "price_usd_per_gpu_hour"):
            value = getattr(way, name)
            assert (None if value is None else round(value, 6)) == (
                None if row[name] is None else Decimal(row[name])
            )
        assert 0 <= way.age.total_seconds() - row["age_seconds"] < 600
    assert (found.answer, dict(found.excluded)) == (told["answer"], told["excluded"])

    told = run("compare", "H100", "A100", "bert-large", "-o", "json").json()["comparison"]
    two = prices.compare("H100", "A100", "bert-large")
    assert two.winner == told["winner"]
    assert two.break_even_usd_per_gpu_hour is not None
    even = Decimal(told["break_even_usd_per_gpu_hour"])
    assert round(two.break_even_usd_per_gpu_hour, 6) == even

    told = run("history", "bert-large", "--since", "1d", "-o", "json").json()
    past = prices.history("bert-large", since="1d")
    assert [s.name for s in (*past.series, past.overall)] == [s["name"] for s in told["series"]]
    assert sum(len(s.points) for s in (*past.series, past.overall)) == len(told["rows"])


def test_hours_of_ones_own_and_a_job_file(prices: gpucost.Prices, tmp_path: Path) -> None:
    found = prices.cheapest(hours={"A100": "12.5", "H100": 4}, top=2)
    assert [way.rank for way in found.ways] == [1, 2]
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ntitle = "Mine"\n[hours]\nH100 = 4\n')
    assert prices.estimate(str(file), gpu="H100", prices=False)[0].hours == 4


def test_nothing_that_matches_is_no_error(prices: gpucost.Prices) -> None:
    found = prices.cheapest("bert-large", min_vram=900)
    assert (found.ways, found.answer, found.only_stale) == ((), None, False)
    assert sum(found.excluded.values()) > 0
    two = prices.compare("H100", "B200", hours={"H100": 4, "B200": 2})
    assert (two.winner, two.right) == (None, None)
    assert two.left is not None


def test_what_makes_no_sense_is_one_line(prices: gpucost.Prices) -> None:
    for ask, part in (
        (lambda: prices.cheapest("bert-larg"), "bert-large"),
        (lambda: prices.cheapest("bert-large", gpu="H1O0"), "unknown GPU"),
        (lambda: prices.cheapest("bert-large", provider="acmee"), "did you mean acme"),
        (lambda: prices.cheapest("bert-large", egress=0.1), "not exact"),  # type: ignore[arg-type]
        (lambda: prices.cheapest(hours={"A100": 12, "H100": 1.5}), "hours of H100: 1.5 is a float"),
        (lambda: prices.cheapest("bert-large", goal="best"), "goal"),
        (lambda: prices.cheapest(hours={}), "must map GPUs"),
        (lambda: prices.cheapest(), "job"),
        (lambda: prices.history("bert-large", since="yesterday"), "since"),
        (lambda: prices.compare("H100", "H100", "bert-large"), "same GPU"),
    ):
        with pytest.raises(gpucost.BadQuestion, match=part) as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_without_a_database(tmp_path: Path) -> None:
    away = {"GPUCOST_DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/x"}
    with pytest.raises(gpucost.Unavailable) as caught:
        gpucost.open(env=away).cheapest("bert-large")
    assert "secret" not in str(caught.value)
    empty = gpucost.open(env={"GPUCOST_DATA_DIR": str(tmp_path)})
    with pytest.raises(gpucost.Unavailable, match="gpucost poll"):
        empty.cheapest("bert-large")
    assert empty.estimate("bert-large", gpu="H100", prices=False)[0].cheapest is None
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[aliases]\nx = 3\n")
    with pytest.raises(gpucost.BadQuestion):
        gpucost.open(wrong)


def test_every_parameter_of_the_commands_is_there() -> None:
    assert set(Filters.__annotations__) == set(FILTERS)
    assert set(Asked.__annotations__) == {*FILTERS, *JOB} - {"job"}
    for name in ("cheapest", "history", "estimate"):
        own = set(inspect.signature(getattr(gpucost.Prices, name)).parameters) - {"self", "asked"}
        assert own <= set(QUESTIONS[name])


def test_the_page_names_what_there_is() -> None:
    said = " ".join(quoted(PAGE))
    for name in ("cheapest", "history", "estimate", "compare"):
        for parameter in inspect.signature(getattr(gpucost.Prices, name)).parameters:
            assert parameter in {"self", "asked"} or parameter in said
    for name in gpucost.__all__:
        thing = getattr(gpucost, name)
        assert inspect.getdoc(thing), name
        if dataclasses.is_dataclass(thing):
            assert thing.__dataclass_params__.frozen  # type: ignore[attr-defined]
