"""A real Prometheus scrapes a served daemon's /metrics, and the shipped rules fire in it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.support.catalogue import catalogue
from tests.support.offers import at, make_offer, make_poll
from tests.support.tools import tool
from tests.web.test_figures import A100, BERT
from tests.web.world import Status, ask, serving
from tracker.alert.engine import AlertEngine
from tracker.alert.rules import load_rules
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder
from tracker.web.families import OF_STORE
from tracker.web.figures import StoreFigures
from tracker.web.metrics import Metrics

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules.yml"
DEADLINE_S = 60


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Prometheus scraping *target* every half second, with the shipped rules, which
    wait for nothing; its URL."""
    program = tool("prometheus", package="prometheus")
    groups = yaml.safe_load(RULES.read_text())
    for rule in groups["groups"][0]["rules"]:
        rule.pop("for", None)
        rule.pop("keep_firing_for", None)
    (folder / "rules.yml").write_text(yaml.safe_dump(groups))
    config: dict[str, Any] = {
        "global": {
            "scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms",
        },
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": "gpucost", "static_configs": [{"targets": [target]}],
             "scrape_timeout": "500ms"}
        ],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             "--web.listen-address=127.0.0.1:0"],
            cwd=folder, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            process.wait(20)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r'"Listening on" address=(127\.0\.0\.1:\d+)', log.read_text())
        if found:
            return f"http://{found[1]}"
        time.sleep(0.05)
    raise AssertionError(log.read_text())


async def _until(url: str, wanted: set[str], unwanted: Set[str] = frozenset()) -> set[str]:
    """The firing alerts, once all *wanted* are among them and no *unwanted* one is."""
    deadline, firing = time.monotonic() + DEADLINE_S, set[str]()
    while time.monotonic() < deadline:
        got = await ask(f"{url}/api/v1/alerts")
        if got.status == 200:
            alerts = json.loads(got.text)["data"]["alerts"]
            firing = {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}
            if wanted <= firing and not firing & unwanted:
                return firing
        await asyncio.sleep(0.1)
    raise AssertionError(f"firing: {sorted(firing)}, wanted: {wanted}, unwanted: {unwanted}")


async def _stored(url: str, expression: str) -> None:
    """Wait until *expression* has a value."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if await _query(url, expression):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"no value: {expression}")


async def _query(url: str, expression: str) -> list[dict[str, Any]]:
    got = await ask(f"{url}/api/v1/query?query={quote(expression)}")
    result: list[dict[str, Any]] = json.loads(got.text)["data"]["result"]
    return result


def test_a_real_prometheus_scrapes_and_its_rules_fire(tmp_path: Path, database_url: str) -> None:
    engine = make_engine(database_url)
    recorder, minutes = Recorder(engine), [0.0]
    figures = StoreFigures(
        lambda: database_url, catalogue(), lambda: (BERT,), utc_now=lambda: at(minutes[0])
    )
    metrics = Metrics(figures, cache_seconds=0)
    metrics.leader(True)

    rules, _ = load_rules({}, catalogue=catalogue(), job=lambda _: BERT, channels={"log"})
    alerts = AlertEngine(engine, rules, catalogue(), sources={"acme"})

    def poll(minute: float, h100: str, a100: str = "1") -> None:
        offers = [make_offer("h", h100), make_offer("a", a100, gpu=A100)]
        recorder.record(make_poll(minute, offers))
        alerts.evaluate(at(minute))
        minutes[0] = minute

    async def main() -> None:
        async with serving(Status(), metrics) as served:
            target = served.removeprefix("http://")
            with prometheus(tmp_path, target) as url:
                poll(0, "3.5")  # 14 against 12
                await _stored(url, "gpucost_job_cost_usd")
                await _until(url, set(), {"GpucostDown", "H100JobCheaperThanA100"})
                poll(5, "2.5")  # 10 against 12: cheaper, but not yet for half an hour
                await _stored(url, 'gpucost_alert_state{state="pending"} == 1')
                await _until(url, set(), {"H100JobCheaperThanA100"})
                for minute in (10, 20, 30, 40):
                    poll(minute, "2.5")
                await _until(url, {"H100JobCheaperThanA100"})
                [ratio] = await _query(
                    url,
                    'gpucost_job_cost_usd{gpu="H100"} / on (workload)'
                    ' gpucost_job_cost_usd{gpu="A100"}',
                )
                assert round(float(ratio["value"][1]), 4) == 0.8333
                # Nobody asks any more, nobody leads; a provider was asked and never answered.
                minutes[0] = 50
                metrics.leader(False)
                await _until(url, {"GpucostProviderStale", "GpucostNoLeader"})
                failed = make_poll(40, source="never", status="failed", error="no answer")
                recorder.record(failed)
                await _stored(url, 'ALERTS{alertname="GpucostProviderStale", provider="never"}')
                names = await ask(f"{url}/api/v1/label/__name__/values")
                stored = set(json.loads(names.text)["data"])
                assert {f.name for f in OF_STORE} & stored >= {
                    "gpucost_gpu_price_usd_per_hour", "gpucost_offers", "gpucost_database_up",
                }  # fmt: skip

    try:
        asyncio.run(main())
    finally:
        engine.dispose()


def test_a_daemon_that_is_gone_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as served:
            target = served.removeprefix("http://")
        with prometheus(tmp_path, target) as url:
            await _until(url, {"GpucostDown"})

    asyncio.run(main())
