"""config.example.toml names every setting, with its default, and loads."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields as fields_of
from decimal import Decimal
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.catalogue import catalogue
from tracker import data, registry
from tracker.alert.rules import KEYS, load_rules
from tracker.domain.job import Job
from tracker.domain.job_text import job_from_text
from tracker.notify import config as channel_tables
from tracker.notify.config import load_channels
from tracker.settings import Settings, load_settings, provider_config
from tracker.settings.service import DAEMON_SECRETS
from tracker.settings.sources import FILE_TWINS
from tracker.telemetry import Redactor

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "config.example.toml"
SECRETS = "/etc/gpucost/secrets/"
PROVIDERS = sorted(
    entry.name
    for entry in entry_points(group=registry.GROUP)
    if entry.dist is not None and entry.dist.name == "gpucost"
)

_SETTING = re.compile(r'^#(?=[\w"]+\s*=|"[^"]+"\s*=|\[)', re.MULTILINE)
_EXAMPLE = "# example"


def uncommented(*, examples: bool) -> str:
    """The file with its settings in force, with those that are examples only or without them."""
    text = _SETTING.sub("", EXAMPLE.read_text(encoding="utf-8"))
    if examples:
        return text
    kept, table_is_example = [], False
    for line in text.splitlines():
        if line.startswith("["):
            table_is_example = line.endswith(_EXAMPLE)
        if not line.endswith(_EXAMPLE) and not table_is_example:
            kept.append(line)
    return "\n".join(kept)


def written(folder: Path, text: str) -> Path:
    """*text* as a configuration file, its secrets in files of their own."""
    (folder / "secrets").mkdir()
    for name in set(re.findall(rf"{SECRETS}([\w-]+)", text)):
        secret = "https://hook.example.org/x" if name.endswith("url") else "planted-secret"
        (folder / "secrets" / name).write_text(f"{secret}\n")
    file = folder / "gpucost.toml"
    file.write_text(text.replace(SECRETS, f"{folder}/secrets/"), encoding="utf-8")
    return file


def without_twins(text: str) -> str:
    """A URL and its file may not both be given: keep the first."""
    return re.sub(r"^(?:\w+_url|api_token)_file = .*$", "", text, flags=re.MULTILINE)


@pytest.fixture
def full(tmp_path: Path) -> Settings:
    """The settings with everything in force, examples included."""
    return load_settings(written(tmp_path, without_twins(uncommented(examples=True))), {})


def test_as_it_is_it_changes_nothing() -> None:
    settings = load_settings(EXAMPLE, {})
    bare = Settings(data_dir=settings.data_dir)
    skipped = {"providers", "alerts"}  # empty tables by name
    assert settings.model_dump(exclude=skipped) == bare.model_dump(exclude=skipped)
    assert all(table == {} for table in settings.providers.values())
    assert settings.alerts.rules == {"h100-cheaper-than-a100": {}}
    assert settings.alerts.channels == {}


def test_the_defaults_are_those_of_the_code(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, uncommented(examples=False)), {})
    bare = Settings(data_dir=settings.data_dir)
    skipped = {"providers", "alerts"}
    assert settings.model_dump(exclude=skipped) == bare.model_dump(exclude=skipped)
    told = {"rules", "channels"}
    assert settings.alerts.model_dump(exclude=told) == bare.alerts.model_dump(exclude=told)


def _missing(model: type[BaseModel], table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Fields of *model* that *table* does not name, itself or by file."""
    for name, field in model.model_fields.items():
        if not {name, f"{name}_file", field.alias} & table.keys():
            yield prefix + name
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _missing(field.annotation, table[name], f"{prefix}{name}.")


def test_every_setting_is_named() -> None:
    parsed = tomllib.loads(uncommented(examples=True))
    assert list(_missing(Settings, parsed)) == []
    assert set(FILE_TWINS) <= parsed.keys()
    assert {f"{name}_file" for name in DAEMON_SECRETS} <= parsed["daemon"].keys()


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_providers_table_is_whole_and_says_the_defaults(name: str, tmp_path: Path) -> None:
    provider = registry.load(name)
    parsed = tomllib.loads(uncommented(examples=True))["providers"]
    assert parsed.keys() == set(PROVIDERS)
    assert list(_missing(provider.config, parsed[name])) == []
    settings = load_settings(written(tmp_path, uncommented(examples=False)), {})
    assert provider_config(settings, provider, {}) == provider.config()


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_providers_examples_are_accepted(name: str, full: Settings) -> None:
    config = provider_config(full, registry.load(name), {})
    assert config.every_seconds is not None


def _job(name: str) -> Job:
    return job_from_text(data.text(f"jobs/{name}.toml"), catalogue())


def _rules(tables: Mapping[str, Any]) -> dict[str, Any]:
    rules, problems = load_rules(
        tables, catalogue=catalogue(), job=_job, channels={"log"}, providers=set(PROVIDERS)
    )
    assert problems == ()
    return {rule.name: rule for rule in rules}


def test_the_example_rule_has_every_key_and_is_accepted(full: Settings) -> None:
    table = full.alerts.rules["night-run"]
    assert table.keys() == set(KEYS)
    assert set(_rules(full.alerts.rules)) == {"h100-cheaper-than-a100", "night-run"}


def test_the_example_rule_says_the_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    ours: dict[str, Any] = {}
    start = text.index("#[alerts.rules.night-run]")
    for line in text[start : text.index("# Channels.", start)].splitlines()[1:]:
        if not line.endswith(_EXAMPLE):
            ours |= tomllib.loads(line.removeprefix("#"), parse_float=Decimal)
    bare = {"when": "cost(H100) < cost(A100)", "job": "bert-large"}
    rules = _rules({"bare": bare, "full": {**bare, **ours}})
    for field in fields_of(rules["bare"]):
        if field.name not in {"name", "definition"}:
            assert getattr(rules["full"], field.name) == getattr(rules["bare"], field.name)


def test_the_example_channels_have_every_key_and_are_accepted(full: Settings) -> None:
    redactor = Redactor()
    channels, problems = load_channels(
        full.alerts.channels, {"GPUCOST_CHAT_URL": "ntfy://ntfy.example.org/topic"},
        allow_private=False, redactor=redactor,
    )  # fmt: skip
    assert problems == ()
    assert set(channels) == {"log", "ops-hook", "mail", "chat"}
    assert redactor("planted-secret") != "planted-secret"
    for table in full.alerts.channels.values():
        model = channel_tables._MODELS[table["type"]]
        plain = {re.sub("_(file|env)$", "", key) if "ca_file" not in key else key for key in table}
        assert plain == {field.alias or name for name, field in model.model_fields.items()}
