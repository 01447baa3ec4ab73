"""``gpucost provider new``: what it makes is installed, polled, and all that it has touched."""

from __future__ import annotations

import difflib
import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.harness import run
from tests.docs.replayed import shell
from tests.providers import test_contract as contract
from tests.support.fixtures import Case
from tests.support.replay import ReplayServer
from tracker import registry
from tracker.cli.scaffold import add_entry
from tracker.provider import Provider, payload_from_dict

ROOT = Path(__file__).resolve().parents[2]
NAME = "acme_cloud"
FIXTURES = Path("tests/providers/payloads") / NAME
MADE = {
    f"providers/{NAME}.py",
    *(
        str(FIXTURES / case / f"{part}.json")
        for case in ("normal", "edge", "broken")
        for part in ("recording", "expected")
    ),
}


def _checkout(folder: Path) -> Path:
    """What is built into a package, and an empty folder of fixtures."""
    for name in ("tracker", "providers", "migrations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    (folder / FIXTURES).parent.mkdir(parents=True)
    return folder


def _hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout to which the provider has been added."""
    folder = _checkout(tmp_path_factory.mktemp("checkout"))
    before, pyproject = _hashes(folder), (folder / "pyproject.toml").read_text()
    made = run("provider", "new", NAME, "--in", str(folder))
    assert made.code == 0, made.err
    after = _hashes(folder)
    assert {path for path in after if after[path] != before.get(path)} == {
        *MADE, "pyproject.toml",
    }  # fmt: skip
    assert before.keys() - after.keys() == set()
    assert set(made.lines[:-1]) == {*MADE, "pyproject.toml"}
    changed = difflib.ndiff(
        pyproject.splitlines(), (folder / "pyproject.toml").read_text().splitlines()
    )
    assert [line for line in changed if line[0] in "+-"] == [
        f'+ {NAME} = "providers.{NAME}:provider"'
    ]
    return folder


@pytest.fixture(scope="module")
def provider(checkout: Path) -> Provider[Any]:
    spec = importlib.util.spec_from_file_location(NAME, checkout / "providers" / f"{NAME}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module  # its docstring is looked up there
    spec.loader.exec_module(module)
    made: Provider[Any] = module.provider
    return made


def test_it_is_installed_and_polled(checkout: Path, tmp_path: Path, database_url: str) -> None:
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--no-index", "--disable-pip-version-check", "--target", site, checkout],
        check=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    recording = json.loads((checkout / FIXTURES / "normal" / "recording.json").read_text())
    with ReplayServer() as server:
        server.replay([payload_from_dict(payload) for payload in recording["payloads"]])
        variables = {
            "GPUCOST_DATABASE_URL": database_url,
            f"GPUCOST_PROVIDERS__{NAME.upper()}__BASE_URL": server.url,
            "PYTHONPATH": str(site),
        }
        script = (
            f"gpucost poll --provider {NAME} -o json;"
            f" gpucost offers --provider {NAME} --market any -o json"
        )
        done = shell(script, tmp_path, variables)
    assert done.returncode == 0, done.stderr
    decoder = json.JSONDecoder()
    polled, end = decoder.raw_decode(done.stdout)
    offers, _ = decoder.raw_decode(done.stdout[end:].lstrip())
    assert [(r["provider"], r["status"], r["offers"]) for r in polled["rows"]] == [
        (NAME, "complete", 2)
    ]
    # The other one is out of stock.
    assert [(r["gpu"], r["price_usd_per_machine_hour"]) for r in offers["rows"]] == [
        ("H100-SXM-80GB", "20.4")
    ]
    assert len(server.requests) == 1


@pytest.mark.parametrize("case", ["normal", "edge", "broken"])
def test_its_fixtures_are_right(
    checkout: Path, provider: Provider[Any], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "load", lambda name: {NAME: provider}[name])
    contract.test_fixture_gives_the_offers_worked_out_by_hand(
        Case(NAME, case, checkout / FIXTURES / case)
    )


def test_it_keeps_the_contract(provider: Provider[Any]) -> None:
    contract.test_facts_are_complete(provider)
    contract.test_configuration_works_without_any_setting(provider)
    for body in contract.FOREIGN:
        contract.test_foreign_answers_are_refused_or_give_nothing(provider, body)


def test_it_keeps_the_layers_and_the_manner_of_the_code(checkout: Path) -> None:
    module = f"providers/{NAME}.py"
    programs = Path(sys.executable).parent
    for command in (
        [programs / "ruff", "check", module],
        [programs / "ruff", "format", "--check", module],
        [programs / "lint-imports", "--no-cache"],
    ):
        done = subprocess.run(
            command, cwd=checkout, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(checkout)},
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


# -- what is refused -----------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The least that is a checkout."""
    (tmp_path / "providers").mkdir()
    (tmp_path / FIXTURES).parent.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _refused(folder: Path, name: str) -> str:
    before = _hashes(folder)
    answer = run("provider", "new", name, "--in", str(folder))
    assert answer.code == 2
    assert _hashes(folder) == before
    return answer.complaint


@pytest.mark.parametrize("name", ["", "A", "Acme", "9lives", "a-b", "../x", "class", "a" * 40, "é"])
def test_a_name_that_is_none(small: Path, name: str) -> None:
    assert "cannot name a provider" in _refused(small, name)


def test_a_provider_that_is_there(small: Path) -> None:
    assert "installed already" in _refused(small, "runpod")
    assert run("provider", "new", "acme", "--in", str(small)).code == 0
    assert "has an entry acme already" in _refused(small, "acme")


@pytest.mark.parametrize(
    "path",
    [
        "providers/acme.py",
        "providers/acme/x.py",
        "tests/providers/payloads/acme/normal/expected.json",
    ],
)
def test_a_file_that_is_there_is_never_overwritten(small: Path, path: str) -> None:
    (small / path).parent.mkdir(parents=True, exist_ok=True)
    (small / path).write_text("mine")
    assert "is there already; nothing was written" in _refused(small, "acme")


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    assert "is no checkout of gpucost" in _refused(tmp_path, "acme")


def test_a_project_without_the_table(small: Path) -> None:
    (small / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert "has no table" in _refused(small, "acme")
    (small / "pyproject.toml").unlink()
    assert "pyproject.toml: No such file" in _refused(small, "acme")


def test_after_a_failure_nothing_is_left(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def full(path: Path, text: str, **options: Any) -> int:
        if path.name.startswith("pyproject"):
            write(path, text[:9], **options)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    assert "No space left on device" in _refused(small, "acme")


# -- the line ------------------------------------------------------------------------------------

HEAD = '[project]\nname = "x"\n\n[project.entry-points."gpucost.providers"]\n'
SLUGS = st.from_regex(r"[a-z][a-z0-9_]{1,8}", fullmatch=True)


@given(
    names=st.lists(SLUGS, unique=True, min_size=1, max_size=8),
    tail=st.sampled_from(["", "\n", "\n[tool.x]\ny = 1\n", "# and no more\n", "[tool.x]\n"]),
)
def test_one_line_in_its_place_and_nothing_else(names: list[str], tail: str) -> None:
    *there, name = names
    lines = [f'{n} = "providers.{n}:provider"\n' for n in sorted(there)]
    text = f"{HEAD}{''.join(lines)}{tail}"
    found = add_entry(text, name)
    (position,) = [i for i, line in enumerate(found.splitlines()) if line.startswith(f"{name} = ")]
    rest = found.splitlines(keepends=True)
    assert rest.pop(position) == f'{name} = "providers.{name}:provider"\n'
    assert "".join(rest) == text
    entries = tomllib.loads(found)["project"]["entry-points"]["gpucost.providers"]
    assert list(entries) == sorted(names)
