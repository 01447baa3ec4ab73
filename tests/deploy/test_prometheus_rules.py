"""The rule file: promtool's own tests of it, that those can fail, and that every metric exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.queries import family_of, unknown
from tests.support.tools import tool

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
NAMES = [rule["alert"] for rule in RULES]


def promtool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("promtool", package="prometheus"), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_configuration_and_the_rules_are_valid() -> None:
    done = promtool(FOLDER, "check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_the_rules_pass_their_tests() -> None:
    done = promtool(FOLDER, "test", "rules", "rules.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("instead", ["vector(0) > 1", "vector(1)"], ids=["never", "always"])
def test_their_tests_notice_rules_that_always_or_never_fire(instead: str, tmp_path: Path) -> None:
    changed = [{**rule, "expr": instead} for rule in RULES]
    groups = {"groups": [{"name": "gpucost", "rules": changed}]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(groups))
    shutil.copy(FOLDER / "rules.test.yml", tmp_path)
    done = promtool(tmp_path, "test", "rules", "rules.test.yml")
    assert done.returncode != 0
    noticed = set(re.findall(r"alertname: ?(\w+)", done.stdout + done.stderr))
    assert noticed == set(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_every_metric_and_label_of_a_rule_exists(rule: dict[str, Any]) -> None:
    assert list(unknown(rule["expr"])) == []


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_every_rule_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description"}


def test_what_does_not_exist_is_found() -> None:
    expression = (
        'sum by (provider, nothing) (gpucost_offers{provier="x", job="gpucost"})'
        " + gpucost_nonsense + gpucost_offers_bucket + rate(gpucost_poll_duration_seconds_sum[5m])"
    )
    assert list(unknown(expression)) == [
        "gpucost_offers{provier}", "gpucost_nonsense", "gpucost_offers_bucket", "by (nothing)",
    ]  # fmt: skip
    assert family_of("gpucost_poll_duration_seconds") is not None
