"""docs/metrics.md and the registry say the same."""

from __future__ import annotations

import re

from tests.web.test_metrics import Reader
from tools.metrics_page import PAGE, page
from tracker.web.families import FAMILIES
from tracker.web.metrics import Metrics


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_the_registry_holds_exactly_the_documented_metrics() -> None:
    # As exposed: a type line for each, whether or not it has samples.
    body, _ = Metrics(Reader()).render()
    exposed = set(re.findall(r"^# TYPE (gpucost_\w+) (\w+)$", body.decode(), re.MULTILINE))
    assert exposed == {(family.name, family.kind) for family in FAMILIES}
    documented = set(re.findall(r"^\| `(\w+)` \| (\w+) ", page(), re.MULTILINE))
    assert documented == exposed


def test_names_follow_the_conventions() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"gpucost_[a-z][a-z0-9_]*", family.name)
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.help.endswith(".")
        assert "job" not in family.labels, "Prometheus takes this label for itself"
        assert "instance" not in family.labels
