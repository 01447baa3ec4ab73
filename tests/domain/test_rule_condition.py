"""The ``when`` line of a rule, and the policy that it makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.rule import Margins, Policy, parse, policy_for, selections_of
from tracker.domain.rule.condition import (
    EXAMPLES,
    CheapestChanges,
    Condition,
    ConditionError,
    CostAgainstCost,
    CostBelow,
    CostDrops,
    NewOfferBelow,
    PriceBelow,
    ProviderStale,
)

D = Decimal


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("cost(H100) < cost(A100)", CostAgainstCost("H100", "A100")),
        ("COST( H100 )<Cost(A100)", CostAgainstCost("H100", "A100")),
        ("cost(any) < cost(A100-80GB)", CostAgainstCost("any", "A100-80GB")),
        ("\tcost(RTX   4090) < cost(RTX 3090)\n", CostAgainstCost("RTX 4090", "RTX 3090")),
        ("cost(H100) < 40", CostBelow("H100", D(40))),
        ("cost(Any)<$40.50", CostBelow("any", D("40.5"))),
        ("cost(H100) < .5", CostBelow("H100", D("0.5"))),
        ("cost(H100) drops 10% in 7d", CostDrops("H100", D(10), 7)),
        ("cost(H100)drops2.5%in30days", CostDrops("H100", D("2.5"), 30)),
        ("Cost(H100) Drops 10 % In 1 Day", CostDrops("H100", D(10), 1)),
        ("price(H100) < 2.00", PriceBelow("H100", D(2))),
        ("price(H100 NVL) < $ 2", PriceBelow("H100 NVL", D(2))),
        (
            "cheapest(H100, A100,RTX4090) changes",
            CheapestChanges(("H100", "A100", "RTX4090")),
        ),
        ("cheapest changes", CheapestChanges()),
        ("cheapest(any) changes", CheapestChanges()),
        ("provider(VastAI) stale", ProviderStale("vastai")),
        ("provider( Any )stale", ProviderStale("any")),
        ("new offer(H100) < 2.00", NewOfferBelow("H100", D(2))),
        ("NEWOFFER(any)<$1.234", NewOfferBelow("any", D("1.234"))),
    ],
)
def test_a_line_is_read(text: str, condition: Condition) -> None:
    assert parse(text) == condition
    assert parse(str(condition)) == condition


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_are_canonical(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("cost(H100)<40.000000", "cost(H100) < $40"),
        ("price(h100 sxm)<2.5", "price(h100 sxm) < $2.50"),
        ("new offer(H100)<$1.2340", "new offer(H100) < $1.234"),
        ("cost(A)DROPS 10.50 % IN 07 DAYS", "cost(A) drops 10.5% in 7d"),
        ("cheapest ( A , B ) changes", "cheapest(A, B) changes"),
    ],
)
def test_a_condition_has_one_spelling(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 0, "empty"),
        ("   ", 3, "empty"),
        ("cots(H100) < 3", 0, "did you mean 'cost'"),
        ("H100 < A100", 0, "begins with cost, price, cheapest, provider or new offer"),
        ("cost", 4, "'(' is missing"),
        ("cost(H100", 9, "')' is missing"),
        ("cost() < 3", 5, "name of a GPU (or 'any') is missing"),
        ("cost(H100)", 10, "'<' or 'drops' is missing"),
        ("cost(H100) > cost(A100)", 11, "'<' or 'drops' is missing"),
        ("cost(H100) <", 12, "an amount in USD or cost(GPU) is missing"),
        ("cost(H100) <= 3", 12, "an amount in USD or cost(GPU) is missing"),
        ("cost(H100) < -3", 13, "an amount in USD or cost(GPU) is missing"),
        ("cost(H100) < 0", 13, "above 0"),
        ("cost(H100) < 1e9", 14, "'e9' is too much"),
        ("cost(H100) < 1,000", 14, "without commas"),
        ("cost(H100) < 99999999999", 13, "not above 1,000,000,000"),
        ("cost(H100) < 0.0000001", 13, "6 decimals"),
        ("cost(H100) < cost(h100)", 13, "both sides are H100"),
        ("cost(H100) < price(A100)", 13, "an amount in USD or cost(GPU) is missing"),
        ("cost(H100, A100) < 3", 9, "')' is missing"),
        ("cost(H100) drops", 16, "percentage is missing"),
        ("cost(H100) drops 10", 19, "'%' is missing"),
        ("cost(H100) drops 100% in 7d", 17, "below 100%"),
        ("cost(H100) drops 0% in 7d", 17, "above 0%"),
        ("cost(H100) drops 10% over 7d", 21, "'in' is missing"),
        ("cost(H100) drops 10% in 7", 25, "'d' (days) is missing"),
        ("cost(H100) drops 10% in 7h", 25, "'d' (days) is missing"),
        ("cost(H100) drops 10% in 1.5d", 24, "whole number from 1 to 365"),
        ("cost(H100) drops 10% in 400d", 24, "whole number from 1 to 365"),
        ("price(H100) < cost(A100)", 14, "an amount in USD is missing"),
        ("cheapest(H100) changes", 8, "name two or more"),
        ("cheapest(H100, any) changes", 8, "stands alone"),
        ("cheapest(H100, A100, h100) changes", 8, "listed twice"),
        ("cheapest(H100,) changes", 14, "name of a GPU"),
        ("cheapest(H100, A100)", 20, "'changes' is missing"),
        ("provider() stale", 9, "name of a provider"),
        ("provider(vastai)", 16, "'stale' is missing"),
        ("new(H100) < 2", 3, "'offer' is missing"),
        ("new offer(H100)", 15, "'<' is missing"),
        ("price(H100) < 2.00 USD", 19, "'USD' is too much"),
        ("cost(H\u00ad100) < 3", 5, "cannot be shown"),
        ("cost(" + "x" * 600 + ") < 3", 500, "longer than 500"),
    ],
)
def test_a_wrong_line_says_what_and_where(text: str, position: int, says: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(text)
    assert says in caught.value.problem
    assert caught.value.position == position
    message = str(caught.value)
    assert f"at character {position + 1}: " in message
    assert "\n" not in message
    assert parse(caught.value.example)  # what it shows is right


_words = st.text(
    st.characters(codec="utf-8", exclude_characters="(),<>", exclude_categories=["C", "Z"]),
    min_size=1,
    max_size=8,
)
_names = st.lists(_words, min_size=1, max_size=3).map(" ".join).filter(lambda n: n.lower() != "any")
_usd = st.decimals(D("0.000001"), D(10**9), places=6)
_conditions: st.SearchStrategy[Condition] = st.one_of(
    st.lists(_names, min_size=2, max_size=2, unique_by=str.casefold).map(
        lambda pair: CostAgainstCost(*pair)
    ),
    st.builds(CostBelow, _names, _usd),
    st.builds(
        CostDrops,
        _names,
        st.decimals(D("0.01"), D("99.99"), places=2),
        st.integers(1, 365),
    ),
    st.builds(PriceBelow, st.just("any"), _usd),
    st.lists(_names, min_size=2, max_size=4, unique_by=str.casefold).map(
        lambda names: CheapestChanges(tuple(names))
    ),
    st.builds(ProviderStale, st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?", fullmatch=True)),
    st.builds(NewOfferBelow, _names, _usd),
)


@given(_conditions)
def test_text_and_condition_are_two_forms_of_one_thing(condition: Condition) -> None:
    text = str(condition)
    assert parse(text) == condition
    assert str(parse(text)) == text


@given(_conditions)
def test_spaces_around_signs_do_not_matter(condition: Condition) -> None:
    text = str(condition)
    for sign in "(),<":
        text = text.replace(sign, f"  {sign}\t")
    assert parse(text) == condition


@given(
    st.text(max_size=60)
    | st.sampled_from(EXAMPLES).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda cut: text[:cut] + text[cut + 1 :])
    )
)
def test_whatever_is_typed_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        condition = parse(text)
    except ConditionError as error:
        assert "\n" not in str(error)
        assert 0 <= error.position <= len(text)
    else:
        assert parse(str(condition)) == condition


def test_the_selections_of_a_condition() -> None:
    found = [selections_of(parse(text)) for text in EXAMPLES]
    assert found == [
        ("H100", "A100"),
        ("H100",),
        ("H100",),
        ("H100",),
        ("H100", "A100", "RTX4090"),
        (),
        (),
        ("H100",),
    ]


@pytest.mark.parametrize(
    ("text", "enter", "exit_"),
    [
        ("cost(H100) < cost(A100)", "0.98", "1.02"),
        ("cost(H100) < $40", "1", "1.02"),
        ("price(H100) < $2", "1", "1.02"),
        ("cost(H100) drops 10% in 7d", "0.9", "0.918"),
        ("provider(any) stale", "1", "1.000000001"),
    ],
)
def test_the_margins_of_a_condition(text: str, enter: str, exit_: str) -> None:
    policy = policy_for(parse(text))
    assert (policy.enter, policy.exit) == (D(enter), D(exit_))


def test_no_margins_at_all_still_leave_one_side_to_each_value() -> None:
    none = Margins(D(0), D(0))
    ratio = policy_for(parse("cost(H100) < cost(A100)"), none)
    assert (ratio.enter, ratio.exit) == (D(1), D("1.000000001"))
    drop = policy_for(parse("cost(H100) drops 10% in 7d"), none)
    assert (drop.enter, drop.exit) == (D("0.9"), D("0.900000001"))


def test_a_ratio_waits_as_long_as_any_rule_and_what_is_fleeting_does_not() -> None:
    assert policy_for(parse("cost(H100) < cost(A100)")) == Policy()
    for text in ("provider(vastai) stale", "new offer(H100) < $2"):
        policy = policy_for(parse(text))
        assert (policy.min_duration, policy.min_count) == (timedelta(0), 1)
    assert replace(policy_for(parse("cost(H100) < $40")), enter=D("0.98")) == Policy()


@pytest.mark.parametrize(
    ("enter", "exit_"), [("-1", "2"), ("100", "2"), ("2", "-0.1"), ("2", "1001"), ("NaN", "2")]
)
def test_margins_out_of_range_are_refused(enter: str, exit_: str) -> None:
    with pytest.raises(ValueError, match=r"_percent is .*; it may be from 0 to"):
        Margins(D(enter), D(exit_))


@given(_conditions, st.decimals(0, D("99.9"), places=1), st.decimals(0, 1000, places=1))
def test_every_rule_clears_above_where_it_fires(
    condition: Condition, enter: Decimal, exit_: Decimal
) -> None:
    policy = policy_for(condition, Margins(enter, exit_))
    assert 0 < policy.enter < policy.exit
