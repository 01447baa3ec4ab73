"""``cheapest --as``: files that parse, commands of the words meant, and what is refused."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from decimal import Decimal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.harness import A100, H100, Result, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.app import App
from tracker.app.answers import Answers, Question
from tracker.domain.offer import Market, Offer, Terms
from tracker.report.cheapest import CheapestReport
from tracker.report.launching import TOOLS, CannotLaunch, launch
from tracker.report.shapes.texts import visible

DISK = Terms(disk_included_gb=Decimal(1000))


def _of(source: str, name: str, usd: str, tier: str = "standard", **fields: object) -> Offer:
    return make_offer(name, usd, source=source, tier=tier, **({"terms": DISK} | fields))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    runpod = [
        _of("runpod", "NVIDIA H100 80GB HBM3", "3", "secure", gpu=H100),
        _of("runpod", "NVIDIA H100 80GB HBM3", "2.5", "community", gpu=H100),
        _of("runpod", "NVIDIA H100 80GB HBM3", "1", "secure", gpu=H100, market=Market.SPOT),
    ]
    vast = [
        _of("vastai", "4711/1", "2.6", "verified", gpu=H100),
        _of("vastai", "4712/2", "1.2345678", "verified", gpu=H100, gpu_count=Decimal(2),
            market=Market.SPOT),
    ]  # fmt: skip
    aws = [
        _of("aws", "p5.48xlarge", "40", gpu=H100, gpu_count=Decimal(8), region="us-east-1"),
        _of("aws", "p4de.24xlarge", "20", gpu=A100, gpu_count=Decimal(8), region="us-east-1"),
    ]
    other = [_of("crusoe", "h100.1x", "0.5", gpu=H100)]
    month = [_of("gcp", "a2", "365", gpu=A100, market=Market.RESERVED,
                 terms=Terms(commitment_hours=730))]  # fmt: skip
    tiers = {"default_tiers": ("secure", "community", "verified", "standard")}
    sold = {"runpod": runpod, "vastai": vast, "aws": aws, "crusoe": other, "gcp": month}
    made = [polled(name, offers, **tiers) for name, offers in sold.items()]
    with filled(database_server, *made) as url:
        yield url


@pytest.fixture(autouse=True)
def _database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)


def launched(tool: str, *more: str) -> Result:
    done = run("cheapest", "bert-large", "--as", tool, *more)
    assert done.code == 0, done.err
    assert "launches nothing" in done.out
    return done


def commands(done: Result) -> list[list[str]]:
    """The words of each command, as a shell reads them."""
    return [shlex.split(line) for line in done.lines if not line.startswith("#")]


def test_skypilot_gets_the_machine_where_the_cloud_names_it() -> None:
    done = launched("skypilot", "--provider", "aws", "--gpu", "H100", "--disk", "200.5")
    assert yaml.safe_load(done.out) == {
        "name": "bert-large",
        "resources": {
            "infra": "aws/us-east-1", "instance_type": "p5.48xlarge", "use_spot": False,
            "disk_size": 201,
        },
        "num_nodes": 1,
    }  # fmt: skip
    assert "# Not said: a highest price" in done.out


def test_skypilot_is_told_the_gpu_where_it_is_not() -> None:
    done = launched("skypilot", "--provider", "runpod", "--market", "spot")
    found = yaml.safe_load(done.out)["resources"]
    assert found == {"infra": "runpod", "accelerators": "H100:1", "use_spot": True}
    assert "# Not said: the tier: the price is that of secure." in done.out
    assert "# Not said: the form factor: the price is that of H100-SXM-80GB." in done.out


def test_dstack() -> None:
    done = launched("dstack", "--provider", "aws", "--gpu", "A100")
    assert yaml.safe_load(done.out) == {
        "type": "task", "name": "bert-large", "nodes": 1, "commands": ["nvidia-smi"],
        "backends": ["aws"], "regions": ["us-east-1"], "instance_types": ["p4de.24xlarge"],
        "spot_policy": "on-demand", "max_price": 20,
        "resources": {"gpu": {"name": "A100", "memory": "80GB", "count": 8}, "disk": "1GB.."},
    }  # fmt: skip


def test_runpodctl_takes_the_cheapest_that_is_no_spot() -> None:
    done = launched("runpodctl", "--provider", "runpod", "--market", "any", "--disk", "50")
    assert commands(done) == [
        ["runpodctl", "pod", "create", "--name", "bert-large", "--gpu-id",
         "NVIDIA H100 80GB HBM3", "--gpu-count", "1", "--cloud-type", "COMMUNITY",
         "--container-disk-in-gb", "50", "--image", "IMAGE"]
    ]  # fmt: skip
    assert "is spot, for which runpodctl has no option" in done.err
    assert "runpodctl cannot launch the offer before #2" in done.err


def test_vastai_bids_no_less_than_the_price() -> None:
    done = launched("vastai", "--provider", "vastai", "--market", "spot", "--gpus", "2",
                    "--hours", "H100=4", "--disk", "30")  # fmt: skip
    search, create = commands(done)
    assert search == ["vastai", "search", "offers", "machine_id=4712 num_gpus=2", "-n", "-t",
                      "bid", "--storage", "30"]  # fmt: skip
    assert create[:6] == ["vastai", "create", "instance", "ID", "--image", "IMAGE"]
    assert create[6:9] == ["--disk", "30", "--bid_price"]
    assert Decimal("1.2345678") <= Decimal(create[9]) < Decimal("1.234569")
    done = launched("vastai", "--provider", "vastai")
    assert "--bid_price" not in done.out


def test_several_machines_are_said() -> None:
    done = launched("vastai", "--provider", "vastai", "--gpus", "3", "--hours", "H100=4")
    assert "3 are needed, so run it 3 times" in done.out
    found = yaml.safe_load(launched("skypilot", "--provider", "aws", "--gpu", "H100", "--gpus",
                                    "16", "--hours", "H100=4").out)  # fmt: skip
    assert found["num_nodes"] == 2


@pytest.mark.parametrize(("tool", "provider"), [("skypilot", "runpod"), ("dstack", "vastai")])
def test_where_a_tool_runs_one_machine_there_is_no_second(tool: str, provider: str) -> None:
    words = ("--gpus", "3", "--hours", "H100=4", "--provider", provider)
    done = run("cheapest", "--as", tool, *words)
    assert done.code == 3
    assert "takes 3 machines" in done.err
    assert done.out == ""


# What SkyPilot 0.14.1 and dstack 0.22.5 took when they were asked (docs/launching.md).
_SKY_FIELDS = {"name", "resources", "num_nodes"}
_SKY_RESOURCES = {"infra", "instance_type", "accelerators", "use_spot", "disk_size"}
_DSTACK_FIELDS = {
    "type", "name", "nodes", "commands", "backends", "regions", "instance_types", "spot_policy",
    "max_price", "resources",
}  # fmt: skip


def test_files_have_the_fields_that_the_tools_took() -> None:
    for market in ("on-demand", "spot"):
        for provider in ("aws", "runpod", "vastai"):
            words = ("--provider", provider, "--market", market, "--disk", "30", "--gpus", "1")
            if (provider, market) == ("aws", "spot"):
                continue
            sky = yaml.safe_load(launched("skypilot", *words).out)
            assert set(sky) == _SKY_FIELDS
            assert set(sky["resources"]) <= _SKY_RESOURCES
            assert isinstance(sky["resources"]["use_spot"], bool)
            assert isinstance(sky["resources"]["disk_size"], int)
            task = yaml.safe_load(launched("dstack", *words).out)
            assert set(task) <= _DSTACK_FIELDS
            assert set(task["resources"]) == {"gpu", "disk"}
            assert set(task["resources"]["gpu"]) <= {"name", "memory", "count"}
            assert task["spot_policy"] == market


def test_what_a_tool_cannot_launch_is_passed_over_and_said() -> None:
    done = launched("skypilot")
    assert done.out.splitlines()[0].startswith("# bert-large: 1 x H100-SXM-80GB, runpod")
    assert "is of a provider that SkyPilot is not known to launch on" in done.err
    assert done.err.splitlines()[-1] == "skypilot cannot launch the offer before #2, which this is"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["--provider", "crusoe", "--as", "dstack"], 3, "dstack can launch none of these offers"),
        (["--provider", "gcp", "--market", "any", "--as", "skypilot"], 3, "is reserved"),
        (["--min-vram", "900", "--as", "vastai"], 3, "no offer matches"),
        (["--as", "skypilot", "-o", "json"], 2, "--as and --output exclude each other"),
        (["--as", "skypilot", "--explain"], 2, "--as and --explain exclude"),
        (["--as", "skypilot", "--as-of", "2026-01-01"], 2, "what was then is gone"),
        (["--as", "terraform"], 2, "'terraform'"),
    ],
)
def test_what_is_refused(words: list[str], code: int, part: str) -> None:
    done = run("cheapest", "bert-large", *words)
    assert done.code == code, done.err
    assert part in done.err.splitlines()[-1]
    assert done.out == ""


@pytest.fixture(scope="module")
def report(url: str) -> CheapestReport:
    answers = Answers(App(env={"GPUCOST_DATABASE_URL": url}))
    return answers.cheapest(Question.of("cheapest", job="bert-large", market="any", tier="any"))


_CATALOGUE = App(env={}).catalogue
_KEYS = {"name", "resources", "num_nodes", "type", "nodes", "commands", "backends", "regions",
         "instance_types", "spot_policy", "max_price"}  # fmt: skip
_WORDS = st.text(max_size=12) | st.sampled_from(
    ["x\nrun: rm", "$(id)", "a: b", "'", "no", "-n", "\x1b[", "4711/1", "p5.48xlarge", "secure"]
)


@given(
    index=st.integers(0, 20), native_id=_WORDS, region=_WORDS, tier=st.none() | _WORDS,
    name=_WORDS, tool=st.sampled_from(sorted(TOOLS)),
)  # fmt: skip
@settings(max_examples=50)
def test_no_word_of_a_provider_becomes_a_command(
    report: CheapestReport, index: int, native_id: str, region: str, tier: str | None, name: str,
    tool: str,
) -> None:  # fmt: skip
    """Ids, regions and tiers are anybody's text; in the file they are text, or not there."""
    row = report.rows[index % len(report.rows)]
    row = row._replace(offer=row.offer._replace(
        native_id=native_id, region=region, tier=row.offer.tier if tier is None else tier,
    ))  # fmt: skip
    job = dataclasses.replace(report.job, name=name)
    try:
        text = launch(row, job, _CATALOGUE.gpu(row.offer.gpu_key), tool).text
    except CannotLaunch:
        return
    assert all(visible(line) == line for line in text.split("\n"))
    if tool in ("skypilot", "dstack"):
        found = yaml.safe_load(text)
        assert set(found) <= _KEYS
        assert isinstance(found["name"], str)
        return
    for line in text.splitlines():
        words = [] if line.startswith("#") else shlex.split(line)
        assert words[:3] in ([], ["runpodctl", "pod", "create"], ["vastai", "search", "offers"],
                             ["vastai", "create", "instance"])  # fmt: skip
        assert native_id not in words[:3]
