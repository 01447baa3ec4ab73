"""What is rented: a share, one GPU, several, a machine, a cluster."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.kind import KIND_TEXTS, Kind, kind_of


@pytest.mark.parametrize(
    ("count", "dedicated", "kind"),
    [
        ("0.125", None, "slice"), ("1", None, "gpu"), ("1", False, "gpu"), ("1", True, "machine"),
        ("2", None, "gpus"), ("7", False, "gpus"), ("4", True, "machine"), ("8", None, "machine"),
        ("16", None, "machine"), ("17", None, "cluster"), ("72", True, "cluster"),
    ],
)  # fmt: skip
def test_kinds(count: str, dedicated: bool | None, kind: str) -> None:
    assert kind_of(Decimal(count), is_slice=False, dedicated=dedicated) == kind


@pytest.mark.parametrize(
    ("family", "form", "count", "kind"),
    [
        ("H100", "SXM", "8", "machine"), ("H100", "SXM", "9", "cluster"),
        ("H100", "SXM", "16", "cluster"), ("B200", "SXM", "16", "cluster"),
        ("MI300X", "OAM", "16", "cluster"), ("H100", None, "16", "machine"),
        ("H100", "PCIE", "10", "machine"), ("A100", "SXM", "16", "machine"),
        ("A100", "SXM", "17", "cluster"), ("V100", "SXM", "16", "machine"),
    ],
)  # fmt: skip
def test_more_than_one_board_is_several_machines(
    family: str, form: str | None, count: str, kind: str
) -> None:
    found = kind_of(Decimal(count), is_slice=False, dedicated=None, family=family, form_factor=form)
    assert found == kind


def test_each_kind_has_words() -> None:
    assert set(KIND_TEXTS) == set(get_args(Kind))


@given(count=st.integers(1, 200), dedicated=st.sampled_from([None, True, False]))
def test_a_slice_is_a_slice_and_more_gpus_are_never_less_of_a_machine(
    count: int, dedicated: bool | None
) -> None:
    assert kind_of(Decimal(count), is_slice=True, dedicated=dedicated) == "slice"
    order = get_args(Kind)
    one, more = (
        order.index(kind_of(Decimal(n), is_slice=False, dedicated=dedicated))
        for n in (count, count + 1)
    )
    assert one <= more
