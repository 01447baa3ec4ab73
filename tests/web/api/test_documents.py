"""docs/api.md and docs/openapi.json are what the code writes, and the page needs no other host."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.web.api.served import client
from tools import api_page
from tracker.web.api.page import page


@pytest.mark.parametrize("path", list(api_page.texts()), ids=lambda path: path.name)
def test_the_file_is_what_make_docs_writes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == api_page.texts()[path], "run make docs"


def test_the_document_is_served_as_it_is_written(database_url: str, tmp_path: Path) -> None:
    with client(database_url, tmp_path) as asking:
        assert asking.get("/api/openapi.json") == json.loads(
            api_page.DOCUMENT.read_text(encoding="utf-8")
        )
        got = asking.ask("/api/docs")
        assert got.headers["content-type"].startswith("text/html")
        assert "<script" not in got.text
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", got.text)


def test_what_a_parameter_says_is_text() -> None:
    found: dict[str, Any] = json.loads(json.dumps(api_page.found()))
    found["paths"]["/v1/jobs"]["get"]["summary"] = "<script>alert(1)</script>"
    assert "<script" not in page(found)


def test_every_reference_is_of_something() -> None:
    text = json.dumps(api_page.found())
    schemas = api_page.found()["components"]["schemas"]
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in schemas


def test_what_a_body_takes_is_written_down_for_people_too() -> None:
    found = api_page.found()
    text, shown = api_page.page(found), page(found)
    for name in ("length", "comment", "author", "tokens_per_second", "requests_per_second"):
        assert f"| `{name}` |" in text
        assert f"<code>{name}</code>" in shown
    assert "| `hours` | number or string |  | Hours of the whole job. |" in text
    assert "| `author` | string | yes | Who takes note. |" in text


def test_every_status_that_is_answered_is_explained() -> None:
    text = api_page.page(api_page.found())
    table = text.split("## Refusals")[1].split("## Who may ask")[0]
    told = {status for line in re.findall(r"^\| ([\d, ]+) \|", table, re.M)
            for status in line.split(", ")}  # fmt: skip
    answered = set(re.findall(r"\d{3}", " ".join(re.findall(r"^Answers: (.*)$", text, re.M))))
    assert answered - {"200", "201", "304"} | {"405"} == told
