"""The tree is the architecture: layers, owners of libraries, and the size of a file."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*ROOT.glob("tracker/**/*.py"), *ROOT.glob("providers/**/*.py")])
DOMAIN = [p for p in MODULES if "domain" in p.parts]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports(path: Path) -> set[str]:
    """Top-level packages that *path* imports anywhere, functions included."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_import_layers_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("library", "owner"),
    [
        ("apprise", "tracker/notify/"),
        ("apscheduler", "tracker/daemon/schedule.py"),
        ("httpx", "tracker/http/"),
        ("jinja2", ("tracker/alert/", "tracker/web/")),  # what a mail or page says
        ("sqlalchemy", "tracker/store/"),
        ("alembic", "tracker/store/"),
        ("psycopg", "tracker/store/"),
        ("rich", "tracker/cli/render.py"),
        ("click", "tracker/cli/"),
        ("selectolax", "providers/"),
        ("pydantic_settings", "tracker/settings/"),
        ("prometheus_client", "tracker/web/metrics.py"),
        ("starlette", "tracker/web/"),
        ("fastapi", "tracker/web/api/"),
        ("numpy", ("tracker/store/", "tracker/report/history/")),
        ("matplotlib", "tracker/cli/render_plot.py"),
        ("uvicorn", "tracker/web/"),
    ],
)
def test_each_library_has_one_owner(library: str, owner: str | tuple[str, ...]) -> None:
    strangers = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if library in _imports(path)
        and not str(path.relative_to(ROOT)).startswith(owner)
        and not _only_for_types(path, library)
    ]
    assert strangers == []


def _only_for_types(path: Path, library: str) -> bool:
    """Whether *path* imports *library* under ``if TYPE_CHECKING`` alone."""
    tree = _tree(path)
    guarded = [
        ast.unparse(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    ]
    everywhere = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and library in ast.unparse(node).replace(".", " ").split()
    ]
    return all(text in guarded for text in everywhere)


@pytest.mark.parametrize("path", DOMAIN, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_domain_is_pure(path: Path) -> None:
    allowed = set(sys.stdlib_module_names) | {"tracker"}
    assert _imports(path) <= allowed
    text = path.read_text()
    for impure in ("open(", "datetime.now", "time.time", "os.environ", "random."):
        assert impure not in text, f"{path.name} uses {impure}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_is_much_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_public_name_has_a_docstring(path: Path) -> None:
    tree = _tree(path)
    if path.name != "__init__.py" or tree.body:
        assert ast.get_docstring(tree), "the module"
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and path.parent.name not in {"aws", "azure", "databasemart"}
        and ast.get_docstring(node) is None
        and node.name not in {"fetch", "parse"}
    ]
    assert bare == []
