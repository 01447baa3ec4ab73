"""What of a rule is most likely a mistake, although the rule can be evaluated.

A template that fails gives the built-in text, and a provider that nobody knows may begin to sell
tomorrow. So such a rule goes on, and the mistake is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tracker.alert import template
from tracker.alert.fields import RuleProblem, nearest
from tracker.alert.rules import Rule
from tracker.domain.rule.condition import ANY, ProviderStale


def doubts(rules: Iterable[Rule], providers: Collection[str] | None) -> tuple[RuleProblem, ...]:
    """What is doubtful about *rules*: their templates' syntax, and the providers they name.

    *providers* are all that can be polled or sell; None: not known, so no name is doubted.
    """
    return tuple(doubt for rule in rules for doubt in _of(rule, providers))


def _of(rule: Rule, providers: Collection[str] | None) -> Iterator[RuleProblem]:
    if rule.template is not None and (problem := template.check(rule.template)) is not None:
        yield RuleProblem(rule.name, "template", problem)
    if providers is None:
        return
    named = [("providers", name) for name in rule.filters.providers or ()]
    if isinstance(rule.condition, ProviderStale):
        named.append(("when", rule.condition.name))
    for field, name in named:
        if name not in providers and name != ANY:
            hint = nearest(name, providers)
            yield RuleProblem(rule.name, field, f"no provider is called {name!r}; {hint}")
