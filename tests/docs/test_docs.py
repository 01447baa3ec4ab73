"""The documentation is true: its commands run, its links lead somewhere, its files exist."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks, links, quoted
from tests.docs.replayed import replaying, shell
from tools.providers_page import PAGE, page
from tracker.cli.main import COMMANDS
from tracker.settings.sources import FIELDS

SHELLS = {"sh", "bash", "shell", "console"}
OWN_TESTS = {ROOT / "docs" / "adding-a-provider.md", ROOT / "deploy" / "backup.md"}
RUN = [page for page in PAGES if page not in OWN_TESTS and any(block.run for block in blocks(page))]
FIRST = {ROOT / "README.md", ROOT / "docs" / "cli.md"}

# What a reader puts in the place of these.
DATABASE = "postgresql://user:password@localhost:5432/gpucost"
OFFER = '"$(gpucost offers --top 1 -o csv | sed -n 2p | cut -d, -f1)"'
# The dates in the example files would have passed one day.
DATES = {"2026-11-20": timedelta(days=-10), "2027-02-01": timedelta(days=60)}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/price-book.md"} <= {_name(page) for page in RUN}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_says_whether_it_is_run(page: Path) -> None:
    for block in blocks(page):
        if block.language in SHELLS:
            reason = block.comment.removeprefix("not run:")
            assert block.run or (reason != block.comment and reason.strip()), (
                f"{block}: put <!-- run --> or <!-- not run: reason --> above the block"
            )
        assert block.language, f"{block}: the block has no language"


# The pages people begin with are run by every test run, all others by `make e2e`.
@pytest.mark.parametrize(
    "page",
    [page if page in FIRST else pytest.param(page, marks=pytest.mark.e2e) for page in RUN],
    ids=_name,
)
def test_the_commands_of_a_page_work(
    page: Path, tmp_path: Path, database_url: str, empty_database_url: str
) -> None:
    with replaying() as providers:
        variables = providers | {
            "GPUCOST_DATABASE_URL": database_url, "GPUCOST_DATA_DIR": str(tmp_path / "data"),
        }  # fmt: skip
        for block in blocks(page):
            if block.file:
                (tmp_path / block.file).write_text(_with_current_dates(block.text))
            elif block.run:
                script = re.sub(r"\bOFFER\b", OFFER, block.text)
                script = script.replace(DATABASE, empty_database_url)
                done = shell(f"set -x\n{script}", tmp_path, variables)
                assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


def _with_current_dates(text: str) -> str:
    today = datetime.now(UTC).date()
    for written, distance in DATES.items():
        text = text.replace(written, (today + distance).isoformat())
    return text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{_name(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, f"{_name(page)}: {target}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_file_that_is_mentioned_exists(page: Path) -> None:
    for text in quoted(page):
        if re.fullmatch(r"\w[\w.]*(/[\w.-]+)+/?", text):
            tried = [folder / text for folder in (ROOT, ROOT / "tracker", page.parent)]
            assert any(path.exists() for path in tried), f"{_name(page)}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_make_target_that_is_mentioned_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = re.compile(r"^\s*make ([a-z0-9-]+)", re.MULTILINE)
    texts = [*quoted(page), *(b.text for b in blocks(page) if b.language in SHELLS)]
    assert {name for text in texts for name in mentioned.findall(text)} <= targets


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_that_is_mentioned_exists(page: Path) -> None:
    mentioned = {name for text in quoted(page) for name in re.findall(r"^gpucost ([a-z]+)", text)}
    assert mentioned <= COMMANDS.keys()


def test_every_command_is_shown_in_the_documentation() -> None:
    scripts = "\n".join(b.text for page in PAGES for b in blocks(page) if b.run)
    shown = set(re.findall(r"^gpucost ([a-z]+)", scripts, re.MULTILINE))
    # The demo brings an embedded server of its own and serve answers until it is stopped:
    # tests/cli/test_demo.py and tests/cli/test_serve.py run them.
    assert shown | {"demo", "serve"} == COMMANDS.keys()


def test_every_setting_is_documented() -> None:
    documented = set(quoted(ROOT / "docs" / "configuration.md"))
    tables = {name.strip("[]").partition(".")[0] for name in documented}
    assert set(FIELDS) - tables == set()


def test_the_page_of_providers_is_what_their_facts_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_blocks_are_read_with_their_comments(tmp_path: Path) -> None:
    text = "<!-- run -->\n```sh\na\n```\n\n<!-- file: x.toml -->\n\n```toml\nb\n```\n```sh\n```\n"
    (tmp_path / "page.md").write_text(text)
    found: list[Block] = list(blocks(tmp_path / "page.md"))
    assert [(b.comment, b.language, b.text) for b in found] == [
        ("run", "sh", "a\n"),
        ("file: x.toml", "toml", "b\n"),
        ("", "sh", ""),
    ]
    assert [b.line for b in found] == [2, 8, 11]
    assert [b.file for b in found] == [None, "x.toml", None]
