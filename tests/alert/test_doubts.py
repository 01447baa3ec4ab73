"""What is doubtful about rules that can be evaluated all the same."""

from __future__ import annotations

from tests.alert.world import rule
from tracker.alert.doubts import doubts


def lines(*rules: object, known: list[str] | None = None) -> list[str]:
    return [str(doubt) for doubt in doubts(rules, known)]  # type: ignore[arg-type]


def test_a_provider_that_nobody_knows() -> None:
    stale, filtered = rule("provider(vast) stale", name="a"), rule(name="b", providers=["Acme"])
    assert lines(stale, filtered) == []
    assert lines(stale, filtered, known=["acme", "vast"]) == []
    assert lines(rule("provider(any) stale"), known=[]) == []
    assert lines(stale, filtered, known=["vastai", "acne"]) == [
        "alerts.rules.a.when: no provider is called 'vast'; did you mean vastai?",
        "alerts.rules.b.providers: no provider is called 'acme'; did you mean acne?",
    ]


def test_a_template_that_cannot_be_read() -> None:
    assert lines(rule(template="{{ sentence }}")) == []
    [line] = lines(rule(template="{{ sentence "))
    assert line.startswith("alerts.rules.r.template: line 1: ")
