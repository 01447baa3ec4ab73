"""docs/alerts.md and docs/cli.md say of alerts what the code does."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
import pytest

from tests.alert.world import rule
from tests.docs.pages import ROOT, quoted
from tracker.alert import context, keys
from tracker.alert.evaluate import Evaluation
from tracker.alert.rules import KEYS
from tracker.cli.alerts import alerts
from tracker.cli.alerts.showing import _in_force, _value
from tracker.domain.rule.condition import EXAMPLES
from tracker.domain.rule.types import SILENT_KINDS, Event, Health, Kind, Phase, Sample
from tracker.notify.config import _MODELS

PAGE = ROOT / "docs" / "alerts.md"
NAMES = {name for text in quoted(PAGE) for name in re.findall(r"[a-z0-9_]+", text)}
ROWS = dict(
    re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
)


def test_every_key_of_a_rule_is_there() -> None:
    assert set(KEYS) - NAMES == set()


def test_the_defaults_are_those_of_the_code() -> None:
    found = _in_force(rule(), {})
    told = {name: _value(value) for name, value in found.items()}
    for name in (*keys.MARGINS, *keys.POLICY, "every", "rank", "confidence", "typed_prices"):
        assert re.match(r"`([^`]*)`", ROWS[name]), name
        assert ROWS[name].split("`")[1] == told[name], name


def test_every_kind_of_condition_is_shown() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for example in EXAMPLES:
        start = re.split(r"[(]", example)[0]
        assert f"`{start}" in page, example


def _message() -> dict[str, Any]:
    wanted = rule()
    now = datetime(2026, 3, 1, tzinfo=UTC)
    evaluation = Evaluation(wanted, now, Sample(Health.GOOD))
    event = Event(Kind.FIRED, 1, now, Phase.OK, Phase.FIRING, firing_since=now)
    inputs = context.inputs_of(evaluation, replace(evaluation.sample, health=Health.STALE))
    return context.message(event, "e", "r", 1, wanted.definition, inputs, health_since=now)


def test_every_name_of_a_message_is_there() -> None:
    message = _message()
    names = set(message) | set(message["firing"]) | set(message["health"]) | set(message["job"])
    assert names - NAMES == set()


def test_every_kind_of_notice_is_there() -> None:
    assert {str(kind) for kind in set(Kind) - SILENT_KINDS} - NAMES == set()


@pytest.mark.parametrize("kind", sorted(_MODELS))
def test_every_key_of_a_channel_is_there(kind: str) -> None:
    fields = {field.alias or name for name, field in _MODELS[kind].model_fields.items()}
    assert {kind, *fields} - NAMES == set()


@pytest.mark.parametrize("name", sorted(alerts.commands))
def test_every_command_and_option_is_on_the_page_of_the_command_line(name: str) -> None:
    section = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = section.partition("## gpucost alerts\n")[2].partition("\n## ")[0]
    [line] = re.findall(rf"^\| `gpucost alerts {name}\b.*$", section, re.MULTILINE)
    options = {
        option
        for parameter in alerts.commands[name].params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    hidden = {"--output", "--dry-run"}  # said of all; and what changes nothing
    assert {option for option in options - hidden if option not in line} == set()
    assert f"`gpucost alerts {name}" in PAGE.read_text(encoding="utf-8")
