"""Numbers for people: digits that count, thousands apart, no exponents."""

from __future__ import annotations

import json
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.texts import figure
from tracker.report.shapes import texts


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1503.2, "1,500"), (0.0004567, "0.000457"), (17, "17"), (2.50, "2.5"), (0, "0"),
     (Decimal("1230000"), "1,230,000"), (999.96, "1,000")],
)  # fmt: skip
def test_a_figure_has_three_digits(value: float | Decimal, shown: str) -> None:
    assert figure(value) == shown


@given(st.floats(1e-6, 1e15), st.integers(1, 6))
def test_no_figure_has_an_exponent_or_is_off_by_more_than_its_digits(
    value: float, digits: int
) -> None:
    text = figure(value, digits)
    assert "e" not in text.lower()
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("hours", "shown"),
    [("730", "730 h"), ("1203.428", "1,203.43 h"), ("0.00456", "0.0046 h"), ("0", "0 h"),
     ("0.1", "0.1 h"), ("2.5", "2.5 h"), ("-0.5", "-0.5 h")],
)  # fmt: skip
def test_hours_are_never_shown_as_none_of_them(hours: str, shown: str) -> None:
    assert texts.hours(Decimal(hours)) == shown


@pytest.mark.parametrize(
    ("usd", "places", "shown"),
    [
        ("0.00009", 2, "$0.00009"), ("0.0000946", 2, "$0.000095"), ("0.005", 2, "$0.005"),
        ("0.0051", 2, "$0.01"), ("0", 2, "$0.00"), ("0E-9", 8, "$0.00000000"),
        ("1234.5", 2, "$1,234.50"),
        ("0.00001", 4, "$0.00001"), ("-0.001", 2, "$-0.001"), ("1E-20", 2, f"$0.{'0' * 19}1"),
    ],
)  # fmt: skip
def test_an_amount_is_never_shown_as_nothing(usd: str, places: int, shown: str) -> None:
    assert texts.usd(Decimal(usd), places) == shown


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12)
       .filter(lambda usd: not usd or usd.adjusted() > -30), st.integers(0, 6))  # fmt: skip
def test_only_no_dollars_are_none(usd: Decimal, places: int) -> None:
    for text in (texts.usd(usd, places), texts.usd_text(usd)):
        found = Decimal((text or "").replace("$", "").replace(",", ""))
        assert bool(found) == bool(usd)
        assert abs(found - usd) <= Decimal("0.5").scaleb(-min(places, 6))


_HIDDEN = "\u061c\u00ad\u180e\u034f\u3164\u200b\u202e\u2069\ufeff\U000e0041\U000e0001"


@pytest.mark.parametrize("hidden", [*_HIDDEN, "\x00", "\x1b", "\x9b"])
def test_what_cannot_be_seen_is_shown_as_that(hidden: str) -> None:
    assert texts.visible(f"a{hidden}b") == "a\ufffdb"
    assert texts.csv_cell(f"a{hidden}b") == "a\ufffdb"
    for indent in (None, 1):
        text = texts.json_text({"x": f"a{hidden}b é €"}, indent)
        assert hidden not in text
        assert json.loads(text) == {"x": f"a{hidden}b é €"}


def test_all_that_unicode_formats_with_is_hidden() -> None:
    """By the general category, but for signs of scripts that are seen."""
    seen = range(0x600, 0x606), range(0x6DD, 0x6DE), range(0x70F, 0x710), range(0x890, 0x8E3)
    for code in range(0x20, 0x20000):
        letter = chr(code)
        if unicodedata.category(letter) == "Cf" and not any(code in some for some in seen):
            if 0x11000 <= code < 0x14000:  # numbers of Kaithi, joiners of hieroglyphs
                continue
            assert texts.visible(letter) == "\ufffd", hex(code)


@pytest.mark.parametrize(
    "start", [*"=+-@", "\uff1d", "\uff0b", "\uff0d", "\uff20", " =", "\u3000=", "\xa0@"]
)
def test_no_cell_is_a_formula(start: str) -> None:
    assert texts.csv_cell(f"{start}HYPERLINK(1)") == f"'{start}HYPERLINK(1)"
    assert texts.csv_cell("-1.5") == "-1.5"
