"""The Accept header, against reading each form's weight by the rule of RFC 9110 by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.web.api.accept import accepted
from tracker.web.api.views import FORMATS


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "json"), ("*/*", "json"), ("text/*", "csv"), ("application/*", "json"),
        ("text/csv, application/json", "csv"), ("text/csv;q=0.5, application/json", "json"),
        ("application/json;q=0, */*", "csv"), ("*/*, application/json;q=0", "csv"),
        ("application/*;q=0, */*", "csv"), ("text/*;q=0.3, */*;q=0.2", "csv"),
        ("application/json;q=0", None), ("image/png", None), ("*/*;q=0", None),
        ("*/*;q=0, text/csv", "csv"), ("text/html, */*;q=0.8", "json"),
        ("APPLICATION/X-NDJSON ; charset=utf-8 ; q=1", "ndjson"), ("text/csv;q=2", "csv"),
    ],
)  # fmt: skip
def test_what_is_accepted(accept: str, form: str | None) -> None:
    assert accepted(accept, FORMATS) == form


_KINDS = [kind.partition(";")[0] for kind in FORMATS.values()]
ranges = st.dictionaries(
    st.sampled_from([*_KINDS, "text/*", "application/*", "*/*", "image/png"]),
    st.integers(0, 10), min_size=1,
)  # fmt: skip


@given(ranges)
def test_no_form_is_chosen_that_another_one_beats(weights: dict[str, int]) -> None:
    header = ", ".join(f"{kind};q={weight / 10}" for kind, weight in weights.items())
    by_hand = {}
    for form, kind in zip(FORMATS, _KINDS, strict=True):
        found = 0
        for wider in ("*/*", f"{kind.split('/')[0]}/*", kind):
            found = weights.get(wider, found)
        by_hand[form] = found
    chosen = accepted(header, FORMATS)
    if chosen is None:
        assert not any(by_hand.values())
    else:
        assert by_hand[chosen] == max(by_hand.values()) > 0
