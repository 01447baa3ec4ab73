"""compose.yaml against the schema of compose files, and what must be true of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.docs.pages import ROOT, blocks
from tests.docs.replayed import shell
from tests.support.tools import unpacked
from tracker.settings import load_settings

FILE = ROOT / "deploy" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def _schema() -> dict[str, Any]:
    """The schema that Debian's docker-compose ships: older than ours needs, so stricter."""
    files = [*unpacked("docker-compose").rglob("compose_spec.json")]
    if not files:
        pytest.skip("the Debian package docker-compose ships no schema")
    schema: dict[str, Any] = json.loads(files[0].read_text())
    schema["properties"]["name"] = {"type": "string"}  # since Compose 2.3
    return schema


def test_it_is_a_valid_compose_file() -> None:
    validator = Draft7Validator(_schema())
    assert [f"{list(e.path)}: {e.message}" for e in validator.iter_errors(COMPOSE)] == []


def test_the_schema_finds_a_mistake() -> None:
    validator = Draft7Validator(_schema())
    wrong = {**COMPOSE, "services": {"gpucost": {**SERVICES["gpucost"], "prots": ["1:1"]}}}
    assert list(validator.iter_errors(wrong))


def test_everything_referred_to_is_defined() -> None:
    for service in SERVICES.values():
        assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        assert set(service.get("depends_on", {})) <= SERVICES.keys()
        volumes = [v.partition(":")[0] for v in service.get("volumes", [])]
        assert {v for v in volumes if not v.startswith(".")} <= COMPOSE["volumes"].keys()
        if "build" in service:
            context = (FILE.parent / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:9753:9753"]
    assert SERVICES["postgres"]["networks"] == ["database"]
    assert COMPOSE["networks"]["database"] == {"internal": True}


def test_secrets_come_in_files_only() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert not re.search(r"(?i)password: *\S", text)
    assert "postgresql://" not in text
    assert SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"].startswith("/run/secrets/")
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].startswith("./secrets/")
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "deploy/secrets/" in ignored


@pytest.mark.parametrize("name", ["gpucost", "migrate"])
def test_the_daemon_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")


def test_the_schema_is_up_to_date_before_the_daemon_starts() -> None:
    assert SERVICES["migrate"]["command"] == ["db", "upgrade"]
    assert SERVICES["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    needed = SERVICES["gpucost"]["depends_on"]["migrate"]["condition"]
    assert needed == "service_completed_successfully"


def test_its_variables_are_settings(tmp_path: Path) -> None:
    secret = tmp_path / "database_url"
    secret.write_text("postgresql://gpucost:word@postgres:5432/gpucost\n")
    variables = {
        name: str(value).replace("/run/secrets/database_url", str(secret))
        for name, value in SERVICES["gpucost"]["environment"].items()
    }
    settings = load_settings(None, variables)
    assert settings.daemon.listen == "0.0.0.0"  # noqa: S104
    assert "listen" in settings.daemon.model_fields_set  # asked for, so allowed
    assert settings.database_url is not None
    assert settings.daemon.allow_hosts == ("gpucost",)  # as other containers call it


def test_the_secrets_are_made_as_the_page_says(tmp_path: Path) -> None:
    [block] = [b for b in blocks(ROOT / "deploy" / "README.md") if "secrets/database_url" in b.text]
    done = shell(block.text, tmp_path, {})
    assert done.returncode == 0, done.stderr
    password = (tmp_path / "secrets/postgres_password").read_text().strip()
    assert len(password) >= 32
    settings = load_settings(
        None, {"GPUCOST_DATABASE_URL_FILE": str(tmp_path / "secrets/database_url")}
    )
    assert settings.database_url is not None
    url = settings.database_url.get_secret_value()
    user = SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    base = SERVICES["postgres"]["environment"]["POSTGRES_DB"]
    assert url == f"postgresql://{user}:{password}@postgres:5432/{base}"
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert (tmp_path / "secrets/database_url").stat().st_mode & 0o777 == 0o444
