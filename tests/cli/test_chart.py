"""Charts of text, as they are drawn."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tracker.cli.render_chart import Drawn, chart, narrowed, sparkline


def values(text: str) -> list[Decimal | None]:
    return [None if word == "-" else Decimal(word) for word in text.split()]


def test_one_step_is_a_vertical_line_and_a_gap_is_empty() -> None:
    drawn = list(chart([Drawn("H100", values("4 4 1 1 - - 2 2"))], "1 May", "9 May", height=4))
    assert drawn == [
        "$4.00 ┤●●",
        "      │  │",
        "$2.00 ┤  │   ●●",
        "$1.00 ┤  ●●",
        "      └────────",
        "       1 May 9 May",
        "       ● H100",
    ]


def test_where_series_meet_neither_hides_the_other() -> None:
    both = [Drawn("A", values("1 2 3")), Drawn("B", values("3 2 1"))]
    assert list(chart(both, "a", "b", height=3))[:3] == [
        "$3.00 ┤○ ●", "$2.00 ┤ ✳", "$1.00 ┤● ○",
    ]  # fmt: skip


def test_a_wide_range_is_drawn_on_a_logarithmic_scale_that_says_so() -> None:
    drawn = list(chart([Drawn("A", values("1 10 100"))], "a", "b", height=5))
    assert drawn == [
        "$100.00 ┤  ●",
        "        │  │",
        " $10.00 ┤ ●",
        "        │ │",
        "  $1.00 ┤●",
        "        └───",
        "         a b",
        "         (the scale is logarithmic)",
        "         ● A",
    ]


def test_one_price_and_no_price() -> None:
    assert list(chart([Drawn("A", values("5 5"))], "a", "b", height=3))[:3] == [
        "      │", "$5.00 ┤●●", "      │",
    ]  # fmt: skip
    assert list(chart([Drawn("A", values("- -"))], "a", "b")) == [
        "(no price is known in this window)"
    ]


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline(values("1 8 - 4 4.5")) == "▁█·▄▅"
    assert sparkline(values("3 3")) == "▄▄"
    assert sparkline(values("- -")) == "··"


AMOUNTS = st.lists(st.none() | st.integers(1, 10**6).map(Decimal), min_size=1, max_size=60)


@given(AMOUNTS, st.integers(1, 30))
def test_narrowed_keeps_the_lowest_and_invents_nothing(
    series: list[Decimal | None], width: int
) -> None:
    found = narrowed(series, width)
    assert len(found) == min(width, len(series))
    known = {value for value in series if value is not None}
    assert {value for value in found if value is not None} <= known
    assert min((v for v in found if v is not None), default=None) == min(known, default=None)
    if None not in series:
        assert None not in found


@given(st.lists(AMOUNTS, min_size=1, max_size=4), st.integers(5, 60), st.integers(2, 20))
def test_every_chart_has_its_size(
    several: list[list[Decimal | None]], width: int, height: int
) -> None:
    length = max(map(len, several))
    drawn = [
        Drawn(str(place), [*one, *[None] * (length - len(one))])
        for place, one in enumerate(several)
    ]
    lines = list(chart(drawn, "a", "b", width=width, height=height))
    if len(lines) > 1:
        margin = lines[height].index("└")
        assert all(line[margin] in "┤│" for line in lines[:height])
        assert max(len(line) for line in lines[:height]) <= margin + 1 + width
        marks = {mark for line in lines[:height] for mark in line[margin + 1 :]}
        assert marks <= set(" │✳●○▲△")
