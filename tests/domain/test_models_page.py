"""docs/models.md is what the catalogue says."""

from __future__ import annotations

from tools.models_page import PAGE, page


def test_the_page_of_models_is_what_the_catalogue_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"
