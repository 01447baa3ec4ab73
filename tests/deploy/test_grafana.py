"""The dashboard: every query parses, and asks only for metrics and labels that exist."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.queries import BY_NAME, family_of, unknown, unknown_in_text
from tests.support.tools import tool

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "gpucost.json").read_text()
)
PANELS: list[dict[str, Any]] = [p for p in DASHBOARD["panels"] if p["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}


def _names(expressions: Iterator[str]) -> set[str]:
    found = {name for e in expressions for name in re.findall(r"\bgpucost_\w+", e)}
    return {family.name for name in found if (family := family_of(name)) is not None}


@pytest.mark.parametrize(
    ("title", "target"), TARGETS, ids=[f"{t}-{g['refId']}" for t, g in TARGETS]
)
def test_every_metric_and_label_of_a_panel_exists(title: str, target: dict[str, Any]) -> None:
    assert list(unknown(target["expr"])) == []
    assert list(unknown_in_text(target["legendFormat"], target["expr"])) == []


@pytest.mark.parametrize(
    "variable", [v for v in VARIABLES.values() if v["type"] == "query"], ids=lambda v: v["name"]
)
def test_every_variable_is_a_label_that_exists(variable: dict[str, Any]) -> None:
    asked = re.fullmatch(r"label_values\((\w+)(\{.*\})?, (\w+)\)", variable["query"]["query"])
    assert asked is not None
    family = BY_NAME[asked[1]]
    assert asked[3] in {*family.labels, "job"}
    assert list(unknown(asked[1] + (asked[2] or ""))) == []


def test_variables_that_are_used_are_defined() -> None:
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == set(VARIABLES)


def test_all_metrics_are_shown() -> None:
    assert _names(target["expr"] for _, target in TARGETS) == set(BY_NAME)


def test_the_queries_parse(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$__rate_interval", "5m")}
        for number, (_, target) in enumerate(TARGETS)
    ]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]})
    )
    done = subprocess.run(
        [tool("promtool", package="prometheus"), "check", "rules", "rules.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_their_own_number_and_do_not_overlap() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_the_data_source_is_the_readers_choice() -> None:
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(PANELS))
    assert set(sources) == {"${datasource}"}
